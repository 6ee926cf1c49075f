//===- ProgramWalk.cpp - one walk of a host program for all ranks -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/HostIR/Evaluate/ProgramWalk.h"

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

void hostir::joinClock(MutableArrayRef<Position> clock, ArrayRef<Position> other) {
  for (auto [a, b] : llvm::zip_equal(clock, other))
    a = std::max(a, b);
}

void hostir::meetClock(MutableArrayRef<Position> clock, ArrayRef<Position> other) {
  for (auto [a, b] : llvm::zip_equal(clock, other))
    a = std::min(a, b);
}

ProgramWalk::ProgramWalk(ProgramOp program, uint32_t ranks)
    : program(program), workers(static_cast<int64_t>(program.getWorkers())), tables(ranks) {
  clocks.assign(workers + 1, Clock(workers + 1, 0));
  for (int64_t worker = 1; worker <= workers; ++worker)
    clocks[worker][kMainStream] = -1; // not ordered after the start until a sync says so
}

Clock ProgramWalk::before(int stream) const {
  if (stream != kUnknownWorker) {
    Clock clock = clocks[stream];
    clock[stream] = position;
    return clock;
  }
  Clock least = before(1);
  for (int worker = 2; worker <= workers; ++worker)
    meetClock(least, before(worker));
  return least;
}

LogicalResult ProgramWalk::run(ArrayRef<Listener *> clients) {
  listeners = clients;
  return runBlock(program.getBody().front());
}

