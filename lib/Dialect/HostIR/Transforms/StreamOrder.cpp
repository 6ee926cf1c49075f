//===- StreamOrder.cpp - what happens before what -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StreamOrder.h"

#include "IndexValues.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;

// A bound on what a program may cost to evaluate; far above any real one.
static constexpr int64_t kMaxSteps = int64_t(1) << 26;

bool hostir::isBefore(ArrayRef<Position> earlier, ArrayRef<Position> clock) {
  for (auto [a, b] : llvm::zip_equal(earlier, clock))
    if (a > b)
      return false;
  return true;
}

StreamOrder::StreamOrder(ProgramOp program)
    : program(program), workers(static_cast<int64_t>(program.getWorkers())) {
  clocks.assign(workers + 1, Clock(workers + 1, 0));
  for (int64_t worker = 1; worker <= workers; ++worker)
    clocks[worker][kMainStream] = -1; // not ordered after the start until a sync says so
}

Clock StreamOrder::before(int stream) const {
  if (stream != kUnknownWorker) {
    Clock clock = clocks[stream];
    clock[stream] = position;
    return clock;
  }
  Clock least = before(1);
  for (int worker = 2; worker <= workers; ++worker)
    for (auto [a, b] : llvm::zip_equal(least, before(worker)))
      a = std::min(a, b);
  return least;
}

