//===- CDlpack.cpp - binding of DLPack's tensors ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Dlpack.h"
#include "Handles.h"

#include <fmt/ranges.h>
#include <optional>

using namespace tandem;
using namespace tandem::capi;

namespace {

std::string describe(const dlpack::Tensor &tensor) {
  switch (tensor.deviceType) {
  case dlpack::Cpu:
    return "cpu";
  case dlpack::Cuda:
    return fmt::format("cuda:{}", tensor.deviceId);
  case dlpack::Rocm:
    return fmt::format("hip:{}", tensor.deviceId);
  default:
    return fmt::format("DLPack's device type {}, number {}", tensor.deviceType, tensor.deviceId);
  }
}

bool isOn(const dlpack::Tensor &tensor, Device &device) {
  int32_t type = tensor.deviceType;
  if (type == dlpack::CudaManaged)
    return true;
  if (device.hostMemory())
    return type == dlpack::Cpu || type == dlpack::CudaHost || type == dlpack::RocmHost;
  return (type == dlpack::Cuda || type == dlpack::Rocm) && describe(tensor) == device.name();
}

std::optional<DType> typeOf(const dlpack::Tensor &tensor) {
  static constexpr struct {
    dlpack::TypeCode code;
    uint8_t bits;
    DType type;
  } kTypes[] = {{dlpack::Float, 32, DType::F32},
                {dlpack::Float, 16, DType::F16},
                {dlpack::Float, 64, DType::F64},
                {dlpack::Bfloat, 16, DType::BF16},
                {dlpack::Float8E4M3FN, 8, DType::F8E4M3FN},
                {dlpack::Float8E5M2, 8, DType::F8E5M2},
                {dlpack::Int, 8, DType::I8},
                {dlpack::Int, 16, DType::I16},
                {dlpack::Int, 32, DType::I32},
                {dlpack::Int, 64, DType::I64},
                {dlpack::Bool, 8, DType::I1}};
  for (const auto &known : kTypes)
    if (tensor.lanes == 1 && tensor.typeCode == known.code && tensor.bits == known.bits)
      return known.type;
  return std::nullopt;
}

bool isDense(const dlpack::Tensor &tensor) {
  int64_t expected = 1, elements = 1;
  for (int32_t d = tensor.rank; tensor.strides && d-- > 0;) {
    if (tensor.shape[d] != 1 && tensor.strides[d] != expected && elements)
      return false;
    expected *= tensor.shape[d];
    elements *= tensor.shape[d];
  }
  return true;
}

} // namespace

Expected<void *> capi::addressOf(const dlpack::Tensor &tensor, Device &device,
                                 const Instance &instance, uint32_t i) {
  const ArgumentInfo &info = instance.argument(i);
  auto error = [&](const std::string &expected, const std::string &found) {
    return Status(Code::InvalidArgument,
                  fmt::format("@{}: argument {} \"{}\": expected {}, found {}",
                              instance.program().name(), i, info.name, expected, found));
  };
  if (!isOn(tensor, device))
    return error(fmt::format("a tensor on {}", device.name()), "one on " + describe(tensor));
  std::optional<DType> type = typeOf(tensor);
  std::vector<int64_t> shape;
  bool fits = type == info.dtype && tensor.rank == static_cast<int32_t>(info.localShape.size());
  for (int32_t d = 0; fits && d < tensor.rank; ++d)
    fits = tensor.shape[d] == info.localShape[static_cast<size_t>(d)];
  if (!fits) {
    auto text = [](const std::string &dtype, const int64_t *extents, size_t rank) {
      return fmt::format("{}[{}]", dtype, fmt::join(extents, extents + rank, ","));
    };
    std::string found = type ? std::string(toString(*type))
                             : fmt::format("DLPack's type {} of {} bits and {} lanes, ",
                                           tensor.typeCode, tensor.bits, tensor.lanes);
    return error(
        text(std::string(toString(info.dtype)), info.localShape.data(), info.localShape.size()),
        text(found, tensor.shape, static_cast<size_t>(std::max(tensor.rank, 0))));
  }
  if (!isDense(tensor))
    return error(
        "dense (row-major) memory",
        fmt::format("strides [{}]", fmt::join(tensor.strides, tensor.strides + tensor.rank, ",")));
  return static_cast<std::byte *>(tensor.data) + tensor.byteOffset;
}

static Status bindOne(tandem_instance &instance, uint32_t index, const dlpack::Tensor &tensor) {
  const Program &program = instance.instance->program();
  if (index >= program.arguments().size())
    return Status(Code::InvalidArgument,
                  fmt::format("@{}: no argument {}: the program has {}", program.name(), index,
                              program.arguments().size()));
  TANDEM_ASSIGN_OR_RETURN(void *data, addressOf(tensor, instance.context->context->device(),
                                                *instance.instance, index));
  const ArgumentInfo &info = instance.instance->argument(index);
  Layout layout = Layout::dense(info.dtype, info.localShape.data(),
                                static_cast<unsigned>(info.localShape.size()));
  return instance.instance->bind(index, {data, layout}, info.localBytes());
}

extern "C" {

tandem_code tandem_bind_dlpack(tandem_instance *instance, uint32_t index, const void *dlTensor) {
  return guardedBy(instance, [&]() -> Status {
    if (!dlTensor)
      return missing("dl_tensor");
    return bindOne(*instance, index, *static_cast<const dlpack::Tensor *>(dlTensor));
  });
}

tandem_code tandem_bind_dlpack_versioned(tandem_instance *instance, uint32_t index,
                                         const struct DLManagedTensorVersioned *managed) {
  return guardedBy(instance, [&]() -> Status {
    if (!managed)
      return missing("managed");
    const auto &tensor = *reinterpret_cast<const dlpack::ManagedVersioned *>(managed);
    if (tensor.major != 1)
      return Status(Code::InvalidArgument, fmt::format("DLPack: expected version 1, found {}.{}",
                                                       tensor.major, tensor.minor));
    const auto &arguments = instance->instance->program().arguments();
    if ((tensor.flags & 1) && index < arguments.size() && arguments[index].isResult)
      return Status(Code::InvalidArgument,
                    fmt::format("@{}: argument {} \"{}\": expected memory that can be written, "
                                "found a read-only tensor",
                                instance->instance->program().name(), index,
                                arguments[index].name));
    return bindOne(*instance, index, tensor.tensor);
  });
}

} // extern "C"
