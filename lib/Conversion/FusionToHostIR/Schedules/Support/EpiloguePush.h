//===- EpiloguePush.h - slices that their matmul stores to peers -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_EPILOGUEPUSH_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_EPILOGUEPUSH_H

#include "OwnerSlices.h"

#include "tandem/Support/LLVM.h"

namespace tandem {

/// Whether the option `by` asks for a matmul that stores the slices of a reduction to the devices
/// that add them (docs/gated.md, "Epilogue push").
bool isByEpilogue(const StreamLoop &loop);

/// Why a loop cannot have it.
Explanation refuseEpilogue(const StreamLoop &loop, const Twine &expected);

/// Whether the slices of the reduction's operand can be stored so: a matmul of two matrices
/// computes one block of rows for each of the devices, and `producers` ops do.
Obstacle verifyEpiloguePush(const StreamLoop &loop, fusion::ReshardOp reduction,
                            const OwnerDigits &digits, size_t producers);

/// Emits the matmuls, puts and signals of `body`, on the main stream, as one kernel.
LogicalResult emitEpiloguePush(ProgramBuilder &program, Location loc,
                               function_ref<LogicalResult()> body);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_EPILOGUEPUSH_H
