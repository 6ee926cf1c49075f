//===- Views.h - views of views ---------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_STREAMPROGRAM_VIEWS_H
#define TANDEM_LIB_TARGET_STREAMPROGRAM_VIEWS_H

#include "Code.h"
#include "tandem/Support/LLVM.h"

namespace tandem::target {

/// A view: its buffer (an argument of Code or a live range of RankTables), its layout (a number of
/// Code), and its offset in bytes.
struct View {
  uint32_t buffer = 0;
  uint32_t layout = 0;
  int64_t offset = 0;
};

/// Applies `map` to `source`. On failure reports, with `rank`, an offset or size outside the
/// source, dimensions that cannot be merged, or an invalid cast.
LogicalResult applyMap(ViewMap &map, const View &source, ArrayRef<int64_t> ints,
                       LayoutTable &layouts, uint32_t rank, View &result);

} // namespace tandem::target

#endif // TANDEM_LIB_TARGET_STREAMPROGRAM_VIEWS_H
