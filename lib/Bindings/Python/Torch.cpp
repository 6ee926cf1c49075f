//===- Torch.cpp - tensors of torch -----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Torch.h"

#include <array>

using namespace tandem::python;

namespace {

/// By tandem_dtype.
constexpr std::array<const char *, 9> kTypes = {
    {"float32", "float16", "bfloat16", "int32", "float64", "int64", "int8", "bool", "int16"}};

/// Interned names of attributes.
struct Names {
  nb::object dataPtr = make("data_ptr"), shape = make("shape"), dtype = make("dtype"),
             isContiguous = make("is_contiguous"), isCpu = make("is_cpu"),
             getDevice = make("get_device"), stride = make("stride");

  static nb::object make(const char *text) { return nb::steal(PyUnicode_InternFromString(text)); }
  /// Lives as long as the process.
  static const Names &get() {
    static const Names *names = nullptr; // see imported()
    return *(names ? names : names = new Names);
  }
};

/// torch, once the program has imported it.
struct Torch {
  nb::object tensor;
  std::array<nb::object, kTypes.size()> dtypes;

  static const Torch *get() {
    static const Torch *torch = nullptr;
    if (torch)
      return torch;
    PyObject *modules = PyImport_GetModuleDict();
    PyObject *module = PyDict_GetItemString(modules, "torch");
    if (!module || !PyObject_HasAttrString(module, "Tensor"))
      return nullptr;
    auto *made = new Torch;
    made->tensor = nb::borrow(module).attr("Tensor");
    for (size_t i = 0; i < kTypes.size(); ++i)
      made->dtypes[i] = nb::borrow(module).attr(kTypes[i]);
    return torch = made;
  }
};

nb::object call(nb::handle object, nb::handle method) {
  nb::object result = nb::steal(PyObject_CallMethodNoArgs(object.ptr(), method.ptr()));
  if (!result.is_valid())
    throw nb::python_error();
  return result;
}

int64_t number(nb::handle object) {
  int64_t result = PyLong_AsLongLong(object.ptr());
  if (result == -1 && PyErr_Occurred())
    throw nb::python_error();
  return result;
}

Layout layoutOf(nb::handle object, const TorchTensor &tensor) {
  if (call(object, Names::get().isContiguous).is(Py_True))
    return Layout::Dense;
  if (tensor.rank != 2)
    return Layout::Other;
  nb::object strides = call(object, Names::get().stride); // a tuple
  bool isTransposed = number(PyTuple_GET_ITEM(strides.ptr(), 0)) == 1 &&
                      number(PyTuple_GET_ITEM(strides.ptr(), 1)) == tensor.shape[0];
  return isTransposed ? Layout::Transposed : Layout::Other;
}

} // namespace

bool tandem::python::isTorch(nb::handle object) {
  const Torch *torch = Torch::get();
  return torch && PyObject_TypeCheck(object.ptr(), (PyTypeObject *)torch->tensor.ptr());
}

void *tandem::python::dataOfTorch(nb::handle object) {
  nb::object address = call(object, Names::get().dataPtr);
  void *data = PyLong_AsVoidPtr(address.ptr());
  if (!data && PyErr_Occurred())
    throw nb::python_error();
  return data;
}

nb::object tandem::python::currentTorchStream(int32_t device) {
  // The function that compiled code of torch calls, too: torch.cuda.current_stream makes an object.
  static PyObject *raw = nullptr;
  return imported(raw, "torch._C", "_cuda_getCurrentRawStream")(device);
}

std::optional<std::string> detail::readTorch(nb::handle object, TorchTensor &to) {
  const Names &names = Names::get();
  if (!isTorch(object))
    return std::string("expected a torch.Tensor, found ") + Py_TYPE(object.ptr())->tp_name;
  const Torch &torch = *Torch::get();
  nb::object type = nb::getattr(object, names.dtype);
  size_t found = 0;
  while (found < kTypes.size() && torch.dtypes[found].ptr() != type.ptr())
    ++found;
  if (found == kTypes.size())
    return "expected elements of f32, f16, bf16, f64, i64, i32, i16, i8 or i1, found " +
           std::string(nb::str(type).c_str());
  to.dtype = static_cast<tandem_dtype>(found);
  nb::object extents = nb::getattr(object, names.shape); // a tuple
  to.rank = static_cast<uint32_t>(PyTuple_GET_SIZE(extents.ptr()));
  if (to.rank > kMaxDims)
    return "expected at most " + std::to_string(kMaxDims) + " dimensions";
  for (uint32_t d = 0; d < to.rank; ++d)
    to.shape[d] = number(PyTuple_GET_ITEM(extents.ptr(), d));
  bool isHost = nb::getattr(object, names.isCpu).is(Py_True);
  to.device = isHost ? -1 : static_cast<int32_t>(number(call(object, names.getDevice)));
  if (!isHost && to.device < 0)
    return std::string("expected memory of the CPU or of a GPU, found another device");
  to.layout = layoutOf(object, to);
  to.data = dataOfTorch(object);
  return std::nullopt;
}
