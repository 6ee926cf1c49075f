//===- TileRaster.h - in which order tiles are taken ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The code by which kernels of gated matmuls find a tile. A test runs it on the CPU.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_GATED_TILERASTER_H
#define TANDEM_LIB_DEVICE_GPU_GATED_TILERASTER_H

#ifdef __CUDACC__
#define TANDEM_RASTER __host__ __device__ __forceinline__
#else
#define TANDEM_RASTER inline
#endif

namespace tandem::gpu::gated {

/// Numbers the tiles of a matrix by groups of rows (CUTLASS: the raster order): all columns of a
/// row group come before the next row group, and in a row group all rows of a column before the
/// next column.
///
/// Divmod(d), called with (quotient, remainder, n), divides n >= 0 by d > 0.
template <class Divmod> struct TileRaster {
  int rows = 0, columns = 0; ///< of tiles
  int groupRows = 1;         ///< rows of a row group, except of the first and the last one
  int firstGroupRows = 0;    ///< rows of the first row group; 0: as the others
  Divmod perGroup, groupRowsDivmod, lastRows, firstRows;

  TileRaster() = default;
  /// On the host. `groupRows` and `firstGroupRows` may be larger than `rows`, and `groupRows` may
  /// be 0.
  TileRaster(int rows, int columns, int groupRows, int firstGroupRows)
      : rows(rows), columns(columns), groupRows(within(groupRows, 1, rows)),
        firstGroupRows(within(firstGroupRows, 0, rows)) {
    int last = (rows - this->firstGroupRows) % this->groupRows;
    perGroup = Divmod(this->groupRows * within(columns, 1, columns));
    groupRowsDivmod = Divmod(this->groupRows);
    lastRows = Divmod(last ? last : this->groupRows);
    firstRows = Divmod(within(this->firstGroupRows, 1, rows));
  }

  /// Of tile `number` of rows * columns.
  TANDEM_RASTER void find(int number, int &row, int &column) const {
    int inFirst = firstGroupRows * columns;
    if (number < inFirst) {
      firstRows(column, row, number);
      return;
    }
    int groups, rest;
    perGroup(groups, rest, number - inFirst);
    int begin = firstGroupRows + groups * groupRows;
    if (begin + groupRows >= rows)
      lastRows(column, row, rest);
    else
      groupRowsDivmod(column, row, rest);
    row += begin;
  }

private:
  static int within(int value, int least, int most) {
    return value < least || most < least ? least : value < most ? value : most;
  }
};

} // namespace tandem::gpu::gated

#undef TANDEM_RASTER

#endif // TANDEM_LIB_DEVICE_GPU_GATED_TILERASTER_H
