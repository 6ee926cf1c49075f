//===- ChannelInterface.h - what GPU channels use of the device -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The one header of the GPU device that channels ccl and peer include (tools/lint checks it). A
// channel obtains `GpuAccess` from its device and may use what is declared here, and the Driver.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_CHANNELINTERFACE_H
#define TANDEM_LIB_DEVICE_GPU_CHANNELINTERFACE_H

#include "Driver.h"
#include "KernelArguments.h"
#include "StreamTimes.h"

#include "tandem/Program/FusedExchange.h"
#include "tandem/Program/RowCopy.h"
#include "tandem/Runtime/Device.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tandem::gpu {

class Scratch;

/// State shared by the streams, events, memory and channels of one device; outlives them all.
struct DeviceState : std::enable_shared_from_this<DeviceState> {
  explicit DeviceState(std::unique_ptr<Driver> driver) : driver(std::move(driver)) {}

  const std::unique_ptr<Driver> driver;
  HostClock clock{*driver};
  std::atomic<bool> aborted{false};
  /// Work did not end after an abort: its memory cannot be freed.
  std::atomic<bool> stuck{false};
  /// Ranks that share the GPU, also of other processes, once a channel has seen them.
  std::atomic<uint32_t> ranksOfGpu{1};
  std::mutex mutex; ///< guards the fields below
  std::condition_variable changed;

  std::shared_ptr<const Allocator> allocator; ///< of the embedder; null: the driver
  /// Memory of kind Plain, Symmetric or Workspace, uninitialised.
  Status allocate(uint64_t bytes, MemoryKind kind, void **memory);
  Status free(void *memory, uint64_t bytes, MemoryKind kind);

  void abort(const Status &why);
  Status abortReason();

  /// Registers a function that threads waiting for the GPU call now and then; it reports
  /// asynchronous errors, for example of a communication library. Any thread.
  void addPoller(const void *owner, std::function<Status()> poller);
  void removePoller(const void *owner);
  Status poll();

  /// Eight bytes of host memory for a stream, initially all ones; return with giveWord().
  Expected<void *> takeWord();
  void giveWord(void *word);
  /// The device's word `stopped` with the signal words behind it, zero until an abort
  /// (KernelArguments.h). Allocated at first use, together with the abort flag.
  Expected<uint64_t *> stoppedWord();
  /// The word of the host that kernels look at while they wait; null before the first
  /// stoppedWord().
  const uint64_t *abortFlag() const { return flag; }
  /// Sets it: waits of kernels end soon, and no signal is raised behind them. Any thread, without a
  /// lock and without a call of the driver, so also while other threads are in such calls.
  void raiseAbortFlag();
  /// The memory of streams that share workspace `number`: kWorkspaceBytes.
  Expected<std::shared_ptr<Scratch>> sharedWorkspace(uint32_t number);
  /// A device word that signals are copied from, initially zero, and zero after an abort. Return
  /// with giveSignalWord() when it is unused; null if none is left.
  uint64_t *takeSignalWord();
  void giveSignalWord(uint64_t *word);
  ~DeviceState();

private:
  std::mutex wordMutex;
  std::vector<void *> pages, words;
  std::vector<uint64_t *> freeSignalWords;
  std::map<uint32_t, std::weak_ptr<Scratch>> workspaces; ///< guarded by wordMutex
  uint64_t *stopped = nullptr;                           ///< followed by the signal words
  std::atomic<uint64_t *> flag{nullptr};
  Status reason;
  std::mutex pollerMutex;
  std::map<const void *, std::function<Status()>> pollers;
};

/// GPU memory owned by a plan.
class Scratch {
public:
  Scratch() = default;
  Scratch(Scratch &&other) noexcept { *this = std::move(other); }
  Scratch &operator=(Scratch &&other) noexcept;
  ~Scratch();
  /// Not initialised. `ofPrepare`: freed without delay (Driver::freeNow).
  static Expected<Scratch> make(std::shared_ptr<DeviceState> state, uint64_t bytes,
                                bool ofPrepare = false);
  void *data() const { return memory; }
  uint64_t size() const { return bytes; }

private:
  std::shared_ptr<DeviceState> state;
  void *memory = nullptr;
  uint64_t bytes = 0;
  bool ofPrepare = false;
};

/// SMs that a kernel holds while it waits for other ranks, one for each of its blocks, for as long
/// as the kernel may be launched. All kernels of a process that may wait at the same time have room
/// on the GPU together, and leave an SM to those that they wait for; each of several ranks that
/// share the GPU has an equal part of it. Else two contexts could hold SMs that the other one
/// needs.
class HeldProcessors {
public:
  /// Where the kernel is issued. Kernels of a stream run one after the other, and so do those of
  /// instances of a context whose runs follow each other.
  struct User {
    const void *context = nullptr;
    uint64_t instance = 0;
    uint32_t stream = 0; ///< of the program
    bool runsFollow = false;
  };
  HeldProcessors() = default;
  HeldProcessors(HeldProcessors &&other) noexcept { *this = std::move(other); }
  HeldProcessors &operator=(HeldProcessors &&other) noexcept;
  ~HeldProcessors();
  /// As many as there are, up to `most`. Unsupported if there are fewer than `least`, which is at
  /// least 1. Any thread.
  static Expected<HeldProcessors> take(DeviceState &state, const User &user, unsigned most,
                                       unsigned least);
  unsigned count() const { return blocks; }

private:
  struct Ledger;
  Ledger *ledger = nullptr;
  User user;
  unsigned blocks = 0;
};

