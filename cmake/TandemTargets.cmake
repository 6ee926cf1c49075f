# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# The functions by which folders add their targets.
#
#   tandem_add_compiler_library(<Name> a.cpp ... [DEPENDS tablegen-target...] [LINK_LIBS lib...] [NO_PCH])
#   tandem_add_compiler_tool(<name> a.cpp ... [DEPENDS ...] [LINK_LIBS ...])
#   tandem_add_compiler_unittest(<Name> a.cpp ... [DEPENDS ...] [LINK_LIBS ...] [WHOLE])
#   tandem_add_runtime_library / _tool / _unittest: the same, without MLIR and LLVM
#   tandem_add_tablegen_target(<Name>): after the mlir_tablegen calls of a folder
#   tandem_add_benchmark(<name> a.cpp ... [COMPILER] [LINK_LIBS ...]): a google-benchmark binary
#
# Libraries are static; TandemShared.cmake makes the shared ones of them. Tools, unit tests and benchmarks land in
# <build>/bin.

include(GoogleTest)

# Flags of the halves.
add_library(TandemCompilerOptions INTERFACE)
add_library(TandemRuntimeOptions INTERFACE)
target_include_directories(TandemRuntimeOptions INTERFACE "${PROJECT_SOURCE_DIR}/include"
                                                          "${PROJECT_SOURCE_DIR}/runtime/include")
target_link_libraries(TandemRuntimeOptions INTERFACE fmt::fmt Threads::Threads)
if(TANDEM_ENABLE_COMPILER)
  target_include_directories(TandemCompilerOptions INTERFACE "${PROJECT_SOURCE_DIR}/include")
  # What tablegen writes is not ours to keep free of warnings.
  target_include_directories(TandemCompilerOptions SYSTEM INTERFACE "${PROJECT_BINARY_DIR}/include"
                                                                    ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
  # The two shared libraries hold everything; naming MLIRIR, MLIRPass, ... would pull static archives in beside them.
  target_link_libraries(TandemCompilerOptions INTERFACE MLIR LLVM Threads::Threads)
endif()

# Flags by which our own sources are compiled: what links our libraries has its own.
function(_tandem_own_flags name half)
  if(half STREQUAL Compiler)
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions>)
  else()
    target_compile_definitions(${name} PRIVATE TANDEM_HAVE_UCX=${TANDEM_HAVE_UCX} TANDEM_HAVE_DNNL=${TANDEM_HAVE_DNNL})
  endif()
endfunction()

# One precompiled header per half; the libraries reuse it.
if(TANDEM_PCH)
  if(TANDEM_ENABLE_COMPILER)
    add_library(TandemCompilerPCH OBJECT "${PROJECT_SOURCE_DIR}/cmake/Pch.cpp")
    target_link_libraries(TandemCompilerPCH PRIVATE TandemCompilerOptions)
    _tandem_own_flags(TandemCompilerPCH Compiler)
    target_precompile_headers(
      TandemCompilerPCH PRIVATE
      <mlir/Dialect/Arith/IR/Arith.h>
      <mlir/Dialect/Func/IR/FuncOps.h>
      <mlir/Dialect/MemRef/IR/MemRef.h>
      <mlir/Dialect/SCF/IR/SCF.h>
      <mlir/Dialect/Tensor/IR/Tensor.h>
      <mlir/IR/Builders.h>
      <mlir/IR/BuiltinOps.h>
      <mlir/IR/DialectImplementation.h>
      <mlir/IR/OpImplementation.h>
      <mlir/IR/PatternMatch.h>
      <mlir/IR/SymbolTable.h>
      <mlir/Interfaces/FunctionInterfaces.h>
      <mlir/Interfaces/InferTypeOpInterface.h>
      <mlir/Interfaces/SideEffectInterfaces.h>
      <mlir/Pass/Pass.h>
      <mlir/Pass/PassManager.h>
      <llvm/ADT/STLExtras.h>
      <llvm/ADT/StringExtras.h>
      <llvm/ADT/TypeSwitch.h>)
  endif()
  add_library(TandemRuntimePCH OBJECT "${PROJECT_SOURCE_DIR}/cmake/Pch.cpp")
  target_link_libraries(TandemRuntimePCH PRIVATE TandemRuntimeOptions)
  _tandem_own_flags(TandemRuntimePCH Runtime)
  target_precompile_headers(
    TandemRuntimePCH PRIVATE
    <algorithm>
    <atomic>
    <condition_variable>
    <chrono>
    <cstdint>
    <cstring>
    <functional>
    <memory>
    <mutex>
    <optional>
    <string>
    <string_view>
    <thread>
    <unordered_map>
    <vector>
    <fmt/format.h>)
endif()

if(TANDEM_SANITIZE)
  add_library(TandemSanitizerDefaults OBJECT "${PROJECT_SOURCE_DIR}/cmake/SanitizerDefaults.cpp")
