//===- ToyMachine.h - a machine whose times one can compute by hand ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_SIMULATE_TOYMACHINE_H
#define TANDEM_TEST_UNIT_SIMULATE_TOYMACHINE_H

#include "Support/ProgramSpec.h"
#include "tandem/Replay/Simulate.h"

#include <map>
#include <string>

namespace tandem::test {

inline constexpr double kMs = 1e-3;
inline constexpr int64_t kMegabyte = 1000000 / 4; ///< elements of f32

/// The JSON of a machine without latencies: links of 1 GB/s (a megabyte takes a millisecond),
/// matmuls of 1 TFLOP/s, 100 SMs, 4 devices, one copy engine. `changes`: JSON pointer to value.
std::string toyMachineText(const std::map<std::string, std::string> &changes = {});
machine::Machine toyMachine(const std::map<std::string, std::string> &changes = {});

/// A program whose ranks have a channel c0 over all of them, and helpers for commands of whole
/// milliseconds on the toy machine.
struct ToyProgram {
  explicit ToyProgram(uint32_t ranks);
  RankSpec &operator[](uint32_t rank) { return spec.ranks[rank]; }

  /// f32 of so many megabytes, in this rank's arena.
  uint32_t memory(uint32_t rank, double megabytes);
  void matmul(uint32_t rank, uint16_t stream, double ms);
  /// A group of one message each way; the peers of kNone leave theirs out.
  void exchange(uint32_t rank, uint16_t stream, int to, int from, double megabytes,
                uint32_t sendTag = 0, uint32_t recvTag = 0);
  void put(uint32_t rank, uint16_t stream, uint32_t to, double megabytes);
  void collective(uint32_t rank, uint16_t stream, CollectiveKind kind, double megabytesIn,
                  double megabytesOut);

  std::shared_ptr<const replay::World> load();
  /// Fails the test if the simulation does.
  simulate::Result simulate(const machine::Machine &machine,
                            const tandem::simulate::Options &options = {});

  ProgramSpec spec;
};

/// Seconds by which times may differ.
inline constexpr double kNear = 1e-9;

/// When a rank's command ends.
inline double endOf(const simulate::Result &result, const replay::World &world, uint32_t rank,
                    uint32_t command) {
  return result.end[world.ranks[rank].begin + command];
}

} // namespace tandem::test

#endif // TANDEM_TEST_UNIT_SIMULATE_TOYMACHINE_H
