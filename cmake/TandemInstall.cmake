# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# cmake --install, by component (docs/embedding.md). The folder can be moved afterwards: no file contains its path.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Tandem")
set(package_build_dir "${PROJECT_BINARY_DIR}/cmake/Tandem")
# From the folder of the .pc files.
file(RELATIVE_PATH prefix_from_pkgconfig "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" prefix_from_pkgconfig "${prefix_from_pkgconfig}")

function(tandem_install_notices component)
  install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/THIRD_PARTY_NOTICES.md"
          DESTINATION share/doc/tandem COMPONENT ${component})
endfunction()

set(Compiler_headers CompileOptions.def Compiler.h Schedules.def Version.h)
set(Runtime_headers Base.h Context.h Device.h Instance.h Job.h Kernel.h Program.h Runtime.h Version.h)
list(TRANSFORM Compiler_headers PREPEND "${PROJECT_SOURCE_DIR}/include/tandem-c/")
list(TRANSFORM Runtime_headers PREPEND "${PROJECT_SOURCE_DIR}/include/tandem-c/")

foreach(half IN ITEMS Runtime Compiler)
  string(TOLOWER "${half}" lower)
  if(NOT TARGET tandem_${lower})
    continue()
  endif()
  install(TARGETS tandem_${lower} EXPORT Tandem${half}Targets
          LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT ${half} NAMELINK_COMPONENT ${half}Development)
  install(EXPORT Tandem${half}Targets NAMESPACE Tandem:: DESTINATION "${package_dir}" COMPONENT ${half}Development)
  install(FILES ${${half}_headers} DESTINATION include/tandem-c COMPONENT ${half}Development)
  if(half STREQUAL Compiler)
    install(FILES "${PROJECT_SOURCE_DIR}/include/tandem/Compiler/Builder.h" DESTINATION include/tandem/Compiler
            COMPONENT CompilerDevelopment)
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/tandem/Compiler/Builder" DESTINATION include/tandem/Compiler
            COMPONENT CompilerDevelopment)
    install(FILES "${PROJECT_SOURCE_DIR}/include/tandem/Dialect/Fusion/IR/Shapes.h"
            DESTINATION include/tandem/Dialect/Fusion/IR COMPONENT CompilerDevelopment)
  endif()
  set(pc "${PROJECT_BINARY_DIR}/tandem-${lower}.pc")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/tandem.pc.in" "${pc}" @ONLY)
  install(FILES "${pc}" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT ${half}Development)
  configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/TandemConfig.cmake.in"
                                "${package_build_dir}/TandemConfig.cmake" INSTALL_DESTINATION "${package_dir}")
  write_basic_package_version_file("${package_build_dir}/TandemConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
  install(FILES "${package_build_dir}/TandemConfig.cmake" "${package_build_dir}/TandemConfigVersion.cmake"
          DESTINATION "${package_dir}" COMPONENT ${half}Development)
  tandem_install_notices(${half})
endforeach()

install(DIRECTORY "${PROJECT_SOURCE_DIR}/machines/" DESTINATION share/tandem/machines COMPONENT Machines)

foreach(tool IN ITEMS bench check compile lsp-server opt run sim)
  if(TARGET tandem-${tool})
    # LLVM's shared libraries may be in no folder that the loader knows.
    set_target_properties(tandem-${tool} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
    install(TARGETS tandem-${tool} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT Tools)
  endif()
endforeach()
tandem_install_notices(Tools)
