//===- Concat.cpp - lowering of fusion.concat -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// In the concatenated dimension, an iteration computes one run of indices, or several with gaps.
// Loops run over the digits outside the innermost stream digit. For that digit it is known which
// values lie in one operand (one copy, under a condition on the loop index) and which span two
// (partial copies).
//
//===----------------------------------------------------------------------===//

#include "../OpLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;

namespace {

/// Copies each operand's part of a slice of the result.
class Concat {
public:
  Concat(ProgramBuilder &program, fusion::ConcatOp op, LocalDims dims, Value out, Value stream)
      : program(program), builder(program.getBuilder()), loc(op.getLoc()), op(op),
        dim(static_cast<int64_t>(op.getDim())), dims(std::move(dims)), out(out), stream(stream) {}

  void emit();

private:
  /// The innermost stream digit: runs `value` * pitch ... + length - 1 for values `first` to
  /// `last`.
  struct Runs {
    Value value;
    int64_t pitch, length, first, last;
  };
  void emitOuter(ArrayRef<LocalDigit> outer, int64_t span, const Runs &runs, int64_t base);
  void emitRuns(const Runs &runs, int64_t base);
  void copy(Value input, int64_t extent, Value from, Value to, int64_t length);
  int64_t extentOf(Value input) const {
    return (*fusion::getLocalShape(cast<RankedTensorType>(input.getType())))[dim];
  }
  hostir::IndexBuilder math() { return program.math(loc); }
  /// `value` * factor + constant, which may be negative.
  Value linear(Value value, int64_t factor, int64_t constant) {
    return math().add(math().mul(value, factor), constant);
  }

  ProgramBuilder &program;
  OpBuilder &builder;
  Location loc;
  fusion::ConcatOp op;
  int64_t dim;
  LocalDims dims; // of the result
  Value out, stream;
};

} // namespace

/// Copies `length` indices of the dimension, from index `from` of the operand to `to` of the
/// result.
void Concat::copy(Value input, int64_t extent, Value from, Value to, int64_t length) {
  LocalDims inDims = dims, outDims = dims;
  int64_t outExtent = cast<MemRefType>(out.getType()).getDimSize(dim);
  inDims[dim] = {{extent, from, 0, 1, length}};
  outDims[dim] = {{outExtent, to, 0, 1, length}};
  Value source = makeView(builder, loc, program.getBuffer(input), inDims, true);
  Value target = makeView(builder, loc, out, outDims, true);
  hostir::CopyOp::create(builder, loc, source, target, stream);
}

void Concat::emitRuns(const Runs &runs, int64_t base) {
  bool isOne = runs.first + 1 == runs.last;
  int64_t begin = 0;
  for (Value input : op.getInputs()) {
    // The operand's indices, relative to `base`.
    int64_t extent = extentOf(input), first = begin - base, end = first + extent;
    begin += extent;
    if (extent == 0)
      continue;
    auto emitCopy = [&](Value condition, int64_t skipped, int64_t length) {
      program.onlyIf(loc, isOne ? Value() : condition, [&] {
        Value from = linear(runs.value, runs.pitch, skipped - first);
        Value to = linear(runs.value, runs.pitch, skipped + base);
        copy(input, extent, from, to, length);
      });
    };
    // Values whose run lies in this operand.
    int64_t whole = std::max(runs.first, llvm::divideCeilSigned(first, runs.pitch));
    int64_t wholeEnd =
        std::min(runs.last, llvm::divideFloorSigned(end - runs.length, runs.pitch) + 1);
    if (whole < wholeEnd) {
      Value condition;
      if (whole > runs.first)
        condition = math().compare(arith::CmpIPredicate::uge, runs.value, program.getIndex(whole));
      if (wholeEnd < runs.last)
        condition = math().both(condition, math().isLess(runs.value, wholeEnd));
      emitCopy(condition, 0, runs.length);
    }
    // Values whose run lies partly in it.
    llvm::SmallSetVector<int64_t, 2> parts;
    parts.insert(llvm::divideFloorSigned(first, runs.pitch));
    parts.insert(llvm::divideFloorSigned(end - 1, runs.pitch));
    for (int64_t value : parts) {
      int64_t at = value * runs.pitch;
      int64_t from = std::max(at, first), to = std::min(at + runs.length, end);
      if (value >= runs.first && value < runs.last && from < to && to - from < runs.length)
        emitCopy(math().isEqual(runs.value, value), from - at, to - from);
    }
  }
}

/// `span`: number of indices per value of the digits outside `outer`.
void Concat::emitOuter(ArrayRef<LocalDigit> outer, int64_t span, const Runs &runs, int64_t base) {
  if (outer.empty())
    return emitRuns(runs, base);
  const LocalDigit &digit = outer.front();
  span /= digit.size;
  for (int64_t value = 0; value < digit.size; ++value) {
    Value condition = digit.index ? math().isEqual(digit.index, value) : Value();
    program.onlyIf(loc, condition,
                   [&] { emitOuter(outer.drop_front(), span, runs, base + value * span); });
  }
}

void Concat::emit() {
  SmallVector<LocalDigit> &digits = dims[dim];
  int64_t extent = cast<MemRefType>(out.getType()).getDimSize(dim);
  if (extent == 0)
    return;
  int64_t inner = 1;
  while (!digits.empty() && !digits.back().index)
    inner *= digits.pop_back_val().size;
  Runs runs{{}, inner, inner, 0, 1};
  if (digits.empty()) {
    runs.value = program.getIndex(0);
  } else if (LocalDigit last = digits.pop_back_val(); last.chunk) {
    // The slices of a ragged digit: the last one is shorter.
    int64_t slices = llvm::divideCeil(last.size, last.chunk);
    bool isShort = last.length != last.chunk;
    runs = {last.index, last.chunk, last.length, isShort ? slices - 1 : 0,
            isShort ? slices : slices - 1};
  } else {
    runs.value = last.index;
    runs.last = last.size;
    // The parts of one digit's value.
    while (!digits.empty() && digits.back().index) {
      LocalDigit more = digits.pop_back_val();
      runs.value = math().linear(more.index, runs.last, runs.value);
      runs.last *= more.size;
    }
  }
  SmallVector<LocalDigit> outer = digits;
  emitOuter(outer, extent, runs, 0);
}

namespace {
class ConcatLowering : public OpLowering {
  LogicalResult emit(Operation *op, const SliceIndex *index, Value stream,
                     LoopEmitter &loop) const override {
    auto concat = cast<fusion::ConcatOp>(op);
    LocalDims dims = getLocalDims(concat.getType(), index);
    Value out = loop.program.getOrAllocBuffer(concat.getResult());
    Concat(loop.program, concat, std::move(dims), out, stream).emit();
    return success();
  }
};
} // namespace

void tandem::attachConcatLowering(MLIRContext &context) {
  attachLowering<fusion::ConcatOp, ConcatLowering>(context);
}