endif()

function(_tandem_finish name half)
  cmake_parse_arguments(arg "NO_PCH" "" "DEPENDS;LINK_LIBS" ${ARGN})
  target_link_libraries(${name} PUBLIC Tandem${half}Options ${arg_LINK_LIBS})
  _tandem_own_flags(${name} ${half})
  if(arg_DEPENDS)
    add_dependencies(${name} ${arg_DEPENDS})
  endif()
  if(TANDEM_PCH AND NOT arg_NO_PCH)
    target_precompile_headers(${name} REUSE_FROM Tandem${half}PCH)
  endif()
endfunction()

function(_tandem_add_library name half)
  cmake_parse_arguments(arg "NO_PCH" "" "DEPENDS;LINK_LIBS" ${ARGN})
  add_library(${name} STATIC ${arg_UNPARSED_ARGUMENTS})
  set_property(GLOBAL APPEND PROPERTY TANDEM_${half}_LIBRARIES ${name})
  _tandem_finish(${name} ${half} ${ARGN})
endfunction()

function(_tandem_add_executable name half)
  cmake_parse_arguments(arg "NO_PCH" "" "DEPENDS;LINK_LIBS" ${ARGN})
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  _tandem_finish(${name} ${half} ${ARGN})
  if(TANDEM_SANITIZE)
    target_link_libraries(${name} PRIVATE TandemSanitizerDefaults)
  endif()
endfunction()

# One ctest entry per case, unit-<Name>.Suite.Case, listed when ctest starts; `ctest -R Suite.Case` finds it. A sanitized
# process takes long to start: there, and with WHOLE, one entry per binary, unit-<Name>.
function(_tandem_add_unittest name half)
  cmake_parse_arguments(arg "WHOLE" "" "" ${ARGN})
  _tandem_add_executable(${name} ${half} ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE GTest::gtest GTest::gmock GTest::gtest_main)
  if(TANDEM_SANITIZE OR arg_WHOLE)
    add_test(NAME unit-${name} COMMAND ${name})
    set(timeout 300)
    if(TANDEM_SANITIZE)
      set(timeout 900)
    endif()
    set_tests_properties(unit-${name} PROPERTIES LABELS unit TIMEOUT ${timeout})
  else()
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST TEST_PREFIX unit-${name}. DISCOVERY_TIMEOUT 60
                         PROPERTIES LABELS unit TIMEOUT 120)
  endif()
endfunction()

function(tandem_add_compiler_library name)
  _tandem_add_library(${name} Compiler ${ARGN})
endfunction()
function(tandem_add_runtime_library name)
  _tandem_add_library(${name} Runtime ${ARGN})
endfunction()
function(tandem_add_compiler_tool name)
  _tandem_add_executable(${name} Compiler ${ARGN})
endfunction()
function(tandem_add_runtime_tool name)
  _tandem_add_executable(${name} Runtime ${ARGN})
endfunction()
function(tandem_add_compiler_unittest name)
  _tandem_add_unittest(${name} Compiler ${ARGN})
endfunction()
function(tandem_add_runtime_unittest name)
  _tandem_add_unittest(${name} Runtime ${ARGN})
endfunction()

function(tandem_add_benchmark name)
  cmake_parse_arguments(arg "COMPILER" "" "" ${ARGN})
  if(NOT benchmark_FOUND)
    return()
  endif()
  if(arg_COMPILER)
    _tandem_add_executable(${name} Compiler ${arg_UNPARSED_ARGUMENTS})
  else()
    _tandem_add_executable(${name} Runtime ${arg_UNPARSED_ARGUMENTS})
  endif()
  target_link_libraries(${name} PRIVATE benchmark::benchmark benchmark::benchmark_main)
  if(NOT TARGET tandem-benchmarks)
    add_custom_target(tandem-benchmarks)
  endif()
  add_dependencies(tandem-benchmarks ${name})
endfunction()

# The target that writes what the mlir_tablegen calls before it name, in the same folder.
macro(tandem_add_tablegen_target name)
  add_public_tablegen_target(${name})
  set_property(GLOBAL APPEND PROPERTY TANDEM_TABLEGEN_TARGETS ${name})
endmacro()

# tandem-headers: everything that a source file includes and the build writes; enough for clang-tidy and editors.
function(tandem_add_headers_target)
  get_property(tablegen_targets GLOBAL PROPERTY TANDEM_TABLEGEN_TARGETS)
  add_custom_target(tandem-headers DEPENDS TandemSchemaGen ${tablegen_targets})
  foreach(target IN ITEMS TandemCompilerPCH TandemRuntimePCH)
    if(TARGET ${target})
      add_dependencies(tandem-headers ${target})
    endif()
  endforeach()
endfunction()
