//===- OneSided.cpp - puts and signals by NCCL ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OneSided.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <sstream>
#include <tuple>

namespace tandem::ccl {

using gpu::GpuStream;
using gpu::Kernels;

/// ncclWaitSignalDesc_t of NCCL 2.29.
struct WaitSignalDesc {
  int count, peer, signal, context;
};

struct Counters {
  CommunicatorRef communicator;
  SymmetricMemory symmetric;
  Window window = nullptr; ///< of the symmetric memory
  std::shared_ptr<gpu::SymmetricBlock> staging;
  Window stagingWindow = nullptr;
  std::vector<uint64_t> perRun; ///< by member: how often a run of it raises its counter here
  /// By (slot, value): who raises it, and the place in what that member does in a run.
  std::map<std::pair<uint32_t, uint64_t>, std::pair<uint32_t, uint64_t>> places;

  std::mutex mutex; ///< guards the fields below
  uint64_t runs = 0;
  std::vector<uint64_t> meetings; ///< by member: signals that belong to no run
  std::vector<uint64_t> awaited;  ///< by member: raises that waits have been issued for

  /// For how many more raises a wait must wait: until the `place`-th of run `epoch`.
  int toWait(uint32_t peer, uint64_t place, uint64_t epoch) {
    std::lock_guard<std::mutex> lock(mutex);
    runs = std::max(runs, epoch + 1);
    return take(peer, epoch * perRun[peer] + meetings[peer] + place);
  }
  /// The same, of a signal between runs.
  int toMeet(uint32_t peer) {
    std::lock_guard<std::mutex> lock(mutex);
    ++meetings[peer];
    return take(peer, runs * perRun[peer] + meetings[peer]);
  }

private:
  int take(uint32_t peer, uint64_t target) {
    if (target <= awaited[peer])
      return 0;
    auto more = static_cast<int>(target - awaited[peer]);
    awaited[peer] = target;
    return more;
  }
};

namespace {

using CountersRef = std::shared_ptr<Counters>;

/// In a graph, NCCL lets a sender raise a counter only after the receiver has taken the raise
/// before: other waits than the program's, which the checker does not know.
const char *const kNoGraph = "NCCL's signals in a graph wait for their receiver";

/// Memory without gaps within a layout, in bytes.
struct Piece {
  uint64_t offset, bytes;
};

/// The pieces in row-major order.
std::vector<Piece> piecesOf(const Layout &layout) {
  std::vector<Piece> pieces;
  if (layout.numElements() == 0)
    return pieces;
  uint64_t size = sizeOf(layout.dtype);
  int64_t run = 1;
  unsigned outer = layout.rank;
  while (outer > 0 && (layout.shape[outer - 1] == 1 || layout.strides[outer - 1] == run))
    run *= layout.shape[--outer];
  std::vector<int64_t> index(outer);
  for (;;) {
    int64_t at = 0;
    for (unsigned d = 0; d < outer; ++d)
      at += index[d] * layout.strides[d];
    pieces.push_back({static_cast<uint64_t>(at) * size, static_cast<uint64_t>(run) * size});
    unsigned d = outer;
    while (d > 0 && ++index[d - 1] == layout.shape[d - 1])
      index[--d] = 0;
    if (d == 0)
      return pieces;
  }
}

/// NCCL reads only memory that it knows: the source is copied there, unless it is symmetric memory.
class PutOperation final : public gpu::GpuOperation {
public:
  PutOperation(CountersRef counters, const Kernels &kernels, const Put &put,
               std::vector<Piece> pieces, uint64_t staging, gpu::CopyPlan copy)
      : counters(std::move(counters)), kernels(kernels), put(put), pieces(std::move(pieces)),
        staging(staging), copy(std::move(copy)) {}

  std::string whyNoGraph() const override { return kNoGraph; }

  Status issue(GpuStream &stream, const Frame &frame) override {
    if (pieces.empty())
      return Status();
    const SymmetricMemory &symmetric = counters->symmetric;
    auto *from = static_cast<std::byte *>(frame.pointers[put.src.slot]);
    auto *known = static_cast<std::byte *>(symmetric.base);
    uint64_t bytes = put.src.layout.numBytes();
    bool isKnown = from >= known && from + bytes <= known + symmetric.totalBytes;
    if (!isKnown || !put.src.layout.isDense()) {
      auto *copied = static_cast<std::byte *>(counters->staging->data()) + staging;
      TANDEM_RETURN_IF_ERROR(copy.run(kernels, stream.native(), copied, from));
      from = copied;
    }
    uint64_t to = frame.half * symmetric.halfBytes + put.offset;
    return counters->communicator->call("ncclPutSignal", [&](const Api &api, ncclComm_t comm) {
      ncclResult_t result = api.ncclGroupStart();
      auto fine = [&] { return result == ncclSuccess || result == ncclInProgress; };
      uint64_t done = 0;
      for (const Piece &piece : pieces) {
        if (fine())
          result = api.oneSided.putSignal(from + done, piece.bytes, ncclInt8,
                                          static_cast<int>(put.peer), counters->window,
                                          to + piece.offset, 0, 0, 0, comm, native(stream));
        done += piece.bytes;
      }
      ncclResult_t ended = api.ncclGroupEnd();
      return fine() ? ended : result;
    });
  }

private:
  CountersRef counters;
  const Kernels &kernels;
  const Put put;
  const std::vector<Piece> pieces;
  const uint64_t staging;
  const gpu::CopyPlan copy;
};

class SignalOperation final : public gpu::GpuOperation {
public:
  SignalOperation(CountersRef counters, uint32_t peer)
      : counters(std::move(counters)), peer(static_cast<int>(peer)) {}

