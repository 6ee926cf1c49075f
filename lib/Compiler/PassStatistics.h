//===- PassStatistics.h - what passes counted -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_COMPILER_PASSSTATISTICS_H
#define TANDEM_LIB_COMPILER_PASSSTATISTICS_H

#include "mlir/Pass/PassManager.h"
#include "tandem/Support/LLVM.h"

#include <memory>
#include <string>

namespace tandem {

/// Remembers which of Tandem's passes a pass manager runs, and reads their statistics afterwards.
/// The installed MLIR is built without statistics: `-mlir-pass-statistics` prints none.
class PassStatistics {
public:
  /// To be called once, before the manager runs.
  void attach(PassManager &manager);
  /// One line per pass and per count, in the order in which passes first ran. Before the manager is
  /// destroyed. A build without assertions counts nothing, and says so.
  std::string str() const;

private:
  struct State;
  std::shared_ptr<State> state;
};

} // namespace tandem

#endif // TANDEM_LIB_COMPILER_PASSSTATISTICS_H
