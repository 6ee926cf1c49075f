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

void Evaluator::begin(uint32_t newRank, Matcher *newMatcher) {
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
}

LogicalResult Evaluator::run(uint32_t newRank, Matcher *newMatcher) {
  begin(newRank, newMatcher);
  if (failed(hostir::runInstrs(code, *this, 0, code.instrs.size())))
    return failure();
  return matcher ? matcher->endRank() : success();
}

FailureOr<uint32_t> Evaluator::branch(uint32_t pc) {
  const Instr &instr = code.instrs[pc];
  return ints[instr.a] ? pc + 1 : instr.target;
}

FailureOr<bool> Evaluator::enterLoop(uint32_t pc) {
  const Instr &instr = code.instrs[pc];
  if (ints[instr.c] <= 0)
    return error(instr) << "expected a positive step, found " << ints[instr.c];
  ints[instr.dst] = ints[instr.a];
  return hostir::isLess(ints[instr.a], ints[instr.b], instr.width, /*isUnsigned=*/instr.aux);
}

FailureOr<bool> Evaluator::nextLoop(const Instr &instr) {
  if (failed(limits(instr)))
    return failure();
  std::optional<int64_t> next = hostir::advance(ints[instr.dst], ints[instr.c], instr.width);
  if (!next)
    return false;
  ints[instr.dst] = *next;
  return hostir::isLess(*next, ints[instr.b], instr.width, /*isUnsigned=*/instr.aux);
}

LogicalResult Evaluator::execute(const Instr &instr) {
  switch (instr.op) {
  case hostir::opcode::Integer: {
    int64_t b = ints[instr.b];
    std::optional<int64_t> result = hostir::evaluate(instr.integer(), ints[instr.a], b);
    if (!result)
      return error(instr) << hostir::describeUndefined(instr.integer(), b);
    ints[instr.dst] = *result;
    return success();
  }
  case hostir::opcode::Move:
    ints[instr.dst] = ints[instr.a];
    return success();
  case hostir::opcode::Select:
    ints[instr.dst] = ints[ints[instr.a] ? instr.b : instr.c];
    return success();
  default:
    break;
  }
  switch (static_cast<Opcode>(instr.op)) {
  case Opcode::End:
    return limits(instr);
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
    if (dim < 0 || dim >= layout.rank)
      return error(instr) << "dimension " << dim << " of " << unsigned(layout.rank);
    ints[instr.dst] = layout.shape[dim];
    return success();
  }
  case Opcode::Alloc: {
    const Allocation &allocation = code.allocations[instr.a];
    int64_t stream = ints[instr.e];
    uint32_t worker = allocation.perWorker && stream > 0 ? stream - 1 : 0;
    uint32_t place = worker - allocation.firstWorker;
    if (worker < allocation.firstWorker || place >= allocation.places)
      return error(instr) << "a buffer of worker " << worker << ", the arena has slots for "
                          << allocation.places << " from worker " << allocation.firstWorker
                          << " on";
    views[instr.dst] = {tables.life(allocation.firstBuffer + place), allocation.layout, 0};
    return success();
  }
  case Opcode::DeviceIndex: {
    // 0 outside the mesh, where it is undefined.
    ints[instr.dst] = code.meshes[instr.a].indexOf(rank, instr.b);
    return success();
  }
  case Opcode::InMesh:
    ints[instr.dst] = code.meshes[instr.a].position[rank] >= 0;
    return success();
  case Opcode::Translate: {
    const MeshAttr &from = code.meshes[instr.b].mesh;
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
    return command(instr);
  }
}

} // namespace tandem::target
