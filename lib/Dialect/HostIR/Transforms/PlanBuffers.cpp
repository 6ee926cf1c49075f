//===- PlanBuffers.cpp - a place in the arena for every buffer -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BufferLives.h"
#include "PassLog.h"
#include "tandem/Dialect/HostIR/Evaluate/CrossRankOrder.h"
#include "tandem/Dialect/HostIR/Transforms/Passes.h"
#include "tandem/Support/ElementTypes.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

namespace tandem::hostir {
#define GEN_PASS_DEF_PLANBUFFERS
#include "tandem/Dialect/HostIR/Transforms/Passes.h.inc"
} // namespace tandem::hostir

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;

namespace {
/// The largest arena: 4 PiB, for the unsharded reference of a program for many devices. Slots of
/// all 1024 workers still fit in 64 bits.
constexpr int64_t kMaxArenaBytes = int64_t(1) << 52;

/// One item of an arena. Sizes and offsets are multiples of kBufferAlignment.
struct ArenaItem {
  int64_t size = 0;
  /// Position where its first live range begins.
  Position first = 0;
  /// Clocks of what has ended at its begin and end: see BufferLife.
  Clock start, end;
  /// Set by placeItems.
  int64_t offset = 0;
};
} // namespace

using Interferences = std::vector<std::pair<unsigned, unsigned>>;

/// Indices 0 ... size-1, ascending by `key`, equal keys in their order.
template <typename KeyFn> static std::vector<unsigned> sortedBy(size_t size, KeyFn key) {
  std::vector<unsigned> order(size);
  std::iota(order.begin(), order.end(), 0);
  llvm::sort(order,
             [&](unsigned a, unsigned b) { return std::pair(key(a), a) < std::pair(key(b), b); });
  return order;
}

/// Pairs (i, j) of items that may be live at once. Time linear in the items and in the pairs with
/// overlapping time spans: items are swept by begin, and leave once they have ended for all later
/// items.
static Interferences findInterferences(ArrayRef<ArenaItem> items) {
  std::vector<unsigned> order = sortedBy(items.size(), [&](unsigned i) { return items[i].first; });
  // The common clock of all items from here on.
  std::vector<Clock> known(items.size());
  for (size_t k = items.size(); k-- > 0;) {
    known[k] = items[order[k]].start;
    if (k + 1 < items.size())
      for (auto [a, b] : llvm::zip_equal(known[k], known[k + 1]))
        a = std::min(a, b);
  }
  Interferences interferences;
  std::vector<unsigned> alive;
  for (size_t k = 0; k < order.size(); ++k) {
    unsigned item = order[k];
    llvm::erase_if(alive, [&](unsigned other) { return isBefore(items[other].end, known[k]); });
    for (unsigned other : alive)
      if (!isBefore(items[other].end, items[item].start))
        interferences.emplace_back(other, item);
    alive.push_back(item);
  }
  return interferences;
}

/// Pairs of items whose ranges [begin, end] in the text overlap.
static Interferences findInterferences(ArrayRef<std::pair<int64_t, int64_t>> ranges) {
  Interferences interferences;
  std::vector<unsigned> alive;
  for (unsigned item : sortedBy(ranges.size(), [&](unsigned i) { return ranges[i].first; })) {
    llvm::erase_if(alive,
                   [&](unsigned other) { return ranges[other].second < ranges[item].first; });
    for (unsigned other : alive)
      interferences.emplace_back(other, item);
    alive.push_back(item);
  }
  return interferences;
}

/// Assigns offsets: largest item first, each at the lowest free offset among the placed items that
/// it interferes with. Returns the bytes needed; above kMaxArenaBytes some offsets are missing.
static int64_t placeItems(MutableArrayRef<ArenaItem> items,
                          ArrayRef<std::pair<unsigned, unsigned>> interferences) {
  std::vector<std::vector<unsigned>> neighbours(items.size());
  for (auto [a, b] : interferences) {
    neighbours[a].push_back(b);
    neighbours[b].push_back(a);
  }
  std::vector<bool> placed(items.size());
  int64_t bytes = 0;
  for (unsigned i : sortedBy(items.size(), [&](unsigned i) { return -items[i].size; })) {
    SmallVector<std::pair<int64_t, int64_t>> taken;
    for (unsigned other : neighbours[i])
      if (placed[other] && items[other].size > 0)
        taken.emplace_back(items[other].offset, items[other].offset + items[other].size);
    llvm::sort(taken);
    int64_t offset = 0;
    for (auto [begin, end] : taken) {
      if (offset + items[i].size <= begin)
        break;
      offset = std::max(offset, end);
    }
    items[i].offset = offset;
    placed[i] = true;
    bytes = std::max(bytes, offset + items[i].size);
    if (bytes > kMaxArenaBytes)
      return bytes; // avoids overflow of further sums
  }
  return bytes;
}

