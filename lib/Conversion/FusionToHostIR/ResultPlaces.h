//===- ResultPlaces.h - where results are made -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_RESULTPLACES_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_RESULTPLACES_H

#include "ProgramBuilder.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tandem {

/// Results of a function that are the equal parts of one gathered value, in order, and are all that
/// is read of it. The program has one argument for them, in parts (`hostir.parts`), so that slices
/// are received where they belong, whichever part that is.
/// Example: %g = fusion.reshard of 8 rows to [stream(4), -], then four slices of 2 rows, returned.
struct ResultParts {
  unsigned first, count; ///< numbers of the results
  Value gathered;
  /// The argument's dimension 0 is `count` times as long as a part's.
  MemRefType getType() const;
};

/// The parts that begin with result `first`, if any do.
std::optional<ResultParts> findParts(func::FuncOp func, unsigned first);

/// Whether `value`, a result of the program, has a buffer: as an argument or another result.
bool isPlaced(const ProgramBuilder &program, Value value);
/// Lets `value`, a result of the program, be made in `buffer`, and what a reshape, a concat or
/// slices only put together for it in the places that it has there. Ops that then have nothing to
/// do are marked (`ProgramBuilder::setInPlace`). Only for values that are not placed.
void placeResult(ProgramBuilder &program, Value value, Value buffer);
/// The same for results in parts; `buffer` is their argument.
void placeParts(ProgramBuilder &program, func::FuncOp func, const ResultParts &parts,
                mlir::TypedValue<mlir::MemRefType> buffer);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_RESULTPLACES_H