/// Sleeps between polls, longer the longer it has waited: GPU work is short, failures are not.
class Backoff {
public:
  void pause();

private:
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

/// What the streams of a capture share while it lasts.
struct Capture {
  /// Device memory that holds the run number while the graph runs. Readers call reads().
  void *epoch = nullptr;
  /// Notes that a command reads it. `countRun`: the kernel run_words. `counts`: the command can
  /// write the number itself.
  void reads(FunctionHandle kernel, bool counts = false) {
    readerCounts = counts && !countRun;
    countRun = kernel;
  }
  /// Whether an executable graph may be updated. False if a library tracks its nodes in a graph.
  bool updatable = true;

  /// A device word that holds epoch * perRun + value while the graph runs, and zero after an abort
  /// has released this rank's waits. Null if none is available.
  uint64_t *signalWord(uint64_t perRun, uint64_t value);

  DeviceState *state = nullptr;
  /// The kernel run_words, if a command reads the run number. It is the graph's first node, unless
  /// the reader counts.
  FunctionHandle countRun = nullptr;
  bool readerCounts = false; ///< there is one reader, and it can write the number
  /// It does, so there is no node run_words for the others to wait for. Known from a capture
  /// before, or in the caller's capture of the barrier.
  bool countsItself = false;
  std::vector<SignalWord> signalWords;
  bool closed = false; ///< signalWords is final: the graph's first node already writes it
  /// Begins with the words of signalWords; kept by the first stream.
  std::vector<uint64_t *> *taken = nullptr;
  /// Nothing is captured: calls are compared with those of a graph (NodeList.h).
  bool patches = false;
  /// The caller's capture, of which nothing is known later.
  bool foreign = false;
};

/// A stream as the operations on it see it.
class GpuStream : public Stream {
public:
  void *native() final { return handle; }
  /// Null outside a capture.
  Capture *capturing() const { return capture; }
  /// Eight bytes of device memory for the run number; for runs in the caller's graphs, which count
  /// from 0 for themselves, the eight bytes behind them, which are initially all ones.
  void *epochWord(bool foreign = false) const {
    return static_cast<std::byte *>(epochs) + (foreign ? 8 : 0);
  }
  /// The last issued work was a copy by the copy engines. A second such copy starts at once; a
  /// kernel starts some microseconds later.
  bool followsCopy() const { return afterCopy; }
  void noteCopy() { copied = true; }
  /// Eight bytes of host memory where a waiting kernel on this stream writes its command's number.
  void *progressWord() const { return progress; }

  /// kWorkspaceBytes of device memory, allocated at first use. Called when work is issued.
  virtual Expected<void *> workspace() = 0;
  /// For operations whose work may wait for a peer: position() reports `marker` until it ends.
  virtual Status track(Marker marker) = 0;

protected:
  StreamHandle handle = nullptr;
  void *epochs = nullptr;   ///< see epochWord()
  void *progress = nullptr; ///< host memory
  Capture *capture = nullptr;
  bool copied = false, afterCopy = false; ///< the operation being issued, and the previous one
};

/// GPU work, issued to the vendor's stream in order.
class GpuOperation : public Operation {
public:
  Status enqueue(Stream &stream, const Frame &frame) final;
  /// Issues the work on the vendor's stream; any thread, one at a time per stream.
  virtual Status issue(GpuStream &stream, const Frame &frame) = 0;
};

/// The operation whose issue() is `body`: Status(GpuStream &, const Frame &).
template <typename Body> std::unique_ptr<Operation> makeGpuOperation(Body body) {
  struct Made final : GpuOperation {
    explicit Made(Body &&body) : body(std::move(body)) {}
    Status issue(GpuStream &stream, const Frame &frame) override { return body(stream, frame); }
    Body body;
  };
  return std::make_unique<Made>(std::move(body));
}

/// The module of Kernels.cu on one GPU.
class Kernels {
public:
  /// Loads the module and every kernel of it.
  static Expected<std::unique_ptr<Kernels>> load(Driver &driver);
  ~Kernels();

  Expected<FunctionHandle> get(const std::string &name) const;
  /// At most `units` threads; fewer if that fills the GPU.
  Status launch(FunctionHandle function, uint64_t units, StreamHandle stream,
                void **arguments) const;
  /// At most `blocks` blocks of 256 threads; fewer if that fills the GPU.
  Status launchBlocks(FunctionHandle function, uint64_t blocks, StreamHandle stream,
                      void **arguments) const;

