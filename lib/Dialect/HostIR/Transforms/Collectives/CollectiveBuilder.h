//===- CollectiveBuilder.h - builder of expanded collectives ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_COLLECTIVES_COLLECTIVEBUILDER_H
#define TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_COLLECTIVES_COLLECTIVEBUILDER_H

#include "tandem/Dialect/HostIR/IR/HostIRUtils.h"
#include "tandem/Support/LLVM.h"

namespace tandem::hostir {

inline MemRefType typeOf(Value buffer) { return cast<MemRefType>(buffer.getType()); }

/// Builds commands before a collective, on its channel and stream. Indices are `index` values.
class CollectiveBuilder : public IndexBuilder {
public:
  CollectiveBuilder(CollectiveOp op, ChannelOp channel);

  /// Number of devices of the group.
  int64_t size() const { return groupSize; }
  /// This device's position in the group.
  Value self() const { return position; }
  ReduceKind reduction() { return op.getReduction().value_or(ReduceKind::Sum); }
  /// `a` modulo the group's size, for a >= 0.
  Value wrap(Value a) { return mod(a, groupSize); }

  /// `buffer[index, ...]`.
  Value element(Value buffer, Value index);
  Value element(Value buffer, int64_t index);
  /// `count` indices of dimension `dim` from `offset` on.
  Value range(Value buffer, int64_t dim, OpFoldResult offset, int64_t count);

  /// A temporary buffer; `release` frees it.
  Value scratch(ArrayRef<int64_t> shape);
  void release(Value buffer);

  void copy(Value source, Value target);
  void accumulate(Value source, Value target);
  /// target = reduction of source over its first dimension.
  void reduceFirst(Value source, Value target);
  void send(Value buffer, Value peer);
  void receive(Value buffer, Value peer);
  /// A send and a receive in one group.
  void exchange(Value sent, Value to, Value received, Value from);

  void ifThen(Value condition, function_ref<void()> then, function_ref<void()> otherwise = nullptr);
  /// for index = begin ... end-1; no loop if empty.
  void loop(int64_t begin, int64_t end, function_ref<void(Value)> body);

private:
  CollectiveOp op;
  int64_t groupSize;
  Value position;
};

/// Shape and element type of the slice that one device contributes or gets.
MemRefType getSliceType(CollectiveOp op);

// Each expands one kind. Groups have at least two devices, slices are nonempty.
void expandAllGather(CollectiveBuilder &build, Value input, Value output);
void expandReduceScatter(CollectiveBuilder &build, Value input, Value output);
void expandAllReduce(CollectiveBuilder &build, Value input, Value output);
void expandAllToAll(CollectiveBuilder &build, Value input, Value output);
void expandBroadcast(CollectiveBuilder &build, Value input, Value output, Value root);
void expandReduce(CollectiveBuilder &build, Value input, Value output, Value root);
void expandGather(CollectiveBuilder &build, Value input, Value output, Value root);
void expandScatter(CollectiveBuilder &build, Value input, Value output, Value root);

} // namespace tandem::hostir

#endif // TANDEM_LIB_DIALECT_HOSTIR_TRANSFORMS_COLLECTIVES_COLLECTIVEBUILDER_H
