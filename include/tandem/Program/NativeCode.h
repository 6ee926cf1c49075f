//===- NativeCode.h - programs that contain machine code --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PROGRAM_NATIVECODE_H
#define TANDEM_PROGRAM_NATIVECODE_H

#include "tandem/Program/Program.h"

namespace tandem {

/// Unsupported if a kernel of the program has native code (PTX, AMD GCN), which no verifier can
/// check; the message names the first such kernel. Expressions, and kernels that the embedder
/// registers, are no native code of the program.
Status refuseNativeCode(const Program &program);

} // namespace tandem

#endif // TANDEM_PROGRAM_NATIVECODE_H
