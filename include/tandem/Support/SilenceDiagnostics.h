//===- SilenceDiagnostics.h - ask without an error -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SUPPORT_SILENCEDIAGNOSTICS_H
#define TANDEM_SUPPORT_SILENCEDIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/Threading.h"

namespace tandem {

/// Drops the diagnostics of this thread while it lives, for trials that may fail. Other threads'
/// diagnostics are not affected.
class SilenceDiagnostics : public mlir::ScopedDiagnosticHandler {
public:
  explicit SilenceDiagnostics(mlir::MLIRContext *context)
      : ScopedDiagnosticHandler(context, [thread = llvm::get_threadid()](mlir::Diagnostic &) {
          return llvm::success(llvm::get_threadid() == thread);
        }) {}
};

} // namespace tandem

#endif // TANDEM_SUPPORT_SILENCEDIAGNOSTICS_H
