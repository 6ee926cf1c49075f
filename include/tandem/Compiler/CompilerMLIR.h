//===- CompilerMLIR.h - the compiler for modules in memory ------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COMPILER_COMPILERMLIR_H
#define TANDEM_COMPILER_COMPILERMLIR_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "tandem/Compiler/Compiler.h"
#include "tandem/Support/LLVM.h"

namespace tandem::compiler {

/// Compiles a copy of a module in memory. Loads Tandem's dialects into its context if needed. The
/// result holds this thread's diagnostics; the context's handlers do not get them. One compile at a
/// time per context unless it is multithreaded.
CompileResult compileModule(mlir::ModuleOp module, const CompileOptions &options = {});

/// Reads a module; null after an error. Diagnostics go into `result`; its `ok` is the outcome.
/// `name` is that of the file in diagnostics.
mlir::OwningOpRef<mlir::ModuleOp> parseModule(mlir::MLIRContext &context, llvm::StringRef text,
                                              llvm::StringRef name, CompileResult &result);

} // namespace tandem::compiler

#endif // TANDEM_COMPILER_COMPILERMLIR_H
