//===- ContextImpl.h - one rank's streams, watchdog and health ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CORE_CONTEXTIMPL_H
#define TANDEM_LIB_CORE_CONTEXTIMPL_H

#include "RunBoard.h"
#include "SharedArena.h"
#include "SymmetricPool.h"

#include "tandem/Runtime/Context.h"

#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

namespace tandem::core {

/// The watchdog's view of an instance. Called from any thread, several at a time, without the
/// context's lock: calls of the device may block while another thread is in the driver. Meanwhile
/// the instance is kept, see ContextImpl::visit().
class Watched {
public:
  virtual ~Watched();
  /// Whether it may wait for other ranks: a run is in flight, or a graph of the caller may replay
  /// one at any time. Does not call the device. True until the runs are waited for.
  virtual bool mayWait() = 0;
  /// The same, but false once the runs in flight have ended.
  virtual bool isRunning() = 0;
  /// When the oldest run in flight must have ended; time_point::max() if none is in flight. Called
  /// by one thread.
  virtual std::chrono::steady_clock::time_point deadline() = 0;
  /// The runs, by number, that are enqueued and have not ended.
  virtual std::vector<uint64_t> runsInFlight() = 0;
  /// What each stream of the oldest run in flight does.
  virtual std::vector<CommandInFlight> inFlight() = 0;
  /// Of an instance with a run in flight.
  virtual void addChannels(std::vector<Snapshot::Channel> &channels) = 0;
  /// The same, for the message of a timeout.
  virtual std::string describeStall() = 0;
  /// Aborts the one-sided channels, or all others. May block.
  virtual void abortChannels(const Status &reason, bool oneSided) = 0;
  /// Drops the graphs that abortChannels() could not drop because a thread was using them.
  virtual void dropGraphs() = 0;
  /// Waits for the runs in flight (the watchdog bounds that), then frees what no other rank
  /// accesses.
  virtual void finishRuns() = 0;
  /// What peers may write to as long as the transports live. Before the instance is destroyed.
  virtual std::shared_ptr<Memory> symmetricMemory() = 0;

private:
  friend class ContextImpl;
  unsigned visitors = 0, lookers = 0; ///< see ContextImpl::visit(); guarded by its lock
};

class ContextImpl final : public Context {
public:
  explicit ContextImpl(ContextOptions options)
      : options(std::move(options)), board(rank(), worldSize()) {}
  ~ContextImpl() override;

  Device &device() override { return *options.device; }
  std::string description() override;
  Bootstrap &bootstrap() override { return *options.bootstrap; }
  std::chrono::milliseconds timeout() const override { return options.timeout; }
  Status health() const override;
  /// Success unless poisoned; does not ask the bootstrap, so it costs little.
  Status failure() const;
  std::vector<CommandInFlight> inFlight() const override;
  Snapshot snapshot() const override;
  Status registerKernel(const tandem_kernel &kernel) override;
  /// The kernel of this name; null if none is registered.
  std::shared_ptr<const ExternalKernel> kernel(std::string_view name) const {
    auto found = kernels.find(name);
    return found == kernels.end() ? nullptr : found->second;
  }

  /// Ends all running and waiting work of this rank, and informs the peers. The first reason stays.
  /// If another thread is already doing that, returns at once. Meanwhile, failure() is the reason,
  /// and an instance can be retired.
  void poison(const Status &reason);

  /// The context's stream `i` of a priority, made when first asked for; shared by the instances.
  Expected<Stream *> stream(uint32_t i, StreamPriority priority);
  /// The first transport that has the channel's capabilities and reaches its groups, on all ranks;
  /// those for the channel's link class come first.
  /// Collective over the world: each rank gives the channel with its own group. The capabilities
  /// are equal on all ranks.
  Expected<Transport *> transport(const ChannelDesc &channel);
  /// Whether a channel with these capabilities, wherever its ranks are, may copy operands with gaps
  /// in memory of the device. Local.
  bool copiesGaps(uint32_t capabilities) const;
  /// Waits for the current runs in flight of all instances, or until failure() is an error, which
  /// it then returns. Call it before a driver call that blocks until the device is idle: during
  /// such a call no abort gets through. A run that a thread is still enqueuing does not count,
  /// because the thread may be the caller's own, or wait here too.
  Status awaitRuns();
  /// Success, or the abort that makes the results of an ended run invalid.
  Status checkRun();
  /// Grows while data moves on any channel.
  uint64_t progress() const;
  /// A run begins that is `what`: its number, from 1 on, in `number`. Both are equal on all ranks;
  /// if it is known that `what` is not, poisons the context. Then no rank's run of that number
  /// ends.
  Status noteRun(std::string_view what, uint64_t &number);
  Status agree(std::string_view call) override;
  /// Collective, when first called: from then on runs are compared.
  Status connectRuns();
  bool comparesRuns() const override { return isComplete; }
  bool wantsGraphs() const { return options.graphs; }
  bool sharesMemory() const override { return options.shareMemory; }
  /// The arena of a new instance: that of the context, or one of its own.
  std::shared_ptr<SharedArena> arena() {
    return sharesMemory() ? sharedArena : std::make_shared<SharedArena>();
  }
  /// Numbers an instance, which is in use until retire() or forget().
  uint32_t nextInstance();
  /// Instance `number` was destroyed by its user. Keeps it until all ranks have destroyed it. Any
  /// thread.
  void retire(uint32_t number, std::unique_ptr<Watched> instance);
  /// Instance `number` is gone, and no rank refers to it.
  void forget(uint32_t number);
  /// Collective: destroys the retired instances that no rank uses any more.
  Status releaseRetired();

