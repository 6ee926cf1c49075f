//===- Torch.cpp - tensors of torch -----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Torch.h"

#include <algorithm>
#include <array>

using namespace tandem::python;

namespace {

/// By tandem_dtype.
constexpr std::array<const char *, 11> kTorchTypes = {{"float32", "float16", "bfloat16", "int32",
                                                       "float64", "int64", "int8", "bool", "int16",
                                                       "float8_e4m3fn", "float8_e5m2"}};

/// Interned names of attributes.
struct Names {
  nb::object dataPtr = make("data_ptr"), shape = make("shape"), dtype = make("dtype"),
             isContiguous = make("is_contiguous"), isCpu = make("is_cpu"),
             getDevice = make("get_device"), isNeg = make("is_neg"),
             requiresGrad = make("requires_grad"), stride = make("stride"),
             currentLevel = make("_current_level"), newEmpty = make("new_empty"),
             dtypeKeyword = nb::make_tuple(make("dtype"));

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
  nb::object parameter; ///< null: as good as unknown
  nb::object forwardAd; ///< torch.autograd.forward_ad; null if this version has none
  std::array<nb::object, kTorchTypes.size()> dtypes;
  const dlpack::Exchange *exchange = nullptr; ///< null if this version has none

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
    for (size_t i = 0; i < kTorchTypes.size(); ++i)
      // Those of 8 bits are missing in torch before 2.1.
      made->dtypes[i] = PyObject_HasAttrString(module, kTorchTypes[i])
                            ? nb::object(nb::borrow(module).attr(kTorchTypes[i]))
                            : nb::none();
    if (PyObject_HasAttrString(module, "nn"))
      made->parameter = nb::borrow(module).attr("nn").attr("Parameter");
    nb::object autograd = nb::getattr(nb::borrow(module), "autograd", nb::none());
    if (nb::hasattr(autograd, "forward_ad"))
      made->forwardAd = autograd.attr("forward_ad");
    made->exchange = exchangeOf(made->tensor);
    return torch = made;
  }

private:
  static const dlpack::Exchange *exchangeOf(nb::handle type) {
    const char *name = "__dlpack_c_exchange_api__";
    if (!PyObject_HasAttrString(type.ptr(), name))
      return nullptr;
    nb::object capsule = type.attr(name);
    const char *content = "dlpack_exchange_api";
    if (!PyCapsule_IsValid(capsule.ptr(), content))
      return nullptr;
    const auto *found =
        static_cast<const dlpack::Exchange *>(PyCapsule_GetPointer(capsule.ptr(), content));
    while (found && found->major > 1)
      found = found->previous;
    return found && found->major == 1 && found->read ? found : nullptr;
  }
};

int64_t number(nb::handle object) {
  int64_t result = PyLong_AsLongLong(object.ptr());
  if (result == -1 && PyErr_Occurred())
    throw nb::python_error();
  return result;
}

Layout layoutOf(nb::handle object, const TorchTensor &tensor) {
  if (object.attr(Names::get().isContiguous)().is(Py_True))
    return Layout::Dense;
  if (tensor.rank != 2)
    return Layout::Other;
  nb::object strides = object.attr(Names::get().stride)(); // a tuple
  bool isTransposed = number(NB_TUPLE_GET_ITEM(strides.ptr(), 0)) == 1 &&
                      number(NB_TUPLE_GET_ITEM(strides.ptr(), 1)) == tensor.shape[0];
  return isTransposed ? Layout::Transposed : Layout::Other;
}

Layout layoutOf(const dlpack::Tensor &tensor) {
  bool isDense = true, isEmpty = false;
  int64_t expected = 1;
  for (int32_t d = tensor.rank; tensor.strides && d-- > 0;) {
    isEmpty |= tensor.shape[d] == 0;
    isDense &= tensor.shape[d] == 1 || tensor.strides[d] == expected;
    expected *= tensor.shape[d];
  }
  if (isDense || isEmpty)
    return Layout::Dense;
  bool isTransposed =
      tensor.rank == 2 && tensor.strides[0] == 1 && tensor.strides[1] == tensor.shape[0];
  return isTransposed ? Layout::Transposed : Layout::Other;
}

/// A tensor that is no subclass's. False, and nothing is read, if the table cannot describe it.
bool readLent(const dlpack::Exchange &exchange, nb::handle object, TorchTensor &to) {
  dlpack::Tensor lent;
  if (exchange.read(object.ptr(), &lent) != 0) {
    PyErr_Clear();
    return false;
  }
  std::optional<tandem_dtype> dtype = fromDlpack(lent.dtype);
  bool isHost = lent.device.type == dlpack::kCpu || lent.device.type == dlpack::kCudaHost,
       isGpu = lent.device.type == dlpack::kCuda || lent.device.type == dlpack::kRocm;
  if (!dtype || (!isHost && !isGpu) || lent.rank > static_cast<int32_t>(kMaxDims))
    return false;
  to.data = static_cast<char *>(lent.data) + lent.byteOffset;
  to.dtype = *dtype;
  to.layout = layoutOf(lent);
  to.device = isHost ? -1 : lent.device.id;
  to.rank = static_cast<uint32_t>(lent.rank);
  std::copy(lent.shape, lent.shape + lent.rank, to.shape);
  return true;
}

} // namespace

