//===- BandWalk.h - in which order tiles of a matrix are taken --------------------*- C++ -*-===//
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
  /// Divides on the host what the tiles do not depend on. `ofBand`, `ofFirst`: as `band` and
  /// `firstBand`, but may be larger than `rows`, and `ofBand` smaller than 1.
  BandWalk(int rows, int columns, int ofBand, int ofFirst) : rows(rows), columns(columns) {
    band = ofBand < 1 || rows < 1 ? 1 : ofBand < rows ? ofBand : rows;
    firstBand = ofFirst < 0 ? 0 : ofFirst < rows ? ofFirst : rows;
    int last = (rows - firstBand) % band;
    perBand = Divmod(band * (columns < 1 ? 1 : columns));
    bandRows = Divmod(band);
    lastRows = Divmod(last ? last : band);
    firstRows = Divmod(firstBand ? firstBand : 1);
  }

  /// Of tile `number` of rows * columns.
  TANDEM_BAND void find(int number, int &row, int &column) const {
    int inFirst = firstBand * columns;
    if (number < inFirst) {
      firstRows(column, row, number);
      return;
    }
    int bands, within;
    perBand(bands, within, number - inFirst);
    int begin = firstBand + bands * band;
    if (begin + band >= rows)
      lastRows(column, row, within);
    else
      bandRows(column, row, within);
    row += begin;
  }
};

} // namespace tandem::gpu::gated

#undef TANDEM_BAND

#endif // TANDEM_LIB_DEVICE_GPU_GATED_BANDWALK_H
