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

class CodeBuilder : hostir::Numbering {
public:
  CodeBuilder(std::unique_ptr<Code> empty, hostir::ProgramOp program, uint32_t numRanks,
              ArrayRef<GpuArchitecture> architectures)
      : Numbering(*empty), code(std::move(empty)), program(program), architectures(architectures) {
    code->program = program;
    code->numRanks = numRanks;
    code->workers = std::max<int64_t>(program.getWorkers(), 1);
  }

  LogicalResult run();
  std::unique_ptr<Code> take() { return std::move(code); }

private:
  LogicalResult arguments();
  LogicalResult other(Operation *op) override;
  void moveView(Operation *op, uint32_t source, uint32_t target) override;
  /// True if `op` makes a view of a view; failure if it cannot be evaluated.
  FailureOr<bool> viewOf(Operation *op);
  LogicalResult allocation(hostir::AllocOp op);
  LogicalResult channel(hostir::ChannelOp op);
  LogicalResult group(hostir::GroupOp op);
  LogicalResult gatedMatmul(hostir::GatedMatmulOp op);
  void exchange(hostir::PeerExchangeOp op);
  LogicalResult launch(hostir::LaunchOp op);
  void call(hostir::CallOp op);
  LogicalResult kernel(hostir::KernelOp op);
  /// True if `op` is a hostir operation that was numbered.
  FailureOr<bool> hostOp(Operation *op);
  FailureOr<bool> value(Operation *op);
  FailureOr<bool> localCommand(Operation *op);
  FailureOr<bool> communication(Operation *op);

  Instr &emit(Operation *op, Opcode opcode) {
    return Numbering::emit(op, static_cast<uint8_t>(opcode));
  }
  /// emit, into a new slot for the op's result.
  Instr &emitResult(Operation *op, Opcode opcode) {
    uint32_t slot = define(op->getResult(0));
    Instr &instr = emit(op, opcode);
    instr.dst = slot;
    return instr;
  }
  /// emit, with a name for the commands that it makes.
  Instr &command(Operation *op, Opcode opcode, StringRef kind);
  uint32_t name(Operation *op, StringRef kind);
  Operand operand(OpFoldResult value) const;
  SmallVector<Operand, 4> operandsOf(ArrayRef<OpFoldResult> values) const;
  uint32_t meshNumber(MeshAttr mesh);

  std::unique_ptr<Code> code;
  hostir::ProgramOp program;
  SmallVector<GpuArchitecture> architectures;
  llvm::DenseMap<Attribute, uint32_t> meshNumbers;
  llvm::StringMap<uint32_t> channelNumbers, kernelNumbers, ordinals;
  llvm::StringMap<hostir::ChannelOp> channelOps;
};

} // namespace tandem::target

#endif // TANDEM_LIB_TARGET_STREAMPROGRAM_CODEBUILDER_H
