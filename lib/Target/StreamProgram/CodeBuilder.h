//===- CodeBuilder.h - numbering a host program -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_STREAMPROGRAM_CODEBUILDER_H
#define TANDEM_LIB_TARGET_STREAMPROGRAM_CODEBUILDER_H

#include "Code.h"
#include "tandem/Support/LLVM.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/StringMap.h"

namespace tandem::target {

class CodeBuilder {
public:
  CodeBuilder(hostir::ProgramOp program, uint32_t numRanks, StringRef gpuArch)
      : code(std::make_unique<Code>()), program(program), gpuArch(gpuArch) {
    code->program = program;
    code->numRanks = numRanks;
    code->workers = std::max<int64_t>(program.getWorkers(), 1);
  }

  LogicalResult run();
  std::unique_ptr<Code> take() { return std::move(code); }

private:
  LogicalResult arguments();
  LogicalResult block(Block &block);
  LogicalResult operation(Operation *op);
  LogicalResult forLoop(scf::ForOp op);
  LogicalResult ifThenElse(scf::IfOp op);
  /// True if `op` is one of the integer operations of `arith`.
  bool integer(Operation *op);
  /// True if `op` makes a view of a view; failure if it does so in a way that cannot be evaluated.
  FailureOr<bool> viewOf(Operation *op);
  LogicalResult allocation(hostir::AllocOp op);
  LogicalResult channel(hostir::ChannelOp op);
  LogicalResult group(hostir::GroupOp op);
  LogicalResult launch(hostir::LaunchOp op);
  LogicalResult kernel(hostir::KernelOp op);
  /// True if `op` is a hostir operation that was numbered.
  FailureOr<bool> hostOp(Operation *op);

  Instr &emit(Operation *op, Opcode opcode);
  /// emit, with a name for the commands that it makes.
  Instr &command(Operation *op, Opcode opcode, StringRef kind);
  uint32_t name(Operation *op, StringRef kind);
  uint32_t constant(int64_t value);
  uint32_t slot(Value value) const { return slots.lookup(value); }
  /// A new slot for a value that a block or an operation defines.
  uint32_t define(Value value);
  void bind(Value value, uint32_t slot) { slots[value] = slot; }
  Operand operand(OpFoldResult value) const;
  SmallVector<Operand, 4> operandsOf(ArrayRef<OpFoldResult> values) const;
  /// Moves values to slots, all at once.
  void moveAll(Operation *op, ValueRange from, ValueRange to);
  uint32_t meshNumber(MeshAttr mesh);

  std::unique_ptr<Code> code;
  hostir::ProgramOp program;
  StringRef gpuArch;
  llvm::DenseMap<Value, uint32_t> slots;
  llvm::DenseMap<Attribute, uint32_t> meshNumbers;
  llvm::StringMap<uint32_t> channelNumbers, kernelNumbers, ordinals;
  llvm::StringMap<hostir::ChannelOp> channelOps;
};

/// Whether a value of this type lives in an int slot.
inline bool isIntLike(Type type) {
  return hostir::getIntegerWidth(type) || isa<hostir::StreamType, hostir::ChannelType>(type);
}

} // namespace tandem::target

#endif // TANDEM_LIB_TARGET_STREAMPROGRAM_CODEBUILDER_H
