//===- Certify.h - proofs and predictions of compiled programs --*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COMPILER_CERTIFY_H
#define TANDEM_COMPILER_CERTIFY_H

#include "tandem/Compiler/Compiler.h"
#include "tandem/Program/Certificate.h"

namespace tandem::compiler {

/// What holds of a compiled program: `withCertificate` puts it into the file. `isChecked`: proves
/// that it can neither hang nor race, and compares its results with the reference, as tandem-check
/// does, and those of a deterministic program bit by bit with the baseline
/// (CompileResult::baseline); what is found is an error. With a machine in `options` that can run
/// the program, one run is simulated, of the baseline too. Needs all ranks. Takes about as long as
/// compiling.
Expected<Certificate> certify(const CompileResult &result, const CompileOptions &options,
                              bool isChecked);

} // namespace tandem::compiler

#endif // TANDEM_COMPILER_CERTIFY_H
