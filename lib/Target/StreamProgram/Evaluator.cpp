//===- Evaluator.cpp - a host program, run for one rank ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Evaluator.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tandem::target {

static int64_t wrap(int64_t value, unsigned width) {
  if (width == 64)
    return value;
  return width == 1 ? value & 1 : llvm::SignExtend64(value, width);
}

static uint64_t unsign(int64_t value, unsigned width) {
  return width == 64 ? value : value & llvm::maskTrailingOnes<uint64_t>(width);
}

static bool compareInts(arith::CmpIPredicate predicate, int64_t a, int64_t b, unsigned width) {
  using P = arith::CmpIPredicate;
  uint64_t ua = unsign(a, width), ub = unsign(b, width);
  switch (predicate) {
  case P::eq:
    return a == b;
  case P::ne:
    return a != b;
  case P::slt:
    return a < b;
  case P::sle:
    return a <= b;
  case P::sgt:
    return a > b;
  case P::sge:
    return a >= b;
  case P::ult:
    return ua < ub;
  case P::ule:
    return ua <= ub;
  case P::ugt:
    return ua > ub;
  case P::uge:
    return ua >= ub;
  }
  return false;
}

InFlightDiagnostic Evaluator::error(const Instr &instr) const {
  InFlightDiagnostic diag = code.ops[&instr - code.instrs.data()]->emitOpError();
  diag << "rank " << rank << ": ";
  return diag;
}

LogicalResult Evaluator::limits(const Instr &instr) {
  if (++steps > maxSteps)
    return error(instr) << "the loop has not ended after " << maxSteps
                        << " iterations of all loops together";
  if (tables.commands.size() > maxCommands)
    return error(instr) << "the program has more than " << maxCommands << " commands";
  return success();
}

LogicalResult Evaluator::run(uint32_t newRank, Matcher *newMatcher) {
  rank = newRank;
  matcher = newMatcher;
  steps = 0;
  ints = code.ints;
  views.assign(code.numViews, View());
  for (auto [i, layout] : llvm::enumerate(code.argumentLayouts))
    views[i] = {static_cast<uint32_t>(i), layout, 0};
  std::fill(sent.begin(), sent.end(), 0);
  std::fill(received.begin(), received.end(), 0);
  openGroup = nullptr;
  tables.reset();
  if (matcher)
    matcher->beginRank(rank);
  if (failed(loop()))
    return failure();
  return matcher ? matcher->endRank() : success();
}

LogicalResult Evaluator::loop() {
  auto isLess = [&](const Instr &instr, int64_t a, int64_t b) {
    return instr.aux ? unsign(a, instr.width) < unsign(b, instr.width) : a < b;
  };
  for (size_t pc = 0;; ++pc) {
    const Instr &instr = code.instrs[pc];
    switch (instr.op) {
    case Opcode::End:
      return limits(instr);
    case Opcode::Jump:
      pc = instr.target - 1;
      break;
    case Opcode::JumpUnless:
      if (!ints[instr.a])
        pc = instr.target - 1;
      break;
    case Opcode::LoopEnter:
      if (ints[instr.c] <= 0)
        return error(instr) << "expected a positive step, found " << ints[instr.c];
      ints[instr.dst] = ints[instr.a];
      if (!isLess(instr, ints[instr.a], ints[instr.b]))
        pc = instr.target - 1;
      break;
    case Opcode::LoopNext: {
      if (failed(limits(instr)))
        return failure();
      int64_t next = 0;
      bool overflow = llvm::AddOverflow(ints[instr.dst], ints[instr.c], next) ||
                      wrap(next, instr.width) != next;
      ints[instr.dst] = next;
      if (!overflow && isLess(instr, next, ints[instr.b]))
        pc = instr.target - 1;
      break;
    }
    default:
      if (failed(execute(instr)))
        return failure();
    }
  }
}

