//===- Predict.h - what a stream loop would take ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The compiler's half of the cost model: the work of one rank, all others alike, priced with the
// numbers and formulas of Machine.h that the simulator uses. It knows neither ranks nor commands,
// so it costs microseconds where the simulator needs a program. docs/simulator.md says what it
// leaves out.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REPLAY_PREDICT_H
#define TANDEM_REPLAY_PREDICT_H

#include "tandem/Replay/Machine.h"

#include <cstdint>
#include <vector>

namespace tandem::machine {

/// One thing that a rank puts on a stream.
struct PlanStep {
  enum class Kind : uint8_t {
    Compute,    ///< `seconds` alone on the device
    Message,    ///< a group: `bytes` sent, and as many received from another peer
    Collective, ///< `collective`; all members come at once
    Put,        ///< `bytes` by one copy, and as many arrive
    Signal,     ///< to a peer, behind what is on its stream
    WaitSignal, ///< until step `after` of the peer is over: by symmetry, of this rank
    Sync,       ///< until what is on stream `after` so far is over
  };
  Kind kind = Kind::Compute;
  uint32_t stream = 0; ///< 0: the main stream
  uint32_t after = 0;
  Cost launch = Cost::Kernel; ///< of Compute: what is launched
  double seconds = 0;
  double bytes = 0;
  bool network = false; ///< the peer is on another node
  CollectiveCost collective;
};

/// The commands of one rank in the order of issue. `ranksPerNode`: how many like it share the
/// node's cores and its medium.
struct Plan {
  std::vector<PlanStep> steps;
  uint32_t ranksPerNode = 1;

  uint32_t add(PlanStep step) {
    steps.push_back(step);
    return static_cast<uint32_t>(steps.size() - 1);
  }
  uint32_t compute(uint32_t stream, Cost launch, double seconds);
  uint32_t message(uint32_t stream, double bytes, bool network);
  uint32_t collective(uint32_t stream, const CollectiveCost &cost);
  uint32_t put(uint32_t stream, double bytes, bool network);
  uint32_t signal(uint32_t stream);
  uint32_t waitSignal(uint32_t stream, uint32_t after);
  uint32_t sync(uint32_t stream, uint32_t after);
  /// Workers 1 ... `workers` wait for the main stream; it waits for them.
  void fork(uint32_t workers);
  void join(uint32_t workers);

  uint32_t numStreams() const;
  /// By step: how many commands a sync takes in the program. None if it orders nothing that is not
  /// ordered already, or only what never comes; one, a wait, if an earlier record says it all.
  std::vector<uint8_t> countEvents() const;
};

/// Seconds from the start of the plan to the end of its last step. Activities share the device, the
/// ports and the medium evenly, as in the simulator. Linear in steps times streams.
double predict(const Machine &machine, const Plan &plan);

} // namespace tandem::machine

#endif // TANDEM_REPLAY_PREDICT_H
