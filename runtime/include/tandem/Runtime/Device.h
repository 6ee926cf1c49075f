//===- Device.h - streams, memory, operations ----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A device makes *operations*: work whose shapes are fixed once (prepare) and whose addresses are
// looked up when it is enqueued (run). An instance walks a list of operations. Channels make
// operations too, so compute and communication share streams. A host device runs an operation on
// the stream's worker thread. A GPU enqueues kernels or library calls on its stream and may capture
// them into one graph per `Frame::parity`.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_DEVICE_H
#define TANDEM_RUNTIME_DEVICE_H

#include "tandem/Program/Epilogue.h"
#include "tandem/Program/Gated.h"
#include "tandem/Program/Status.h"
#include "tandem/Program/Types.h"
#include "tandem/Runtime/Log.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

/// Names a command in progress reports: (instance number << 32) | command number; kNoMarker = none.
using Marker = uint64_t;
inline constexpr Marker kNoMarker = ~Marker(0);

/// Receives errors of asynchronous work. Any thread.
class ErrorSink {
public:
  virtual ~ErrorSink();
  virtual void report(const Status &error, Marker marker) = 0;
};

/// When a command ran, in nanoseconds of std::chrono::steady_clock.
struct CommandTime {
  int64_t begin = 0, end = 0;
};

/// The addresses of one run. Stays valid and unchanged until every operation enqueued with it has
/// completed.
struct Frame {
  /// Address of operand `slot`'s first element; see Operand.
  void *const *pointers = nullptr;
  /// Runs of this instance before this one. Equal on all ranks.
  uint64_t epoch = 0;
  /// Which of the two symmetric buffers this run uses: runs of the instances that share it
  /// alternate.
  unsigned parity = 0;
  /// Added to the slots of signals: runs in a caller's capture have signals of their own.
  uint32_t firstSignal = 0;
  /// Of the dimensions that vary from run to run; -1: none does.
  int64_t extent = -1;
  ErrorSink *errors = nullptr;
  /// By command number (the low half of a marker): where streams record the times of operations.
  /// Null: no tracing. See Stream::timeEvents and noteTimes.
  CommandTime *times = nullptr;
};

/// An operand of an operation: its address is frame.pointers[slot], its layout is known at prepare.
struct Operand {
  static constexpr uint32_t kNone = 0xffffffffu;
  uint32_t slot = kNone;
  Layout layout;
  /// Bytes: what the address is a multiple of, if its buffer begins at a multiple of 64.
  uint32_t alignment = 64;

  bool present() const { return slot != kNone; }
  TensorView resolve(const Frame &frame) const {
    return {present() ? frame.pointers[slot] : nullptr, layout};
  }
};

class Bootstrap;
class Stream;
struct CallDesc; // Kernel.h

/// Work prepared once, enqueued once per run, in stream order. Not copied; outlives its runs.
class Operation {
public:
  virtual ~Operation();
  /// Enqueues on `stream` and returns without waiting for the work. One thread at a time per
  /// stream. Keeps a reference to `frame`. If this returns an error, nothing was enqueued; later
  /// errors go to frame.errors.
  virtual Status enqueue(Stream &stream, const Frame &frame) = 0;
  /// Why it cannot be captured into a graph; empty: it can.
  virtual std::string whyNoGraph() const { return {}; }
  /// Calls `note(slot, bytes)` for each operand whose address must be a multiple of more bytes than
  /// an element has. Arguments are checked when they are bound.
  virtual void alignments(const std::function<void(uint32_t slot, uint32_t bytes)> &note) const {
    (void)note;
  }
  /// Set by the instance; Stream::position() returns it while the operation runs.
  Marker marker = kNoMarker;
  /// Set by the instance, for profilers; lives as long as the operation.
  const char *name = "";
};

/// Work of a host thread: all operations of CPU devices and of channels for host memory.
class HostOperation : public Operation {
public:
  /// Runs in stream order on a thread of the stream. May wait, for example for a peer, but must
  /// return soon after its channel or device was aborted. An error ends the run.
  virtual Status execute(const Frame &frame) = 0;
  Status enqueue(Stream &stream, const Frame &frame) final;
  std::string whyNoGraph() const override { return "a host thread runs it"; }
};

