//===- Verify.cpp - the post-conditions of the hostir stage -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BufferLives.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "tandem/Dialect/HostIR/Transforms/Passes.h"
#include "tandem/Support/ElementTypes.h"

namespace tandem::hostir {
#define GEN_PASS_DEF_VERIFY
#include "tandem/Dialect/HostIR/Transforms/Passes.h.inc"
} // namespace tandem::hostir

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;

//===----------------------------------------------------------------------===//
// Local properties of each op: c1 to c4, c6
//===----------------------------------------------------------------------===//

// verify_c1
static LogicalResult verifyKind(Operation *op) {
  if (isa_and_present<HostIRDialect, arith::ArithDialect>(op->getDialect()) ||
      isa<scf::ForOp, scf::IfOp, scf::YieldOp>(op) || isView(op))
    return success();
  return op->emitOpError() << "expected only operations of 'hostir' and 'arith', 'scf.for', "
                              "'scf.if' and views of memrefs in a program";
}

// verify_c2. ProgramWalk follows streams and buffers too, but loops may hide them.
static LogicalResult verifyOrigins(Operation *op) {
  for (Value operand : op->getOperands()) {
    Operation *definition = operand.getDefiningOp();
    if (isa<StreamType>(operand.getType()) &&
        !isa_and_present<MainStreamOp, WorkerStreamOp>(definition))
      return op->emitOpError() << "expected a stream of 'hostir.main_stream' or "
                                  "'hostir.worker_stream', found another value";
    if (isa<ChannelType>(operand.getType()) && !isa_and_present<ChannelOp>(definition))
      return op->emitOpError() << "expected a channel of 'hostir.channel', found another value";
    if (!isa<MemRefType>(operand.getType()))
      continue;
    Value root = getViewRoot(operand);
    bool isArgument =
        isa<BlockArgument>(root) && isa<ProgramOp>(root.getParentBlock()->getParentOp());
    if (!isArgument && !root.getDefiningOp<AllocOp>())
      return op->emitOpError() << "expected buffers that are views of arguments or of "
                                  "'hostir.alloc', found another";
  }
  return success();
}

// verify_c3
static LogicalResult verifyChannel(ChannelOp op, llvm::StringMap<ChannelOp> &channels) {
  auto [entry, isNew] = channels.try_emplace(op.getName(), op);
  if (isNew || entry->second->getAttrDictionary() == op->getAttrDictionary())
    return success();
  InFlightDiagnostic diag = op.emitOpError() << "expected channel " << op.getNameAttr()
                                             << " as it was defined before, found another";
  diag.attachNote(entry->second.getLoc()) << "defined here";
  return diag;
}

// verify_c4
static LogicalResult verifyCollective(CollectiveOp op) {
  auto channel = op.getChannel().getDefiningOp<ChannelOp>();
  if (!channel || channel.can(Capability::Collectives))
    return success();
  InFlightDiagnostic diag =
      op.emitOpError()
      << "expected a channel with 'collectives' (or run hostir-expand-collectives)";
  diag.attachNote(channel.getLoc()) << "channel " << channel.getNameAttr() << " cannot";
  return diag;
}

// verify_c10
static LogicalResult verifyOrder(CollectiveOp op, ProgramOp program) {
  bool adds = op.getReduction() == ReduceKind::Sum &&
              isa<FloatType>(cast<MemRefType>(op.getOutput().getType()).getElementType());
  if (!program.getDeterministic() || !adds)
    return success();
  return op.emitOpError() << "expected no collective that adds floats in a deterministic program, "
                             "since its order of addition is unknown";
}

// The first op after `end` in its block that uses a view of `buffer`.
static Operation *findUseAfter(Value buffer, Operation *end) {
  for (Operation *user : buffer.getUsers()) {
    Operation *ancestor = end->getBlock()->findAncestorOpInBlock(*user);
    bool isViewOp = isView(user);
    if (!isViewOp && user != end && ancestor && end->isBeforeInBlock(ancestor))
      return user;
    if (isViewOp)
      for (Value view : user->getResults())
        if (Operation *use = findUseAfter(view, end))
          return use;
  }
  return nullptr;
}