  /// Pools of instances whose one-sided channels have these members, in the order in which they
  /// were made.
  std::vector<std::shared_ptr<SymmetricPool>> symmetricPools(const std::vector<uint32_t> &members);
  /// No members: it is not shared.
  void addSymmetricPool(const std::vector<uint32_t> &members,
                        const std::shared_ptr<SymmetricPool> &pool);

  /// What other threads of the context read of an instance may be changed while it is held.
  std::unique_lock<std::mutex> lockWatched() const { return std::unique_lock<std::mutex>(mutex); }
  void watch(Watched *instance);
  void unwatch(Watched *instance);
  /// Until no thread looks at the instance that began before; an abort may go on.
  void awaitLookers(Watched *instance);

private:
  std::vector<CommandInFlight> collectInFlight() const;
  /// What `ask` returns; nothing if that takes too long. The context ends after `ask`.
  template <typename T> std::optional<T> askDevice(std::function<T()> ask);
  /// The watchdog is two threads, neither of which holds a lock while it calls the device. One
  /// looks for lost ranks, and calls nothing of the device that it cannot do without: it ends waits
  /// also while the other one, which looks for late runs, or any thread of the caller, is in a call
  /// of the driver that returns only when the device is idle.
  void guard(std::string (ContextImpl::*find)());
  /// What has lost a rank, or what is late; empty: nothing.
  std::string findLost();
  std::string findLate();
  /// Calls `body` for each instance, without the lock; unwatch() of that instance waits. `looks`:
  /// so does awaitLookers().
  template <typename Body> void visit(const Body &body, bool looks = true) const;
  /// Whether the members of the channel's group are on one host; the first two that are not are in
  /// `distant`. Collective over the world when first called.
  Expected<bool> isOnOneHost(const ChannelDesc &channel, std::string &distant);
  /// Empty if each group of the channel is on one host, else two ranks that are distant.
  /// Collective, and the same on all ranks although their groups differ.
  Expected<std::string> distantRanks(const ChannelDesc &channel);

  ContextOptions options;
  const std::shared_ptr<SharedArena> sharedArena = std::make_shared<SharedArena>();
  std::map<std::pair<StreamPriority, uint32_t>, std::unique_ptr<Stream>> streams;
  std::map<std::string, std::shared_ptr<const ExternalKernel>, std::less<>> kernels;
  std::map<std::vector<uint32_t>, std::vector<std::weak_ptr<SymmetricPool>>> pools; ///< by members
  std::vector<std::string> hosts; ///< by rank; empty until first needed
  std::atomic<uint64_t> runs{0};
  uint64_t calls = 0; ///< of agree(): runs, and what else the ranks do together
  mutable RunBoard board;
  bool isBoardConnected = false;
  bool isComplete = false; ///< all ranks compare with all others

  std::mutex retiredMutex; ///< guards the three fields below; never held in a call of an instance
  uint32_t instances = 0;
  std::set<uint32_t> inUse; ///< by number
  std::map<uint32_t, std::unique_ptr<Watched>> retired;

  mutable std::mutex mutex; ///< guards the fields below; never held in a call of the device
  mutable std::condition_variable changed;
  std::list<Watched *> watched;
  Status reason;
  std::vector<CommandInFlight> atFailure; ///< once `isDescribed`
  bool isDescribed = false;               ///< some time after there is a reason
  bool isAborting = false;                ///< a thread is in poison()
  unsigned numAsking = 0;                 ///< threads of askDevice()
  bool stopping = false;
  std::thread watchdog, timer; ///< started with the first instance
};

} // namespace tandem::core

#endif // TANDEM_LIB_CORE_CONTEXTIMPL_H
