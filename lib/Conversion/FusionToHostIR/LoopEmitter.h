//===- LoopEmitter.h - the ops of one stream loop, slice by slice -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_LOOPEMITTER_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_LOOPEMITTER_H

#include "ProgramBuilder.h"
#include "ReshardPlan.h"
#include "StreamLoop.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// A place of a slice that is not in the buffer of its value: `buffer`, read in the digits `dims`,
/// one list per dimension of the value.
struct SliceBuffer {
  Value buffer;
  LocalDims dims;
};

/// Emits the ops of one stream loop (or of a group that is not streamed) slice by slice, and holds
/// what they share from `prepare` to `finish`. A schedule makes one per group; lowerings read it.
class LoopEmitter {
public:
  /// `sharesSums`: matmuls that are added up write one memory (see SummedProduct). They must be
  /// emitted in the loop's order then.
  LoopEmitter(const StreamLoop &group, ProgramBuilder &program, bool sharesSums = true);

  const StreamLoop &group;
  ProgramBuilder &program;

  //===--------------------------------------------------------------------===//
  // For schedules
  //===--------------------------------------------------------------------===//

  /// Gives the results of all ops, or of one, their buffers, before the loop.
  LogicalResult prepare();
  LogicalResult prepare(Operation *op);

  /// Emits `body` for the slice at `index`: under conditions, if the loop has ragged digits, so
  /// that each is told whether its slice is the last, shorter one.
  LogicalResult forEachShape(Location loc, const SliceIndex &index,
                             function_ref<LogicalResult(const SliceIndex &)> body);

  /// Emits one slice of `ops`, which are all of the group's or those after what has been emitted:
  /// in order on `stream`, then those that accumulate, on the main stream, one slice after another.
  /// `isStreamUsed`: they read what has been issued on `stream` before.
  LogicalResult emitSlices(ArrayRef<Operation *> ops, const SliceIndex &index, Value stream,
                           bool isStreamUsed);
  /// Emits one slice of a prepared op on `stream`. A null `index` means the whole op. Errors are
  /// located at the op.
  LogicalResult emitSlice(Operation *op, const SliceIndex *index, Value stream);

  /// After the loop: writes the results of the ops that accumulate.
  LogicalResult finish();

  /// Whether reshards that only move data are messages between pairs of devices, even if a
  /// collective would do.
  bool sendsMessages = false;

  /// While set, slices of `value` are read from `place` instead of its buffer: from the source of
  /// the reshard that makes it, on the device that owns the slice. Only by ops whose lowering
  /// `readsPlaces`.
  void readFrom(Value value, const SliceBuffer &place) { readPlaces[value] = place; }
  /// While set, slices of `value` are written to `place`, by an op whose lowering `writesPlaces`.
  void writeTo(Value value, SliceBuffer place);
  /// The same, but adds the slice to the old contents of the place. For ops whose lowering adds.
  void addTo(Value value, const SliceBuffer &place) {
    writeTo(value, place);
    added.insert(value);
  }
  /// The same as `writeTo`, plus what is in `term`. Of a matmul without bias, or a sum of such.
  void writeSumTo(Value value, const SliceBuffer &place, const SliceBuffer &term) {
    writeTo(value, place);
    terms[value] = term;
  }
  /// Whether what makes `value`, an op of the loop or several, writes it with `getTarget`.
  bool writesPlace(Value value) const;
  void clearPlaces() {
    readPlaces.clear();
    writePlaces.clear();
    added.clear();
    terms.clear();
  }

  //===--------------------------------------------------------------------===//
  // For lowerings
  //===--------------------------------------------------------------------===//

  OpBuilder &getBuilder() { return program.getBuilder(); }
  /// Where an operand is read: its buffer, in the digits `dims`, or the place of its slice, whose
  /// digits `dims` then gets.
  Value getSource(Value operand, LocalDims &dims) const;
  /// Where the result of an op is written: `out` in the digits `dims`, or the place of its slice.
  Value getTarget(Value result, Value out, LocalDims &dims) const;
  /// Whether it is added to what is there.
  bool isAdded(Value result) const;
  /// What is added to the result of a matmul; a null buffer: nothing.
  SliceBuffer getTerm(Value result) const;

  /// Buffers that the lowering of an op keeps from slice to slice.
  void setState(Operation *op, SmallVector<Value> buffers) { states[op] = std::move(buffers); }
  ArrayRef<Value> getState(Operation *op) const { return states.find(op)->second; }

  /// Records that the buffer of `value` is a view of its operand's: nothing is emitted for its
  /// slices.
  void setView(Value value) { views.insert(value); }
  bool isView(Value value) const { return views.contains(value); }
  /// Whether the slices of a reshape are counted in the digits of its operand, which the loop makes
  /// too.
  bool isReshapedInLoop(Operation *op) const;

private:
  /// A sum of matmuls that the loop makes: they write the memory of the sum, one after another.
  /// Nothing is emitted for the additions.
  struct SummedProduct {
    Value sum;    ///< null: what is asked about is none
    bool isFirst; ///< the others add to what is there
  };
  SummedProduct getSummed(Value product) const { return summed.lookup(product); }
  /// The reduction over dimensions of one index that `value` is, if it is a view; else null.
  fusion::ReduceOp getReducedView(Value value) const;
  /// The digits that an op's slices are counted in: of a reshape of what the loop makes those of
  /// its operand.
  DigitMap getDigitsOf(Operation *op) const;
  LogicalResult emitAlike(ArrayRef<Operation *> ops, const DigitMap &map, const SliceIndex &index,
                          Value stream);
  LogicalResult prepareAccumulator(Operation *op);
  LogicalResult emitAccumulation(Operation *op, const SliceIndex &index);

  DenseMap<Value, SummedProduct> summed;     // by the results of the matmuls
  DenseMap<Operation *, Value> accumulators; // the buffer that an op accumulates in
  DenseMap<Operation *, SmallVector<Value>> states;
  DenseSet<Value> views;
  DenseSet<Operation *> additions; // of summed products
  DenseMap<Value, SliceBuffer> readPlaces, writePlaces;
  DenseSet<Value> added;
  DenseMap<Value, SliceBuffer> terms;
};

/// Emits whole ops outside of a stream loop, one after another, on the main stream.
LogicalResult emitWhole(ArrayRef<Operation *> ops, ProgramBuilder &program,
                        bool sendsMessages = false);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_LOOPEMITTER_H
