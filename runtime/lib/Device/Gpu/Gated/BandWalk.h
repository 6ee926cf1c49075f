//===- BandWalk.h - in which order tiles are taken ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The code by which kernels of gated matmuls find a tile. A test runs it on the CPU.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_GATED_BANDWALK_H
#define TANDEM_LIB_DEVICE_GPU_GATED_BANDWALK_H

#ifdef __CUDACC__
#define TANDEM_BAND __host__ __device__ __forceinline__
#else
#define TANDEM_BAND inline
#endif

namespace tandem::gpu::gated {

/// Numbers the tiles of a matrix by bands of rows: all columns of a band come before the next band,
/// and in a band all rows of a column before the next column.
///
/// Divmod(d), called with (quotient, remainder, n), divides n >= 0 by d > 0.
template <class Divmod> struct BandWalk {
  int rows = 0, columns = 0; ///< of tiles
  int band = 1;              ///< rows of a band, except of the first and the last one
  int firstBand = 0;         ///< rows of the first band; 0: as the others
  Divmod perBand, bandRows, lastRows, firstRows;

  BandWalk() = default;
  /// On the host. `band` and `firstBand` may be larger than `rows`, and `band` may be 0.
  BandWalk(int rows, int columns, int band, int firstBand)
      : rows(rows), columns(columns), band(within(band, 1, rows)),
        firstBand(within(firstBand, 0, rows)) {
    int last = (rows - this->firstBand) % this->band;
    perBand = Divmod(this->band * within(columns, 1, columns));
    bandRows = Divmod(this->band);
    lastRows = Divmod(last ? last : this->band);
    firstRows = Divmod(within(this->firstBand, 1, rows));
  }

  /// Of tile `number` of rows * columns.
  TANDEM_BAND void find(int number, int &row, int &column) const {
    int inFirst = firstBand * columns;
    if (number < inFirst) {
      firstRows(column, row, number);
      return;
    }
    int bands, rest;
    perBand(bands, rest, number - inFirst);
    int begin = firstBand + bands * band;
    if (begin + band >= rows)
      lastRows(column, row, rest);
    else
      bandRows(column, row, rest);
    row += begin;
  }

private:
  static int within(int value, int least, int most) {
    return value < least || most < least ? least : value < most ? value : most;
  }
};

} // namespace tandem::gpu::gated

#undef TANDEM_BAND

#endif // TANDEM_LIB_DEVICE_GPU_GATED_BANDWALK_H