/// The operation whose execute() is `body`: Status(const Frame &).
template <typename Body> std::unique_ptr<Operation> makeHostOperation(Body body) {
  struct Made final : HostOperation {
    explicit Made(Body &&body) : body(std::move(body)) {}
    Status execute(const Frame &frame) override { return body(frame); }
    Body body;
  };
  return std::make_unique<Made>(std::move(body));
}

/// A captured run of a program, like a cudaGraphExec_t.
class Graph {
public:
  virtual ~Graph();
  /// Enqueues the captured work, like Operation::enqueue. `frame` has the addresses of the capture.
  virtual Status launch(Stream &stream, const Frame &frame) = 0;
  /// Whether patch() may succeed.
  virtual bool patches() const = 0;
  /// Moves it to other addresses: `body` enqueues the captured work with them on the streams of the
  /// capture, and only the parts that differ are changed. Nothing runs. Launches that are enqueued
  /// already are not affected. False if a part cannot be changed; then capture again.
  virtual Expected<bool> patch(const std::function<Status()> &body) = 0;
  /// Whether a capture with other addresses can update it in place. Otherwise a new graph is made,
  /// and the driver may wait until the device is idle.
  virtual bool updates() const = 0;
};

/// A point in a stream that other streams wait for. Reusable: a wait refers to the latest record
/// enqueued before it.
class Event {
public:
  virtual ~Event();
  /// True if the latest record has been reached, or there is none. Any thread.
  virtual bool reached() = 0;
  /// Blocks the calling thread until then, or until the device is aborted (then an error). Any
  /// thread.
  virtual Status synchronize() = 0;
};

/// A queue of work, in order, like a cudaStream_t. enqueue, record and wait: one thread at a time.
/// position and idle: any thread.
class Stream {
public:
  virtual ~Stream();
  /// A host function in stream order.
  virtual Status enqueueHost(HostOperation &operation, const Frame &frame) = 0;
  virtual Status record(Event &event, Marker marker) = 0;
  /// Later work of this stream starts after the event's latest record has been reached. Never
  /// recorded: no wait.
  virtual Status wait(Event &event, Marker marker) = 0;
  /// From now on, records and waits with a marker store their times in times[low half of the
  /// marker], as operations do by Frame::times. Null: stop. No effect if the device cannot measure
  /// times.
  virtual void timeEvents(CommandTime *times) {}
  /// Stores the times of all timed work that has ended.
  virtual Status noteTimes() { return Status(); }
  /// Blocks the calling thread until all work enqueued so far is done, or the device is aborted
  /// (then an error).
  virtual Status synchronize() = 0;
  /// A stream of the caller: blocks until host threads have passed everything enqueued so far to
  /// native(), so that work that the caller enqueues there afterwards is behind it; or until an
  /// abort (then an error).
  virtual Status awaitIssue() { return Status(); }
  /// True if nothing enqueued so far is left to do.
  virtual bool idle() = 0;
  /// The command that the stream is executing or waiting in; kNoMarker if idle or unknown.
  virtual Marker position() const = 0;
  /// Commands of the last capture on this stream that may wait for a peer.
  virtual std::vector<Marker> capturedWaits() const { return {}; }
  /// From now on, the stream uses the scratch memory of matrix libraries of this number, which it
  /// shares with other streams of the device: their work does not overlap. No effect if it has
  /// memory already.
  virtual void shareWorkspace(uint32_t number) {}
  /// Allocates the scratch memory now; else a stream allocates it when it first needs it.
  virtual Status allocateWorkspace() { return Status(); }
  /// Whether the caller is capturing the stream, a wrapped one, into a graph of its own.
  virtual bool isCapturing() { return false; }
  /// The vendor's stream (cudaStream_t, hipStream_t); null on host devices.
  virtual void *native() { return nullptr; }
};

/// Memory of a device, freed with its handle.
class Memory {
public:
  Memory() = default;
  /// `release` frees it: it gets `base`.
  Memory(void *base, uint64_t bytes, std::function<void(void *)> release)
      : base(base), bytes(bytes), release(std::move(release)) {}
  virtual ~Memory();
  void *data() const { return base; }
  uint64_t size() const { return bytes; }

protected:
  void *base = nullptr;
  uint64_t bytes = 0;

private:
  std::function<void(void *)> release;
};