LogicalResult Evaluator::execute(const Instr &instr) {
  switch (instr.op) {
  case Opcode::Map:
    return applyMap(code.maps[instr.b], views[instr.a], ints, code.layouts, rank, views[instr.dst]);
  case Opcode::MoveView:
    views[instr.dst] = views[instr.a];
    return success();
  case Opcode::SelectView:
    views[instr.dst] = views[ints[instr.a] ? instr.b : instr.c];
    return success();
  case Opcode::Dim: {
    const Layout &layout = code.layouts[views[instr.a].layout];
    int64_t dim = ints[instr.b];
    if (dim < 0 || dim >= layout.rank())
      return error(instr) << "dimension " << dim << " of " << layout.rank();
    ints[instr.dst] = layout.shape[dim];
    return success();
  }
  case Opcode::Alloc: {
    const Allocation &allocation = code.allocations[instr.a];
    int64_t stream = ints[instr.e];
    uint32_t worker = allocation.perWorker && stream > 0 ? stream - 1 : 0;
    uint32_t place = worker - allocation.firstWorker;
    if (worker < allocation.firstWorker || place >= allocation.places)
      return error(instr) << "a buffer of worker " << worker << ", the arena has places for "
                          << allocation.places << " from worker " << allocation.firstWorker
                          << " on";
    views[instr.dst] = {tables.life(allocation.firstBuffer + place), allocation.layout, 0};
    return success();
  }
  case Opcode::DeviceIndex: {
    const MeshInfo &mesh = code.meshes[instr.a];
    int64_t position = mesh.position[rank];
    // Undefined outside the mesh: 0 there.
    ints[instr.dst] = position < 0 ? 0 : position / mesh.weights[instr.b] % mesh.sizes[instr.b];
    return success();
  }
  case Opcode::InMesh:
    ints[instr.dst] = code.meshes[instr.a].position[rank] >= 0;
    return success();
  case Opcode::Translate: {
    const fusion::MeshAttr &from = code.meshes[instr.b].mesh;
    int64_t position = ints[instr.a];
    if (position < 0 || position >= from.numDevices())
      return error(instr) << "position " << position << " is outside " << from;
    ints[instr.dst] = code.meshes[instr.c].position[from.worldRank(position)];
    return success();
  }
  case Opcode::Worker:
    if (ints[instr.a] < 0)
      return error(instr) << "expected a worker number that is not negative, found "
                          << ints[instr.a];
    ints[instr.dst] = 1 + ints[instr.a] % code.workers;
    return success();
  case Opcode::Sync:
    tables.sync(instr, ints[instr.a], ints[instr.b]);
    return success();
  default:
    return instr.op < Opcode::Jump ? compute(instr) : command(instr);
  }
}

LogicalResult Evaluator::compute(const Instr &instr) {
  int64_t a = ints[instr.a], b = instr.b == kNone ? 0 : ints[instr.b], result = 0;
  uint64_t ua = unsign(a, instr.width), ub = unsign(b, instr.width);
  switch (instr.op) {
  case Opcode::DivS:
  case Opcode::CeilDivS:
  case Opcode::FloorDivS:
  case Opcode::RemS:
    if (b == -1 && a == std::numeric_limits<int64_t>::min())
      return error(instr) << "the quotient overflows";
    [[fallthrough]];
  case Opcode::DivU:
  case Opcode::CeilDivU:
  case Opcode::RemU:
    if (b == 0)
      return error(instr) << "division by zero";
    break;
  case Opcode::Shl:
  case Opcode::ShrS:
  case Opcode::ShrU:
    if (ub >= instr.width)
      return error(instr) << "shift by " << ub << " of " << unsigned(instr.width) << " bits";
    break;
  default:
    break;
  }
  // Sums and products wrap, as in `arith`.
  switch (instr.op) {
  case Opcode::Add:
    result = static_cast<int64_t>(uint64_t(a) + uint64_t(b));
    break;
  case Opcode::Sub:
    result = static_cast<int64_t>(uint64_t(a) - uint64_t(b));
    break;
  case Opcode::Mul:
    result = static_cast<int64_t>(uint64_t(a) * uint64_t(b));
    break;
  case Opcode::DivS:
    result = a / b;
    break;
  case Opcode::CeilDivS:
    result = llvm::divideCeilSigned(a, b);
    break;
  case Opcode::FloorDivS:
    result = llvm::divideFloorSigned(a, b);
    break;
  case Opcode::RemS:
    result = a % b;
    break;
  case Opcode::DivU:
    result = ua / ub;
    break;
  case Opcode::CeilDivU:
    result = ua / ub + (ua % ub != 0);
    break;
  case Opcode::RemU:
    result = ua % ub;
    break;
  case Opcode::MinS:
    result = std::min(a, b);
    break;
  case Opcode::MaxS:
    result = std::max(a, b);
    break;
  case Opcode::MinU:
    result = std::min(ua, ub);
    break;
  case Opcode::MaxU:
    result = std::max(ua, ub);
    break;
  case Opcode::And:
    result = a & b;
    break;
  case Opcode::Or:
    result = a | b;
    break;
  case Opcode::Xor:
    result = a ^ b;
    break;
  case Opcode::Shl:
    result = static_cast<int64_t>(uint64_t(a) << ub);
    break;
  case Opcode::ShrS:
    result = a >> ub;
    break;
  case Opcode::ShrU:
    result = ua >> ub;
    break;
  case Opcode::Compare:
    ints[instr.dst] = compareInts(static_cast<arith::CmpIPredicate>(instr.aux), a, b, instr.width);
    return success();
  case Opcode::Wrap:
  case Opcode::Move:
    result = a;
    break;
  case Opcode::Unsign:
    ints[instr.dst] = static_cast<int64_t>(ua);
    return success();
  case Opcode::Negate:
    result = -a;
    break;
  case Opcode::Select:
    result = a ? b : ints[instr.c];
    break;
  default:
    return error(instr) << "unknown instruction";
  }
  ints[instr.dst] = wrap(result, instr.width);
  return success();
}

} // namespace tandem::target
