//===- ChannelInterface.h - what GPU channels use of the device -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The one header of the GPU device that channels ccl and peer include (tools/lint checks it). A
// channel obtains `GpuAccess` (tandem/Runtime/Gpu.h) from its device and may use:
//
//   Driver          vendor calls: memory, streams, events, sharing memory between processes
//   DeviceState     the device's state: abort flag, pollers for asynchronous errors, signal words
//   GpuStream       the stream that an operation is issued on, GpuOperation for its own operations
//   Kernels         the device's kernels; CopyPlan copies between strided views
//   Scratch         device memory owned by an operation
//   SymmetricBlock  symmetric memory of ranks in this process
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_CHANNELINTERFACE_H
#define TANDEM_LIB_DEVICE_GPU_CHANNELINTERFACE_H

#include "Driver.h"         // IWYU pragma: export
#include "GpuStream.h"      // IWYU pragma: export
#include "Kernels.h"        // IWYU pragma: export
#include "SymmetricBlock.h" // IWYU pragma: export

#endif // TANDEM_LIB_DEVICE_GPU_CHANNELINTERFACE_H
