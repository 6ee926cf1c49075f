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

/// What holds of a compiled program, whose bytes (with its unsharded reference) are `program`:
/// `withCertificate` puts it into the file.
/// `options.check`: proves that it can neither hang nor race, and compares its results with the
/// reference, as tandem-check does, and those of a deterministic program bit by bit with the
/// baseline (CompileResult::baseline); what is found is an error. A proof is kept for further calls
/// with the same program.
/// `options.certify`: compares results at more indices. With a machine in `options` that can run
/// the program, one run is simulated, of the baseline too.
/// Needs all ranks; with `options.rank` nothing is proven. Thread-safe.
Expected<Certificate> certify(const CompileResult &result, const CompileOptions &options,
                              std::string_view program);

} // namespace tandem::compiler

#endif // TANDEM_COMPILER_CERTIFY_H
