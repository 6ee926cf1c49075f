//===- Tensors.cpp - tensors of other libraries, without copies -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Libraries are recognised by the interfaces of their tensors, and none is imported: torch.Tensor
// by its own methods, NumPy's arrays by the buffer protocol, all others by DLPack.
//
//===----------------------------------------------------------------------===//

#include "Torch.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

using namespace tandem::python;

namespace {

struct TypeInfo {
  const char *name;
  uint32_t bytes;
  uint8_t code; ///< DLPack's
};

/// By tandem_dtype.
constexpr std::array<TypeInfo, 11> kTypes = {{{"f32", 4, dlpack::kFloat},
                                              {"f16", 2, dlpack::kFloat},
                                              {"bf16", 2, dlpack::kBfloat},
                                              {"i32", 4, dlpack::kInt},
                                              {"f64", 8, dlpack::kFloat},
                                              {"i64", 8, dlpack::kInt},
                                              {"i8", 1, dlpack::kInt},
                                              {"i1", 1, dlpack::kBool},
                                              {"i16", 2, dlpack::kInt},
                                              {"f8E4M3FN", 1, dlpack::kFloat8E4M3FN},
                                              {"f8E5M2", 1, dlpack::kFloat8E5M2}}};

/// The type of a struct-module format of `bytes` bytes.
std::optional<tandem_dtype> fromFormat(std::string_view format, Py_ssize_t bytes) {
  if (!format.empty() && (format[0] == '@' || format[0] == '=' || format[0] == '<'))
    format.remove_prefix(1);
  if (format.size() != 1)
    return std::nullopt;
  char letter = format[0];
  uint8_t code = letter == '?'                                     ? dlpack::kBool
                 : letter == 'e' || letter == 'f' || letter == 'd' ? dlpack::kFloat
                 : letter == 'b' || letter == 'h' || letter == 'i' || letter == 'l' || letter == 'q'
                     ? dlpack::kInt
                     : 255;
  for (size_t i = 0; i < kTypes.size(); ++i)
    if (kTypes[i].code == code && kTypes[i].bytes == static_cast<uint32_t>(bytes))
      return static_cast<tandem_dtype>(i);
  return std::nullopt;
}

[[noreturn]] void wrongType(const Naming &what, const std::string &found) {
  raiseArgument(
      what() +
      ": expected elements of f32, f16, bf16, f8E4M3FN, f8E5M2, f64, i64, i32, i16, i8 or "
      "i1, found " +
      found);
}

} // namespace

const char *tandem::python::nameOf(tandem_dtype dtype) {
  return static_cast<size_t>(dtype) < kTypes.size() ? kTypes[static_cast<size_t>(dtype)].name : "";
}

uint32_t tandem::python::sizeOf(tandem_dtype dtype) {
  return static_cast<size_t>(dtype) < kTypes.size() ? kTypes[static_cast<size_t>(dtype)].bytes : 0;
}

dlpack::DataType tandem::python::dlpackType(tandem_dtype dtype) {
  const TypeInfo &info = kTypes[static_cast<size_t>(dtype)];
  return {info.code, static_cast<uint8_t>(info.bytes * 8), 1};
}

std::optional<tandem_dtype> tandem::python::fromDlpack(dlpack::DataType dtype) {
  for (size_t i = 0; i < kTypes.size(); ++i)
    if (kTypes[i].code == dtype.code && kTypes[i].bytes * 8 == dtype.bits && dtype.lanes == 1)
      return static_cast<tandem_dtype>(i);
  return std::nullopt;
}

static std::string describe(tandem_dtype dtype, const int64_t *shape, size_t rank) {
  std::string text = nameOf(dtype);
  text += "[";
  for (size_t d = 0; d < rank; ++d)
    text += (d ? ", " : "") + std::to_string(shape[d]);
  return text + "]";
}

std::string tandem::python::describe(tandem_dtype dtype, const std::vector<int64_t> &shape) {
  return ::describe(dtype, shape.data(), shape.size());
}

std::string Tensor::str() const { return ::describe(dtype, shape, rank); }

