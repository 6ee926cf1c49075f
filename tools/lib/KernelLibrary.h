//===- KernelLibrary.h - kernels of shared libraries ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUN_KERNELLIBRARY_H
#define TANDEM_RUN_KERNELLIBRARY_H

#include "tandem-c/Kernel.h"
#include "tandem/Program/Status.h"

#include <string>
#include <vector>

namespace tandem::run {

using KernelList = std::vector<const tandem_kernel *>;

/// What the shared libraries at `paths` export (TANDEM_KERNELS_SYMBOL). They stay loaded.
Expected<KernelList> loadKernels(const std::vector<std::string> &paths);

} // namespace tandem::run

#endif // TANDEM_RUN_KERNELLIBRARY_H
