//===- Explained.h - a value, or why there is none --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For planners and matchers, which are asked about things that may not exist. They return a reason
// as a value and emit no diagnostics. Only the pass that needs the answer reports the reason.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SUPPORT_EXPLAINED_H
#define TANDEM_SUPPORT_EXPLAINED_H

#include "tandem/Support/LLVM.h"
#include "llvm/Support/Threading.h"

#include <optional>
#include <utility>

namespace tandem {

/// Why something is impossible: what was expected and what was found, and at which op, which must
/// live as long. Example: `return explain(op) << "expected one gather, found " << count;`
class Explanation {
public:
  explicit Explanation(Operation *op)
      : op(op), what(op->getLoc(), mlir::DiagnosticSeverity::Error) {}

  template <typename Arg> Explanation &operator<<(Arg &&arg) & {
    what << std::forward<Arg>(arg);
    return *this;
  }
  template <typename Arg> Explanation &&operator<<(Arg &&arg) && {
    what << std::forward<Arg>(arg);
    return std::move(*this);
  }

  std::string str() const { return what.str(); }
  /// Makes it an error at the op. Always failure.
  LogicalResult report() const { return op->emitError() << str(); }

private:
  Operation *op;
  Diagnostic what;
};

inline Explanation explain(Operation *op) { return Explanation(op); }

/// What a check found: nothing, or why the thing checked is impossible.
using Obstacle = std::optional<Explanation>;

/// A value, or the explanation why there is none.
template <typename T> class [[nodiscard]] Explained : public FailureOr<T> {
public:
  Explained(T value) : FailureOr<T>(std::move(value)) {}
  Explained(Explanation why) : FailureOr<T>(failure()), why(std::move(why)) {}
  Explained(Obstacle why) : Explained(std::move(*why)) {}

  /// Of a failure; leaves this without it.
  Explanation explanation() { return std::move(*why); }
  LogicalResult report() const { return why->report(); }

private:
  Obstacle why;
};

/// Runs whole passes on a copy that is thrown away. Passes report failures as diagnostics: the
/// first error of this thread becomes the explanation, and none is emitted.
inline Obstacle runTrial(Operation *op, function_ref<LogicalResult()> passes) {
  std::string error;
  ScopedDiagnosticHandler collect(
      op->getContext(), [&, thread = llvm::get_threadid()](Diagnostic &diagnostic) {
        bool isOurs = llvm::get_threadid() == thread;
        if (isOurs && error.empty() && diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
          error = diagnostic.str();
        return success(isOurs);
      });
  if (succeeded(passes()))
    return std::nullopt;
  return explain(op) << error;
}

} // namespace tandem

#endif // TANDEM_SUPPORT_EXPLAINED_H
