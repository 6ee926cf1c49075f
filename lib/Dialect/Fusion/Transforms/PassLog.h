//===- PassLog.h - remarks of a pass ----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_PASSLOG_H
#define TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_PASSLOG_H

#include "mlir/IR/Operation.h"
#include "tandem/Support/LLVM.h"
#include "llvm/Support/Debug.h"

namespace tandem::fusion {

/// Logs the effect of a pass: to LLVM's debug output, and as remarks if requested.
class PassLog {
public:
  /// `pass` is the pass's flag (a literal): the debug type, and the prefix of each remark.
  PassLog(const char *pass, bool remarks) : pass(pass), remarks(remarks) {}

  /// `what` prints the text to a stream; called only if there is a listener.
  template <typename Fn> void operator()(Location loc, Fn &&what) const {
    DEBUG_WITH_TYPE(pass, {
      llvm::dbgs() << '[' << pass << "] ";
      what(llvm::dbgs());
      llvm::dbgs() << '\n';
    });
    if (!remarks)
      return;
    std::string text;
    llvm::raw_string_ostream os(text);
    what(os);
    emitRemark(loc) << pass << ": " << text;
  }

  /// Prints the counters of a run on one line, if any. (MLIR's statistics are disabled in release
  /// builds of LLVM, as in distributions.)
  using Count = std::pair<StringRef, unsigned>;
  void summary(Location loc, ArrayRef<Count> counts) const {
    if (llvm::none_of(counts, [](const Count &count) { return count.second != 0; }))
      return;
    (*this)(loc, [&](raw_ostream &os) {
      llvm::interleaveComma(counts, os,
                            [&](const Count &count) { os << count.second << ' ' << count.first; });
    });
  }

private:
  const char *pass;
  bool remarks;
};

} // namespace tandem::fusion

#endif // TANDEM_LIB_DIALECT_FUSION_TRANSFORMS_PASSLOG_H
