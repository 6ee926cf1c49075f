//===- BufferLives.cpp - when each buffer is used -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BufferLives.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;

namespace {

/// Pre-order numbers of ops, and of the last op inside each.
struct TextOrder {
  explicit TextOrder(ProgramOp program) { visit(program); }

  void visit(Operation *op) {
    int64_t number = next++;
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (Operation &inner : block)
          visit(&inner);
    numbers[op] = {number, next - 1};
  }

  int64_t begin(Operation *op) const { return numbers.lookup(op).first; }
  int64_t end(Operation *op) const { return numbers.lookup(op).second; }

  llvm::DenseMap<Operation *, std::pair<int64_t, int64_t>> numbers;
  int64_t next = 0;
};

/// The current live range of an alloc's result.
struct CurrentLife {
  int stream = 0;
  Position begin = 0;
};

class Collector : public ProgramWalk::Listener {
public:
  Collector(ProgramOp program, ProgramWalk &walk) : order(walk), text(program) {}

  /// Call after the walk.
  BufferLives finish() {
    for (auto &[op, life] : lives) {
      life.textBegin = life.textEnd = text.begin(op);
      if (life.lastAccess)
        life.textEnd = text.end(op->getBlock()->findAncestorOpInBlock(*life.lastAccess));
      auto dealloc = deallocs.find(op);
      life.isBracketed = dealloc != deallocs.end() && dealloc->second &&
                         dealloc->second->getBlock() == op->getBlock();
      if (life.isBracketed && !life.isOnOneStream)
        life.textEnd = std::max(life.textEnd, text.begin(dealloc->second));
      // On an unknown worker, live ranges are ordered only if that worker alone uses them.
      if (life.hasUnknownStream && !life.isOnOneStream)
        life.overlapsItself = true;
    }
    return std::move(lives);
  }

  LogicalResult onAlloc(AllocOp op, int stream) override {
    BufferLife &life = lives[op];
    Clock begin = order.before(stream);
    int first = stream, last = stream;
    if (stream == kUnknownWorker) {
      life.hasUnknownStream = true;
      first = 1;
      last = static_cast<int>(order.numStreams()) - 1;
    }
    if (!life.everAllocated) {
      life.alloc = op;
      life.everAllocated = true;
      life.firstAlloc = order.now();
      life.start = begin;
      life.end = Clock(order.numStreams(), -1);
      life.firstStream = first;
      life.lastStream = last;
    }
    for (auto [a, b] : llvm::zip_equal(life.start, begin))
      a = std::min(a, b);
    life.firstStream = std::min(life.firstStream, first);
    life.lastStream = std::max(life.lastStream, last);

    // The previous live range of this slot was on this stream; all of its accesses are known.
    for (int place = first; place <= last; ++place) {
      auto [entry, isNew] = ends.try_emplace({op, place}, order.numStreams(), -1);
      Clock &previous = entry->second;
      // On an unknown worker the stream itself orders them, if no other stream uses them.
      if (!isNew && stream != kUnknownWorker && !isBefore(previous, begin))
        life.overlapsItself = true;
      previous.assign(order.numStreams(), -1);
    }
    current[op] = {stream, order.now()};
    return success();
  }

  LogicalResult onAccess(Operation *op, Value root, bool, int stream) override {
    auto alloc = root.getDefiningOp<AllocOp>();
    if (!alloc)
      return success();
    BufferLife &life = lives[alloc];
    const CurrentLife &now = current[alloc];
    // The same stream by number, or the same value.
    bool isOwn = isSameStream(getStream(op), alloc.getStream()) ||
                 (stream == now.stream && stream != kUnknownWorker);
    if (!isOwn) {
      life.isOnOneStream = false;
      if (!life.unordered && !isOrderedAfter(now, stream))
        life.unordered = op;
    }
    if (!life.lastAccess || text.begin(op) > text.begin(life.lastAccess))
      life.lastAccess = op;
    if (stream != kUnknownWorker) {
      extend(life, alloc, now, stream);
      return success();
    }
    for (int worker = 1; worker < static_cast<int>(order.numStreams()); ++worker)
      extend(life, alloc, now, worker);
    return success();
  }

  LogicalResult onDealloc(DeallocOp op, int stream) override {
    Operation *alloc = op.getBuffer().getDefiningOp();
    auto now = current.find(alloc);
    bool isOver = now != current.end() && stream == now->second.stream &&
                  stream != kUnknownWorker && isBefore(ends[{alloc, stream}], order.before(stream));
    auto [dealloc, isFirst] = deallocs.try_emplace(alloc, op);
    if (!isOver || dealloc->second != op)
      dealloc->second = nullptr;
    return success();
  }

private:
  bool isOrderedAfter(const CurrentLife &life, int stream) const {
    if (life.stream == kUnknownWorker)
      return false;
    return order.before(stream)[life.stream] >= life.begin;
  }

  void extend(BufferLife &life, AllocOp alloc, const CurrentLife &now, int stream) {
    life.end[stream] = std::max(life.end[stream], order.now());
    if (now.stream != kUnknownWorker) {
      Position &end = ends[{alloc, now.stream}][stream];
      end = std::max(end, order.now());
    }
  }

  ProgramWalk &order;
  TextOrder text;
  BufferLives lives;
  llvm::DenseMap<Operation *, CurrentLife> current;
  /// By alloc; null if a live range does not end there.
  llvm::DenseMap<Operation *, Operation *> deallocs;
  llvm::DenseMap<std::pair<Operation *, int>, Clock> ends;
};

} // namespace

FailureOr<BufferLives> hostir::computeBufferLives(ProgramOp program, ProgramWalk &walk,
                                                  ProgramWalk::Listener &other) {
  Collector collector(program, walk);
  if (failed(walk.run({&collector, &other})))
    return failure();
  return collector.finish();
}
