//===- SymmetricBlock.h - memory that ranks of a process share --*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_SYMMETRICBLOCK_H
#define TANDEM_LIB_DEVICE_GPU_SYMMETRICBLOCK_H

#include "GpuStream.h"

namespace tandem::gpu {

/// Memory of Driver::allocateShared(). Peers of the same process share ownership: after an error, a
/// rank may leave while their copies into its memory are still in flight. (Peers of other processes
/// have mapped it.)
class SymmetricBlock {
public:
  static Expected<std::shared_ptr<SymmetricBlock>> allocate(std::shared_ptr<DeviceState> state,
                                                            uint64_t bytes);
  /// The block that starts at `base` in this process, or null.
  static std::shared_ptr<SymmetricBlock> find(const void *base);
  ~SymmetricBlock();

  void *data() const { return base; }

private:
  SymmetricBlock(std::shared_ptr<DeviceState> state, void *base)
      : state(std::move(state)), base(base) {}

  const std::shared_ptr<DeviceState> state;
  void *const base;
};

} // namespace tandem::gpu

#endif // TANDEM_LIB_DEVICE_GPU_SYMMETRICBLOCK_H