enum class MemoryKind : uint8_t {
  Plain,
  Symmetric, ///< peers access it: may be registered, exported, or mapped
  Host,      ///< host memory that the device's operations can access
  Workspace, ///< scratch memory of matrix libraries
};

/// Memory of the embedder, in place of the device's own allocations of kind Plain, Symmetric and
/// Workspace. Any thread; must not wait for the device.
struct Allocator {
  /// At least 64-byte aligned, not initialised; null: out of memory.
  std::function<void *(uint64_t bytes, MemoryKind kind)> allocate;
  std::function<void(void *memory, uint64_t bytes, MemoryKind kind)> free;
  bool leavesSymmetric = false; ///< symmetric memory is the device's own
  bool serves(MemoryKind kind) const {
    return kind != MemoryKind::Host && !(leavesSymmetric && kind == MemoryKind::Symmetric);
  }
};

/// out[..., M, N] (+)= op(a)[..., M, K] * op(b)[..., K, N] + bias; batch dims broadcast; f32
/// accumulation.
struct MatmulDesc {
  Operand out, a, b;
  /// May be absent. A row [N], or of the shape and type of `out`; then `accumulate` is false.
  Operand bias;
  bool hasRowBias() const { return bias.present() && bias.layout.rank == 1; }
  bool hasWholeBias() const { return bias.present() && bias.layout.rank > 1; }
  bool transposeA = false, transposeB = false, accumulate = false;
  /// The last bits of an element depend on its row of `a`, its column of `b` and the types alone:
  /// it is added up in the order of K, by an algorithm that is the same for all M, N and strides.
  bool ordered = false;
};

/// What is computed from a product before it is rounded and stored (docs/kernels.md, "Epilogues of
/// matmuls"): activation(alpha * scales * a b + bias + beta * residual). The bias is that of the
/// matmul.
struct EpilogueDesc {
  program::Activation activation = program::Activation::None;
  float alpha = 1, beta = 0;
  Operand residual = {}; ///< of the result's layout; may be absent
  /// As in program::MatmulEpilogue, of the result's shape; may be absent.
  Operand rowScale = {}, columnScale = {};
};

/// A signal that a gated matmul waits for inside its kernel: open when word
/// words[frame.firstSignal + slot] is at least frame.epoch * perRun + value.
struct Gate {
  const uint64_t *words = nullptr; ///< Channel::signalWords()
  uint32_t slot = 0;
  uint64_t value = 0, perRun = 0;
};

/// Memory of the members of a channel, where kernels of this rank's device can store.
class PeerStores {
public:
  virtual ~PeerStores();
  /// `offset` bytes into the buffer frame.parity of the member's symmetric memory.
  virtual void *place(uint32_t member, uint64_t offset, const Frame &frame) const = 0;
  /// The member's signal `slot` in this run.
  virtual uint64_t *signal(uint32_t member, uint32_t slot, const Frame &frame) const = 0;
};

/// Where a gated matmul stores a block of rows: in memory of a peer, or of this rank.
struct GatedTarget {
  bool isLocal = true;
  Operand local;       ///< if isLocal
  uint32_t peer = 0;   ///< else: as Put::peer
  uint64_t offset = 0; ///< and Put::offset
  /// Then the peer's signal `slot` is raised to frame.epoch * perRun + value, when the rows of this
  /// and of all targets before it are there.
  bool signals = false;
  uint32_t slot = 0;
  uint64_t value = 0, perRun = 0;
};

