//===- Context.h - running stream programs ----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CONTEXT_H
#define TANDEM_RUNTIME_CONTEXT_H

#include "tandem/Program/Program.h"
#include "tandem/Runtime/Bootstrap.h"
#include "tandem/Runtime/Channel.h"
#include "tandem/Runtime/Device.h"

#include <chrono>
#include <memory>
#include <vector>

namespace tandem {

struct ContextOptions {
  std::unique_ptr<Device> device;
  /// A program channel is bound to the first that can do what it needs. One of host memory is
  /// staged where the device has its own.
  std::vector<std::unique_ptr<Transport>> transports;
  std::unique_ptr<Bootstrap> bootstrap;
  /// A run that takes longer is ended by the watchdog.
  std::chrono::milliseconds timeout{60000};
  /// Where the device has graphs and all ranks can: a run is captured once and replayed. Equal on
  /// all ranks, or nobody does. TANDEM_GRAPH=0 says the same as false.
  bool graphs = true;
};

/// One rank's device, ways to talk, and place in the job. One thread at a time. Contexts of one
/// process are independent, but where they share a GPU: an abort of one may have to wait while the
/// driver makes a graph of the other. After a run failed or timed out the context is *poisoned*:
/// everything but destruction returns that error.
class Context {
public:
  static Expected<std::unique_ptr<Context>> create(ContextOptions options);
  /// All instances must be gone.
  virtual ~Context();

  virtual Device &device() = 0;
  virtual Bootstrap &bootstrap() = 0;
  uint32_t rank() { return bootstrap().rank(); }
  uint32_t worldSize() { return bootstrap().worldSize(); }
  virtual std::chrono::milliseconds timeout() const = 0;
  /// Success unless poisoned.
  virtual Status health() const = 0;
};

/// A program with its state: arenas, channels, epoch. Created, run and destroyed in the same order
/// on all ranks.
class Instance {
public:
  /// Collective over the world ("prepare"): checks that all ranks loaded the same program,
  /// allocates, makes channels, prepares every command. `context` outlives the instance. The
  /// program's rank and size must be the context's.
  static Expected<std::unique_ptr<Instance>> create(Context &context,
                                                    std::shared_ptr<const Program> program);
  /// Waits for runs in flight (the watchdog bounds that).
  virtual ~Instance();

  virtual const Program &program() const = 0;

  /// Binds argument `i` to memory of the device: dtype and shape must be the local ones, dense;
  /// `bytes`, the size of what the caller has there, at least what they need. The memory must
  /// outlive the runs that follow. Results must not overlap other arguments. Stays bound until
  /// bound again. Arguments that this rank does not hold need not be bound.
  virtual Status bind(uint32_t i, const TensorView &view, uint64_t bytes) = 0;

  /// Runs once; returns when it is complete on this rank.
  virtual Status run() = 0;
  /// Enqueues one run with `main` as the program's stream 0 and returns; at most two runs are in
  /// flight, a third waits for the first. `main` null: the context's own. Where a graph is made, in
  /// each of the first two runs and where a library's collectives get other addresses, it first
  /// waits for what the context has in flight.
  virtual Status enqueue(Stream *main = nullptr) = 0;
  /// Waits for everything enqueued; the first error of those runs.
  virtual Status wait() = 0;

  /// Whether runs enqueued from now on note when their commands begin and end, which they then do
  /// without a graph: on all ranks, or on none. Unsupported where the device cannot say.
  virtual Status trace(bool on) = 0;
  /// By command number, of the run that was enqueued last, once it is complete; zeros for what was
  /// not noted: records, waits, and messages (their group's times are theirs).
  virtual const std::vector<CommandTime> &times() const = 0;
};

} // namespace tandem

#endif // TANDEM_RUNTIME_CONTEXT_H