  Driver &driver;

private:
  explicit Kernels(Driver &driver) : driver(driver) {}
  ModuleHandle module = nullptr;
  std::map<std::string, FunctionHandle> functions;
};

/// A kernel argument, for the argument array of launches.
template <typename T> void *argument(T &value) {
  return const_cast<void *>(static_cast<const void *>(&value));
}

/// A kernel of a plan, for one width of accesses.
struct KernelVariant {
  unsigned bytes = 0; ///< of a unit; addresses must be multiples of it
  FunctionHandle function = nullptr;
  Nest nest;
};

/// Copies between views of one shape and dtype.
class CopyPlan {
public:
  CopyPlan() = default;
  static Expected<CopyPlan> make(const Kernels &kernels, const Layout &dst, const Layout &src);
  Status run(const Kernels &kernels, StreamHandle stream, void *dst, const void *src) const;
  /// True if the copy engines do a nonempty copy.
  bool isCopy() const { return rows.bytes > 0 && variants.empty(); }

private:
  program::RowCopy rows;               ///< of a copy by the copy engines; no bytes: nothing to copy
  std::vector<KernelVariant> variants; ///< widest first; empty: the copy engines copy
};

/// A kernel that runs a fused exchange (docs/fused-exchange.md).
class ExchangePlan {
public:
  ExchangePlan() = default;
  /// Unsupported, with the reason, if there is no kernel for it. `moves`: of each step; without
  /// stores where it has none. `blocks`: no more than can run at the same time.
  static Expected<ExchangePlan>
  make(const Kernels &kernels, const std::vector<program::ExchangeMove> &moves, unsigned blocks);
  /// `exchange` has all addresses, waits and signals, and gets the rest. `flagBlocks`: so many
  /// blocks, which signal on their own; 0: as made, one signal per step.
  Status run(const Kernels &kernels, StreamHandle stream, ExchangeArguments &exchange,
             unsigned flagBlocks) const;
  unsigned numBlocks() const { return blocks; }

private:
  struct Variant {
    unsigned bytes = 0; ///< of a unit; addresses must be multiples of it
    FunctionHandle function = nullptr;
    std::vector<Nest> nests; ///< of each shape
  };
  std::vector<Variant> variants; ///< widest first
  std::vector<program::ExchangeMove> moves;
  std::vector<int> nestOfStep;
  unsigned blocks = 1;
};

/// A kernel for a one-shot exchange by the LL protocol.
class LLPlan {
public:
  LLPlan() = default;
  /// `source`, `slot` and `sum`: of one shape. `sum` is null if nothing is added. Unsupported, with
  /// the reason, if there is no kernel.
  static Expected<LLPlan> make(const Kernels &kernels, const Layout &source, const Layout &slot,
                               const Layout *sum, ReduceOp op);
  /// `exchange` has all addresses, and gets the rest.
  Status run(const Kernels &kernels, StreamHandle stream, LLArguments &exchange,
             unsigned blocks) const;

private:
  std::vector<KernelVariant> variants; ///< widest first
  uint64_t units = 0;
  ReduceOp op = ReduceOp::Sum;
};

/// Memory of kind Symmetric. Peers of the same process share ownership: after an error, a
/// rank may leave while their copies into its memory are still in flight. (Peers of other processes
/// have mapped it.)
class SymmetricBlock {
public:
  static Expected<std::shared_ptr<SymmetricBlock>> allocate(std::shared_ptr<DeviceState> state,
                                                            uint64_t bytes);
  /// Zeroed memory for signals, where they have a separate pad (DeviceInfo::separateSignalPad).
  static Expected<std::shared_ptr<SymmetricBlock>>
  allocateSignals(std::shared_ptr<DeviceState> state, uint64_t bytes);
  /// The block that starts at `base` in this process, or null.
  static std::shared_ptr<SymmetricBlock> find(const void *base);
  ~SymmetricBlock();

  void *data() const { return base; }
  uint64_t size() const { return bytes; }

private:
  SymmetricBlock(std::shared_ptr<DeviceState> state, void *base, uint64_t bytes, bool signals)
      : state(std::move(state)), base(base), bytes(bytes), signals(signals) {}
  static std::shared_ptr<SymmetricBlock> enter(std::shared_ptr<SymmetricBlock> block);

  const std::shared_ptr<DeviceState> state;
  void *const base;
  const uint64_t bytes;
  const bool signals; ///< of the driver, not of the embedder's allocator
};

/// Access of channels to a GPU device (by dynamic_cast; null: not a GPU).
class GpuAccess {
public:
  virtual ~GpuAccess();
  virtual std::shared_ptr<DeviceState> shared() const = 0;
  /// Owned by the device.
  virtual const Kernels &kernels() const = 0;
};

} // namespace tandem::gpu

#endif // TANDEM_LIB_DEVICE_GPU_CHANNELINTERFACE_H
