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
#include "tandem/Runtime/Kernel.h"

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

struct ContextOptions {
  std::unique_ptr<Device> device;
  /// A program's channel is bound to the first transport that has the required capabilities and
  /// reaches all members of every group of the channel. All ranks list the same transports. A
  /// transport of host memory is staged if the device has separate memory.
  std::vector<std::unique_ptr<Transport>> transports;
  /// Of each transport: "node" or "network" if it is the first choice for channels of this link
  /// class, and the last one for others; "" or missing: for all. A channel's class is that of the
  /// program, else "node" if each of its groups is on one host, else "network".
  std::vector<std::string> linkClasses;
  std::unique_ptr<Bootstrap> bootstrap;
  /// The watchdog ends a run that takes longer, from when it is the oldest one of its instance and
  /// the caller's work before it on the stream has ended.
  std::chrono::milliseconds timeout{60000};
  /// Capture a run once and replay it, if the device has graphs and all ranks can. If the option
  /// differs between ranks, no rank does. TANDEM_GRAPH=0 has the same effect as false.
  bool graphs = true;
  /// Instances share memory for intermediate values and the workspaces, so their runs follow each
  /// other on whatever streams they are enqueued. False: each instance has its own, and runs of
  /// different instances on different streams may overlap.
  bool shareMemory = true;
  Log log;
  std::shared_ptr<const Allocator> allocator; ///< null: memory of the device
};

/// A command that has begun and has not ended.
struct CommandInFlight {
  static constexpr uint32_t kNone = ~uint32_t(0);
  std::string program;      ///< its function
  uint64_t run = 0;         ///< of its instance, from 0; equal on all ranks
  uint32_t stream = 0;      ///< of the program
  uint32_t command = kNone; ///< index in the rank's list; kNone: the barrier before the run
  /// False: the stream replays a graph, and is in this command, or in another one of its list. With
  /// kNone: the run is in none of its commands that wait for other ranks.
  bool isCertain = true;
  std::string text;     ///< 'command 7 (group: recv from rank 2 "recv #1")'
  std::string location; ///< in the fusion: "file.mlir:12:5"; "": unknown
  uint64_t id = 0;      ///< Program::id()
  /// For how long no stream of the run has begun another command.
  std::chrono::milliseconds waited{0};
};

/// What a context does, for reports about hangs.
struct Snapshot {
  struct Channel {
    std::string program, name, transport;
    std::vector<uint32_t> ranks;
    uint64_t progress = 0; ///< Channel::progress()
  };
  struct Rank {
    uint32_t rank = 0;
    uint64_t calls = 0;
  };
  Status failure; ///< that of the context, which keeps `commands` as they were then
  std::vector<CommandInFlight> commands;
  std::vector<Channel> channels;                       ///< of programs with runs in flight
  std::vector<std::pair<uint64_t, std::string>> calls; ///< the last 16, by number
  std::vector<Rank> others;                            ///< of this host: how many they have made
  std::string late;                                    ///< Bootstrap::late() of the last run
};

/// One rank's device, transports and bootstrap. One thread at a time. Contexts of one process are
/// independent, with one exception: if they share a GPU, part of an abort of one may wait while the
/// driver makes a graph of the other. After a run failed or timed out, the context is *poisoned*:
/// every call except destruction returns that error.
class Context {
public:
  static Expected<std::unique_ptr<Context>> create(ContextOptions options);
  /// All instances must have been destroyed. Waits for this rank's runs in flight, and for no other
  /// rank. Not in a function that the context calls: the thread could wait for itself.
  virtual ~Context();

  virtual Device &device() = 0;
  /// The device's and the transports' descriptions: "NVIDIA H200 sm_90, cublasLt 130100; peer, ccl
  /// (NCCL 2.27.3)".
  virtual std::string description() = 0;
  virtual Bootstrap &bootstrap() = 0;
  uint32_t rank() { return bootstrap().rank(); }
  uint32_t worldSize() { return bootstrap().worldSize(); }
  virtual std::chrono::milliseconds timeout() const = 0;
  /// ContextOptions::shareMemory. Then streams that runs are enqueued on share workspace 0.
  virtual bool sharesMemory() const = 0;
  /// Success unless poisoned, or the bootstrap knows that a rank is lost. Any thread; does not
  /// block.
  virtual Status health() const = 0;
  /// Whether each run is compared with that of the same number on all other ranks, before either
  /// ends: its program, its extent and what the caller says of it (Instance::enqueue). From the
  /// first instance on. Only ranks of one host are compared.
  virtual bool comparesRuns() const = 0;
  /// All ranks are about to do what `call` says, between the same runs: compared as runs are. Ranks
  /// that do something else in its place are an error, which poisons the context.
  virtual Status agree(std::string_view call) = 0;
  /// What the oldest run of each instance is doing. After a failure: what it was doing then. Any
  /// thread.
  virtual std::vector<CommandInFlight> inFlight() const = 0;
  /// inFlight(), and what explains it. Any thread; not in a function that the context calls.
  virtual Snapshot snapshot() const = 0;

