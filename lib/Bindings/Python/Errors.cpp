//===- Errors.cpp - codes of the C API as exceptions ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"

#include "tandem/Program/Printable.h"

using namespace tandem::python;

void tandem::python::raise(tandem_code code, const std::string &message) {
  if (CallScope::isTooLate()) { // a context that was closed then, or a run that this ended
    PyErr_SetNone(PyExc_SystemExit);
    throw nb::python_error();
  }
  nb::object error = nb::module_::import_("tandem._errors")
                         .attr("_make")(tandem_code_name(code), escapeControls(message).c_str());
  PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}
