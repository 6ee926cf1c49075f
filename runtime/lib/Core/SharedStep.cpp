//===- SharedStep.cpp - waits for other ranks while channels are made ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SharedStep.h"

#include <fmt/format.h>

using namespace tandem;
using namespace tandem::core;

Status SharedStep::goOn() const {
  // A lost rank first: it is the reason why others are late.
  if (limit.health)
    TANDEM_RETURN_IF_ERROR(limit.health().withPrefix(what + ": "));
  if (std::chrono::steady_clock::now() > deadline)
    return Status(Code::Timeout, fmt::format("{} within {} ms", late, limit.timeout.count()));
  return Status();
}