namespace {

/// Buffers of one top-level op that are live on one stream (or one stream per iteration) between
/// two points of it. They are live in text order, so they share the slots of a frame, which is live
/// as long as any of them.
struct Frame {
  SmallVector<const BufferLife *> lives;
  ArenaItem item;
  int64_t pitch = 0;
  int firstPlace = 0;
};

} // namespace

static int64_t bytesOf(AllocOp alloc) {
  MemRefType type = alloc.getType();
  int64_t bytes = getElementBytes(type.getElementType());
  for (int64_t extent : type.getShape())
    if (llvm::MulOverflow(bytes, extent, bytes) || bytes > kMaxArenaBytes)
      return -1;
  return llvm::alignTo(bytes, kBufferAlignment);
}

static int numPlaces(const BufferLife &life) { return life.lastStream - life.firstStream + 1; }

/// The bytes of one slot for buffers with live ranges in text order, and their offsets in it.
static int64_t layOutPlace(ArrayRef<const BufferLife *> lives, SmallVector<ArenaItem> &items) {
  SmallVector<std::pair<int64_t, int64_t>> ranges;
  for (const BufferLife *life : lives) {
    ranges.emplace_back(life->textBegin, life->textEnd);
    items.emplace_back().size = bytesOf(life->alloc);
  }
  return placeItems(items, findInterferences(ranges));
}

static bool fitsInto(const Frame &frame, const BufferLife &life) {
  auto isCovered = [&](const BufferLife *other) {
    return other->firstStream <= life.firstStream && life.lastStream <= other->lastStream;
  };
  if (llvm::none_of(frame.lives, isCovered))
    return false;
  SmallVector<ArenaItem> without, with;
  SmallVector<const BufferLife *> all(frame.lives);
  int64_t bytes = layOutPlace(all, without);
  all.push_back(&life);
  return layOutPlace(all, with) == bytes;
}

namespace {

class Planner {
public:
  Planner(ProgramOp program, const BufferLives &lives, const CrossRankOrder &peers)
      : program(program), lives(lives), peers(peers) {}

  LogicalResult plan() {
    for (const auto &[op, life] : lives)
      if (failed(verify(life)))
        return failure();
    buildFrames();
    if (failed(planSymmetric()) || failed(planArena()))
      return failure();
    // Never evaluated (a loop without iterations): any offset inside the arena is valid.
    program.walk([&](AllocOp alloc) {
      if (lives.contains(alloc))
        return;
      setPlace(alloc, 0, 0);
      bytesUnshared += bytesOf(alloc);
      int64_t &bytes = isSymmetric(alloc.getType()) ? symmetricBytes : arenaBytes;
      bytes = std::max(bytes, bytesOf(alloc));
    });
    return success();
  }

  int64_t bytesUnshared = 0, arenaBytes = 0, symmetricBytes = 0;

private:
  LogicalResult verify(const BufferLife &life) {
    AllocOp alloc = life.alloc;
    if (bytesOf(alloc) < 0)
      return alloc.emitOpError() << "expected a buffer of at most " << kMaxArenaBytes
                                 << " bytes, found " << alloc.getType();
    if (bytesOf(alloc) * numPlaces(life) > kMaxArenaBytes)
      return alloc.emitOpError() << "expected a buffer whose slots take at most " << kMaxArenaBytes
                                 << " bytes, found " << alloc.getType() << " for "
                                 << numPlaces(life) << " workers";
    if (life.unordered) {
      InFlightDiagnostic diag = life.unordered->emitOpError()
                                << "expected to be ordered after the buffer's alloc by streams and "
                                   "'hostir.sync'";
      diag.attachNote(alloc.getLoc()) << "the alloc";
      return diag;
    }
    if (life.overlapsItself) {
      InFlightDiagnostic diag =
          alloc.emitOpError() << "expected each iteration's buffer to end before the next one "
                                 "reuses its slot, found an access that is not ordered before that";
      if (life.lastAccess)
        diag.attachNote(life.lastAccess->getLoc()) << "the last access";
      return diag;
    }
    if (isSymmetric(alloc.getType()) && alloc->getParentOp() != program)
      return alloc.emitOpError() << "expected buffers in symmetric memory outside loops and "
                                    "conditions: peers may access them at any time";
    return success();
  }

