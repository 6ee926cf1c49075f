//===- Dlpack.h - the layout of DLPack's tensors ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The structs of dlpack.h, whose layout is stable: https://dmlc.github.io/dlpack/latest.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_API_DLPACK_H
#define TANDEM_LIB_API_DLPACK_H

#include "tandem/Runtime/Context.h"

namespace tandem::capi {

namespace dlpack {
enum DeviceType : int32_t {
  Cpu = 1,
  Cuda = 2,
  CudaHost = 3,
  Rocm = 10,
  RocmHost = 11,
  CudaManaged = 13
};
enum TypeCode : uint8_t {
  Int = 0,
  UInt = 1,
  Float = 2,
  Bfloat = 4,
  Bool = 6,
  Float8E4M3FN = 10,
  Float8E5M2 = 12
};

struct Tensor { // DLTensor
  void *data;
  int32_t deviceType, deviceId;
  int32_t rank;
  uint8_t typeCode, bits;
  uint16_t lanes;
  int64_t *shape;
  int64_t *strides; ///< elements; null: dense
  uint64_t byteOffset;
};

struct ManagedVersioned { // DLManagedTensorVersioned
  uint32_t major, minor;
  void *context;
  void (*deleter)(ManagedVersioned *);
  uint64_t flags; ///< bit 0: read-only
  Tensor tensor;
};
} // namespace dlpack

/// The address of a tensor that can be bound to argument `i`: of the device, with the local dtype
/// and shape, dense. An error says what was expected and what was found.
Expected<void *> addressOf(const dlpack::Tensor &tensor, Device &device, const Instance &instance,
                           uint32_t i);

} // namespace tandem::capi

#endif // TANDEM_LIB_API_DLPACK_H
