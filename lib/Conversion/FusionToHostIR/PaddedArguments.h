//===- PaddedArguments.h - arguments of padded extents ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_PADDEDARGUMENTS_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_PADDEDARGUMENTS_H

#include "ProgramBuilder.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// A new buffer with the local shape of `type`: the elements of `argument`, which on each device
/// has those of a tensor of shape `extents`, and 0 as padding. On the main stream.
Value emitPadding(ProgramBuilder &program, Location loc, RankedTensorType type,
                  ArrayRef<int64_t> extents, Value argument);

/// The inverse: copies the elements of `padded` that are not padding to `result`.
void emitWithoutPadding(ProgramBuilder &program, Location loc, RankedTensorType type,
                        ArrayRef<int64_t> extents, Value padded, Value result);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_PADDEDARGUMENTS_H
