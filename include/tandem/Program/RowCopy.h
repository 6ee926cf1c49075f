//===- RowCopy.h - copies that copy engines do ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which copies and puts a GPU gives to its copy engines. The others are kernels, which need SMs:
// the checker has to know (docs/semantics.md, section 4).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PROGRAM_ROWCOPY_H
#define TANDEM_PROGRAM_ROWCOPY_H

#include "tandem/Program/Types.h"

#include <cstdint>
#include <optional>

namespace tandem::program {

/// `rows` rows of `bytes` bytes each, as of cudaMemcpy2D. Pitches in bytes; 0 if there is one row.
struct RowCopy {
  uint64_t bytes = 0, rows = 1;
  uint64_t dstPitch = 0, srcPitch = 0;
};

/// The copy between views of one shape and type with elements, if the copy engines do it: of one
/// contiguous piece, or of rows of 1 KiB or more that do not overlap. Nothing: a kernel does it.
std::optional<RowCopy> describeRowCopy(const Layout &dst, const Layout &src);

/// Whether a copy or put between such views runs without SMs.
bool isByCopyEngine(const Layout &dst, const Layout &src);

} // namespace tandem::program

#endif // TANDEM_PROGRAM_ROWCOPY_H
