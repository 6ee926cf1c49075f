//===- Bootstrap.h - rank, world size, exchange at start ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_BOOTSTRAP_H
#define TANDEM_RUNTIME_BOOTSTRAP_H

#include "tandem/Program/Status.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tandem {

/// Of what ranks exchange at start and at prepare, through whatever bootstrap. Raise it with every
/// change of that: ranks of different versions end with an error that says so.
inline constexpr uint32_t kProtocolVersion = 7;

/// The rank's place in its job, and an exchange of bytes, like MPI_Comm_rank and MPI_Allgather.
/// Used at start and at prepare only, never in a run. All calls are collective over the world, in
/// the same order on every rank, one thread at a time per rank.
class Bootstrap {
public:
  virtual ~Bootstrap();

  virtual uint32_t rank() const = 0;
  virtual uint32_t worldSize() const = 0;
  /// Rank within its node, and number of ranks of that node. If unknown: rank() and worldSize()
  /// (one node).
  virtual uint32_t localRank() const { return rank(); }
  virtual uint32_t localSize() const { return worldSize(); }
  /// A text that is equal on the ranks of one host, and only there: ranks that differ in it share
  /// no memory. A launcher may divide a host into several nodes (NodeMap), whose ranks share it.
  /// Default: hostOf(TANDEM_NODE, or else the host's name).
  virtual std::string host() const;

  /// Every rank gives `bytes` bytes (the same number on all); `all` receives worldSize() * bytes,
  /// in rank order. Must return an error in bounded time if a rank has ended. After an error the
  /// bootstrap must not be used again.
  virtual Status allGather(const void *mine, size_t bytes, void *all) = 0;
  virtual Status barrier() = 0;

  /// An error once it is known, outside of an exchange, that a rank has ended, has given up or
  /// sends no heartbeat. Does not block. Any thread. Default: nothing is known.
  virtual Status health() { return Status::success(); }
  /// This rank ends with an error: tells the others, whose health() becomes that error. Any thread,
  /// also during an exchange. Returns once the health() of all ranks that can be reached is an
  /// error, or after a short time: this rank's operations are released behind it, because that may
  /// let those of other ranks end with wrong data. These ask health() before they report success.
  virtual void giveUp(const Status &reason);

  /// This rank has begun so many runs; all ranks begin the same ones, in the same order. Any
  /// thread, often, so it must be quick.
  virtual void noteBegun(uint64_t runs);
  /// How many runs every rank has begun that has not left, as far as this rank knows. A run that a
  /// rank has yet to begin may wait for longer than the timeout. Any thread. Default: kUnknown.
  virtual uint64_t begunByAll() { return kUnknown; }
  static constexpr uint64_t kUnknown = ~uint64_t(0);
  /// A message's text about ranks that have begun fewer runs, or send no heartbeat: "rank 2 has not
  /// begun it". Empty if none is known. Any thread; does not block.
  virtual std::string late(uint64_t) { return {}; }
};

/// A bootstrap by two callbacks of an embedder. A non-zero return value is an error.
struct BootstrapCallbacks {
  uint32_t rank = 0, worldSize = 1, localRank = 0, localSize = 1;
  std::function<int(const void *mine, size_t bytes, void *all)> allGather;
  std::function<int()> barrier;
  /// Optional: health() and giveUp().
  std::function<Status()> health;
  std::function<void(const Status &)> giveUp;
  /// Optional: noteBegun() and begunByAll().
  std::function<void(uint64_t)> noteBegun;
  std::function<uint64_t()> begunByAll;
  /// Optional: late().
  std::function<std::string(uint64_t)> late;
  std::string node; ///< optional: host() is hostOf(node)
};

/// The node and the boot of the operating system: nodes of one name on different machines differ.
std::string hostOf(const std::string &node);

/// A world of one rank.
std::unique_ptr<Bootstrap> createSelfBootstrap();
/// Fails if rank and sizes are inconsistent, or if a callback is missing in a world larger than
/// one.
Expected<std::unique_ptr<Bootstrap>> createCallbackBootstrap(BootstrapCallbacks callbacks);

/// All-gather of strings of any length: result[r] is the string of rank r, of
/// at most 4 GiB. Calls allGather for the sizes, and then for pieces.
Expected<std::vector<std::string>> allGatherStrings(Bootstrap &bootstrap, const std::string &mine);

} // namespace tandem

#endif // TANDEM_RUNTIME_BOOTSTRAP_H
