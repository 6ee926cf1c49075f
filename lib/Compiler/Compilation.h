//===- Compilation.h - one compilation on a module --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_COMPILER_COMPILATION_H
#define TANDEM_LIB_COMPILER_COMPILATION_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "tandem/Compiler/Compiler.h"
#include "tandem/Support/LLVM.h"

namespace tandem::compiler {

/// Reads a module. Diagnostics go into `result`; its `ok` is the outcome.
mlir::OwningOpRef<mlir::ModuleOp> parseModule(mlir::MLIRContext &context, llvm::StringRef text,
                                              llvm::StringRef name, CompileResult &result);

} // namespace tandem::compiler

#endif // TANDEM_LIB_COMPILER_COMPILATION_H