  void buildFrames() {
    llvm::DenseMap<std::pair<Operation *, int>, unsigned> frameOf;
    auto topOf = [&](Operation *op) {
      return program.getBody().front().findAncestorOpInBlock(*op);
    };
    auto add = [&](const BufferLife &life, Operation *top, int stream) {
      unsigned index = frames.size();
      if (top)
        index = frameOf.try_emplace({top, stream}, index).first->second;
      if (index == frames.size())
        frames.emplace_back();
      frames[index].lives.push_back(&life);
    };
    for (const auto &[op, life] : lives)
      if (!isSymmetric(op->getResult(0).getType()) && life.variesInStream())
        add(life, topOf(op) != op && life.endsInText() ? topOf(op) : nullptr, kUnknownWorker);
    // A buffer of one worker in some iteration goes into that worker's slot of the loop's frame,
    // unless this makes all slots larger.
    for (const auto &[op, life] : lives) {
      if (isSymmetric(op->getResult(0).getType()) || life.variesInStream())
        continue;
      bool mayShare = topOf(op) != op && life.endsInText();
      auto around = frameOf.find({topOf(op), kUnknownWorker});
      if (mayShare && around != frameOf.end() && fitsInto(frames[around->second], life))
        frames[around->second].lives.push_back(&life);
      else
        add(life, mayShare ? topOf(op) : nullptr, life.firstStream);
    }
  }

  // Writes offsets within the slot to the allocs; planArena adds the frame's offset.
  void layOut(Frame &frame) {
    SmallVector<ArenaItem> items;
    int64_t bytes = layOutPlace(frame.lives, items);
    const BufferLife &first = *frame.lives.front();
    frame.item = {0, first.firstAlloc, first.start, first.end, 0};
    int firstStream = first.firstStream, lastStream = first.lastStream;
    for (auto [life, place] : llvm::zip_equal(frame.lives, items)) {
      bytesUnshared += place.size * numPlaces(*life);
      for (size_t s = 0; s < frame.item.start.size(); ++s) {
        frame.item.start[s] = std::min(frame.item.start[s], life->start[s]);
        frame.item.end[s] = std::max(frame.item.end[s], life->end[s]);
      }
      frame.item.first = std::min(frame.item.first, life->firstAlloc);
      firstStream = std::min(firstStream, life->firstStream);
      lastStream = std::max(lastStream, life->lastStream);
    }
    for (auto [life, item] : llvm::zip_equal(frame.lives, items))
      setPlace(life->alloc, item.offset, 0);
    frame.item.size = bytes * (lastStream - firstStream + 1);
    if (firstStream != lastStream) {
      // Worker w's slot is at offset + w * pitch. Workers before the first have none, so worker 0's
      // may lie before the arena.
      frame.pitch = bytes;
      frame.firstPlace = firstStream - 1;
    }
  }