  /// Makes a kernel known under its name, to the instances that are created later. A second one of
  /// a name replaces the first one, for later instances.
  virtual Status registerKernel(const tandem_kernel &kernel) = 0;
};

/// Bytes that a program needs on its rank.
struct MemoryNeeds {
  uint64_t arena = 0;     ///< intermediate values
  uint64_t symmetric = 0; ///< that peers access: two buffers, and signals
  uint64_t own = 0; ///< never shared: copies of arguments with a varying extent, and of operands
                    ///< with gaps that channels of the context read or write
  uint32_t workspaces = 0; ///< streams with matmuls
};
MemoryNeeds memoryNeeds(const Program &program, const Context &context);

class Instance;
struct InstanceDeleter {
  void operator()(Instance *instance) const;
};
/// Destroying an instance is local, does not block, and may happen on any thread. What its peers or
/// its runs in flight may still access stays in the context until all ranks have destroyed it,
/// which they find out in the next Instance::create, or until the context ends.
using InstancePtr = std::unique_ptr<Instance, InstanceDeleter>;

/// A program with its state: arenas, channels, epoch. Created and run in the same order on all
/// ranks.
class Instance {
public:
  /// Collective over the world ("prepare"): checks that all ranks loaded the same program,
  /// allocates, makes channels, prepares every command. `context` outlives the instance. The
  /// program's rank and size must be the context's.
  static Expected<InstancePtr> create(Context &context, std::shared_ptr<const Program> program);
  virtual ~Instance();
  /// Called by InstanceDeleter; the instance is not used any more.
  virtual void retire() = 0;

  virtual const Program &program() const = 0;

  /// Binds argument `i` to device memory. `view` must be dense and have the local dtype and shape.
  /// `bytes` is the size of the caller's memory at that address. The memory must outlive the
  /// following runs. Results must not overlap other arguments when a run is enqueued. The binding
  /// stays until the next call for `i`. Arguments that this rank does not hold need no binding.
  virtual Status bind(uint32_t i, const TensorView &view, uint64_t bytes) = 0;
  /// Binds all arguments that this rank holds, or none if it returns an error: data[i] is dense, of
  /// the local dtype and shape, and bytes[i] bytes large (`bytes` null: large enough).
  virtual Status bindAll(void *const *data, const uint64_t *bytes) = 0;

  /// The extent of the varying dimensions in later runs, from 0 to boundOf(program()), which it is
  /// at first; the same on all ranks. Then bind all arguments with a varying dimension anew: their
  /// shapes are those of ArgumentInfo::at(extent). Runs in flight are not affected.
  virtual Status setExtent(int64_t extent) = 0;
  /// Argument `i` of the next run: what to bind.
  virtual const ArgumentInfo &argument(uint32_t i) const = 0;

  /// Runs once; returns when it is complete on this rank.
  virtual Status run() = 0;
  /// Enqueues one run with `main` as the program's stream 0 and returns. Null: the context's own
  /// stream. A stream of another context is an error of the caller. At most 16 runs are in flight,
  /// or 2 on GPUs if they are no graphs; the next one waits for the first. If a graph must be made
  /// (see docs/gpu.md, "Graphs"), it first waits for the context's runs in flight. If the
  /// caller is capturing `main`, the run becomes part of the caller's graph (see docs/gpu.md, "The
  /// caller's graphs"); nothing runs, and nothing is waited for.
  /// `call`: what else the ranks must agree on about this run, in the caller's words; compared, not
  /// kept (Context::comparesRuns).
  virtual Status enqueue(std::shared_ptr<Stream> main = nullptr, std::string_view call = {}) = 0;
  /// bindAll() and enqueue() in one call: if `main` is being captured and this run cannot be,
  /// nothing is bound either.
  virtual Status enqueue(std::shared_ptr<Stream> main, void *const *data, const uint64_t *bytes,
                         std::string_view call = {}) = 0;
  /// Waits for all enqueued runs. Returns the first error of them.
  virtual Status wait() = 0;
  /// Whether all enqueued runs have ended, without waiting; the error if one has failed.
  virtual Expected<bool> query() = 0;

  /// Whether later runs record when their commands begin and end. Traced runs do not use a graph.
  /// Call on all ranks alike. Unsupported if the device cannot measure times.
  virtual Status trace(bool on) = 0;
  /// Times of the last enqueued run, by command number, valid once it is complete. Zero for
  /// records, waits and messages (a group has times, its messages do not).
  virtual const std::vector<CommandTime> &times() const = 0;
};

} // namespace tandem

#endif // TANDEM_RUNTIME_CONTEXT_H