bool tandem::python::isTorch(nb::handle object) {
  const Torch *torch = Torch::get();
  return torch && PyObject_TypeCheck(object.ptr(), (PyTypeObject *)torch->tensor.ptr());
}

void *tandem::python::dataOfTorch(nb::handle object) {
  nb::object address = object.attr(Names::get().dataPtr)();
  void *data = PyLong_AsVoidPtr(address.ptr());
  if (!data && PyErr_Occurred())
    throw nb::python_error();
  return data;
}

nb::object tandem::python::newTorch(nb::handle like, tandem_dtype dtype, nb::handle extents) {
  const Names &names = Names::get();
  nb::handle type = Torch::get()->dtypes[static_cast<size_t>(dtype)];
  PyObject *arguments[] = {like.ptr(), extents.ptr(), type.ptr()};
  bool isAlike = nb::getattr(like, names.dtype).is(type);
  nb::object made = nb::steal(
      PyObject_VectorcallMethod(names.newEmpty.ptr(), arguments, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET,
                                isAlike ? nullptr : names.dtypeKeyword.ptr()));
  if (!made.is_valid())
    throw nb::python_error();
  return made;
}

nb::object tandem::python::currentTorchStream(int32_t device) {
  if (const dlpack::Exchange *exchange = Torch::get()->exchange) {
    void *stream = nullptr;
    if (exchange->currentStream(dlpack::kCuda, device, &stream) != 0)
      throw nb::python_error();
    return nb::steal(PyLong_FromVoidPtr(stream));
  }
  // The function that compiled code of torch calls, too: torch.cuda.current_stream makes an object.
  static PyObject *raw = nullptr;
  return imported(raw, "torch._C", "_cuda_getCurrentRawStream")(device);
}

bool tandem::python::needsGradient(nb::handle object) {
  static PyObject *isEnabled = nullptr;
  return nb::getattr(object, Names::get().requiresGrad).is(Py_True) &&
         imported(isEnabled, "torch", "is_grad_enabled")().is(Py_True);
}

bool tandem::python::hasTangent(nb::handle object) {
  nb::handle forward = Torch::get()->forwardAd;
  return forward.is_valid() && number(nb::getattr(forward, Names::get().currentLevel)) >= 0 &&
         !forward.attr("unpack_dual")(object).attr("tangent").is_none();
}

std::optional<std::string> detail::readTorch(nb::handle object, TorchTensor &to) {
  const Names &names = Names::get();
  if (!isTorch(object))
    return "expected a torch.Tensor, found " + typeName(object);
  const Torch &torch = *Torch::get();
  auto *kind = (PyObject *)Py_TYPE(object.ptr());
  if (torch.exchange && (kind == torch.tensor.ptr() || kind == torch.parameter.ptr()) &&
      readLent(*torch.exchange, object, to)) {
    to.isNegative = object.attr(names.isNeg)().is(Py_True);
    return std::nullopt;
  }
  nb::object type = nb::getattr(object, names.dtype);
  size_t found = 0;
  while (found < kTorchTypes.size() && torch.dtypes[found].ptr() != type.ptr())
    ++found;
  if (found == kTorchTypes.size())
    return "expected elements of f32, f16, bf16, f8E4M3FN, f8E5M2, f64, i64, i32, i16, i8 or i1, "
           "found " +
           std::string(nb::str(type).c_str());
  to.dtype = static_cast<tandem_dtype>(found);
  nb::object extents = nb::getattr(object, names.shape); // a tuple
  to.rank = static_cast<uint32_t>(NB_TUPLE_GET_SIZE(extents.ptr()));
  if (to.rank > kMaxDims)
    return "expected at most " + std::to_string(kMaxDims) + " dimensions";
  for (uint32_t d = 0; d < to.rank; ++d)
    to.shape[d] = number(NB_TUPLE_GET_ITEM(extents.ptr(), d));
  bool isHost = nb::getattr(object, names.isCpu).is(Py_True);
  to.device = isHost ? -1 : static_cast<int32_t>(number(object.attr(names.getDevice)()));
  if (!isHost && to.device < 0)
    return std::string("expected memory of the CPU or of a GPU, found another device");
  to.layout = layoutOf(object, to);
  to.isNegative = object.attr(names.isNeg)().is(Py_True);
  try {
    to.data = dataOfTorch(object);
  } catch (nb::python_error &) {
    return std::string("expected a tensor with memory, found none: it is a fake one, or of a "
                       "transform of torch.func (vmap, grad and others), which are not supported");
  }
  return std::nullopt;
}
