//===- ProgramWalk.cpp - one walk of a host program for all ranks -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/HostIR/Evaluate/ProgramWalk.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;

// Most instructions per walk; far above real programs.
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
    clocks[worker][kMainStream] = -1; // unordered with the start until a sync orders it
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

//===----------------------------------------------------------------------===//
// Numbering
//===----------------------------------------------------------------------===//

namespace {
/// Opcodes of this walk; instructions name their op.
enum WalkOpcode : uint8_t {
  Issue = opcode::FirstOfClient, // a hostir op other than a group
  GroupBegin,
  GroupEnd,
  MeshNumber, // ints[dst] = the rank's mesh coordinate
  After       // after an op
};
} // namespace

class ProgramWalk::Builder : public Numbering {
public:
  explicit Builder(NumberedProgram &code) : Numbering(code) {}
  LogicalResult run(Block &body) { return block(body); }

private:
  LogicalResult other(Operation *op) override {
    if (auto group = dyn_cast<GroupOp>(op)) {
      emit(op, GroupBegin);
      if (failed(block(group.getBody().front())))
        return failure();
      emit(op, GroupEnd);
      return success();
    }
    if (auto gated = dyn_cast<GatedMatmulOp>(op)) // means its contents
      return block(gated.getBody().front());
    if (op->getNumRegions() != 0)
      return op->emitOpError() << "expected 'scf.for' or 'scf.if' as control flow of a program";
    if (isa<HostIRDialect>(op->getDialect()) && (isa<SyncOp>(op) || getStream(op)))
      emit(op, Issue);
    else if (op->getNumResults() == 1 && op->getResult(0).getType().isIntOrIndex())
      emit(op, MeshNumber).dst = define(op->getResult(0));
    return success();
  }
  void after(Operation *op) override {
    if (isa_and_present<HostIRDialect, scf::SCFDialect>(op->getDialect()))
      emit(op, After);
  }
  void moveView(Operation *, uint32_t, uint32_t) override {}
};

LogicalResult ProgramWalk::run(ArrayRef<Listener *> clients) {
  listeners = clients;
  auto builder = std::make_unique<Builder>(code);
  if (failed(builder->run(program.getBody().front())))
    return failure();
  numbering = std::move(builder);
  numbers.clear();
  for (int64_t value : code.ints)
    numbers.push_back(Number::constant(value));
  return runRange(0, code.instrs.size());
}

