//===- PassStatistics.h - statistics of Tandem's passes ---------*- C++ -*-===//
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

/// Records Tandem's passes in a pass manager and reads their statistics after the run. The
/// installed MLIR is built without statistics: `-mlir-pass-statistics` prints none.
class PassStatistics {
public:
  /// Call once, before the run.
  void attach(PassManager &manager);
  /// One line per pass and counter, in order of the passes' first runs. Call before the manager is
  /// destroyed. Builds without assertions have no counters, and the text says so.
  std::string str() const;

private:
  struct State;
  std::shared_ptr<State> state;
};

} // namespace tandem

#endif // TANDEM_LIB_COMPILER_PASSSTATISTICS_H