/// A matmul whose blocks of rows begin when gates are open, or go to peers (docs/gated.md).
struct GatedMatmulDesc {
  MatmulDesc whole; ///< no transposeA, no accumulate; a bias only with an epilogue
  /// whole.a begins at this row; the rows before it are in `own`.
  int64_t rowOfA = 0;
  /// Rows of A in another matrix than whole.a, from `firstRow` on; their layout has them and all of
  /// K. Not present: none are.
  struct OwnRows {
    Operand rows;
    int64_t firstRow = 0;
  } own;
  std::vector<program::GatedBlock> blocks; ///< in the order in which they are to be computed
  std::vector<Gate> gates;
  uint32_t leaves = 0; ///< SMs that the kernel leaves to others
  /// One per block, in place of whole.out, of which only the layout counts: all targets have its
  /// strides. Then there are no gates. Blocks are equally large, and have all of K.
  std::vector<GatedTarget> targets;
  std::shared_ptr<const PeerStores> peers; ///< not null if there are targets
  std::optional<EpilogueDesc> epilogue;    ///< not with targets; its bias is that of `whole`
  /// Operation::whyNoGraph() of the waits for the gates.
  std::string whyNoGraph;
  /// Which kernels do not run at the same time: those of a stream of an instance; if runs follow
  /// each other (ChannelDesc::runsFollow), those of two instances.
  uint64_t instance = 0;
  uint32_t stream = 0;
  bool runsFollow = false;
};

/// A kernel's code for a device of one kind.
struct NativeKernel {
  uint8_t format = 0;            ///< sp::KernelFormat
  std::string_view target;       ///< "sm_90"
  const uint8_t *code = nullptr; ///< lives as long as the operation; ptx: not terminated
  uint64_t codeSize = 0;
};

/// A call of a kernel that travels with the program.
struct LaunchDesc {
  std::string_view name;         ///< for messages
  uint8_t format = 0;            ///< sp::KernelFormat
  std::string_view target;       ///< "cpu", "sm_90"
  const uint8_t *code = nullptr; ///< lives as long as the operation
  uint64_t codeSize = 0;
  std::vector<NativeKernel> native; ///< the same kernel for other devices
  std::vector<Operand> operands;    ///< outputs, then inputs
};

/// A device. Creation functions: any thread. The program verifier has checked the layouts given to
/// prepare functions (equal shapes, views inside buffers). A device checks only whether it supports
/// them.
class Device {
public:
  virtual ~Device();
  /// Set by the context, before anything else is called.
  Log log;
  /// Host memory of MemoryKind::Symmetric should be a MappedMemory, for a transport that stores
  /// into that of other processes. Set by the transport's open(), before anything is allocated.
  bool mapsSymmetric = false;
  /// Null: the device's own memory. Called before anything is allocated.
  virtual void useAllocator(std::shared_ptr<const Allocator> given) {
    allocator = std::move(given);
  }
  /// "cpu", "null", "cuda:0".
  virtual std::string_view name() const = 0;
  /// Model and versions of libraries, on which measured times depend: "NVIDIA H200 sm_90, cublasLt
  /// 130100". Any thread.
  virtual std::string description() { return std::string(name()); }
  /// True if the host can read and write the device's memory directly.
  virtual bool hostMemory() const = 0;

  virtual Expected<std::unique_ptr<Stream>> createStream(StreamPriority priority) = 0;
  /// A stream over the caller's vendor stream (cudaStream_t, hipStream_t; null: the legacy default
  /// stream), which the caller keeps alive until the work on it has ended. Unsupported if the
  /// device is not a GPU.
  virtual Expected<std::unique_ptr<Stream>> wrapStream(void *native);
  virtual Expected<std::unique_ptr<Event>> createEvent() = 0;
  /// At least 64-byte aligned, zeroed. `bytes` may be 0 (data() is then not to be used).
  virtual Expected<std::unique_ptr<Memory>> allocate(uint64_t bytes, MemoryKind kind) = 0;
  /// Copy from and to host memory; return when the copy is complete. Not ordered after any stream.
  virtual Status upload(void *dst, const void *src, uint64_t bytes);
  virtual Status download(void *dst, const void *src, uint64_t bytes);

  /// Runs `body` with the device current on this thread, for libraries that ask the vendor's
  /// driver.
  virtual void within(const std::function<void()> &body) { body(); }

