//===- PassStatistics.cpp - statistics of Tandem's passes -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PassStatistics.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <mutex>

#if LLVM_ENABLE_STATS
namespace mlir {
// The installed MLIR is built with NDEBUG, where a statistic is an empty object; with assertions it
// is a named counter. MLIR's definitions of these two functions leave the counter of a pass
// compiled with assertions uninitialised. Hidden, because MLIR's own passes must not use these.
__attribute__((visibility("hidden"))) Pass::Statistic::Statistic(Pass *owner, const char *name,
                                                                 const char *description)
    : llvm::Statistic{"", name, description} {
  owner->statistics.push_back(this);
}

__attribute__((visibility("hidden"))) Pass::Statistic &Pass::Statistic::operator=(unsigned value) {
  llvm::Statistic::operator=(value);
  return *this;
}
} // namespace mlir
#endif

using namespace mlir;

namespace tandem {

struct PassStatistics::State {
  std::mutex mutex;
  llvm::SetVector<Pass *> passes;
};

void PassStatistics::attach(PassManager &manager) {
  struct Instrumentation : PassInstrumentation {
    explicit Instrumentation(std::shared_ptr<State> state) : state(std::move(state)) {}
    void runAfterPass(Pass *pass, Operation *) override {
      // Other passes have empty statistics: see above.
      StringRef name = pass->getArgument();
      if (!name.starts_with("fusion-") && !name.starts_with("hostir-") &&
          !name.starts_with("convert-fusion-"))
        return;
      std::lock_guard<std::mutex> lock(state->mutex);
      state->passes.insert(pass);
    }
    std::shared_ptr<State> state;
  };
  state = std::make_shared<State>();
  manager.addInstrumentation(std::make_unique<Instrumentation>(state));
}

std::string PassStatistics::str() const {
#if LLVM_ENABLE_STATS
  // A pass that runs on several functions in parallel has several instances.
  llvm::MapVector<StringRef, llvm::MapVector<StringRef, uint64_t>> counts;
  for (Pass *pass : state->passes)
    for (Pass::Statistic *statistic : pass->getStatistics())
      counts[pass->getArgument()][statistic->getName()] += statistic->getValue();
  std::string text;
  for (const auto &[pass, statistics] : counts) {
    text += pass.str() + "\n";
    for (const auto &[name, value] : statistics)
      text += "  " + std::to_string(value) + " " + name.str() + "\n";
  }
  return text;
#else
  return "passes\n  counted nothing: this build is without assertions\n";
#endif
}

} // namespace tandem
