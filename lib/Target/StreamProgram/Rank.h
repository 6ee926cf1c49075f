//===- Rank.h - the tables and commands of one rank -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_STREAMPROGRAM_RANK_H
#define TANDEM_LIB_TARGET_STREAMPROGRAM_RANK_H

#include "Code.h"
#include "Streams.h"
#include "Views.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "tandem/Support/LLVM.h"

namespace tandem::target {

/// A mutable sp::Command.
struct RawCommand {
  sp::CommandKind kind;
  uint8_t flags = 0;
  uint8_t op = 0;
  uint8_t reduceOp = 0;
  uint16_t stream = 0; ///< a slot of StreamTable until `finish`
  uint16_t channel = 0xffff;
  uint32_t name = 0;
  uint32_t operands[4] = {kNone, kNone, kNone, kNone};
  uint32_t peer = 0;
  uint32_t aux = 0;
  uint32_t padding = 0;
  uint64_t value = 0;
  uint64_t reserved = 0;
};
static_assert(sizeof(RawCommand) == sizeof(sp::Command) && FLATBUFFERS_LITTLEENDIAN);

/// Renumbers the used numbers of a rank in order of first use.
class Renumbering {
public:
  void reset() {
    ++epoch;
    used.clear();
  }
  uint32_t operator()(uint32_t number) {
    if (LLVM_UNLIKELY(number >= entries.size()))
      entries.resize(number + 1);
    Entry &entry = entries[number];
    if (entry.epoch != epoch) {
      entry = {epoch, static_cast<uint32_t>(used.size())};
      used.push_back(number);
    }
    return entry.local;
  }
  /// Old number of each new one.
  ArrayRef<uint32_t> list() const { return used; }

private:
  struct Entry {
    uint32_t epoch = 0, local = 0;
  };
  std::vector<Entry> entries;
  std::vector<uint32_t> used;
  uint32_t epoch = 0;
};

/// One argument's shard on one rank.
struct ShardInfo {
  bool present = true;
  uint32_t term = 0; ///< of a partial argument
  fusion::StridedWalk walk;
  SmallVector<int64_t, 4> localShape;
  int64_t bytes = 0; ///< of the embedder's buffer
};

/// Collects one rank's program; its memory is reused for each rank.
class RankTables {
public:
  explicit RankTables(const Code &code) : streams(code.workers), code(code), slots(1024) {}

  void reset();

  /// Appends a command of an instruction on a stream.
  RawCommand &command(sp::CommandKind kind, const Instr &instr, int64_t stream) {
    return append(kind, instr, streams.issue(stream));
  }
  /// Removes the last command.
  void cancel() {
    streams.cancel(commands.back().stream);
    commands.pop_back();
  }
  void sync(const Instr &instr, int64_t waiter, int64_t signaler);
  /// The number of a view; none if it exceeds its buffer, or its part of an argument in parts.
  std::optional<uint32_t> view(View view);
  /// The view of that number; its layout is Code's.
  View viewAt(uint32_t number) const {
    View view = views[number];
    view.layout = layouts.list()[view.layout];
    return view;
  }
  uint32_t kernel(uint32_t kernel) { return kernels(kernel); }
  /// Starts a live range of one of Code's buffers, for View::buffer. Distinct live ranges are
  /// distinct buffers.
  uint32_t life(uint32_t buffer) {
    lives.push_back(buffer);
    return static_cast<uint32_t>(code.buffers.size() + lives.size() - 1);
  }
  /// The buffer of a view: an argument's, or a live range's.
  const BufferInfo &bufferOf(const View &view) const { return bufferOf(view.buffer); }

  /// The finished program as a FlatBuffer, valid until the next call. `signalSlots`: over all
  /// ranks.
  ArrayRef<uint8_t> finish(uint32_t rank, ArrayRef<ShardInfo> shards,
                           ArrayRef<uint64_t> signalSlots, uint64_t symmetricBytes);

  std::vector<RawCommand> commands;
  std::vector<uint32_t> launchOperands;
  std::vector<sp::CallPlace> callPlaces;
  std::vector<sp::ExchangeT> exchanges;
  uint64_t droppedSyncs = 0;

private:
  RawCommand &append(sp::CommandKind kind, const Instr &instr, uint32_t place) {
    commands.push_back(RawCommand{kind});
    RawCommand &raw = commands.back();
    raw.stream = static_cast<uint16_t>(place);
    raw.name = names(instr.name);
    return raw;
  }
  const BufferInfo &bufferOf(uint32_t number) const {
    size_t known = code.buffers.size();
    return code.buffers[number < known ? number : lives[number - known]];
  }
  void numberStreams();
  void growViews();
  static size_t hashOf(const View &view) {
    uint64_t h = (uint64_t(view.buffer) << 32 | view.layout) * 0x9e3779b97f4a7c15ull ^
                 static_cast<uint64_t>(view.offset) * 0xbf58476d1ce4e5b9ull;
    return h ^ h >> 31;
  }

  struct Slot {
    uint32_t epoch = 0, local = 0;
    View view;
  };

  StreamTable streams;
  const Code &code;
  Renumbering names, layouts, buffers, kernels;
  std::vector<uint32_t> lives; ///< per live range: index in Code::buffers
  std::vector<View> views;
  std::vector<Slot> slots; ///< of the hash table of views: linear probing; a power of two
  uint32_t epoch = 0, numStreams = 1, numEvents = 0;
  flatbuffers::FlatBufferBuilder builder;
};

} // namespace tandem::target

#endif // TANDEM_LIB_TARGET_STREAMPROGRAM_RANK_H