void Tensor::release() {
  if (hasBuffer)
    PyBuffer_Release(&buffer);
  hasBuffer = false;
  copy.reset();
  if (!capsule.is_valid())
    return;
  if (auto *managed = static_cast<dlpack::ManagedTensor *>(
          PyCapsule_GetPointer(capsule.ptr(), "used_dltensor")))
    if (managed->deleter)
      managed->deleter(managed);
  capsule.reset();
}

void Tensor::read(nb::handle object, const Naming &what, const RuntimeContext &context,
                  nb::handle stream) {
  release();
  if (isTorch(object))
    readTorch(object, what, context);
  else if (context.isHost && PyObject_CheckBuffer(object.ptr()))
    readBuffer(object, what, context);
  else if (PyObject_HasAttrString(object.ptr(), "__dlpack__"))
    readDlpack(object, what, context, stream);
  else
    raiseArgument(what() + ": expected a tensor (with __dlpack__ or the buffer protocol), found " +
                  typeName(object));
  isRead = true;
}

/// Checks that memory is row-major, and computes its size. Strides are multiples of `unit` bytes.
void Tensor::finish(const Naming &what, const int64_t *strides, int64_t unit) {
  bytes = sizeOf(dtype);
  for (uint32_t d = 0; d < rank; ++d)
    bytes *= static_cast<uint64_t>(shape[d]);
  if (!strides || bytes == 0)
    return;
  int64_t expected = static_cast<int64_t>(sizeOf(dtype)) / unit;
  for (uint32_t d = rank; d-- > 0;) {
    if (shape[d] != 1 && strides[d] != expected)
      raiseArgument(what() + ": expected a contiguous tensor, found " + str() +
                    " with other strides; copy it first");
    expected *= shape[d];
  }
}

/// Memory of another device would be used under the same addresses, or fault.
static void checkDevice(const Naming &what, const RuntimeContext &context, bool isHost,
                        int32_t device) {
  if (context.isHost != isHost)
    raiseArgument(what() + (context.isHost
                                ? ": expected a tensor of the CPU, found one of a device"
                                : ": expected a tensor of the device, found one of the CPU"));
  if (!isHost && device != context.gpu)
    raiseArgument(what() + ": expected a tensor of GPU " + std::to_string(context.gpu) +
                  ", which is the context's, found one of GPU " + std::to_string(device));
}

/// By what a tensor says of itself. Its library's own errors name no argument.
static void checkDlpackDevice(nb::handle object, const Naming &what,
                              const RuntimeContext &context) {
  if (!nb::hasattr(object, "__dlpack_device__"))
    return;
  auto place = nb::cast<int32_t>(nb::int_(object.attr("__dlpack_device__")()[0]));
  bool isHost = place == dlpack::kCpu || place == dlpack::kCudaHost;
  bool isDevice = place == dlpack::kCuda || place == dlpack::kRocm;
  if (context.isHost ? isDevice : isHost)
    checkDevice(what, context, isHost, context.gpu);
}

void Tensor::readTorch(nb::handle object, const Naming &what, const RuntimeContext &context) {
  TorchTensor found = python::readTorch(object, what);
  // Results would silently have none.
  if (needsGradient(object))
    raiseArgument(what() +
                  ": needs a gradient, and programs have none: call the program under "
                  "torch.no_grad(), detach the tensor, or use the operators of tandem.torch");
  if (hasTangent(object))
    raiseArgument(what() +
                  ": has a tangent, and programs have none: forward-mode AD is not supported");
  isReadOnly = found.isNegative; // what is written to the copy below would be lost
  if (found.isNegative) {
    copy = object.attr("resolve_neg")();
    found = python::readTorch(copy, what);
  }
  checkDevice(what, context, found.device < 0, found.device);
  dtype = found.dtype;
  rank = found.rank;
  std::copy(found.shape, found.shape + rank, shape);
  if (found.layout != Layout::Dense)
    raiseArgument(what() + ": expected a contiguous tensor, found " + str() +
                  " with other strides; copy it first");
  data = found.data;
  finish(what, nullptr, 1);
}

