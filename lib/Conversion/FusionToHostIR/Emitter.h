//===- Emitter.h - emits the slices of ops into a host program -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_EMITTER_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_EMITTER_H

#include "ReshardPlan.h"
#include "StreamGroups.h"
#include "tandem/Dialect/Fusion/IR/AxesRule.h"
#include "tandem/Dialect/HostIR/IR/HostIROps.h"
#include "tandem/Support/LLVM.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace tandem {

/// Where the slices of a value are read from instead of its buffer: from the source of the reshard
/// that makes it, on the device that owns the slice. `owner` is the index part that is no digit
/// there. Or where they are written instead: see setPlacedSlice.
struct OwnSlice {
  Value buffer;
  LocalDims dims;
};

/// The dimensions of an op's operands and result in one slice.
struct OpDims {
  SmallVector<LocalDims> operands;
  LocalDims result;
};

/// Whether a slice is the first that is combined into its result.
struct FirstSlice {
  /// Surely not.
  bool never = false;
  /// If this holds; null: surely, unless `never`.
  Value condition;
};

/// Builds the body of one `hostir.program`: knows the buffer of every value, and emits ops slice by
/// slice. What schedules build with.
class Emitter {
public:
  /// Emits at the end of the program's body. `workers` is the size of the pool of worker streams,
  /// `worldSize` the number of ranks that run the program.
  Emitter(hostir::ProgramOp program, int64_t workers, int64_t worldSize);

  OpBuilder &getBuilder() { return builder; }
  Value getMainStream() { return mainStream; }
  int64_t getWorkers() const { return workers; }

  Value getBuffer(Value value) const { return buffers.lookup(value); }
  void setBuffer(Value value, Value buffer) { buffers[value] = buffer; }
  /// The buffer of an op's result; allocated on the main stream if it has none yet.
  Value getOrAllocBuffer(Value value);

  Value getIndex(int64_t value);
  Value getDeviceIndex(fusion::MeshAttr mesh, StringAttr axis);
  /// This device's number in its group along mesh axes, which number the group in their order.
  Value getGroupPosition(Location loc, fusion::MeshAttr mesh, ArrayRef<StringAttr> axes);
  /// The channel along mesh axes for messages of one kind; made once.
  Value getChannel(fusion::MeshAttr mesh, ArrayRef<StringAttr> axes, hostir::Capability capability);

  /// A buffer in symmetric memory from here on, allocated on the main stream.
  Value allocSymmetric(Location loc, ArrayRef<int64_t> shape, Type element);
  /// The first of `count` signal slots that nobody else in the program uses.
  int64_t takeSignals(int64_t count);

  /// Emits `body` for the devices of `mesh` alone: under a condition, if the program has others.
  void onMesh(Location loc, fusion::MeshAttr mesh, function_ref<void()> body);

  /// How many workers a loop of `iterations` under `schedule` uses.
  int64_t getNumStreams(fusion::ScheduleAttr schedule, int64_t iterations);
  /// The worker stream of an iteration, of the first `streams`.
  Value getStream(Location loc, Value iteration, int64_t streams);
  /// `hostir.sync` of the first `count` workers after the main stream, or of the main stream after
  /// them.
  void fork(Location loc, int64_t count);
  void join(Location loc, int64_t count);
  /// A loop over [lower, upper); nothing for an empty range, no loop for `upper` = `lower` + 1.
  LogicalResult loop(Location loc, int64_t lower, int64_t upper,
                     function_ref<LogicalResult(Value iteration)> body);
  /// Emits `body` under `condition`; null: always.
  void onlyIf(Location loc, Value condition, function_ref<void()> body);

  /// Emits `body` for the slice at `index`: under conditions, if the loop of `group` has ragged
  /// digits, so that each is told whether its slice is the last, shorter one. Does nothing else.
  LogicalResult forEachShape(Location loc, const StreamGroup &group, const SliceIndex &index,
                             function_ref<LogicalResult(const SliceIndex &)> body);

  /// Gives the results of a group their buffers, before its loop.
  LogicalResult prepare(const StreamGroup &group);
  /// Emits one slice of `ops`, which are all of the group's or those behind what has been emitted:
  /// in order on `stream`, then those that accumulate, on the main stream, one slice after another.
  /// `isStreamUsed`: they read what has been issued on `stream` before.
  LogicalResult emitSlices(const StreamGroup &group, ArrayRef<Operation *> ops,
                           const SliceIndex &index, Value stream, bool isStreamUsed);
  /// Behind the loop: rounds what was accumulated in f32 to the type of its result.
  LogicalResult finish(const StreamGroup &group);

  /// Whether an op only looks at its operand in another way.
  static bool isView(Operation *op);

  /// Gives the op's result its buffer, before a loop that emits slices of it: a view of the
  /// operand's if that will do.
  LogicalResult prepare(Operation *op);

  /// Emits one slice of an op that is prepared, on `stream`: a reshard as one collective or copy,
  /// any other op as compute. A null `index` means the whole op. Errors stand at the op.
  LogicalResult emitSlice(Operation *op, const SliceIndex *index, Value stream);

  /// Writes a constant into the buffer of its result, on the main stream: for those who need it as
  /// a buffer (elementwise ops have it in their kernel).
  LogicalResult emitConstant(Operation *op);