  // Peers write symmetric memory. So B may reuse the memory of A if each rank that writes B at a
  // peer knows that the peer has finished with A: the peer raised signals after its last access of
  // A, and the rank waited for them before B begins.
  LogicalResult planSymmetric() {
    std::vector<ArenaItem> items;
    SmallVector<const BufferLife *> buffers;
    std::vector<SmallVector<Clock, 1>> ends; // [item][channel of B]
    for (const auto &[op, life] : lives) {
      if (!isSymmetric(op->getResult(0).getType()))
        continue;
      Clock start(life.end.size(), -1), never(start.size(), std::numeric_limits<Position>::max());
      std::optional<Clock> end = peers.arrivalOf(op);
      if (end)
        joinClock(*end, life.end);
      // The next run but one writes A over B of this run: A's writers must know, too.
      auto isOrdered = [&](unsigned channel) {
        return peers.knownToPeers(channel, start).has_value();
      };
      if (!llvm::all_of(peers.channelsInto(op), isOrdered))
        end.reset();
      ArenaItem &item = items.emplace_back();
      item = {bytesOf(life.alloc), life.firstAlloc, life.start, end.value_or(never)};
      SmallVector<Clock, 1> &known = ends.emplace_back();
      for (unsigned channel = 0; channel < peers.numChannels(); ++channel) {
        std::optional<Clock> after = end ? peers.knownToPeers(channel, *end) : std::nullopt;
        known.push_back(after.value_or(never));
        joinClock(item.end, known.back());
      }
      known.push_back(end.value_or(never)); // for a B without remote writes
      buffers.push_back(&life);
      bytesUnshared += item.size;
    }
    auto interferences = findInterferences(items);
    llvm::erase_if(interferences, [&](const auto &interference) {
      auto isOver = [&](unsigned channel) {
        return isBefore(ends[interference.first][channel], items[interference.second].start);
      };
      return isOver(peers.numChannels()) &&
             llvm::all_of(peers.channelsInto(buffers[interference.second]->alloc), isOver);
    });
    symmetricBytes = placeItems(items, interferences);
    for (auto [life, item] : llvm::zip_equal(buffers, items))
      setPlace(life->alloc, item.offset, 0);
    return checkArena(symmetricBytes);
  }

  LogicalResult checkArena(int64_t bytes) {
    if (bytes <= kMaxArenaBytes)
      return success();
    return program.emitOpError() << "expected buffers of at most " << kMaxArenaBytes
                                 << " bytes, found " << bytes;
  }

  LogicalResult planArena() {
    std::vector<ArenaItem> items;
    for (Frame &frame : frames) {
      layOut(frame);
      items.push_back(frame.item);
    }
    arenaBytes = placeItems(items, findInterferences(items));
    if (failed(checkArena(arenaBytes)))
      return failure();
    for (auto [frame, item] : llvm::zip_equal(frames, items))
      for (const BufferLife *life : frame.lives) {
        AllocOp alloc = life->alloc;
        auto inner = static_cast<int64_t>(*alloc.getOffset());
        setPlace(alloc, item.offset - frame.pitch * frame.firstPlace + inner, frame.pitch);
      }
    return success();
  }

  void setPlace(AllocOp alloc, int64_t offset, int64_t pitch) {
    alloc.setOffset(offset);
    if (pitch)
      alloc.setPitch(pitch);
    else
      alloc.removePitchAttr();
  }

  ProgramOp program;
  const BufferLives &lives;
  const CrossRankOrder &peers;
  std::vector<Frame> frames;
};

} // namespace

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace {
struct PlanBuffers : public hostir::impl::PlanBuffersBase<PlanBuffers> {
  using PlanBuffersBase::PlanBuffersBase;

  void runOnOperation() override {
    ProgramOp program = getOperation();
    // Rank-dependent numbers matter only with one-sided messages.
    auto isPeers = [](Operation *op) {
      return isa<PutOp, PeerExchangeOp>(op) ? WalkResult::interrupt() : WalkResult::advance();
    };
    bool hasPeers = program.walk(isPeers).wasInterrupted();
    FailureOr<uint32_t> ranks = hasPeers ? worldSizeOf(program) : FailureOr<uint32_t>(0);
    if (failed(ranks))
      return signalPassFailure();
    ProgramWalk walk(program, *ranks);
    CrossRankOrder peers(walk);
    FailureOr<BufferLives> lives = computeBufferLives(program, walk, peers);
    if (failed(lives))
      return signalPassFailure();
    peers.finish();
    Planner planner(program, *lives, peers);
    if (failed(planner.plan()))
      return signalPassFailure();
    program.setArenaBytes(planner.arenaBytes);
    program.setSymmetricBytes(planner.symmetricBytes);
    // Only attributes are new, which hostir-verify checks: no need to verify every op again.
    markAllAnalysesPreserved();
    bytesUnshared += planner.bytesUnshared;
    bytesPlanned += planner.arenaBytes + planner.symmetricBytes;
    if (log)
      logger(*this, program) << "planned " << lives->size() << " buffers: " << planner.arenaBytes
                             << " + " << planner.symmetricBytes << " symmetric bytes, "
                             << planner.bytesUnshared << " without sharing";
  }
};
} // namespace