  /// Prepared operations. dst and src: same shape and dtype.
  virtual Expected<std::unique_ptr<Operation>> prepareCopy(const Operand &dst,
                                                           const Operand &src) = 0;
  virtual Expected<std::unique_ptr<Operation>> prepareMatmul(const MatmulDesc &desc) = 0;
  /// The matmul, not `ordered` and not accumulating, with its epilogue. Unsupported if the device
  /// has none for it; the caller then multiplies and launches.
  virtual Expected<std::unique_ptr<Operation>> prepareEpilogue(const MatmulDesc &desc,
                                                               const EpilogueDesc &epilogue);
  /// Whether it has matmuls with epilogues, of some types and functions.
  virtual bool hasEpilogues() const { return false; }
  /// One kernel that waits for its gates. Unsupported, with the reason, if there is none for it;
  /// the caller then waits and multiplies block by block.
  virtual Expected<std::unique_ptr<Operation>> prepareGatedMatmul(const GatedMatmulDesc &desc);
  /// Whether it has kernels for gated matmuls, of some types and shapes.
  virtual bool hasGatedKernels() { return false; }
  /// dst = dst (op) src.
  virtual Expected<std::unique_ptr<Operation>>
  prepareAccumulate(const Operand &dst, const Operand &src, ReduceOp op) = 0;
  /// dst = reduction of src over the dims whose bit is set in `dims`. `ordered`: each element adds
  /// in row-major order of these dims, whatever the layouts.
  virtual Expected<std::unique_ptr<Operation>> prepareReduce(const Operand &dst, const Operand &src,
                                                             uint64_t dims, ReduceOp op,
                                                             bool ordered) = 0;
  virtual Expected<std::unique_ptr<Operation>> prepareLaunch(const LaunchDesc &desc) = 0;
  /// A call of a kernel of the embedder; Unsupported if the kernel has no code for this device.
  virtual Expected<std::unique_ptr<Operation>> prepareCall(const CallDesc &desc);
  /// Collective. Called when every command of a program is prepared on all ranks. Makes choices
  /// that must be equal on all ranks, such as algorithms of matmuls.
  virtual Status agree(Bootstrap &bootstrap);

  /// Bytes of device memory that a stream with matmuls has as a workspace.
  virtual uint64_t workspaceBytes() const { return 0; }

  /// True if streams support Frame::times and Stream::timeEvents.
  virtual bool timesCommands() const { return hostMemory(); }

  /// True if capture() may succeed.
  virtual bool hasGraphs() const { return false; }
  /// Captures the work that `body` enqueues on `streams` into a graph, without running it. The work
  /// of all streams starts with the graph and ends before the graph ends. `previous`: an earlier
  /// graph of the same program whose runs have ended, or null. It may be updated and returned, or
  /// destroyed. Returns null if `previous` updates() but cannot be changed; then call again without
  /// it. Unsupported if something cannot be captured.
  virtual Expected<std::unique_ptr<Graph>> capture(const std::vector<Stream *> &streams,
                                                   std::unique_ptr<Graph> previous,
                                                   const std::function<Status()> &body);

  /// What a caller's capture gets; see captureInto().
  struct CapturedParts {
    /// Enqueue on any of the streams, which have begun: `first` before `body`, but what they
    /// enqueue may run at the same time.
    std::function<Status()> first, body;
    /// Whether Frame::epoch matters: the device then counts the runs of the caller's graphs.
    bool countsRuns = false;
    /// `first` is one operation that can count them as it reads the number. The caller orders
    /// other readers behind it.
    bool firstCounts = false;
  };
  /// Enqueues work into the capture of `main`, a stream for which isCapturing() holds. `streams`
  /// are not captured; they outlive the caller's graph.
  virtual Status captureInto(Stream &main, const std::vector<Stream *> &streams,
                             const CapturedParts &parts);

  /// Releases every waiting stream, drops queued work, and makes later work fail. Any thread, any
  /// number of times; the first reason stays. A context calls it when it is poisoned.
  virtual void abort(const Status &reason) = 0;

protected:
  std::shared_ptr<const Allocator> allocator;
};

struct CpuDeviceOptions {
  /// Threads per matmul. Ranks and streams are threads already, so use more than 1 only if they are
  /// fewer than the cores.
  unsigned matmulThreads = 1;
};
/// Host threads as streams, oneDNN matmuls.
std::unique_ptr<Device> createCpuDevice(const CpuDeviceOptions &options = {});
/// Accepts all operations and does nothing: measures the cost of dispatch.
std::unique_ptr<Device> createNullDevice();

} // namespace tandem

#endif // TANDEM_RUNTIME_DEVICE_H
