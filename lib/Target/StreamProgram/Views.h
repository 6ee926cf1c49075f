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

/// A view: the buffer is an argument of Code or a life (RankTables::life), the layout a number of
/// Code, the offset in bytes.
struct View {
  uint32_t buffer = 0;
  uint32_t layout = 0;
  int64_t offset = 0;
};

/// Applies `map` to `source`. On failure has reported, naming `rank`, where the view does not
/// exist: an offset or a size that leads outside the source, dimensions that cannot be merged, a
/// cast that does not hold.
LogicalResult applyMap(ViewMap &map, const View &source, ArrayRef<int64_t> ints,
                       LayoutTable &layouts, uint32_t rank, View &result);

} // namespace tandem::target

#endif // TANDEM_LIB_TARGET_STREAMPROGRAM_VIEWS_H
