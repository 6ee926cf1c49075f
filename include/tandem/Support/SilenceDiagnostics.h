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

/// While it lives, diagnostics of this thread are dropped. For a trial whose failure is no error of
/// the program. Diagnostics of other threads of the same context go where they would go.
class SilenceDiagnostics : public mlir::ScopedDiagnosticHandler {
public:
  explicit SilenceDiagnostics(mlir::MLIRContext *context)
      : ScopedDiagnosticHandler(context, [thread = llvm::get_threadid()](mlir::Diagnostic &) {
          return llvm::success(llvm::get_threadid() == thread);
        }) {}
};

} // namespace tandem

#endif // TANDEM_SUPPORT_SILENCEDIAGNOSTICS_H
