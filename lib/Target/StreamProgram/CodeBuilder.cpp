//===- CodeBuilder.cpp - numbering a host program ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CodeBuilder.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "tandem/Support/SourcePosition.h"

using namespace mlir;

namespace tandem::target {

LogicalResult CodeBuilder::run() {
  if (program.getBody().empty())
    return program.emitOpError("has no body");
  // Stream numbers have 16 bits.
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
  uint32_t argument = 0; // of the stream program, where each part is one
  for (BlockArgument arg : program.getBody().getArguments()) {
    auto type = dyn_cast<MemRefType>(arg.getType());
    std::optional<Layout> layout = type ? denseLayout(type) : std::nullopt;
    if (!layout || !type.getLayout().isIdentity())
      return program.emitOpError("argument ")
             << arg.getArgNumber()
             << ": expected a memref of static shape and identity layout with at most " << kMaxRank
             << " dimensions and 2^60 elements, found " << arg.getType();
    if (hostir::isSymmetric(type))
      return program.emitOpError("argument ")
             << arg.getArgNumber() << ": arguments in symmetric memory are not supported yet";
    uint32_t number = define(arg);
    StringAttr given = program.getArgAttrOfType<StringAttr>(number, hostir::kNameAttrName);
    code->names.push_back(
        {given ? given.str() : ("arg" + Twine(number)).str(), getSourceText(arg.getLoc())});
    code->argumentLayouts.push_back(code->layouts.intern(*layout));
    code->buffers.push_back({sp::Space::argument, argument, 0,
                             static_cast<int64_t>(layout->numBytes()),
                             static_cast<uint32_t>(code->names.size() - 1)});
    auto parts = program.getArgAttrOfType<ArrayAttr>(number, hostir::kPartsAttrName);
    argument += parts ? parts.size() : 1;
  }
  // The buffers of parts follow those of the arguments, which have the arguments' numbers.
  for (uint32_t number = 0; number < program.getNumArguments(); ++number) {
    auto parts = program.getArgAttrOfType<ArrayAttr>(number, hostir::kPartsAttrName);
    if (!parts)
      continue;
    code->buffers[number].firstPart = static_cast<uint32_t>(code->buffers.size());
    BufferInfo part = code->buffers[number];
    part.bytes /= static_cast<int64_t>(parts.size());
    part.firstPart = kNone;
    for (size_t i = 0; i < parts.size(); ++i, ++part.argument)
      code->buffers.push_back(part);
  }
  return success();
}

LogicalResult CodeBuilder::other(Operation *op) {
  FailureOr<bool> done = viewOf(op);
  if (succeeded(done) && !*done)
    done = hostOp(op);
  if (failed(done))
    return failure();
  return *done ? success() : op->emitOpError("cannot be evaluated at compile time");
}

void CodeBuilder::moveView(Operation *op, uint32_t source, uint32_t target) {
  Instr &instr = emit(op, Opcode::MoveView);
  instr.a = source;
  instr.dst = target;
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
  code->names.push_back({std::move(text), getSourceText(op->getLoc())});
  return code->names.size() - 1;
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
                                           ArrayRef<GpuArchitecture> architectures) {
  FailureOr<uint32_t> needed = hostir::worldSizeOf(program);
  if (failed(needed))
    return failure();
  if (numRanks && numRanks < *needed)
    return program.emitError("expected at least ")
           << *needed << " ranks, for the devices of its meshes, found " << numRanks;
  CodeBuilder builder(std::make_unique<Code>(), program, numRanks ? numRanks : *needed,
                      architectures);
  if (failed(builder.run()))
    return failure();
  return builder.take();
}

} // namespace tandem::target
