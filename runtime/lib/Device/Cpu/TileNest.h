//===- TileNest.h - the tiles of elementwise work ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_CPU_TILENEST_H
#define TANDEM_LIB_DEVICE_CPU_TILENEST_H

#include "tandem/Program/Types.h"
#include "tandem/Runtime/HostOps.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tandem::cpu {

/// Cuts operands of one shape into tiles of rows and columns, with as few dimensions as their
/// strides allow. Columns run along the first operand's memory; rows along that of a transposed
/// operand, if any.
class TileNest {
public:
  /// One operand's steps, in elements.
  struct Steps {
    int64_t row = 0, column = 0;
    bool isInvariant = false; ///< all tiles of the same columns have the same elements
  };

  /// `layouts`: same shape, any dtypes. A tile has at most `maxElements` elements.
  TileNest(const std::vector<Layout> &layouts, int64_t maxElements);

  /// Whether there are no elements.
  bool isEmpty() const { return empty; }
  /// Extents of the largest tile; only the last of a row or column are smaller.
  int64_t rows() const { return tileRows; }
  int64_t columns() const { return tileColumns; }
  const Steps &steps(size_t operand) const { return operandSteps[operand]; }
  /// Whether a tile's elements are contiguous in the operand, for any extents.
  bool isAdjacent(size_t operand) const {
    const Steps &s = operandSteps[operand];
    return s.column == 1 && (tileRows == 1 || (s.row == numColumns && tileColumns == numColumns));
  }
  /// Whether a row is one tile, so that invariant operands never change.
  bool hasWholeRows() const { return tileColumns == numColumns; }

  /// Calls body(pointers, rows, columns) for each tile with its start in each operand.
  template <typename Body> void run(std::byte *const *bases, Body &&body) const {
    if (empty)
      return;
    size_t operands = operandSteps.size();
    SmallArray<std::byte *> first(operands), at(operands);
    std::copy_n(bases, operands, first.data());
    forEachIndex(outer, first.data(), operands, [&] {
      for (int64_t row = 0; row < numRows; row += tileRows)
        for (int64_t column = 0; column < numColumns; column += tileColumns) {
          for (size_t k = 0; k < operands; ++k)
            at[k] = first[k] +
                    (row * operandSteps[k].row + column * operandSteps[k].column) * elementBytes[k];
          body(at.data(), row + tileRows < numRows ? tileRows : numRows - row,
               column + tileColumns < numColumns ? tileColumns : numColumns - column);
        }
    });
  }

private:
  bool empty = false;
  int64_t numRows = 1, numColumns = 1, tileRows = 1, tileColumns = 1;
  std::vector<Steps> operandSteps;
  std::vector<int64_t> elementBytes;
  std::vector<LoopDim> outer; ///< strides in bytes
};

} // namespace tandem::cpu

#endif // TANDEM_LIB_DEVICE_CPU_TILENEST_H
