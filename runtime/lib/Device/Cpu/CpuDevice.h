//===- CpuDevice.h - parts of the CPU device ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_CPU_CPUDEVICE_H
#define TANDEM_LIB_DEVICE_CPU_CPUDEVICE_H

#include "tandem/Runtime/Device.h"

namespace tandem::cpu {

/// Sets how many threads OpenMP (which oneDNN brings) gives to parallel regions of the calling
/// thread; returns what it was, 0 if there is no OpenMP.
int setOpenMPThreads(int threads);

/// `threads`: of one execution.
Expected<std::unique_ptr<Operation>> prepareMatmul(const MatmulDesc &desc, unsigned threads);
Expected<std::unique_ptr<Operation>> prepareLaunch(const LaunchDesc &desc);

} // namespace tandem::cpu

#endif // TANDEM_LIB_DEVICE_CPU_CPUDEVICE_H