  /// While set, slices of `value` are read from `own` (consumers' dimensions are those of the
  /// value).
  void setOwnSlice(Value value, const OwnSlice &own) { ownSlices[value] = own; }
  void clearOwnSlices() { ownSlices.clear(); }
  /// While set, matmuls write slices of `value` to `place` (dimensions are those of the value).
  void setPlacedSlice(Value value, const OwnSlice &place) { placedSlices[value] = place; }
  void clearPlacedSlices() { placedSlices.clear(); }

private:
  LogicalResult emitReshard(fusion::ReshardOp op, const SliceIndex *index, Value stream);
  LogicalResult emitTransfer(fusion::ReshardOp op, const ReshardPlan &plan, Value stream);
  LogicalResult emitCompute(Operation *op, const SliceIndex *index, Value stream);
  LogicalResult emitMatmul(fusion::MatmulOp op, OpDims dims, Value out, FirstSlice first,
                           Value stream);
  LogicalResult emitMatmulRuns(fusion::MatmulOp op, OpDims &dims, Value out, FirstSlice first,
                               Value stream);
  LogicalResult emitContiguousMatmul(fusion::MatmulOp op, OpDims &dims, Value out, FirstSlice first,
                                     Value stream);
  /// Runs `body` for each run of a dimension's digits, so that each view is contiguous in it:
  /// `lists` are the digits that the operands have for it, aligned. `body` is told the loop's
  /// index, null without a loop.
  LogicalResult forEachRun(Location loc, ArrayRef<SmallVector<LocalDigit> *> lists,
                           function_ref<LogicalResult(Value)> body);
  LogicalResult emitReduce(fusion::ReduceOp op, OpDims dims, Value out, FirstSlice first,
                           Value stream);
  LogicalResult prepareAccumulator(Operation *op);
  LogicalResult emitAccumulation(const StreamGroup &group, Operation *op, const SliceIndex &index);
  /// The slice of a value whose digits are `map` in iteration `index` of the loop, `inner` of those
  /// that are none of the loop's.
  SliceIndex mapIndex(Location loc, const DigitMap &map, const SliceIndex &index,
                      const SliceIndex &inner);
  LogicalResult emitAlike(ArrayRef<Operation *> ops, const DigitMap &map, const SliceIndex &index,
                          Value stream);
  /// Emits `first` or `later` under the condition that the slice is its result's first.
  LogicalResult ifFirst(Location loc, const FirstSlice &isFirst,
                        function_ref<LogicalResult()> first, function_ref<LogicalResult()> later);
  FirstSlice isFirstSlice(Operation *op, unsigned operand, const SliceIndex &index);
  /// A private kernel named after the program and `name`: `compute` emits its body and returns what
  /// it yields.
  hostir::KernelOp createKernel(Location loc, StringRef name, TypeRange inputs, Type result,
                                function_ref<Value(ValueRange)> compute);
  /// A kernel that converts between floating point types.
  hostir::KernelOp getCastKernel(Location loc, Type from, Type to);
  void emitLaunch(Location loc, hostir::KernelOp kernel, ValueRange inputs, Value output,
                  Value stream);
  LogicalResult emitView(Operation *op, const SliceIndex *index, Value stream);
  void emitPacking(fusion::ReshapeOp op, const SliceIndex *index, Value stream);
  LogicalResult emitConcat(fusion::ConcatOp op, const SliceIndex *index, Value stream);
  /// The operand's whole buffer as the result of a view op sees it.
  FailureOr<Value> makeWholeView(Operation *op);
  LogicalResult emitElementwise(Operation *op, const SliceIndex *index, Value stream);
  struct Elementwise;
  /// Whether it is a tensor of i1, which has no buffer.
  static bool isTruth(Value value);
  /// Adds the op, and what makes its truth values, to a kernel; returns its number there.
  FailureOr<unsigned> collectElementwise(Operation *op, Elementwise &kernel);
  static std::string getKernelKey(const Elementwise &kernel);
  hostir::KernelOp getKernel(const Elementwise &elementwise);

  /// Local digits of operands and result for a slice: that of the result at `index`, or, if an
  /// operand is named, what belongs to the slice of that operand.
  OpDims getOpDims(Operation *op, const SliceIndex *index, std::optional<unsigned> operand);
  /// Local digits of the operand's dimensions for the slice `result` of the op's result.
  LocalDims getOperandDims(Operation *op, const fusion::AxesRule &rule, unsigned operand,
                           const LocalDims &result);
  /// Where an operand is read: from its buffer in `dims`, or from the source of its own slices, in
  /// whose digits `dims` is then.
  Value getSource(Value operand, LocalDims &dims);
  /// Cuts the digits of all operands and of the result that run together alike, so that their views
  /// have one shape. Error at `op` if that cannot be.
  LogicalResult alignDims(Operation *op, ArrayRef<SmallVector<int64_t>> operandFactors,
                          ArrayRef<int64_t> resultFactors, OpDims &dims);

  Value allocOnMain(Location loc, MemRefType type);
  template <typename MakeFn> Value atEntry(MakeFn make);

  hostir::ProgramOp program;
  OpBuilder builder;
  int64_t workers, worldSize;
  Value mainStream;
  fusion::MeshAttr activeMesh; // whose devices alone run what is emitted now
  Operation *lastOfEntry =
      nullptr; // streams, channels and device indices stand at the entry, in order of need
  DenseMap<Value, Value> buffers;
  DenseMap<Operation *, Value> accumulators; // the buffer that an op accumulates in
  DenseSet<Value> views;                     // whose buffer is a view of their operand's
  DenseSet<Operation *> reshapedInLoop; // reshapes that are told by the slices of their operand
  DenseMap<Value, OwnSlice> ownSlices, placedSlices;
  int64_t numSignals = 0;                    // slots taken
  llvm::StringMap<hostir::KernelOp> kernels; // by what they compute
  std::optional<SymbolTable> symbols;        // of the module, once kernels are made
  DenseMap<std::pair<Attribute, Attribute>, Value> deviceIndices;
  DenseMap<std::pair<Attribute, std::pair<Attribute, unsigned>>, Value>
      channels; // mesh, axes, capability
  llvm::StringSet<> channelNames;
};

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_EMITTER_H
