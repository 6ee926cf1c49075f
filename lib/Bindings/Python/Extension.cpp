//===- Extension.cpp - the module tandem._tandem ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"

NB_MODULE(_tandem, module) {
  // Threads that the interpreter ends keep what they hold.
  nanobind::set_leak_warnings(false);
  module.attr("version") = tandem_runtime_version_string();
  tandem::python::bindArrays(module);
  tandem::python::bindAllocators(module);
  tandem::python::bindContexts(module);
  tandem::python::bindKernels(module);
  tandem::python::bindPrograms(module);
  tandem::python::bindTiming(module);
  tandem::python::bindFusions(module);
  tandem::python::bindOperators(module);
  tandem::python::bindCompiler(module);
  tandem::python::bindShapes(module);
}
