//===- LocalGroup.h - state shared by ranks of one process ------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CHANNEL_LOCAL_LOCALGROUP_H
#define TANDEM_LIB_CHANNEL_LOCAL_LOCALGROUP_H

#include "tandem/Runtime/Channel.h"
#include "tandem/Runtime/HostOps.h"
#include "tandem/Runtime/Local.h"

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <tuple>
#include <vector>

namespace tandem::local {

struct Group;

/// One world's state.
class WorldImpl final : public LocalWorld {
public:
  WorldImpl(uint32_t size, std::chrono::milliseconds timeout)
      : size(size), timeout(timeout), bootstraps(size, 0), transports(size, 0) {}

  Status checkRank(uint32_t rank) const override;
  std::unique_ptr<Bootstrap> bootstrap(uint32_t rank) override;
  std::unique_ptr<Transport> transport(uint32_t rank) override;

  /// `number`: of the bootstrap. The k-th ones of all ranks belong together.
  Status allGather(uint32_t rank, uint32_t number, const void *mine, size_t bytes, void *all);
  Status health();
  void giveUp(const Status &reason);
  void leave(uint32_t rank, uint32_t number);
  /// The group of `desc`, created by its first member. `generation` counts the transports of a
  /// rank.
  std::shared_ptr<Group> group(uint32_t generation, const ChannelDesc &desc);

  const uint32_t size;
  const std::chrono::milliseconds timeout;

  /// One lock for all signals: they may be raised on one channel and awaited on another.
  std::mutex signalMutex;
  std::condition_variable signalRaised;

private:
  std::mutex mutex; ///< guards the fields below
  std::condition_variable changed;
  /// Exchanges of the bootstraps of one number.
  struct Exchange {
    std::vector<std::string> pieces;
    std::vector<char> arrived, left;
    uint32_t numArrived = 0;
    uint64_t generation = 0;
    std::shared_ptr<const std::vector<std::string>> result;
  };
  std::map<uint32_t, Exchange> exchanges; ///< until all ranks have left
  std::vector<uint32_t> bootstraps;       ///< per rank, the number of its bootstraps
  Status givenUp;                         ///< the first reason
  std::map<std::tuple<uint32_t, uint64_t, std::vector<uint32_t>>, std::weak_ptr<Group>> groups;
  std::vector<uint32_t> transports; ///< per rank, the number of its transports
};

/// A send waiting for its receive; on the sender's stack. The receiver copies from the sender's
/// buffer between Posted and Taken, so the sender must wait for Done.
struct SendPost {
  uint32_t source = 0, tag = 0; ///< source: index in the group
  uint64_t epoch = 0;
  enum State { Posted, Taken, Done } state = Posted;
  TensorView view;
  Status error; ///< of the receiver
};

/// A rank's contribution to a collective.
struct CollectivePost {
  bool present = false;
  CollectiveKind kind = CollectiveKind::AllGather;
  ReduceOp op = ReduceOp::Sum;
  uint32_t root = 0;
  TensorView out, in;
};

struct CollectiveState {
  std::vector<CollectivePost> posts;
  uint32_t numPosted = 0;
  uint32_t numRead = 0; ///< ranks that have finished reading the others' inputs
  uint32_t numLeft = 0; ///< ranks that are done; the last one removes the state
  bool failed = false;  ///< a rank withdrew its post
};

/// State shared by the members of one channel.
struct Group {
  Group(std::vector<uint32_t> ranks, std::shared_ptr<WorldImpl> world)
      : ranks(std::move(ranks)), world(std::move(world)), members(this->ranks.size()) {}

  struct Member {
    /// Held shared to write into `symmetric`, exclusively when the member leaves.
    std::shared_mutex memory;
    SymmetricMemory symmetric;
    bool left = false; ///< guarded by both `memory` and the group's mutex: either suffices to read
    /// Sends to this member that it has not received yet; guarded by the group's mutex.
    std::vector<SendPost *> sends;
    size_t maxSends = 0; ///< of the prepared operations
  };

  const std::vector<uint32_t> ranks; ///< of the world, in group order
  const std::shared_ptr<WorldImpl> world;
  std::vector<Member> members;

  std::mutex mutex; ///< guards the fields below
  std::condition_variable changed;
  Status aborted;
  using Collectives = std::map<std::pair<uint64_t, uint32_t>, CollectiveState>;
  Collectives collectives; ///< by epoch and sequence
  /// Entries that are over, for the next collectives.
  std::vector<Collectives::node_type> spareCollectives;

  /// Makes an entry for later.
  void addSpareCollective();
  /// The entry of a collective, taken by the first member that asks.
  CollectiveState &collective(uint64_t epoch, uint32_t sequence);
  void endCollective(uint64_t epoch, uint32_t sequence);

  Status leftError(uint32_t member) const;
};

using GroupRef = std::shared_ptr<Group>;
Expected<std::unique_ptr<Operation>> prepareMessages(GroupRef group, uint32_t self,
                                                     const std::vector<Message> &messages);
Expected<std::unique_ptr<Operation>> preparePut(GroupRef group, const Put &put);
Expected<std::unique_ptr<Operation>> prepareSignal(GroupRef group, const Signal &signal);
Expected<std::unique_ptr<Operation>> prepareWaitSignal(GroupRef group, uint32_t self,
                                                       const WaitSignal &wait);
Expected<std::unique_ptr<Operation>> prepareCollective(GroupRef group, uint32_t self,
                                                       const Collective &collective);

} // namespace tandem::local

#endif // TANDEM_LIB_CHANNEL_LOCAL_LOCALGROUP_H
