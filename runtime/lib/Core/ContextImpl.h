//===- ContextImpl.h - one rank's streams, watchdog and health ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CORE_CONTEXTIMPL_H
#define TANDEM_LIB_CORE_CONTEXTIMPL_H

#include "tandem/Runtime/Context.h"

#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace tandem::core {

/// What the watchdog knows of an instance. Called with the context's lock held, from any thread:
/// must not call back.
class Watched {
public:
  virtual ~Watched();
  /// When the oldest run in flight must have ended; time_point::max() if none is in flight.
  virtual std::chrono::steady_clock::time_point deadline() = 0;
  /// The runs, by number, that the device has been given and that have not ended.
  virtual std::vector<uint64_t> runsInFlight() = 0;
  /// Where each stream stands, for the message of a timeout.
  virtual std::string describeStall() = 0;
  /// Those that are one-sided, or those that are not.
  virtual void abortChannels(const Status &reason, bool oneSided) = 0;
  /// The graphs that abortChannels() could not drop, as a thread was at them.
  virtual void dropGraphs() = 0;
};

class ContextImpl final : public Context {
public:
  explicit ContextImpl(ContextOptions options) : options(std::move(options)) {}
  ~ContextImpl() override;

  Device &device() override { return *options.device; }
  Bootstrap &bootstrap() override { return *options.bootstrap; }
  std::chrono::milliseconds timeout() const override { return options.timeout; }
  Status health() const override;

  /// Ends everything that runs or waits, on this rank; tells the peers. The first reason stays.
  void poison(const Status &reason);

  /// The context's stream `i` of a priority, made when first asked for; shared by the instances.
  Expected<Stream *> stream(uint32_t i, StreamPriority priority);
  /// The first transport that can do `capabilities`.
  Expected<Transport *> transport(uint32_t capabilities);
  /// Waits for the runs that are in flight now, of all instances, or until health() is bad; then
  /// that. Before what a driver may do only once the device is idle, in a call that it does not
  /// leave before and that keeps an abort out. What a thread is still enqueuing does not count: it
  /// may be the caller's own, and may wait here too.
  Status awaitRuns();
  /// Whether a run that has ended is to be believed.
  Status checkRun() const;
  bool wantsGraphs() const { return options.graphs; }
  uint32_t nextInstance() { return ++instances; }

  void watch(Watched *instance);
  void unwatch(Watched *instance);

private:
  void guard();

  ContextOptions options;
  std::map<std::pair<StreamPriority, uint32_t>, std::unique_ptr<Stream>> streams;
  uint32_t instances = 0;

  mutable std::mutex mutex; ///< guards what follows
  std::condition_variable changed;
  std::list<Watched *> watched;
  Status reason;
  bool stopping = false;
  std::thread watchdog; ///< started with the first instance
};

} // namespace tandem::core

#endif // TANDEM_LIB_CORE_CONTEXTIMPL_H