LogicalResult ProgramWalk::runRange(uint32_t begin, uint32_t end) {
  return runInstrs(code, *this, begin, end);
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

Number ProgramWalk::valueOf(Value value) const {
  // A value's slot holds 0 before it is computed.
  return isIntLike(value.getType()) ? numbers[numbering->slot(value)] : Number();
}

void ProgramWalk::forget(ValueRange values) {
  for (Value value : values)
    if (isIntLike(value.getType()))
      numbers[numbering->slot(value)] = Number();
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

FailureOr<uint32_t> ProgramWalk::branch(uint32_t pc) {
  const Instr &instr = code.instrs[pc];
  Number condition = numbers[instr.a];
  if (std::optional<int64_t> constant = condition.getConstant())
    return *constant ? pc + 1 : instr.target;
  // Both branches: the accesses of both, the order that both establish.
  auto op = cast<scf::IfOp>(code.ops[pc]);
  bool hasElse = !op.getElseRegion().empty(); // then a jump over it ends the other region
  uint32_t thenEnd = hasElse ? instr.target - 1 : instr.target;
  uint32_t end = hasElse ? code.instrs[thenEnd].target : instr.target;
  SmallVector<Clock> entered = clocks;
  Number enteredBy = mask;
  auto issuedIf = [&](Number holds) {
    mask = tables.evaluate({IntegerKind::And, 1}, enteredBy, holds);
  };
  issuedIf(condition);
  if (failed(runRange(pc + 1, thenEnd)))
    return failure();
  std::swap(entered, clocks);
  issuedIf(tables.evaluate({IntegerKind::Xor, 1}, condition, Number::constant(1)));
  if (hasElse && failed(runRange(instr.target, end)))
    return failure();
  mask = enteredBy;
  for (auto [mine, other] : llvm::zip_equal(clocks, entered))
    meetClock(mine, other);
  forget(op.getResults());
  return end;
}

FailureOr<bool> ProgramWalk::enterLoop(uint32_t pc) {
  const Instr &instr = code.instrs[pc];
  std::optional<int64_t> lower = numbers[instr.a].getConstant();
  std::optional<int64_t> upper = numbers[instr.b].getConstant();
  std::optional<int64_t> step = numbers[instr.c].getConstant();
  if (lower && upper && step && *step > 0) {
    numbers[instr.dst] = Number::constant(*lower);
    return isLess(*lower, *upper, instr.width, /*isUnsigned=*/instr.aux);
  }
  // Unknown iteration count: walking the body twice shows conflicts between iterations. Its order
  // may not have been established.
  auto op = cast<scf::ForOp>(code.ops[pc]);
  SmallVector<Clock> entered = clocks;
  Number enteredBy = std::exchange(mask, Number());
  for (int time = 0; time < 2; ++time) {
    numbers[instr.dst] = Number();
    forget(op.getRegionIterArgs());
    if (failed(runRange(pc + 1, instr.target - 1)))
      return failure();
  }
  forget(op.getRegionIterArgs()); // the results share their slots
  clocks = std::move(entered);
  mask = enteredBy;
  return false;
}

FailureOr<bool> ProgramWalk::nextLoop(const Instr &instr) {
  // Bounds and index are known, else the loop was not entered.
  int64_t index = *numbers[instr.dst].getConstant(), step = *numbers[instr.c].getConstant();
  std::optional<int64_t> next = advance(index, step, instr.width);
  if (!next)
    return false;
  numbers[instr.dst] = Number::constant(*next);
  return isLess(*next, *numbers[instr.b].getConstant(), instr.width, /*isUnsigned=*/instr.aux);
}

LogicalResult ProgramWalk::execute(const Instr &instr) {
  Operation &op = *code.ops[&instr - code.instrs.data()];
  if (++steps > kMaxSteps)
    return op.emitOpError() << "expected a program of at most " << kMaxSteps
                            << " operations, found more";
  switch (instr.op) {
  case opcode::Integer:
    numbers[instr.dst] = tables.evaluate(instr.integer(), numbers[instr.a], numbers[instr.b]);
    return success();
  case opcode::Select:
    numbers[instr.dst] = tables.select(numbers[instr.a], numbers[instr.b], numbers[instr.c]);
    return success();
  case opcode::Move:
    numbers[instr.dst] = numbers[instr.a];
    return success();
  default:
    return issue(op, instr);
  }
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

LogicalResult ProgramWalk::issue(Operation &op, const Instr &instr) {
  switch (instr.op) {
  case MeshNumber:
    numbers[instr.dst] = evaluateMeshOp(op);
    return success();
  case After:
    return tell([&](Listener &l) { return l.afterOp(&op); });
  case GroupBegin:
    ++position;
    return success();
  case GroupEnd: {
    FailureOr<int> stream = streamOf(op, cast<GroupOp>(op).getStream());
    if (failed(stream))
      return failure();
    return tell([&](Listener &l) { return l.onCommand(&op, *stream); });
  }
  default:
    return isa<SyncOp>(op) ? runSync(cast<SyncOp>(op)) : runCommand(op);
  }
}

LogicalResult ProgramWalk::runSync(SyncOp op) {
  FailureOr<int> waiter = streamOf(*op, op.getWaiter());
  FailureOr<int> signaler = failed(waiter) ? waiter : streamOf(*op, op.getSignaler());
  if (failed(signaler))
    return failure();
  // A rank-dependent worker: no order holds on every rank.
  if (*waiter != kUnknownWorker && *signaler != kUnknownWorker && *waiter != *signaler)
    joinClock(clocks[*waiter], before(*signaler));
  return success();
}

LogicalResult ProgramWalk::runCommand(Operation &op) {
  FailureOr<int> stream = streamOf(op, getStream(&op));
  if (failed(stream))
    return failure();
  if (!isa<SendOp, RecvOp>(op))
    ++position; // members of a group have its position
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
