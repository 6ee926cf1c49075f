# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# Flags that hold for every target. Precompiled headers are shared, so flags differ by half and by nothing else.
# All of it is of this folder and below: nothing here reaches the targets of a project that adds us as a folder.

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Dev CACHE STRING "Dev, Debug, Release, RelWithDebInfo" FORCE)
endif()

set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

set(TANDEM_CLANG_BUILD OFF)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  set(TANDEM_CLANG_BUILD ON)
endif()

# Dev: quick to build, asserts on, backtraces with line numbers.
if(TANDEM_CLANG_BUILD)
  set(CMAKE_CXX_FLAGS_DEV "-O1 -gline-tables-only")
  set(CMAKE_C_FLAGS_DEV "-O1 -gline-tables-only")
else()
  set(CMAKE_CXX_FLAGS_DEV "-O1 -g1")
  set(CMAKE_C_FLAGS_DEV "-O1 -g1")
endif()

option(TANDEM_WERROR "warnings are errors" ${PROJECT_IS_TOP_LEVEL})
if(TANDEM_WERROR)
  set(werror -Werror)
endif()
add_compile_options(-fPIC -Wall -Wextra ${werror} -Wno-unused-parameter)
add_compile_options($<$<CONFIG:Dev,Debug>:-D_GLIBCXX_ASSERTIONS>)
if(TANDEM_CLANG_BUILD)
  add_compile_options(-fcolor-diagnostics)
  find_program(TANDEM_LLD NAMES ld.lld-22 ld.lld)
  if(TANDEM_LLD)
    add_link_options(-fuse-ld=lld)
  endif()
else()
  # GCC 12 reports these in the LLVM and standard headers it inlines.
  add_compile_options(-fdiagnostics-color -Wno-maybe-uninitialized -Wno-restrict -Wno-array-bounds
                      -Wno-stringop-overflow -Wno-stringop-overread)
  if(CMAKE_UNITY_BUILD) # it takes sources that are included for headers
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
  endif()
endif()
add_link_options(-Wl,--gc-sections)
add_compile_options(-ffunction-sections -fdata-sections)

if(TANDEM_SANITIZE STREQUAL "address")
  # The installed MLIR has no -fsanitize=vptr type information. The checks of pointers take a quarter of the compile
  # time; they are in the thread sanitizer's build, and a null pointer ends the process anyway.
  set(sanitize -fsanitize=address,undefined -fno-sanitize=vptr,null,alignment,object-size,pointer-overflow
               -fno-sanitize=nonnull-attribute,returns-nonnull-attribute -fno-sanitize-recover=undefined)
elseif(TANDEM_SANITIZE STREQUAL "thread")
  set(sanitize -fsanitize=thread,undefined -fno-sanitize=vptr -fno-sanitize-recover=undefined)
elseif(TANDEM_SANITIZE)
  message(FATAL_ERROR "TANDEM_SANITIZE: expected address, thread or nothing, found \"${TANDEM_SANITIZE}\"")
endif()
if(TANDEM_SANITIZE)
  add_compile_options(${sanitize} -fno-omit-frame-pointer)
  add_link_options(${sanitize})
endif()

option(TANDEM_FUZZ "build the fuzzers of test/Fuzz (clang)" OFF)
if(TANDEM_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

option(TANDEM_PCH "share precompiled headers among the targets of a half" ${TANDEM_CLANG_BUILD})
if(TANDEM_PCH AND TANDEM_CLANG_BUILD)
  # Without a time stamp the precompiled header is the same bytes each time. clang finds
  # it next to the header; ccache makes the path of -include relative, not those of CMake's -Xclang -include-pch.
  add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
  set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -include <PCH_HEADER>)
endif()

option(TANDEM_CCACHE "compile through ccache where it is installed" ON)
if(TANDEM_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(TANDEM_CCACHE_PROGRAM ccache)
  if(TANDEM_CCACHE_PROGRAM)
    set(launcher "${PROJECT_SOURCE_DIR}/cmake/ccache.sh" "${TANDEM_CCACHE_PROGRAM}")
    set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
    set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  endif()
endif()