LogicalResult StreamOrder::run(Listener &client) {
  listener = &client;
  return runBlock(program.getBody().front());
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

std::optional<int64_t> StreamOrder::valueOf(Value value) const {
  auto found = numbers.find(value);
  return found == numbers.end() ? std::nullopt : std::optional(found->second);
}

void StreamOrder::setValue(Value value, std::optional<int64_t> number) {
  if (number)
    numbers[value] = *number;
  else
    numbers.erase(value);
}

void StreamOrder::evaluate(Operation &op) {
  if (op.getNumResults() == 1 && op.getResult(0).getType().isIntOrIndex())
    setValue(op.getResult(0), evaluateIndexOp(&op, [&](Value v) { return valueOf(v); }));
}

std::optional<int> StreamOrder::streamNumber(Value stream) const {
  if (stream.getDefiningOp<MainStreamOp>())
    return kMainStream;
  auto worker = stream.getDefiningOp<WorkerStreamOp>();
  if (!worker)
    return std::nullopt;
  std::optional<int64_t> index = valueOf(worker.getIndex());
  if (!index)
    return kUnknownWorker;
  return static_cast<int>(1 + static_cast<uint64_t>(*index) % static_cast<uint64_t>(workers));
}

FailureOr<int> StreamOrder::streamOf(Operation &user, Value stream) const {
  if (std::optional<int> number = streamNumber(stream))
    return *number;
  return user.emitOpError() << "expected a stream of 'hostir.main_stream' or "
                               "'hostir.worker_stream', found another value";
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

LogicalResult StreamOrder::runBlock(Block &block) {
  for (Operation &op : block)
    if (failed(runOp(op)) || failed(listener->afterOp(&op)))
      return failure();
  return success();
}

LogicalResult StreamOrder::runOp(Operation &op) {
  if (++steps > kMaxSteps)
    return op.emitOpError() << "expected a program of at most " << kMaxSteps
                            << " operations, found more";
  if (isa<scf::ForOp>(op))
    return runFor(op);
  if (isa<scf::IfOp>(op))
    return runIf(op);
  if (auto sync = dyn_cast<SyncOp>(op)) {
    if (failed(streamOf(op, sync.getWaiter())) || failed(streamOf(op, sync.getSignaler())))
      return failure();
    runSync(sync);
    return success();
  }
  if (auto group = dyn_cast<GroupOp>(op)) {
    ++position;
    if (failed(runBlock(group.getBody().front())))
      return failure();
    FailureOr<int> stream = streamOf(op, group.getStream());
    return failed(stream) ? failure() : listener->onCommand(&op, *stream);
  }
  if (op.getNumRegions() != 0)
    return op.emitOpError() << "expected 'scf.for' or 'scf.if' as control flow of a program";
  if (isa<HostIRDialect>(op.getDialect()) && getStream(&op))
    return runCommand(op);
  evaluate(op);
  return success();
}

LogicalResult StreamOrder::runFor(Operation &op) {
  auto loop = cast<scf::ForOp>(op);
  auto enter = [&](ValueRange from) {
    SmallVector<std::optional<int64_t>> carried;
    for (Value value : from)
      carried.push_back(valueOf(value));
    return carried;
  };
  SmallVector<std::optional<int64_t>> carried = enter(loop.getInitArgs());
  std::optional<int64_t> lower = valueOf(loop.getLowerBound());
  std::optional<int64_t> upper = valueOf(loop.getUpperBound());
  std::optional<int64_t> step = valueOf(loop.getStep());
  auto runBody = [&](std::optional<int64_t> index) {
    setValue(loop.getInductionVar(), index);
    for (auto [argument, number] : llvm::zip_equal(loop.getRegionIterArgs(), carried))
      setValue(argument, number);
    if (failed(runBlock(*loop.getBody())))
      return failure();
    carried = enter(loop.getYieldedValues());
    return success();
  };

  if (lower && upper && step && *step > 0) {
    bool overflows = false;
    for (int64_t index = *lower; index < *upper && !overflows;
         overflows = llvm::AddOverflow(index, *step, index))
      if (failed(runBody(index)))
        return failure();
  } else {
    // Any number of times: twice shows what one iteration does to the next; what it orders may not
    // have happened.
    SmallVector<Clock> entered = clocks;
    for (int time = 0; time < 2; ++time) {
      carried.assign(carried.size(), std::nullopt);
      if (failed(runBody(std::nullopt)))
        return failure();
    }
    carried.assign(carried.size(), std::nullopt);
    clocks = std::move(entered);
  }
  for (auto [result, number] : llvm::zip_equal(loop.getResults(), carried))
    setValue(result, number);
  return success();
}

LogicalResult StreamOrder::runIf(Operation &op) {
  auto branch = cast<scf::IfOp>(op);
  std::optional<int64_t> condition = valueOf(branch.getCondition());
  for (Value result : branch.getResults())
    setValue(result, std::nullopt);
  if (condition) {
    Region &region = *condition ? branch.getThenRegion() : branch.getElseRegion();
    if (region.empty())
      return success();
    if (failed(runBlock(region.front())))
      return failure();
    for (auto [result, value] :
         llvm::zip_equal(branch.getResults(), region.front().getTerminator()->getOperands()))
      setValue(result, valueOf(value));
    return success();
  }
  // Either: accesses of both, the order that both give.
  SmallVector<Clock> entered = clocks;
  if (failed(runBlock(branch.getThenRegion().front())))
    return failure();
  std::swap(entered, clocks);
  if (!branch.getElseRegion().empty() && failed(runBlock(branch.getElseRegion().front())))
    return failure();
  for (auto [mine, other] : llvm::zip_equal(clocks, entered))
    for (auto [a, b] : llvm::zip_equal(mine, other))
      a = std::min(a, b);
  return success();
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

void StreamOrder::runSync(SyncOp op) {
  int waiter = *streamOf(*op, op.getWaiter()), signaler = *streamOf(*op, op.getSignaler());
  // A worker that depends on the rank: nothing holds on every rank.
  if (waiter == kUnknownWorker || signaler == kUnknownWorker || waiter == signaler)
    return;
  Clock seen = before(signaler);
  for (auto [a, b] : llvm::zip_equal(clocks[waiter], seen))
    a = std::max(a, b);
}

LogicalResult StreamOrder::runCommand(Operation &op) {
  FailureOr<int> stream = streamOf(op, getStream(&op));
  if (failed(stream))
    return failure();
  if (!isa<SendOp, RecvOp>(op))
    ++position; // members of a group are at its place
  if (auto alloc = dyn_cast<AllocOp>(op))
    return listener->onAlloc(alloc, *stream);
  if (auto dealloc = dyn_cast<DeallocOp>(op))
    return listener->onDealloc(dealloc, *stream);

  SmallVector<MemoryEffects::EffectInstance> effects;
  cast<MemoryEffectOpInterface>(op).getEffects(effects);
  for (const MemoryEffects::EffectInstance &effect : effects) {
    Value buffer = effect.getValue();
    if (!buffer || !isa<MemRefType>(buffer.getType()))
      continue;
    Value root = getViewRoot(buffer);
    bool isArgument =
        isa<BlockArgument>(root) && root.getParentBlock() == &program.getBody().front();
    if (!root.getDefiningOp<AllocOp>() && !isArgument)
      return op.emitOpError()
             << "expected buffers that are views of arguments or of 'hostir.alloc', found another";
    bool writes = isa<MemoryEffects::Write>(effect.getEffect());
    if (failed(listener->onAccess(&op, root, writes, *stream)))
      return failure();
  }
  // A put also touches the local copy's name, but not its memory.
  return isa<SendOp, RecvOp>(op) ? success() : listener->onCommand(&op, *stream);
}
