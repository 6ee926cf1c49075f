//===- NumberedProgram.h - host programs as instructions --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The form in which host programs are evaluated: values become slots, operations become
// instructions in one list, structured control flow becomes jumps. A client numbers its own
// operations and chooses the number type: int64_t in the translation, which knows the rank; Number
// in ProgramWalk, which covers all ranks.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_HOSTIR_EVALUATE_NUMBEREDPROGRAM_H
#define TANDEM_DIALECT_HOSTIR_EVALUATE_NUMBEREDPROGRAM_H

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "tandem/Dialect/HostIR/Evaluate/Integers.h"

#include "llvm/ADT/DenseMap.h"
#include <vector>

namespace tandem::hostir {

inline constexpr uint32_t kNone = 0xffffffffu;

/// Instruction codes. Clients number theirs from FirstOfClient on.
namespace opcode {
enum : uint8_t {
  Integer, // ints[dst] = the integer operation of ints[a] and ints[b]
  Select,  // ints[dst] = ints[a] ? ints[b] : ints[c]
  Move,    // ints[dst] = ints[a]
  // Control flow: `target` is an instruction number.
  Jump,       // to target
  JumpUnless, // ints[a] == 0: to target
  LoopEnter,  // ints[dst] = a; c (step) must be positive; not a < b: to target. aux = unsigned
  LoopNext,   // ints[dst] += c; a < b: to target
  FirstOfClient
};
} // namespace opcode

struct Instr {
  uint8_t op;
  uint8_t aux = 0;
  uint8_t width = 64;
  uint32_t dst = kNone;
  uint32_t a = kNone, b = kNone, c = kNone, d = kNone, e = kNone;
  uint32_t target = 0;
  /// Index of the name of its commands.
  uint32_t name = kNone;

  /// Of Integer: aux = kind, c = predicate.
  IntegerOp integer() const {
    return {static_cast<IntegerKind>(aux), width, static_cast<arith::CmpIPredicate>(c)};
  }
};

struct NumberedProgram {
  std::vector<Instr> instrs;
  std::vector<Operation *> ops; ///< per instruction
  std::vector<int64_t> ints;    ///< values of the slots at the start
  uint32_t numViews = 0;        ///< slots of memrefs, separate from those of numbers
};

/// Whether values of this type have number slots: integers, indices, streams, channels.
bool isIntLike(Type type);

/// Numbers the operations of a program.
class Numbering {
public:
  virtual ~Numbering() = default;

  uint32_t slot(Value value) const { return slots.lookup(value); }

protected:
  explicit Numbering(NumberedProgram &numbered) : numbered(numbered) {}

  LogicalResult block(Block &block);
  /// Numbers operations other than control flow and integer arithmetic.
  virtual LogicalResult other(Operation *op) = 0;
  /// Called after each operation.
  virtual void after(Operation *op) {}
  virtual void moveView(Operation *op, uint32_t source, uint32_t target) = 0;

  Instr &emit(Operation *op, uint8_t opcode);
  uint32_t constant(int64_t value);
  /// A new slot for a value that a block or an operation defines.
  uint32_t define(Value value);
  void bind(Value value, uint32_t slot) { slots[value] = slot; }

private:
  LogicalResult forLoop(scf::ForOp op);
  LogicalResult ifThenElse(scf::IfOp op);
  /// Numbers `op` if it is an integer operation of `arith`; else returns false.
  bool integer(Operation *op);
  /// Moves values to slots in parallel.
  void moveAll(Operation *op, ValueRange from, ValueRange to);

  NumberedProgram &numbered;
  llvm::DenseMap<Value, uint32_t> slots;
};

/// Executes instructions from `begin` to before `end`. Control flow is handled here; the client
/// decides jumps (`branch`) and loops (`enterLoop`, `nextLoop`) and executes the rest (`execute`).
template <typename Client>
LogicalResult runInstrs(const NumberedProgram &program, Client &client, uint32_t begin,
                        uint32_t end) {
  for (uint32_t pc = begin; pc < end;) {
    const Instr &instr = program.instrs[pc];
    switch (instr.op) {
    case opcode::Jump:
      pc = instr.target;
      break;
    case opcode::JumpUnless: {
      FailureOr<uint32_t> next = client.branch(pc);
      if (failed(next))
        return failure();
      pc = *next;
      break;
    }
    case opcode::LoopEnter: {
      FailureOr<bool> enters = client.enterLoop(pc);
      if (failed(enters))
        return failure();
      pc = *enters ? pc + 1 : instr.target;
      break;
    }
    case opcode::LoopNext: {
      FailureOr<bool> again = client.nextLoop(instr);
      if (failed(again))
        return failure();
      pc = *again ? instr.target : pc + 1;
      break;
    }
    default:
      if (failed(client.execute(instr)))
        return failure();
      ++pc;
    }
  }
  return success();
}

} // namespace tandem::hostir

#endif // TANDEM_DIALECT_HOSTIR_EVALUATE_NUMBEREDPROGRAM_H
