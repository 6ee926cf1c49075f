//===- Remote.h - memory that peers reach into ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CHECK_REMOTE_H
#define TANDEM_CHECK_REMOTE_H

#include "LocalPass.h"
#include "Order.h"

namespace tandem::check {

/// Checks races between puts and other accesses (section 3), R2, and signals of the wrong run
/// (section 2). For programs that finish.
void checkRemote(const World &world, const CheckOptions &options, const Execution &execution,
                 const std::vector<LocalResult> &locals, const FootprintTable &footprints,
                 Order &order, Findings &findings);

} // namespace tandem::check

#endif // TANDEM_CHECK_REMOTE_H
