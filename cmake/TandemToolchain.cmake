# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# The default compiler is clang-22 where it is installed and nobody has named another one. A project that adds us as a
# folder chooses for itself.
if(CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR AND NOT DEFINED CMAKE_CXX_COMPILER AND NOT DEFINED ENV{CXX})
  find_program(TANDEM_CLANGXX NAMES clang++-22)
  find_program(TANDEM_CLANG NAMES clang-22)
  if(TANDEM_CLANGXX AND TANDEM_CLANG)
    set(CMAKE_C_COMPILER "${TANDEM_CLANG}")
    set(CMAKE_CXX_COMPILER "${TANDEM_CLANGXX}")
  endif()
endif()