LogicalResult ProgramWalk::tell(function_ref<LogicalResult(Listener &)> event) {
  for (Listener *listener : listeners)
    if (failed(event(*listener)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Number ProgramWalk::tabulate(function_ref<int64_t(uint32_t)> numberOf) {
  std::vector<int64_t> entries(tables.numRanks());
  for (uint32_t rank = 0; rank < entries.size(); ++rank)
    entries[rank] = numberOf(rank);
  return tables.table(std::move(entries));
}

const MeshRanks &ProgramWalk::ranksOf(MeshAttr mesh) {
  return meshes.try_emplace(mesh, mesh, tables.numRanks()).first->second;
}

Number ProgramWalk::evaluateMeshOp(Operation &op) {
  if (tables.numRanks() == 0)
    return Number();
  if (auto index = dyn_cast<DeviceIndexOp>(op)) {
    int64_t axis = index.getMesh().axisIndex(index.getAxis());
    if (axis < 0)
      return Number();
    const MeshRanks &mesh = ranksOf(index.getMesh());
    return tabulate([&](uint32_t rank) { return mesh.indexOf(rank, axis); });
  }
  if (auto in = dyn_cast<InMeshOp>(op)) {
    const MeshRanks &mesh = ranksOf(in.getMesh());
    return tabulate([&](uint32_t rank) { return mesh.position[rank] >= 0; });
  }
  return Number();
}

void ProgramWalk::evaluate(Operation &op) {
  if (op.getNumResults() != 1 || !op.getResult(0).getType().isIntOrIndex())
    return;
  auto [integer, isNew] = integerOps.try_emplace(&op);
  if (isNew)
    integer->second = getIntegerOp(&op);
  Number result;
  if (integer->second)
    result = tables.evaluate(*integer->second, valueOf(op.getOperand(0)),
                             valueOf(op.getOperand(op.getNumOperands() - 1)));
  else if (std::optional<int64_t> constant = getConstantNumber(&op))
    result = Number::constant(*constant);
  else if (auto select = dyn_cast<arith::SelectOp>(op))
    result = tables.select(valueOf(select.getCondition()), valueOf(select.getTrueValue()),
                           valueOf(select.getFalseValue()));
  else
    result = evaluateMeshOp(op);
  setValue(op.getResult(0), result);
}

std::optional<int> ProgramWalk::streamNumber(Value stream) const {
  if (stream.getDefiningOp<MainStreamOp>())
    return kMainStream;
  auto worker = stream.getDefiningOp<WorkerStreamOp>();
  if (!worker)
    return std::nullopt;
  std::optional<int64_t> index = valueOf(worker.getIndex()).getConstant();
  if (!index)
    return kUnknownWorker;
  return static_cast<int>(1 + static_cast<uint64_t>(*index) % static_cast<uint64_t>(workers));
}

FailureOr<int> ProgramWalk::streamOf(Operation &user, Value stream) const {
  if (std::optional<int> number = streamNumber(stream))
    return *number;
  return user.emitOpError() << "expected a stream of 'hostir.main_stream' or "
                               "'hostir.worker_stream', found another value";
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

LogicalResult ProgramWalk::runBlock(Block &block) {
  for (Operation &op : block)
    if (failed(runOp(op)) || failed(tell([&](Listener &l) { return l.afterOp(&op); })))
      return failure();
  return success();
}

LogicalResult ProgramWalk::runOp(Operation &op) {
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
    if (failed(stream))
      return failure();
    return tell([&](Listener &l) { return l.onCommand(&op, *stream); });
  }
  if (op.getNumRegions() != 0)
    return op.emitOpError() << "expected 'scf.for' or 'scf.if' as control flow of a program";
  if (isa<HostIRDialect>(op.getDialect()) && getStream(&op))
    return runCommand(op);
  evaluate(op);
  return success();
}

LogicalResult ProgramWalk::runFor(Operation &op) {
  auto loop = cast<scf::ForOp>(op);
  auto valuesOf = [&](ValueRange values) {
    return llvm::map_to_vector(values, [&](Value value) { return valueOf(value); });
  };
  SmallVector<Number> carried = valuesOf(loop.getInitArgs());
  auto runBody = [&](Number index) {
    setValue(loop.getInductionVar(), index);
    for (auto [argument, number] : llvm::zip_equal(loop.getRegionIterArgs(), carried))
      setValue(argument, number);
    if (failed(runBlock(*loop.getBody())))
      return failure();
    carried = valuesOf(loop.getYieldedValues());
    return success();
  };

  std::optional<int64_t> lower = valueOf(loop.getLowerBound()).getConstant();
  std::optional<int64_t> upper = valueOf(loop.getUpperBound()).getConstant();
  std::optional<int64_t> step = valueOf(loop.getStep()).getConstant();
  if (lower && upper && step && *step > 0) {
    unsigned width = *getIntegerWidth(loop.getInductionVar().getType());
    for (std::optional<int64_t> index = lower;
         index && isLess(*index, *upper, width, loop.getUnsignedCmp());
         index = advance(*index, *step, width))
      if (failed(runBody(Number::constant(*index))))
        return failure();
  } else {
    // Any number of times: twice shows what one iteration does to the next; what it orders may not
    // have happened.
    SmallVector<Clock> entered = clocks;
    Number enteredBy = std::exchange(mask, Number());
    for (int time = 0; time < 2; ++time) {
      carried.assign(carried.size(), Number());
      if (failed(runBody(Number())))
        return failure();
    }
    carried.assign(carried.size(), Number());
    clocks = std::move(entered);
    mask = enteredBy;
  }
  for (auto [result, number] : llvm::zip_equal(loop.getResults(), carried))
    setValue(result, number);
  return success();
}

LogicalResult ProgramWalk::runIf(Operation &op) {
  auto branch = cast<scf::IfOp>(op);
  Number condition = valueOf(branch.getCondition());
  for (Value result : branch.getResults())
    setValue(result, Number());
  if (std::optional<int64_t> constant = condition.getConstant()) {
    Region &region = *constant ? branch.getThenRegion() : branch.getElseRegion();
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
  Number enteredBy = mask;
  auto issuedIf = [&](Number holds) {
    mask = tables.evaluate({IntegerKind::And, 1}, enteredBy, holds);
  };
  issuedIf(condition);
  if (failed(runBlock(branch.getThenRegion().front())))
    return failure();
  std::swap(entered, clocks);
  issuedIf(tables.evaluate({IntegerKind::Xor, 1}, condition, Number::constant(1)));
  if (!branch.getElseRegion().empty() && failed(runBlock(branch.getElseRegion().front())))
    return failure();
  mask = enteredBy;
  for (auto [mine, other] : llvm::zip_equal(clocks, entered))
    meetClock(mine, other);
  return success();
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

void ProgramWalk::runSync(SyncOp op) {
  int waiter = *streamOf(*op, op.getWaiter()), signaler = *streamOf(*op, op.getSignaler());
  // A worker that depends on the rank: nothing holds on every rank.
  if (waiter == kUnknownWorker || signaler == kUnknownWorker || waiter == signaler)
    return;
  joinClock(clocks[waiter], before(signaler));
}

LogicalResult ProgramWalk::runCommand(Operation &op) {
  FailureOr<int> stream = streamOf(op, getStream(&op));
  if (failed(stream))
    return failure();
  if (!isa<SendOp, RecvOp>(op))
    ++position; // members of a group are at its place
  if (auto alloc = dyn_cast<AllocOp>(op))
    return tell([&](Listener &l) { return l.onAlloc(alloc, *stream); });
  if (auto dealloc = dyn_cast<DeallocOp>(op))
    return tell([&](Listener &l) { return l.onDealloc(dealloc, *stream); });

  SmallVector<MemoryEffects::EffectInstance> effects;
  cast<MemoryEffectOpInterface>(op).getEffects(effects);
  for (const MemoryEffects::EffectInstance &effect : effects) {
    Value buffer = effect.getValue();
    bool writes = isa<MemoryEffects::Write>(effect.getEffect());
    if (buffer && isa<MemRefType>(buffer.getType()) && failed(access(op, buffer, writes, *stream)))
      return failure();
  }
  if (auto put = dyn_cast<PutOp>(op); put && failed(access(op, put.getTarget(), true, *stream)))
    return failure();
  if (isa<SendOp, RecvOp>(op))
    return success();
  return tell([&](Listener &l) { return l.onCommand(&op, *stream); });
}

LogicalResult ProgramWalk::access(Operation &op, Value buffer, bool writes, int stream) {
  Value root = getViewRoot(buffer);
  bool isArgument = isa<BlockArgument>(root) && root.getParentBlock() == &program.getBody().front();
  if (!root.getDefiningOp<AllocOp>() && !isArgument)
    return op.emitOpError()
           << "expected buffers that are views of arguments or of 'hostir.alloc', found another";
  return tell([&](Listener &l) { return l.onAccess(&op, root, writes, stream); });
}
