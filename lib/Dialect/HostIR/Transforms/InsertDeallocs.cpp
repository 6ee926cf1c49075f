//===- InsertDeallocs.cpp - where buffers end -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BufferLives.h"
#include "PassLog.h"
#include "tandem/Dialect/HostIR/Transforms/Passes.h"

namespace tandem::hostir {
#define GEN_PASS_DEF_INSERTDEALLOCS
#include "tandem/Dialect/HostIR/Transforms/Passes.h.inc"
} // namespace tandem::hostir

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;

static bool hasDealloc(AllocOp alloc) {
  return llvm::any_of(alloc->getUsers(), [](Operation *user) { return isa<DeallocOp>(user); });
}

namespace {

/// A possible end of a buffer: a stream, and the op in the alloc's block after which that stream is
/// ordered after all accesses, in every live range. Null until found.
struct End {
  Value stream;
  Operation *after = nullptr;
  /// The stream was not ordered so in some live range.
  bool isMissed = false;
};

struct Pending {
  AllocOp alloc;
  /// The last access in the text, or the alloc; and the op of the alloc's block that contains it.
  Operation *lastAccess = nullptr, *lastUser = nullptr;
  /// Accesses of the current live range.
  Clock accesses;
  /// The alloc's stream, then the last access's.
  SmallVector<End, 2> ends;
  /// Whether each of `ends` is still open in the current live range.
  SmallVector<bool, 2> isWaiting;
};

/// After each op that may order something, checks whether a waiting buffer has ended.
class Finder : public ProgramWalk::Listener {
public:
  Finder(ProgramOp program, ProgramWalk &walk) : order(walk) {
    program.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (auto alloc = dyn_cast<AllocOp>(op); alloc && !hasDealloc(alloc)) {
        Pending &pending = buffers[op];
        pending.alloc = alloc;
        pending.lastAccess = op;
      } else if (isa<HostIRDialect>(op->getDialect()) && getStream(op)) {
        for (Value operand : op->getOperands())
          if (isa<MemRefType>(operand.getType()))
            if (auto found = buffers.find(getViewRoot(operand).getDefiningOp());
                found != buffers.end())
              found->second.lastAccess = op;
      }
    });
    for (auto &[op, pending] : buffers) {
      pending.lastUser = op->getBlock()->findAncestorOpInBlock(*pending.lastAccess);
      pending.ends.push_back({pending.alloc.getStream()});
      Value stream = getStream(pending.lastAccess);
      if (isDefinedBefore(stream, pending.lastUser) &&
          !isSameStream(stream, pending.alloc.getStream()))
        pending.ends.push_back({stream});
      endingAt[pending.lastUser].push_back(op);
    }
  }

  LogicalResult onAlloc(AllocOp op, int) override {
    auto found = buffers.find(op);
    if (found == buffers.end())
      return success();
    found->second.accesses = Clock(order.numStreams(), -1);
    return success();
  }

  LogicalResult onAccess(Operation *op, Value root, bool, int stream) override {
    auto found = buffers.find(root.getDefiningOp());
    if (found == buffers.end())
      return success();
    Clock &accesses = found->second.accesses;
    // Accesses on an unknown worker are at least ordered by their own stream: see isOver.
    if (stream != kUnknownWorker)
      accesses[stream] = order.now();
    else
      for (size_t worker = 1; worker < accesses.size(); ++worker)
        accesses[worker] = order.now();
    return success();
  }

  LogicalResult afterOp(Operation *op) override {
    auto ending = endingAt.find(op);
    if (ending != endingAt.end())
      for (Operation *alloc : ending->second) {
        Pending &pending = buffers[alloc];
        pending.isWaiting.assign(pending.ends.size(), true);
        waiting[alloc->getBlock()].push_back(alloc);
      }
    // Only syncs, also nested ones, add order. Skip blocks without waiting buffers.
    auto found = waiting.find(op->getBlock());
    if (found == waiting.end())
      return success();
    if (op->hasTrait<OpTrait::IsTerminator>()) {
      for (Operation *alloc : found->second)
        for (auto [end, isWaiting] : llvm::zip_equal(buffers[alloc].ends, buffers[alloc].isWaiting))
          end.isMissed |= isWaiting;
      found->second.clear();
      return success();
    }
    bool maySync = isa<SyncOp>(op) || op->getNumRegions() != 0;
    llvm::erase_if(found->second, [&](Operation *alloc) {
      Pending &pending = buffers[alloc];
      return (maySync || pending.lastUser == op) && check(pending, op);
    });
    return success();
  }

  llvm::MapVector<Operation *, Pending> buffers;

