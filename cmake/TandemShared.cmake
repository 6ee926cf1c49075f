# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# The shared libraries of the C API (docs/embedding.md).
#
#   tandem_add_shared_library(<name> <ExportName> [WHOLE archive...] [LINK_LIBS lib...])
#     makes lib<name>.so of the whole archives and of what they need; programs link Tandem::<ExportName>
#   tandem_archives_beside_mlir(<variable> lib...)
#     archives of compiler libraries that can be linked with MLIR's static libraries; the target
#     tandem-archives-beside-mlir makes them (once a project)

if(TANDEM_ENABLE_SHARED AND TANDEM_SANITIZE)
  tandem_left_out("shared libraries of the C API: a sanitized build")
  set(TANDEM_ENABLE_SHARED OFF)
endif()

# The archives, in which the linker looks for what is missing, and what LLVM's library Support needs.
if(TANDEM_ENABLE_SHARED AND TANDEM_ENABLE_COMPILER)
  file(GLOB TANDEM_LLVM_ARCHIVES "${LLVM_LIBRARY_DIR}/libMLIR*.a" "${LLVM_LIBRARY_DIR}/libLLVM*.a")
  list(FILTER TANDEM_LLVM_ARCHIVES EXCLUDE REGEX "Test|Fuzz|BOLT")
  find_program(TANDEM_OBJCOPY NAMES llvm-objcopy HINTS "${LLVM_TOOLS_BINARY_DIR}" NO_DEFAULT_PATH)
  # Debian's zstd has its own name for developers, but the library itself is a dependency of LLVM.
  find_library(TANDEM_ZSTD_LIBRARY NAMES zstd libzstd.so.1)
  find_package(ZLIB QUIET)
  if(TANDEM_LLVM_ARCHIVES AND TANDEM_OBJCOPY AND TANDEM_ZSTD_LIBRARY AND ZLIB_FOUND)
    set(TANDEM_SHARED_COMPILER ON)
  else()
    set(TANDEM_SHARED_COMPILER OFF)
    tandem_left_out("libtandem_compiler.so: no static LLVM and MLIR (llvm-22-dev libmlir-22-dev), zlib or zstd")
  endif()
endif()

function(tandem_add_shared_library name export)
  cmake_parse_arguments(arg "" "" "WHOLE;LINK_LIBS" ${ARGN})
  # Before 1.0 each minor version has its own ABI.
  set(abi "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
  set(script "${CMAKE_CURRENT_BINARY_DIR}/${name}.map")
  file(CONFIGURE OUTPUT "${script}" CONTENT "TANDEM_${abi} {\n  global: tandem_*;\n  local: *;\n};\n")
  add_library(${name} SHARED "${script}")
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX LINK_DEPENDS "${script}" EXPORT_NAME ${export}
                                           VERSION "${PROJECT_VERSION}" SOVERSION "${abi}")
  target_include_directories(${name} INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
                                               "$<INSTALL_INTERFACE:include>")
  target_link_libraries(${name} PRIVATE "$<LINK_LIBRARY:WHOLE_ARCHIVE,${arg_WHOLE}>" ${arg_LINK_LIBS})
  target_link_options(${name} PRIVATE "-Wl,--version-script=${script}" -Wl,-z,defs -Wl,--as-needed)
  add_library(Tandem::${export} ALIAS ${name})
endfunction()

# With assertions a statistic of a pass is a counter; in the installed MLIR it is empty. Both use the same functions of
# mlir::Pass::Statistic. lib/Compiler/PassStatistics.cpp defines those for our passes, and here they get our names.
function(tandem_archives_beside_mlir variable)
  set(names "${CMAKE_CURRENT_BINARY_DIR}/pass-statistics.txt")
  file(CONFIGURE OUTPUT "${names}" CONTENT "\
_ZN4mlir4Pass9StatisticC1EPS0_PKcS4_ tandemPassStatisticC1
_ZN4mlir4Pass9StatisticC2EPS0_PKcS4_ tandemPassStatisticC2
_ZN4mlir4Pass9StatisticaSEj tandemPassStatisticAssign
")
  set(archives "")
  foreach(lib IN LISTS ARGN)
    set(archive "${CMAKE_CURRENT_BINARY_DIR}/beside-mlir/lib${lib}.a")
    add_custom_command(
      OUTPUT "${archive}"
      COMMAND "${TANDEM_OBJCOPY}" "$<$<NOT:$<CONFIG:Release,RelWithDebInfo,MinSizeRel>>:--redefine-syms=${names}>"
              "$<TARGET_FILE:${lib}>" "${archive}"
      DEPENDS ${lib} "${names}"
      COMMENT "Renaming pass statistics in lib${lib}.a"
      COMMAND_EXPAND_LISTS VERBATIM)
    list(APPEND archives "${archive}")
  endforeach()
  file(MAKE_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/beside-mlir")
  add_custom_target(tandem-archives-beside-mlir DEPENDS ${archives})
  set(${variable} "${archives}" PARENT_SCOPE)
endfunction()
