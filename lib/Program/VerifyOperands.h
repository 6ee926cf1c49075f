//===- VerifyOperands.h - types, shapes and aliasing of operands ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What VerifyCommands.cpp checks of the views of one command, once its fields are good.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_PROGRAM_VERIFYOPERANDS_H
#define TANDEM_LIB_PROGRAM_VERIFYOPERANDS_H

#include "ProgramImpl.h"

#include <optional>

namespace tandem::program {

/// Operands of one command; `what` names the one that an error is about.
Status checkWritten(const ProgramImpl &program, const PlacedView &view, std::string_view what);
Status checkDType(const PlacedView &a, const PlacedView &b, std::string_view what);
Status checkShape(const PlacedView &a, const PlacedView &b, std::string_view what);
Status checkDisjoint(const PlacedView &out, const PlacedView &in, std::string_view what,
                     bool orSame = false);

using Operands = std::optional<PlacedView>[4];
/// Copies, sums, puts, matmuls, reductions and collectives.
Status verifyElementwise(const ProgramImpl &program, const sp::Command &command,
                         const Operands &refs);
Status verifyMatmul(const ProgramImpl &program, const sp::Command &command, const Operands &refs);
Status verifyReduce(const ProgramImpl &program, const sp::Command &command, const Operands &refs);
Status verifyCollective(const ProgramImpl &program, const sp::Command &command,
                        const Operands &refs);

/// A launch or call, whose operands are a list.
Status verifyKernel(const ProgramImpl &program, const sp::Command &command);

} // namespace tandem::program

#endif // TANDEM_LIB_PROGRAM_VERIFYOPERANDS_H
