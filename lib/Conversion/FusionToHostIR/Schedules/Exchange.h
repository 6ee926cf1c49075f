//===- Exchange.h - the two loops of the schedule exchange -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_EXCHANGE_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_EXCHANGE_H

#include "OwnerSlices.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// Emits a loop that hands its slices to their owners, by messages between pairs. Failure with an
/// error at the op that cannot be emitted.
LogicalResult emitExchangeReduce(const StreamGroup &group, const ScatteredDigit &scattered,
                                 ProgramBuilder &program);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_EXCHANGE_H
