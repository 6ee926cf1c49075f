//===- Clock.h - one clock for all ranks ------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUN_CLOCK_H
#define TANDEM_RUN_CLOCK_H

#include "tandem/Runtime/Bootstrap.h"

#include <cstdint>

namespace tandem::run {

/// The monotonic clock of this host.
int64_t nanoseconds();

/// By how much this rank's clock is ahead of rank 0's, in ns. Collective. 0 where both are of one
/// host; else from exchanged times: what a rank has read must have been sent before, both ways.
Expected<int64_t> clockOffset(Bootstrap &bootstrap);

} // namespace tandem::run

#endif // TANDEM_RUN_CLOCK_H