  std::string whyNoGraph() const override { return kNoGraph; }

  Status issue(GpuStream &stream, const Frame &) override {
    return counters->communicator->call("ncclSignal", [&](const Api &api, ncclComm_t comm) {
      return api.oneSided.signal(peer, 0, 0, 0, comm, native(stream));
    });
  }

private:
  CountersRef counters;
  int peer;
};

class WaitSignalOperation final : public gpu::GpuOperation {
public:
  WaitSignalOperation(CountersRef counters, const WaitSignal &wait)
      : counters(std::move(counters)), wait(wait) {}

  std::string whyNoGraph() const override { return kNoGraph; }

  Status issue(GpuStream &stream, const Frame &frame) override {
    uint32_t peer = 0;
    int count = 0;
    if (wait.meets) {
      peer = *wait.meets;
      count = counters->toMeet(peer);
    } else {
      auto [from, place] = counters->places.at({wait.slot, wait.value});
      peer = from;
      count = counters->toWait(from, place, frame.epoch);
    }
    // None: a wait before, in this stream, has waited for the same.
    if (count > 0)
      TANDEM_RETURN_IF_ERROR(
          counters->communicator->call("ncclWaitSignal", [&](const Api &api, ncclComm_t comm) {
            WaitSignalDesc what{count, static_cast<int>(peer), 0, 0};
            return api.oneSided.waitSignal(1, &what, comm, native(stream));
          }));
    return stream.track(marker);
  }

private:
  CountersRef counters;
  const WaitSignal wait;
};

/// A line of prepared().
struct Line {
  char kind = 0; ///< p: put, s: signal, w: wait
  uint32_t peer = 0, stream = 0, slot = 0;
  uint64_t value = 0; ///< of a signal or a wait; of a put: how often it raises the counter
};

struct Lines {
  std::vector<Line> all;
  uint64_t staging = 0;
};

Lines parse(const std::string &text) {
  Lines lines;
  std::istringstream in(text);
  for (std::string each; std::getline(in, each);) {
    std::istringstream words(each);
    std::string mark;
    Line line;
    words >> mark >> line.kind;
    if (mark != "o")
      continue;
    if (line.kind == 'b')
      words >> lines.staging;
    else if (words >> line.peer >> line.stream >> line.slot >> line.value)
      lines.all.push_back(line);
  }
  return lines;
}

} // namespace

OneSided::OneSided(CommunicatorRef communicator, const Kernels &kernels,
                   const SymmetricMemory &symmetric, const core::WaitLimit &limit)
    : communicator(std::move(communicator)), kernels(kernels), limit(limit),
      counters(std::make_shared<Counters>()) {
  counters->communicator = this->communicator;
  counters->symmetric = symmetric;
  size_t members = this->communicator->group.size();
  counters->perRun.resize(members);
  counters->meetings.resize(members);
  counters->awaited.resize(members);
}

Expected<std::unique_ptr<OneSided>> OneSided::create(CommunicatorRef communicator,
                                                     const Kernels &kernels,
                                                     const SymmetricMemory &symmetric,
                                                     const core::WaitLimit &limit) {
  std::unique_ptr<OneSided> made(new OneSided(std::move(communicator), kernels, symmetric, limit));
  TANDEM_RETURN_IF_ERROR(
      made->enter(symmetric.base, symmetric.totalBytes, &made->counters->window));
  return made;
}

Status OneSided::enter(void *memory, uint64_t bytes, Window *window) {
  auto found = std::make_shared<Window>(nullptr);
  TANDEM_RETURN_IF_ERROR(communicator->collectively(
      "ncclCommWindowRegister", limit, [=](const Api &api, ncclComm_t comm) {
        constexpr int kSymmetric = 1; // NCCL_WIN_COLL_SYMMETRIC
        return api.oneSided.windowRegister(comm, memory, bytes, found.get(), kSymmetric);
      }));
  *window = *found;
  // NCCL gives none, and no error, where it cannot reach the memory of all members.
  return *window ? Status()
                 : Status(Code::Unsupported,
                          "channel ccl: NCCL has no one-sided messages between these GPUs");
}

OneSided::~OneSided() {
  for (Window window : {counters->window, counters->stagingWindow})
    if (window)
      communicator->giveBack("ncclCommWindowDeregister", [window](const Api &api, ncclComm_t comm) {
        return api.oneSided.windowDeregister(comm, window);
      });
}

Expected<std::unique_ptr<Operation>> OneSided::preparePut(const Put &put) {
  constexpr uint64_t kAlignment = 256;
  constexpr size_t kMostPieces = 1024;
  std::vector<Piece> pieces = piecesOf(put.dst);
  if (pieces.size() > kMostPieces)
    return Status(Code::Unsupported,
                  fmt::format("channel ccl: a put of {} separate rows, expected at most {}",
                              pieces.size(), kMostPieces));
  const Layout &from = put.src.layout;
  TANDEM_ASSIGN_OR_RETURN(
      gpu::CopyPlan copy,
      gpu::CopyPlan::make(kernels, Layout::dense(from.dtype, from.shape.data(), from.rank), from));
  lines += fmt::format("o p {} {} 0 {}\n", put.peer, put.stream, pieces.size());
  uint64_t place = stagingBytes;
  stagingBytes += (from.numBytes() + kAlignment - 1) / kAlignment * kAlignment;
  return std::make_unique<PutOperation>(counters, kernels, put, std::move(pieces), place,
                                        std::move(copy));
}

Expected<std::unique_ptr<Operation>> OneSided::prepareSignal(const Signal &signal) {
  if (!signal.meets)
    lines +=
        fmt::format("o s {} {} {} {}\n", signal.peer, signal.stream, signal.slot, signal.value);
  return std::make_unique<SignalOperation>(counters, signal.peer);
}

Expected<std::unique_ptr<Operation>> OneSided::prepareWaitSignal(const WaitSignal &wait) {
  if (!wait.meets)
    lines += fmt::format("o w 0 {} {} {}\n", wait.stream, wait.slot, wait.value);
  return std::make_unique<WaitSignalOperation>(counters, wait);
}

std::string OneSided::prepared() const { return lines + fmt::format("o b {}\n", stagingBytes); }

Status OneSided::compare(const std::vector<std::string> &members) {
  std::vector<Lines> all;
  uint64_t staging = 0;
  for (const std::string &text : members) {
    all.push_back(parse(text));
    staging = std::max(staging, all.back().staging);
  }
  auto size = static_cast<uint32_t>(members.size());
  const std::vector<uint32_t> &ranks = communicator->group;
  auto cannot = [](const std::string &why) {
    return Status(Code::Unsupported,
                  "channel ccl: NCCL has one counter for each pair of ranks: " + why);
  };
  // Every member finds the same of all, so all of them go on, or none.
  for (uint32_t to = 0; to < size; ++to) {
    struct Raise {
      uint32_t from;
      uint64_t value, place;
    };
    std::map<uint32_t, std::vector<Raise>> raises; // by slot
    std::vector<uint64_t> perRun(size), last(size);
    for (uint32_t from = 0; from < size; ++from) {
      std::optional<uint32_t> stream;
      for (const Line &line : all[from].all) {
        if (line.kind == 'w' || line.peer != to || (line.kind == 'p' && line.value == 0))
          continue;
        if (stream && *stream != line.stream)
          return cannot(fmt::format("rank {} raises that of rank {} in streams {} and {}",
                                    ranks[from], ranks[to], *stream, line.stream));
        stream = line.stream;
        perRun[from] += line.kind == 'p' ? line.value : 1;
        if (line.kind == 's')
          raises[line.slot].push_back({from, line.value, perRun[from]});
      }
    }
    std::vector<std::optional<uint32_t>> streams(size);
    for (const Line &line : all[to].all) {
      if (line.kind != 'w')
        continue;
      const std::vector<Raise> &of = raises[line.slot];
      auto raise = std::find_if(of.begin(), of.end(),
                                [&](const Raise &each) { return each.value >= line.value; });
      if (raise == of.end() || line.value == 0)
        return cannot(fmt::format("no rank raises slot {} of rank {} to {} in a run", line.slot,
                                  ranks[to], line.value));
      for (const Raise &each : of)
        if (each.from != raise->from)
          return cannot(fmt::format("ranks {} and {} raise slot {} of rank {}", ranks[raise->from],
                                    ranks[each.from], line.slot, ranks[to]));
      auto &stream = streams[raise->from];
      if ((stream && *stream != line.stream) || raise->place < last[raise->from])
        return cannot(fmt::format("rank {} waits for rank {} in another order than it signals",
                                  ranks[to], ranks[raise->from]));
      stream = line.stream;
      last[raise->from] = raise->place;
      if (to == communicator->self)
        counters->places[{line.slot, line.value}] = {raise->from, raise->place};
    }
    for (uint32_t from = 0; from < size; ++from)
      if (last[from] != perRun[from])
        return cannot(fmt::format("rank {} does not wait for all that rank {} sends in a run",
                                  ranks[to], ranks[from]));
    if (to == communicator->self)
      counters->perRun = perRun;
  }
  if (staging == 0)
    return Status();
  auto block = gpu::SymmetricBlock::allocate(communicator->state, staging);
  // A rank without memory does not come, and the others end after their time limit.
  TANDEM_RETURN_IF_ERROR(block.status().withPrefix("channel ccl: copies of what is put: "));
  counters->staging = std::move(*block);
  return enter(counters->staging->data(), staging, &counters->stagingWindow);
}

} // namespace tandem::ccl