// verify_c6
static LogicalResult verifyDealloc(AllocOp alloc) {
  DeallocOp dealloc;
  for (Operation *user : alloc->getUsers()) {
    auto other = dyn_cast<DeallocOp>(user);
    if (!other)
      continue;
    if (dealloc) {
      InFlightDiagnostic diag = alloc.emitOpError()
                                << "expected exactly one 'hostir.dealloc', found another";
      diag.attachNote(other.getLoc()) << "the other";
      return diag;
    }
    dealloc = other;
  }
  if (!dealloc)
    return alloc.emitOpError() << "expected exactly one 'hostir.dealloc', found none";
  if (dealloc->getBlock() != alloc->getBlock())
    return dealloc.emitOpError() << "expected to be in the block of the buffer's alloc";
  if (Operation *use = findUseAfter(alloc, dealloc)) {
    InFlightDiagnostic diag = use->emitOpError() << "expected no use of a buffer after its dealloc";
    diag.attachNote(dealloc.getLoc()) << "the dealloc";
    return diag;
  }
  return success();
}

// verify_c9
static LogicalResult verifyArguments(ProgramOp program) {
  llvm::DenseMap<Value, Operation *> writers;
  program.walk([&](MemoryEffectOpInterface op) {
    if (isa<GroupOp, GatedMatmulOp>(op.getOperation()))
      return;
    SmallVector<MemoryEffects::EffectInstance> effects;
    op.getEffects(effects);
    for (const MemoryEffects::EffectInstance &effect : effects)
      if (effect.getValue() && isa<MemoryEffects::Write>(effect.getEffect()))
        writers.try_emplace(getViewRoot(effect.getValue()), op);
    if (auto put = dyn_cast<PutOp>(op.getOperation()))
      writers.try_emplace(getViewRoot(put.getTarget()), op);
  });
  for (BlockArgument argument : program.getArguments()) {
    unsigned index = argument.getArgNumber();
    bool isResult = program.getArgAttr(index, kResultAttrName) != nullptr;
    Operation *writer = writers.lookup(argument);
    if (isResult && !writer && cast<MemRefType>(argument.getType()).getNumElements() != 0)
      return program.emitOpError() << "expected result argument " << index
                                   << " to be written, found no command that writes it";
    if (!isResult && writer && !isSymmetric(argument.getType()))
      return writer->emitOpError() << "expected no write to input argument " << index;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Properties of the order: c7, c8
//===----------------------------------------------------------------------===//

namespace {
class OrderVerifier : public ProgramWalk::Listener {
public:
  explicit OrderVerifier(ProgramWalk &walk) : order(walk) {
    lastCommands.assign(order.numStreams(), {0, nullptr});
  }

  /// Call after the walk.
  LogicalResult finish() const {
    Clock end = order.before(kMainStream);
    for (auto [stream, last] : llvm::enumerate(lastCommands))
      if (last.first > end[stream])
        return last.second->emitOpError()
               << "expected the end of the main stream to be ordered after all commands of worker "
               << stream - 1 << ", but this command is not";
    return success();
  }

  LogicalResult onAlloc(AllocOp op, int) override {
    accesses[op].assign(order.numStreams(), -1);
    return success();
  }

  LogicalResult onAccess(Operation *op, Value root, bool, int stream) override {
    Operation *alloc = root.getDefiningOp();
    if (alloc && stream != kUnknownWorker)
      accesses[alloc][stream] = order.now();
    return success();
  }

  LogicalResult onDealloc(DeallocOp op, int stream) override {
    Operation *alloc = op.getBuffer().getDefiningOp();
    if (stream == kUnknownWorker || isBefore(accesses[alloc], order.before(stream)))
      return success();
    InFlightDiagnostic diag = op.emitOpError()
                              << "expected a stream that is ordered after all accesses of the "
                                 "buffer";
    diag.attachNote(alloc->getLoc()) << "the alloc";
    return diag;
  }

  LogicalResult onCommand(Operation *op, int stream) override {
    if (stream == kUnknownWorker)
      return success();
    if (order.before(stream)[kMainStream] < 0)
      return op->emitOpError() << "expected worker " << stream - 1
                               << " to be ordered after the start of the main stream by "
                                  "'hostir.sync'";
    lastCommands[stream] = {order.now(), op};
    return success();
  }

private:
  ProgramWalk &order;
  std::vector<std::pair<Position, Operation *>> lastCommands;
  llvm::DenseMap<Operation *, Clock> accesses;
};

struct Verify : public hostir::impl::VerifyBase<Verify> {
  using VerifyBase::VerifyBase;

  void runOnOperation() override {
    if (failed(verifyText()) || failed(verifyPlaces()))
      signalPassFailure();
    markAllAnalysesPreserved();
  }

  LogicalResult verifyText() {
    llvm::StringMap<ChannelOp> channels;
    WalkResult walk = getOperation().walk([&](Operation *op) -> WalkResult {
      if (isa<ProgramOp>(op))
        return WalkResult::advance();
      if (failed(verifyKind(op)) || failed(verifyOrigins(op)))
        return WalkResult::interrupt();
      if (auto channel = dyn_cast<ChannelOp>(op))
        return verifyChannel(channel, channels);
      if (auto collective = dyn_cast<CollectiveOp>(op))
        return success(succeeded(verifyCollective(collective)) &&
                       succeeded(verifyOrder(collective, getOperation())));
      if (auto alloc = dyn_cast<AllocOp>(op))
        return verifyDealloc(alloc);
      return WalkResult::advance();
    });
    return walk.wasInterrupted() ? failure() : verifyArguments(getOperation());
  }

  // verify_c5, c7 and c8.
  LogicalResult verifyPlaces() {
    ProgramOp program = getOperation();
    ProgramWalk order(program);
    OrderVerifier verifier(order);
    FailureOr<BufferLives> lives = computeBufferLives(program, order, verifier);
    if (failed(lives) || failed(verifier.finish()))
      return failure();
    WalkResult walk = program.walk([&](AllocOp alloc) -> WalkResult {
      std::optional<uint64_t> arena =
          isSymmetric(alloc.getType()) ? program.getSymmetricBytes() : program.getArenaBytes();
      if (!alloc.getOffset() || !arena)
        return alloc.emitOpError()
               << "expected an offset in the arena, found none (run hostir-plan-buffers first)";
      auto found = lives->find(alloc);
      int64_t firstWorker = 0, lastWorker = 0;
      if (found != lives->end()) {
        if (Operation *access = found->second.unordered)
          return access->emitOpError() << "expected to be ordered after the buffer's alloc by "
                                          "streams and 'hostir.sync'";
        firstWorker = std::max(found->second.firstStream - 1, 0);
        lastWorker = std::max(found->second.lastStream - 1, 0);
      }
      return verifyPlace(alloc, static_cast<int64_t>(*arena), firstWorker, lastWorker);
    });
    return failure(walk.wasInterrupted());
  }

  static LogicalResult verifyPlace(AllocOp alloc, int64_t arena, int64_t firstWorker,
                                   int64_t lastWorker) {
    MemRefType type = alloc.getType();
    int64_t bytes = getElementBytes(type.getElementType()), begin = 0, end = 0;
    bool overflows = false;
    for (int64_t extent : type.getShape())
      overflows |= llvm::MulOverflow(bytes, extent, bytes);
    auto pitch = static_cast<int64_t>(alloc.getPitch().value_or(0));
    auto offset = static_cast<int64_t>(*alloc.getOffset());
    overflows |= llvm::MulOverflow(pitch, firstWorker, begin);
    overflows |= llvm::AddOverflow(begin, offset, begin);
    overflows |= llvm::MulOverflow(pitch, lastWorker, end);
    overflows |= llvm::AddOverflow(end, offset, end);
    overflows |= llvm::AddOverflow(end, bytes, end);
    if (!overflows && begin >= 0 && end <= arena)
      return success();
    return alloc.emitOpError() << "expected an offset inside the arena of " << arena << " bytes";
  }
};
} // namespace
