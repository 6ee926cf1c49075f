//===- GroupedTable.h - the grouped kernels of libtandem_gated.so ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_GATED_GROUPEDTABLE_H
#define TANDEM_LIB_DEVICE_GPU_GATED_GROUPEDTABLE_H

#include "GroupedLibrary.h"
#include "KernelTable.h"

namespace tandem::gpu::gated {

/// kEntriesOfTile of them are defined by each compilation of GroupedKernel.cu; see GroupedTable.
struct GroupedEntry {
  KernelInfo info;
  const char *(*whyNot)(const GroupedMatmul &matmul);
  const char *(*load)();
  const char *(*run)(const GroupedMatmul &matmul, void *stream);
};

} // namespace tandem::gpu::gated

#endif // TANDEM_LIB_DEVICE_GPU_GATED_GROUPEDTABLE_H
