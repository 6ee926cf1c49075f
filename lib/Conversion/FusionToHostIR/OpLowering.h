//===- OpLowering.h - how one op becomes host IR -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_OPLOWERING_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_OPLOWERING_H

#include "LoopEmitter.h"
#include "OpDims.h"
#include "tandem/Support/LLVM.h"

namespace tandem {
class OpLowering;
} // namespace tandem

#include "tandem/Conversion/FusionToHostIR/LoweringOpInterface.h.inc"

namespace tandem {

/// Lowers the ops of one name to host IR, slice by slice. Stateless: loop state is in the
/// LoopEmitter. Each is a class in a file under Lowerings/ or in another library, which attaches it
/// to its op.
class OpLowering {
public:
  virtual ~OpLowering() = default;

  /// Assigns the op's result its buffer, before the loop. Default: a new buffer.
  virtual LogicalResult prepare(Operation *op, LoopEmitter &loop) const;

  /// Emits the slice of the result at `index` (null: all of it) on `stream`. Runs only on devices
  /// of the result's mesh, unless the operands are on another mesh.
  virtual LogicalResult emit(Operation *op, const SliceIndex *index, Value stream,
                             LoopEmitter &loop) const = 0;

  /// Whether `accumulate` is implemented for the op; only for ops whose axes rule has a reduction.
  /// See ReducingLowering.
  virtual bool accumulates(Operation *op) const { return false; }

  /// Combines the slice at `index` of operand `operand` into `out`, the whole result, on the main
  /// stream.
  virtual LogicalResult accumulate(Operation *op, unsigned operand, const SliceIndex &index,
                                   Value out, LoopEmitter &loop) const;

  /// Before the loop, on the main stream: what `accumulate` needs next to `out`, the buffer that it
  /// combines into. Kept with `LoopEmitter::setState`.
  virtual LogicalResult prepareAccumulation(Operation *op, Value out, LoopEmitter &loop) const {
    return success();
  }
  /// After the loop, on the main stream: writes the result from what was combined. Default: rounds
  /// it to the result's type.
  virtual LogicalResult finishAccumulation(Operation *op, Value out, LoopEmitter &loop) const;

  /// The element type in which `accumulate` combines: the result's or a wider one.
  virtual Type getAccumulatorElement(Operation *op) const;

  /// Whether `emit` reads operands with `LoopEmitter::getSource`, which finds slices in place.
  /// Otherwise slices must be in the operand's buffer.
  virtual bool readsPlaces() const { return false; }
  /// Whether `emit` writes its result with `LoopEmitter::getTarget`.
  virtual bool writesPlaces() const { return false; }
};

/// Whether a slice is the first one combined into its result.
struct FirstSlice {
  /// Never.
  bool never = false;
  /// Only if this holds; null: always, unless `never`.
  Value condition;
};

/// Emits `first` or `later`, depending on `isFirst`.
LogicalResult ifFirst(OpBuilder &builder, Location loc, const FirstSlice &isFirst,
                      function_ref<LogicalResult()> first, function_ref<LogicalResult()> later);

/// Runs `body` for each run of a dimension's digits, so that each view is contiguous in it.
/// `lists`: the operands' aligned digits. `body` gets the loop index, or null without a loop.
/// Example: rows [3 @ all, 4 @ i, 5 @ all] are 3 runs of 5 rows.
LogicalResult forEachRun(ProgramBuilder &program, Location loc,
                         ArrayRef<SmallVector<LocalDigit> *> lists,
                         function_ref<LogicalResult(Value)> body);

/// Runs `body` for each run of a summed dimension, whose digits are `lhs` and `rhs` in the
/// operands. Only the first run may be the first term of the sum, if the slice is its `first`.
LogicalResult forEachTerm(ProgramBuilder &program, Location loc, SmallVector<LocalDigit> &lhs,
                          SmallVector<LocalDigit> &rhs, const FirstSlice &first,
                          function_ref<LogicalResult(const FirstSlice &)> body);

/// The lowering of an op that combines over a dimension, by one function for slices of the result
/// and of an operand.
class ReducingLowering : public OpLowering {
public:
  LogicalResult emit(Operation *op, const SliceIndex *index, Value stream,
                     LoopEmitter &loop) const final;
  bool accumulates(Operation *op) const final { return true; }
  LogicalResult accumulate(Operation *op, unsigned operand, const SliceIndex &index, Value out,
                           LoopEmitter &loop) const final;

protected:
  /// Combines the parts `dims` of the operands into the part `dims` of the buffer `out`. The first
  /// slice writes it, later ones add to it.
  virtual LogicalResult combine(Operation *op, OpDims dims, Value out, const FirstSlice &first,
                                Value stream, LoopEmitter &loop) const = 0;

  /// Sums of f16 and bf16 are kept in f32 until the last slice, so that the error does not grow
  /// with the number of slices.
  static Type getWideElement(Operation *op);
};

/// The lowering of an elementwise op: the launch of a kernel.
class ElementwiseLowering : public OpLowering {
public:
  bool readsPlaces() const override { return true; }
  bool writesPlaces() const override { return true; }
  LogicalResult emit(Operation *op, const SliceIndex *index, Value stream,
                     LoopEmitter &loop) const final;

protected:
  /// Emits the op on one element of each operand, in a kernel, as ops of arith and math. Default:
  /// the op itself.
  virtual Value emitElement(Operation *op, ValueRange elements, OpBuilder &builder) const;
};

/// Emits the reduction of `in`, a view made by `makeView` from `inDims`, over its dimensions
/// `reduced`. The first slice writes the view `out`, later ones are combined with it.
LogicalResult emitReduction(OpBuilder &builder, Location loc, ReduceKind kind, Value in,
                            const LocalDims &inDims, ArrayRef<int64_t> reduced, Value out,
                            const FirstSlice &first, Value stream);

/// The lowering of an op: its own (LoweringOpInterface), or for another elementwise op that of one
/// kernel; null: none.
const OpLowering *getLowering(Operation *op);

/// Makes a lowering that of all ops `OpT` of a context.
template <typename OpT, typename LoweringT> void attachLowering(MLIRContext &context) {
  struct Model : LoweringOpInterface::ExternalModel<Model, OpT> {
    const OpLowering &getLowering(Operation *) const {
      static const LoweringT lowering;
      return lowering;
    }
  };
  OpT::template attachInterface<Model>(context);
}

/// Each attaches the lowerings of one file under Lowerings/.
void attachAttentionLowering(MLIRContext &context);
void attachCallLowering(MLIRContext &context);
void attachConcatLowering(MLIRContext &context);
void attachGroupedMatmulLowering(MLIRContext &context);
void attachMatmulLowering(MLIRContext &context);
void attachReduceLowering(MLIRContext &context);
void attachReshardLowering(MLIRContext &context);
void attachViewLowerings(MLIRContext &context);

/// Writes a constant to its result's buffer on the main stream, for ops that need a buffer
/// (elementwise ops have constants in their kernels).
LogicalResult emitConstant(Operation *op, ProgramBuilder &program);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_OPLOWERING_H
