//===- Ranks.h - ranks as threads or processes ---------------------- -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_EXAMPLES_JITFUSER_RANKS_H
#define TANDEM_EXAMPLES_JITFUSER_RANKS_H

#include <functional>
#include <tandem-c/Runtime.h>

namespace fuser {

/// What a rank does. The options have the bootstrap; the function adds device and channels. It may
/// throw.
using RankBody = std::function<void(uint32_t rank, tandem_context_options options)>;

/// Runs `body` on all ranks: on threads of this process, or in child processes (before the parent
/// uses Tandem). Returns whether no rank threw; prints what they threw.
bool runRanks(uint32_t ranks, bool processes, const RankBody &body);

} // namespace fuser

#endif // TANDEM_EXAMPLES_JITFUSER_RANKS_H