private:
  static bool isDefinedBefore(Value value, Operation *op) {
    Operation *definition = value.getDefiningOp();
    if (!definition)
      return true;
    // Defined in the alloc's block or around it.
    return definition->getBlock() == op->getBlock() ||
           definition->getParentRegion()->isProperAncestor(op->getParentRegion());
  }

  // True if no end of `pending` is open any more.
  bool check(Pending &pending, Operation *op) {
    bool waits = false;
    for (auto [end, isWaiting] : llvm::zip_equal(pending.ends, pending.isWaiting)) {
      if (isWaiting && isOver(pending, end)) {
        isWaiting = false;
        // Keep the last place, which holds for every live range.
        if (!end.after || end.after->isBeforeInBlock(op))
          end.after = op;
      }
      waits |= isWaiting;
    }
    return !waits;
  }

  bool isOver(const Pending &pending, const End &end) {
    std::optional<int> stream = order.streamNumber(end.stream);
    return stream && isBefore(pending.accesses, order.before(*stream));
  }

  ProgramWalk &order;
  llvm::DenseMap<Operation *, SmallVector<Operation *, 1>> endingAt;
  llvm::DenseMap<Block *, SmallVector<Operation *>> waiting;
};

struct InsertDeallocs : public hostir::impl::InsertDeallocsBase<InsertDeallocs> {
  using InsertDeallocsBase::InsertDeallocsBase;

  void runOnOperation() override {
    ProgramWalk walk(getOperation());
    Finder finder(getOperation(), walk);
    FailureOr<BufferLives> lives = computeBufferLives(getOperation(), walk, finder);
    if (failed(lives))
      return signalPassFailure();
    for (auto &[op, pending] : finder.buffers) {
      auto life = lives->find(op);
      if (life != lives->end() && failed(insert(pending, life->second)))
        return signalPassFailure();
    }
    // Never evaluated: free it after its alloc, or after its last use.
    getOperation().walk([&](AllocOp alloc) {
      if (!hasDealloc(alloc) && !lives->contains(alloc))
        insertAtEnd(alloc);
    });
  }

  LogicalResult insert(Pending &pending, const BufferLife &life) {
    AllocOp alloc = pending.alloc;
    // A live range on one stream ends there after its last access, on any worker.
    if (life.isOnOneStream)
      pending.ends = {{alloc.getStream(), pending.lastUser}};
    for (const End &end : pending.ends) {
      if (!end.after || end.isMissed)
        continue;
      OpBuilder builder(alloc.getContext());
      builder.setInsertionPointAfter(end.after);
      DeallocOp::create(builder, alloc.getLoc(), alloc, end.stream);
      if (log)
        logger(*this, alloc) << "ends on " << (end.stream == alloc.getStream() ? "its" : "another")
                             << " stream after '" << end.after->getName() << "'";
      ++numInserted;
      return success();
    }
    InFlightDiagnostic diag = alloc.emitOpError()
                              << "expected a point after all accesses in the alloc's block, on the "
                                 "alloc's stream or on that of the last access";
    if (life.lastAccess)
      diag.attachNote(life.lastAccess->getLoc()) << "the last access";
    return diag;
  }

  void insertAtEnd(AllocOp alloc) {
    Block *block = alloc->getBlock();
    OpBuilder builder(alloc.getContext());
    if (block->empty() || !block->back().hasTrait<OpTrait::IsTerminator>())
      builder.setInsertionPointToEnd(block);
    else
      builder.setInsertionPoint(&block->back());
    DeallocOp::create(builder, alloc.getLoc(), alloc, alloc.getStream());
    ++numInserted;
  }
};
} // namespace
