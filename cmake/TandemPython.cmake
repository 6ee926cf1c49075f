# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# What the Python package needs (docs/python.md): an interpreter with its headers, and nanobind. A wheel is built with
# the interpreter that asks for it; else with that of the environment which `tools/python-env` makes.
set(TANDEM_PYTHON_PACKAGE OFF)
if(NOT TANDEM_ENABLE_PYTHON)
  return()
endif()
if(NOT TANDEM_ENABLE_RUNTIME OR NOT TANDEM_ENABLE_SHARED)
  tandem_left_out("Python package: needs the shared library of the runtime")
  return()
endif()

set(TANDEM_PYTHON_ENV "${PROJECT_SOURCE_DIR}/build/python-env" CACHE PATH "environment with nanobind, NumPy and pytest")
# Made later, it is noticed when something is built.
file(GLOB python_env CONFIGURE_DEPENDS "${TANDEM_PYTHON_ENV}/requirements.txt")
if(NOT Python_EXECUTABLE AND python_env)
  set(Python_EXECUTABLE "${TANDEM_PYTHON_ENV}/bin/python")
endif()
find_package(Python 3.9 COMPONENTS Interpreter Development.Module QUIET)
if(NOT Python_FOUND)
  tandem_left_out("Python package: no Python with headers (python3-dev)")
  return()
endif()
execute_process(COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir RESULT_VARIABLE rc OUTPUT_VARIABLE nanobind_ROOT
                ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
if(rc EQUAL 0)
  find_package(nanobind CONFIG QUIET)
endif()
if(NOT nanobind_FOUND)
  tandem_left_out("Python package and its tests: no nanobind (tools/python-env installs it from PyPI)")
  return()
endif()
set(TANDEM_PYTHON_PACKAGE ON)
set(TANDEM_PYTHON_HEADERS "" CACHE PATH "headers of CPython 3.12 or later: the package is for all CPython from 3.12 on")
if(TANDEM_PYTHON_HEADERS)
  # The interpreter only runs nanobind's scripts; what it says of itself is replaced.
  file(STRINGS "${TANDEM_PYTHON_HEADERS}/patchlevel.h" line REGEX "define PY_VERSION ")
  string(REGEX REPLACE ".*\"(3\\.[0-9]+).*" "\\1" Python_VERSION "${line}")
  if(Python_VERSION VERSION_LESS 3.12)
    message(FATAL_ERROR "TANDEM_PYTHON_HEADERS: the stable ABI needs CPython 3.12, found ${Python_VERSION}")
  endif()
  # Debian keeps pyconfig.h in a folder next to it.
  set(Python_INCLUDE_DIRS "${TANDEM_PYTHON_HEADERS}" "${TANDEM_PYTHON_HEADERS}/..")
  add_library(Python::SABIModule INTERFACE IMPORTED)
endif()
tandem_found("nanobind ${nanobind_VERSION}, Python ${Python_VERSION} (${Python_EXECUTABLE}): Python package")
