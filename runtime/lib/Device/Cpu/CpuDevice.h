//===- CpuDevice.h - parts of the CPU device ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_CPU_CPUDEVICE_H
#define TANDEM_LIB_DEVICE_CPU_CPUDEVICE_H

#include "tandem/Runtime/Device.h"
#include "tandem/Runtime/Kernel.h"

namespace tandem::cpu {

/// Sets the number of OpenMP threads (used by oneDNN) of parallel regions on the calling thread.
/// Returns the previous number, or 0 without OpenMP.
int setOpenMPThreads(int threads);

/// "oneDNN 2.6.0".
std::string matrixLibrary();
/// `threads`: per execution.
Expected<std::unique_ptr<Operation>> prepareMatmul(const MatmulDesc &desc, unsigned threads);
/// A kernel of tandem/Program/BuiltinKernels.h.
Expected<std::unique_ptr<Operation>> prepareBuiltin(const CallDesc &desc, unsigned threads);
Expected<std::unique_ptr<Operation>> prepareLaunch(const LaunchDesc &desc);

} // namespace tandem::cpu

#endif // TANDEM_LIB_DEVICE_CPU_CPUDEVICE_H
