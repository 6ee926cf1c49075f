//===- CodeBuilder.cpp - numbering a host program ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CodeBuilder.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;

namespace tandem::target {

std::string locationText(Location loc) {
  std::string text;
  loc->walk([&](Location l) {
    auto file = dyn_cast<FileLineColLoc>(l);
    if (!file)
      return WalkResult::advance();
    text =
        (file.getFilename().strref() + ":" + Twine(file.getLine()) + ":" + Twine(file.getColumn()))
            .str();
    return WalkResult::interrupt();
  });
  return text;
}

LogicalResult CodeBuilder::run() {
  if (program.getBody().empty())
    return program.emitOpError("has no body");
  // A wait of one of the streams is 16 bits wide.
  if (program.getWorkers() > 0xffff)
    return program.emitOpError("expected at most 65535 workers, found ") << program.getWorkers();
  if (failed(arguments()) || failed(block(program.getBody().front())))
    return failure();
  emit(program, Opcode::End);
  for (ChannelInfo &channel : code->channels) {
    channel.firstPeer = code->numPeers;
    code->numPeers += channel.groupSize;
  }
  return success();
}

LogicalResult CodeBuilder::arguments() {
  for (BlockArgument arg : program.getBody().getArguments()) {
    auto type = dyn_cast<MemRefType>(arg.getType());
    std::optional<Layout> layout = type ? Layout::dense(type) : std::nullopt;
    if (!layout || !type.getLayout().isIdentity())
      return program.emitOpError("argument ")
             << arg.getArgNumber()
             << ": expected a memref of static shape and identity layout with at most " << kMaxRank
             << " dimensions and 2^60 elements, found " << arg.getType();
    if (hostir::isSymmetric(type))
      return program.emitOpError("argument ")
             << arg.getArgNumber()
             << ": symmetric memory of the embedder has no place in a stream program yet";
    uint32_t number = define(arg);
    StringAttr given = program.getArgAttrOfType<StringAttr>(number, hostir::kNameAttrName);
    code->names.push_back(
        {given ? given.str() : ("arg" + Twine(number)).str(), locationText(arg.getLoc())});
    code->argumentLayouts.push_back(code->layouts.intern(*layout));
    code->buffers.push_back({sp::Space::argument, number, 0, layout->bytes(),
                             static_cast<uint32_t>(code->names.size() - 1)});
  }
  return success();
}

LogicalResult CodeBuilder::block(Block &block) {
  for (Operation &op : block)
    if (failed(operation(&op)))
      return failure();
  return success();
}

LogicalResult CodeBuilder::operation(Operation *op) {
  if (auto loop = dyn_cast<scf::ForOp>(op))
    return forLoop(loop);
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return ifThenElse(branch);
  if (isa<scf::YieldOp>(op) || integer(op))
    return success();
  FailureOr<bool> done = viewOf(op);
  if (succeeded(done) && !*done)
    done = hostOp(op);
  if (failed(done))
    return failure();
  return *done ? success() : op->emitOpError("cannot be evaluated at compile time");
}

bool CodeBuilder::integer(Operation *op) {
  if (std::optional<int64_t> number = hostir::getConstantNumber(op)) {
    bind(op->getResult(0), constant(*number));
    return true;
  }
  if (auto select = dyn_cast<arith::SelectOp>(op)) {
    bool isView = isa<MemRefType>(select.getType());
    if ((!isView && !isIntLike(select.getType())) || !isIntLike(select.getCondition().getType()))
      return false;
    uint32_t dst = define(select);
    Instr &instr = emit(op, isView ? Opcode::SelectView : Opcode::Select);
    instr.dst = dst;
    instr.a = slot(select.getCondition());
    instr.b = slot(select.getTrueValue());
    instr.c = slot(select.getFalseValue());
    return true;
  }
  std::optional<hostir::IntegerOp> integer = hostir::getIntegerOp(op);
  if (!integer)
    return false;
  uint32_t dst = define(op->getResult(0));
  Instr &instr = emit(op, Opcode::Integer);
  instr.aux = static_cast<uint8_t>(integer->kind);
  instr.width = integer->width;
  instr.dst = dst;
  instr.a = slot(op->getOperand(0));
  instr.b = slot(op->getOperand(op->getNumOperands() - 1));
  instr.c = static_cast<uint32_t>(integer->predicate);
  return true;
}

LogicalResult CodeBuilder::forLoop(scf::ForOp op) {
  for (BlockArgument arg : op.getRegionIterArgs())
    if (!isIntLike(arg.getType()) && !isa<MemRefType>(arg.getType()))
      return op.emitOpError("carries a value of type ")
             << arg.getType() << ", which cannot be evaluated at compile time";
  uint32_t induction = define(op.getInductionVar());
  for (auto [arg, result] : llvm::zip(op.getRegionIterArgs(), op.getResults()))
    bind(result, define(arg));
  moveAll(op, op.getInitArgs(), op.getRegionIterArgs());
  uint32_t enter = code->instrs.size();
  auto control = [&](Opcode opcode, uint32_t first) {
    Instr &instr = emit(op, opcode);
    instr.aux = op.getUnsignedCmp();
    instr.width = *hostir::getIntegerWidth(op.getInductionVar().getType());
    instr.dst = induction;
    instr.a = first;
    instr.b = slot(op.getUpperBound());
    instr.c = slot(op.getStep());
  };
  control(Opcode::LoopEnter, slot(op.getLowerBound()));
  if (failed(block(*op.getBody())))
    return failure();
  moveAll(op, cast<scf::YieldOp>(op.getBody()->getTerminator()).getOperands(),
          op.getRegionIterArgs());
  control(Opcode::LoopNext, induction);
  code->instrs.back().target = enter + 1;
  code->instrs[enter].target = code->instrs.size();
  return success();
}

LogicalResult CodeBuilder::ifThenElse(scf::IfOp op) {
  for (Value result : op.getResults()) {
    if (!isIntLike(result.getType()) && !isa<MemRefType>(result.getType()))
      return op.emitOpError("yields a value of type ")
             << result.getType() << ", which cannot be evaluated at compile time";
    define(result);
  }
  auto branch = [&](Region &region) {
    if (region.empty())
      return success();
    if (failed(block(region.front())))
      return failure();
    moveAll(op, cast<scf::YieldOp>(region.front().getTerminator()).getOperands(), op.getResults());
    return success();
  };
  uint32_t test = code->instrs.size();
  emit(op, Opcode::JumpUnless).a = slot(op.getCondition());
  if (failed(branch(op.getThenRegion())))
    return failure();
  uint32_t leave = code->instrs.size();
  bool hasElse = !op.getElseRegion().empty();
  if (hasElse)
    emit(op, Opcode::Jump);
  code->instrs[test].target = code->instrs.size();
  if (failed(branch(op.getElseRegion())))
    return failure();
  if (hasElse)
    code->instrs[leave].target = code->instrs.size();
  return success();
}

void CodeBuilder::moveAll(Operation *op, ValueRange from, ValueRange to) {
  SmallVector<std::pair<uint32_t, uint32_t>> moves; // source, target
  auto move = [&](uint32_t source, uint32_t target, bool isView) {
    Instr &instr = emit(op, isView ? Opcode::MoveView : Opcode::Move);
    instr.a = source;
    instr.dst = target;
  };
  auto isView = [](Value value) { return isa<MemRefType>(value.getType()); };
  // A target that is the source of a later move (a swap) goes through a slot of its own.
  llvm::DenseSet<Value> sources(from.begin(), from.end());
  bool overlaps = llvm::any_of(to, [&](Value value) { return sources.contains(value); });
  SmallVector<uint32_t> temporaries;
  for (auto [source, target] : llvm::zip(from, to)) {
    if (!overlaps) {
      move(slot(source), slot(target), isView(target));
      continue;
    }
    uint32_t temporary = isView(target) ? code->numViews++ : constant(0);
    move(slot(source), temporary, isView(target));
    temporaries.push_back(temporary);
  }
  if (overlaps)
    for (auto [temporary, target] : llvm::zip(temporaries, to))
      move(temporary, slot(target), isView(target));
}

Instr &CodeBuilder::emit(Operation *op, Opcode opcode) {
  code->instrs.push_back(Instr{opcode});
  code->ops.push_back(op);
  return code->instrs.back();
}

Instr &CodeBuilder::command(Operation *op, Opcode opcode, StringRef kind) {
  uint32_t number = name(op, kind);
  Instr &instr = emit(op, opcode);
  instr.name = number;
  return instr;
}

uint32_t CodeBuilder::name(Operation *op, StringRef kind) {
  std::string text = (kind + " #" + Twine(ordinals[kind]++)).str();
  if (auto named = op->getLoc()->findInstanceOf<NameLoc>())
    text += (" (" + named.getName().strref() + ")").str();
  code->names.push_back({std::move(text), locationText(op->getLoc())});
  return code->names.size() - 1;
}

uint32_t CodeBuilder::constant(int64_t value) {
  code->ints.push_back(value);
  return code->ints.size() - 1;
}

uint32_t CodeBuilder::define(Value value) {
  uint32_t number = isa<MemRefType>(value.getType()) ? code->numViews++ : constant(0);
  bind(value, number);
  return number;
}

Operand CodeBuilder::operand(OpFoldResult value) const {
  if (auto attr = dyn_cast<Attribute>(value))
    return {false, cast<IntegerAttr>(attr).getInt()};
  return {true, slot(cast<Value>(value))};
}

SmallVector<Operand, 4> CodeBuilder::operandsOf(ArrayRef<OpFoldResult> values) const {
  return llvm::map_to_vector<4>(values, [&](OpFoldResult v) { return operand(v); });
}

FailureOr<std::unique_ptr<Code>> buildCode(hostir::ProgramOp program, uint32_t numRanks,
                                           StringRef gpuArch) {
  FailureOr<uint32_t> needed = hostir::worldSizeOf(program);
  if (failed(needed))
    return failure();
  if (numRanks && numRanks < *needed)
    return program.emitOpError("needs ") << *needed << " ranks, " << numRanks << " were asked for";
  CodeBuilder builder(program, numRanks ? numRanks : *needed, gpuArch);
  if (failed(builder.run()))
    return failure();
  return builder.take();
}

} // namespace tandem::target
