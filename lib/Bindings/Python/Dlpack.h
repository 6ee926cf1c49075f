//===- Dlpack.h - tensors of other libraries, in memory ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The part of DLPack's ABI (dlpack.h, versions 0.8 and 1.x) that the bindings use.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_BINDINGS_PYTHON_DLPACK_H
#define TANDEM_LIB_BINDINGS_PYTHON_DLPACK_H

#include <cstdint>

namespace tandem::python::dlpack {

inline constexpr int32_t kCpu = 1, kCuda = 2, kCudaHost = 3, kRocm = 10, kCudaManaged = 13;
inline constexpr uint8_t kInt = 0, kUnsigned = 1, kFloat = 2, kBfloat = 4, kBool = 6,
                         kFloat8E4M3FN = 10, kFloat8E5M2 = 12;

struct Device {
  int32_t type, id;
};

struct DataType {
  uint8_t code, bits;
  uint16_t lanes;
};

struct Tensor {
  void *data;
  Device device;
  int32_t rank;
  DataType dtype;
  int64_t *shape;
  int64_t *strides; ///< elements; null: row-major
  uint64_t byteOffset;
};

/// What a capsule named "dltensor" holds. Its consumer renames the capsule and calls the deleter.
struct ManagedTensor {
  Tensor tensor;
  void *manager;
  void (*deleter)(ManagedTensor *self);
};

/// The functions of a library for short loans of its tensors: what the capsule
/// "dlpack_exchange_api" of its tensor type points to, since DLPack 1.3. They are called with the
/// interpreter's lock, return 0, or set a Python exception.
struct Exchange {
  uint32_t major, minor;
  const Exchange *previous;
  void *allocate, *fromObject, *toObject; ///< for tensors that are kept
  /// The tensor's extents and strides are those of the object, and live as long as it.
  int (*read)(void *object, Tensor *tensor); ///< may be null
  int (*currentStream)(int32_t deviceType, int32_t device, void **stream);
};

} // namespace tandem::python::dlpack

#endif // TANDEM_LIB_BINDINGS_PYTHON_DLPACK_H