void Tensor::readBuffer(nb::handle object, const Naming &what, const RuntimeContext &context) {
  // NumPy has no bf16 and no floats of 8 bits, and arrays of ml_dtypes export no buffer: their bits
  // do.
  struct Foreign {
    const char *name, *bits;
    tandem_dtype type;
  };
  static constexpr Foreign kForeign[] = {{"bfloat16", "uint16", TANDEM_BF16},
                                         {"float8_e4m3fn", "uint8", TANDEM_F8E4M3FN},
                                         {"float8_e5m2", "uint8", TANDEM_F8E5M2}};
  const Foreign *foreign = nullptr;
  auto named = [&](const Foreign &one) {
    return nb::str(object.attr("dtype")).equal(nb::str(one.name));
  };
  if (PyObject_GetBuffer(object.ptr(), &buffer, PyBUF_STRIDED_RO | PyBUF_FORMAT)) {
    nb::python_error error;
    if (nb::hasattr(object, "dtype") && nb::hasattr(object, "view"))
      foreign = std::find_if(std::begin(kForeign), std::end(kForeign), named);
    if (!foreign || foreign == std::end(kForeign)) {
      checkDlpackDevice(object, what, context);
      throw error;
    }
    nb::object bits = object.attr("view")(foreign->bits);
    if (PyObject_GetBuffer(bits.ptr(), &buffer, PyBUF_STRIDED_RO | PyBUF_FORMAT))
      throw nb::python_error();
  }
  hasBuffer = true;
  std::optional<tandem_dtype> type =
      foreign ? foreign->type : fromFormat(buffer.format ? buffer.format : "B", buffer.itemsize);
  if (!type)
    wrongType(what, std::string("format \"") + (buffer.format ? buffer.format : "B") + "\"");
  if (buffer.ndim > static_cast<int>(kMaxDims))
    raiseArgument(what() + ": expected at most " + std::to_string(kMaxDims) + " dimensions");
  dtype = *type;
  rank = static_cast<uint32_t>(buffer.ndim);
  data = buffer.buf;
  isReadOnly = buffer.readonly != 0;
  int64_t strides[kMaxDims];
  for (uint32_t d = 0; d < rank; ++d) {
    shape[d] = buffer.shape[d];
    strides[d] = buffer.strides[d];
  }
  finish(what, strides, 1);
}

void Tensor::readDlpack(nb::handle object, const Naming &what, const RuntimeContext &context,
                        nb::handle stream) {
  const bool onHost = context.isHost;
  checkDlpackDevice(object, what, context);
  nb::object method = object.attr("__dlpack__");
  nb::object given =
      onHost || stream.is_none() ? method() : method(nb::arg("stream") = nb::borrow(stream));
  auto *managed =
      static_cast<dlpack::ManagedTensor *>(PyCapsule_GetPointer(given.ptr(), "dltensor"));
  if (!managed || PyCapsule_SetName(given.ptr(), "used_dltensor"))
    throw nb::python_error();
  capsule = std::move(given);
  const dlpack::Tensor &tensor = managed->tensor;
  int32_t place = tensor.device.type;
  bool isHostMemory =
      place == dlpack::kCpu || place == dlpack::kCudaHost || place == dlpack::kCudaManaged;
  bool isDeviceMemory =
      place == dlpack::kCuda || place == dlpack::kRocm || place == dlpack::kCudaManaged;
  if (onHost ? !isHostMemory : !isDeviceMemory)
    checkDevice(what, context, !onHost, -1);
  if (!onHost && place != dlpack::kCudaManaged)
    checkDevice(what, context, false, tensor.device.id);
  std::optional<tandem_dtype> found = fromDlpack(tensor.dtype);
  if (!found)
    wrongType(what, "DLPack's type " + std::to_string(tensor.dtype.code) + " of " +
                        std::to_string(tensor.dtype.bits) + " bits");
  if (tensor.rank > static_cast<int32_t>(kMaxDims))
    raiseArgument(what() + ": expected at most " + std::to_string(kMaxDims) + " dimensions");
  dtype = *found;
  rank = static_cast<uint32_t>(tensor.rank);
  data = static_cast<char *>(tensor.data) + tensor.byteOffset;
  for (uint32_t d = 0; d < rank; ++d)
    shape[d] = tensor.shape[d];
  finish(what, tensor.strides, sizeOf(dtype));
}
