//===- Tuned.h - choices that were measured ---------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A JSON file that `tandem.bench --tune` writes and CompileOptions::tuned names
// (docs/benchmarking.md):
//
//   {"tandem_tuned": 1, "machine": "8 x NVIDIA H200 ...", "target": "cuda-peer",
//    "loops": [{"signature": "51f2a0c98d7be334", "what": "push, slices = 8, dim = 0",
//               "program": "ag 8192x11008x4096 bf16", "seconds": 0.00075, "plain": 0.00102}]}
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REPLAY_TUNED_H
#define TANDEM_REPLAY_TUNED_H

#include "tandem/Program/Status.h"

#include <string>
#include <string_view>
#include <vector>

namespace tandem::machine {

struct TunedChoices {
  struct Loop {
    std::string signature; ///< Certificate::Loop::signature
    std::string what;      ///< the candidate that was the fastest
    std::string program;   ///< in which it was measured
    double seconds = 0;    ///< median of a run of the program with this candidate
    double plain = 0;      ///< the same with the first candidate that was measured
  };

  std::string machine; ///< where, and with which versions of libraries
  std::string target;  ///< for which the programs were compiled
  std::vector<Loop> loops;

  /// Errors name the field.
  static Expected<TunedChoices> parse(std::string_view text);
};

} // namespace tandem::machine

#endif // TANDEM_REPLAY_TUNED_H
