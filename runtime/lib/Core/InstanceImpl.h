//===- InstanceImpl.h - a loaded program and its state ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CORE_INSTANCEIMPL_H
#define TANDEM_LIB_CORE_INSTANCEIMPL_H

#include "ContextImpl.h"
#include "GraphCache.h"
#include "SharedArena.h"
#include "SymmetricPool.h"
#include "Varying.h"

#include "tandem/Program/stream_program_generated.h"

#include <atomic>
#include <deque>

namespace tandem::core {

/// Of a vector of a FlatBuffer, which is null if it is empty.
template <typename V> uint32_t count(const V *vector) { return vector ? vector->size() : 0; }

/// The symmetric memory of a program, if it shares none; without an address.
SymmetricMemory layoutSymmetric(const sp::RankProgram &data, uint32_t ranks);

/// One thing to enqueue.
struct Step {
  uint32_t stream = 0;
  Marker marker = kNoMarker;
  Operation *operation = nullptr; ///< null: records or waits for `event`
  Event *event = nullptr;
  bool records = false;
  /// It needs neither other ranks nor symmetric memory.
  bool isLocal = false;
};

class InstanceImpl final : public Instance,
                           public Watched,
                           private SharedArena::User,
                           private ErrorSink {
public:
  InstanceImpl(ContextImpl &context, std::shared_ptr<const Program> program)
      : context(context), programHandle(std::move(program)), data(programHandle->data()),
        number(context.nextInstance()), shared(context.arena()) {}
  ~InstanceImpl() override;

  /// Collective; everything of Instance::create.
  Status prepare();

  const Program &program() const override { return *programHandle; }
  Status bind(uint32_t i, const TensorView &view, uint64_t bytes) override;
  Status bindAll(void *const *addresses, const uint64_t *bytes) override;
  Status setExtent(int64_t extent) override;
  const ArgumentInfo &argument(uint32_t i) const override {
    return varying ? varying->argument(i) : programHandle->arguments()[i];
  }
  Status run() override;
  Status enqueue(std::shared_ptr<Stream> main, std::string_view call) override;
  Status enqueue(std::shared_ptr<Stream> main, void *const *data, const uint64_t *bytes,
                 std::string_view call) override;
  Status wait() override;
  Expected<bool> query() override;
  Status trace(bool on) override;
  const std::vector<CommandTime> &times() const override { return commandTimes; }

  bool mayWait() override;
  bool isRunning() override { return captured || !runsInFlight().empty(); }
  std::chrono::steady_clock::time_point deadline() override;
  std::vector<uint64_t> runsInFlight() override;
  std::vector<CommandInFlight> inFlight() override;
  void addChannels(std::vector<Snapshot::Channel> &into) override;
  std::string describeStall() override;
  void abortChannels(const Status &reason, bool oneSided) override;
  void dropGraphs() override;
  void finishRuns() override;
  std::shared_ptr<Memory> symmetricMemory() override {
    return symmetric ? (**symmetric).memory() : nullptr;
  }
  void retire() override;

private:
  /// One of the runs that may be in flight: its addresses, its begin, and the ends of its streams.
  struct Slot {
    uint32_t number = 0; ///< in `slots`
    Frame frame, barrierFrames[2];
    std::vector<void *> pointers;             ///< per view
    uint64_t bindings = 0;                    ///< the state of the bindings in `pointers`
    std::vector<std::shared_ptr<Event>> ends; ///< per stream
    std::shared_ptr<Event> followed;          ///< end of another instance's run, before this one
    std::unique_ptr<Event> mayBegin;          ///< the run may begin, see holdBack()
    std::atomic<Stream *> main{nullptr};      ///< stream 0 of that run
    std::shared_ptr<Stream> mainHeld;         ///< keeps `main` alive, if it is the caller's
    std::atomic<bool> inFlight{false};
    std::atomic<bool> enqueuing{false}; ///< a thread is enqueuing, possibly blocked in a channel
    std::unique_ptr<Event> begin;       ///< on a caller's stream, behind the caller's work
    std::atomic<bool> hasBegin{false};  ///< `begin` is recorded, or will be
    std::atomic<uint64_t> run{0};       ///< its frame's epoch
    std::atomic<bool> replays{false};   ///< the run is a replay of a graph
    std::atomic<uint64_t> order{0};     ///< its number among all runs of the context
    bool needsBarrier = false;          ///< the ranks pass a barrier before the run
    uint64_t generation = 0;            ///< see SymmetricPool
  };

  /// All members of a one-sided channel signal to each other, and wait: `waits` may be one kernel
  /// that does both.
  struct Barrier {
    std::vector<std::unique_ptr<Operation>> signals, waits;
  };

  void report(const Status &error, Marker marker) override;
  void moveArena(const std::shared_ptr<Memory> &to) override;
  std::string prefix() const;
  /// A command, by its number; from kBarrier on, the wait for a rank (after the last one: for all)
  /// that all ranks begin the run.
  std::string describe(uint32_t command) const;
  static constexpr uint32_t kBarrier = 1u << 31;

  Status checkWorld() const;
  Status allocate();
  Status makeStreams();
  Status prepareOperations();
  Status prepareCommand(uint32_t i);
  /// One operation for command `i` and its parts; null if the parts are to be prepared one by one.
  /// `commands`: how many the operation stands for. Null: its parts run one by one.
  Expected<std::unique_ptr<Operation>> prepareGated(uint32_t i, uint32_t &commands);
  /// Of a matmul with the launch behind it; null: it has none that the device runs with it.
  Expected<std::unique_ptr<Operation>> prepareEpilogue(uint32_t i);
  /// Adds a target of a gated matmul, whose parts are the commands from `firstPart` on. `why` gets
  /// the reason if kernels cannot store there.
  Status addTarget(GatedMatmulDesc &desc, uint32_t firstPart, const program::GatedTarget &target,
                   std::string &why);
  /// Adds the waits of gated matmul `i` as gates. `why`: if kernels cannot read those signals.
  Status addGates(GatedMatmulDesc &desc, uint32_t i, std::string &why);
  /// Logs why no kernel runs a gated matmul or fused exchange. Null.
  std::unique_ptr<Operation> runParts(uint32_t i, const std::string &why);
  void logAlone(uint32_t i, const std::string &why) const;
  Expected<std::unique_ptr<Operation>> prepareExchange(uint32_t i);
  /// What this rank tells the others of the exchange that is command `head`, if there is anything.
  void addProtocol(FusedExchange &exchange, uint32_t head) const;
  Put describePut(const sp::Command &command) const;
  MatmulDesc describeMatmul(const sp::Command &command) const;
  LaunchDesc describeLaunch(const sp::Command &command) const;
  std::vector<Message> describeGroup(uint32_t group) const;
  /// Gives `matmul` its bias.
  EpilogueDesc describeEpilogue(const program::MatmulEpilogue &epilogue, MatmulDesc &matmul) const;
  Signal describeSignal(const sp::Command &command) const;
  WaitSignal describeWait(const sp::Command &command) const;
  Expected<std::unique_ptr<Operation>> prepareOperation(const sp::Command &command, uint32_t i);
  Expected<std::unique_ptr<Operation>> prepareCall(const sp::Command &command);
  Step &addStep(const sp::Command &command, uint32_t i, std::unique_ptr<Operation> operation);
  /// Whether floats are added in a given order. Not in the reference: it is compared within a
  /// tolerance.
  bool isOrdered() const {
    return !programHandle->isReference() &&
           programHandle->index().deterministic() != sp::Determinism::none;
  }
  Operand operand(uint32_t view) const;
  /// Collective: every rank's status; success only if all succeeded.
  Status agree(const Status &mine, const char *what);
  Status agreeOnProgram();
  /// Of all arguments, by name.
  std::string logicalShapes() const;
  Status agreeOnCommands();
  /// Collective: chooses or makes the symmetric memory.
  Status makeSymmetric();
  /// Whether the put is inside of what rank `to` needs; the memory there may be larger.
  Status checkPut(const Put &put, uint32_t to) const;
  /// From a pool of `members` (empty: none), the same one on all of them. `grows`: a new block may
  /// be larger than needed; then, whether it is.
  Status takeMemory(const std::vector<uint32_t> &members, uint64_t bufferBytes, uint32_t signals,
                    bool *grows);
  /// The barriers of all ranks: in usual runs, and in runs in the caller's graphs.
  Status prepareRunBarrier();
  Status prepareCaptureBarrier();
  Status prepareBarrier(Barrier &into, uint32_t channel,
                        const std::function<uint32_t(uint32_t)> &slotOf);
  /// Numbers the run: which of the two symmetric buffers it uses, and whether the ranks pass a
  /// barrier before it.
  void beginGeneration(Slot &slot);
  /// Enqueues the barrier before the run, if there must be one. From then on, the stream may wait
  /// for peers, so no driver call that waits for the device may follow: a graph is made before.
  Status enterBarrier(Slot &slot);
  /// Moves to the arena that moveArena() announced. Waits for this instance's runs in flight.
  void followArena();
  /// Whether runs are replayed as graphs: on all ranks or on none.
  Status agreeOnGraphs();
  std::string whyNoGraph() const;
  /// Captures a run, with undefined memory as arguments, and drops it.
  Status tryCapture();
  /// By number; null if no command uses it.
  std::vector<Stream *> captureStreams() const;
  Expected<std::unique_ptr<Graph>> capture(Slot &slot, std::unique_ptr<Graph> previous);
  Status makeChannels();

  Status argumentError(uint32_t i, const std::string &what) const;
  Status checkAddress(uint32_t i, const void *address, const uint64_t *bytes) const;
  /// Unsupported if a run is being captured and those of this instance cannot be.
  Status checkCapture(bool isCapturing) const;
  /// enqueue(), once arguments are bound and checkCapture() has passed.
  Status enqueueBound(std::shared_ptr<Stream> main, bool isCapturing, std::string_view call);
  /// What the ranks must agree on about the next run. Valid until the next call.
  std::string_view describeRun(std::string_view call);
  /// Notes what an operation asks of the addresses of arguments. Unsupported if none would do.
  Status noteAlignments(const Operation &operation);
  /// An error if a result overlaps another argument.
  Status checkOverlaps(void *const *addresses) const;
  Status checkBindings();
  /// How many runs may be in flight.
  size_t depth() const {
    return context.device().hostMemory() || (graphs && !tracing) ? slots.size() : kRuns;
  }
  /// That of the next run. If all are in use, that of a run to wait for.
  Slot &nextSlot();
  /// The earliest run that finish() was not called for, or null; not the one in `other`.
  Slot *earliest(const Slot *other = nullptr);
  /// On the host, makes the streams wait for the end of the run kRuns before this one: messages of
  /// a rank that is further ahead would be mixed up, and operations have the state of two runs.
  Status holdBack(Slot &slot);
  /// The oldest run in flight that has not ended, or null.
  Slot *oldest();
  void setMain(Slot &slot, std::shared_ptr<Stream> main);
  /// Stream 0 of a run in flight, for another thread.
  std::shared_ptr<Stream> mainOf(const Slot &slot) const;
  /// Frees what only this rank's runs access; none is in flight.
  void releaseOwn();
  Status finish(Slot &slot);
  /// Of a run in flight.
  bool hasEnded(Slot &slot) const;
  /// Computes the addresses of the views, if the bindings have changed.
  void resolve(Slot &slot);
  void resolve(std::vector<void *> &pointers, unsigned parity) const;
  void setAddress(uint32_t i, void *address);
  void *baseOf(const sp::Buffer &buffer, unsigned parity) const;
  /// Whether the command needs neither other ranks nor symmetric memory.
  bool isLocal(const sp::Command &command) const;
  /// Enqueues every step; `main`: stream 0. Steps that are not local wait for `barrierEnded`, if it
  /// is not null.
  Status issue(Slot &slot, Stream *main, const std::vector<Stream *> &others,
               Event *barrierEnded = nullptr);
  Status dispatch(Slot &slot);
  /// The entry with a graph for the current bindings: moves, updates or makes one. If it must be
  /// made, waits for the runs in flight before that. `lock`: of graphMutex.
  Expected<GraphCache::Entry *> makeGraph(Slot &slot, std::unique_lock<std::mutex> &lock);
  /// What a graph depends on: `bound`, and the extent if kernels of the embedder see it.
  const GraphCache::Addresses &graphKey();
  /// Enqueues the run as a graph.
  Status replay(Slot &slot);
  /// Enqueues a run into the caller's capture of `main`. See docs/gpu.md, "The caller's graphs".
  Status captureInto(Stream &main);

  ContextImpl &context;
  std::shared_ptr<const Program> programHandle;
  const sp::RankProgram &data;
  std::string what;   ///< see describeRun()
  std::string shapes; ///< the part of `what` that is the same for all runs
  uint32_t number;    ///< of this instance in its context

  std::shared_ptr<SharedArena> shared;             ///< gives `arena`, and orders runs
  std::shared_ptr<Memory> arena, nextArena;        ///< next: from the next run on; null: the same
  std::unique_ptr<SymmetricPool::Share> symmetric; ///< null: the program needs none
  /// The ranks whose symmetric memory this rank shares with other instances, itself included.
  std::vector<uint32_t> peers;
  std::map<uint32_t, uint64_t>
      peerBytes;            ///< by rank: of one symmetric buffer, as its program needs it
  bool ordersRanks = false; ///< each run: no rank ends before all peers have begun
  std::vector<std::unique_ptr<Channel>> channels; ///< null where this rank takes no part
  std::vector<std::string> transports;            ///< their names
  std::vector<std::unique_ptr<Event>> events;
  std::vector<std::unique_ptr<Operation>> operations;
  Barrier captureBarrier; ///< of runs in the caller's graphs
  Barrier runBarrier; ///< of usual runs that follow another instance's run, or may follow a replay
  std::vector<Step> steps;
  std::vector<Stream *> streams; ///< of the context; [0] is the default main stream
  std::vector<char> usesStream;
  bool fusesEpilogues = false; ///< TANDEM_EPILOGUES
  std::vector<StreamPriority> priorities;
  std::vector<char> multiplies; ///< per stream: it has a matmul, which needs a workspace
  /// Streams for capture only: graphs count the runs of their instance on the first one. By number;
  /// null if no command uses it.
  std::vector<std::unique_ptr<Stream>> graphStreams;
  std::unique_ptr<Stream> barrierStream; ///< of the barrier, in captures; null: there is none
  std::unique_ptr<Event> barrierEnded;   ///< the barrier has ended; null: there is none
  bool graphs = false;
  /// A graph of the caller contains addresses of the arena, and may run at any time.
  std::atomic<bool> captured{false};
  std::mutex graphMutex; ///< an abort drops the graphs while the next run is enqueued
  std::vector<uint32_t> collectivesSeen; ///< per channel

  std::unique_ptr<VaryingArguments> varying; ///< null: no extent varies
  std::vector<void *> given;                 ///< per argument: the caller's memory
  std::vector<void *> bound;                 ///< per argument: what the program accesses
  std::vector<void *> boundAndExtent;        ///< of graphKey()
  bool callsVary = false;                    ///< kernels of the embedder see the varying extent
  std::vector<char> isBound;
  std::vector<uint32_t> alignments; ///< per argument, of its address, in bytes
  uint64_t bindings = 1;
  uint64_t checkedBindings = 0; ///< all arguments are bound, and no result overlaps
  uint64_t epoch = 0;
  /// One for each run in flight: a run that a host thread works on needs its frame until it ends.
  std::deque<Slot> slots;
  /// Runs of which commands may be under way, unless they are graphs; runs in flight.
  static constexpr size_t kRuns = 2, kInFlight = 16;
  GraphCache graphCaches[2];                       ///< per parity; guarded by graphMutex
  static constexpr uint64_t kTrial = ~uint64_t(1); ///< the number of tryCapture()'s run
  std::atomic<uint64_t> timedRun{~uint64_t(0)};    ///< the run that the watchdog times
  uint64_t timedPosition = 0;                      ///< where its streams were then
  /// Since when it has that position; when it was first seen; when a rank was last known to have
  /// yet to begin it.
  std::atomic<std::chrono::steady_clock::time_point> timedSince{};
  std::chrono::steady_clock::time_point timedFirst, timedLate;
  std::vector<CommandTime> commandTimes; ///< empty: not traced yet
  bool tracing = false;
  bool watched = false;
};

} // namespace tandem::core

#endif // TANDEM_LIB_CORE_INSTANCEIMPL_H
