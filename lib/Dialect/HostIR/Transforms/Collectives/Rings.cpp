//===- Rings.cpp - collectives that need every slice everywhere -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CollectiveBuilder.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "tandem/Dialect/HostIR/IR/HostIRUtils.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;

namespace {
/// A ring: data moves to the right neighbour.
struct Ring {
  explicit Ring(CollectiveBuilder &build)
      : size(build.size()), right(build.wrap(build.add(build.self(), 1))),
        left(build.wrap(build.add(build.self(), size - 1))) {}

  int64_t size;
  Value right, left;
};
} // namespace

// (self - index - distance) modulo the group's size, for 0 <= index + distance <= size.
static Value blockBehind(CollectiveBuilder &build, Value index, int64_t distance) {
  Value sum = build.add(build.self(), build.size() - distance);
  return build.wrap(build.sub(sum, index));
}

// Every device's block moves around the ring; the local block is in place. Step i forwards the
// block received in step i - 1.
static void ringGather(CollectiveBuilder &build, const Ring &ring,
                       function_ref<Value(Value)> block) {
  build.loop(0, ring.size - 1, [&](Value i) {
    Value sent = block(blockBehind(build, i, 0));
    Value received = block(blockBehind(build, i, 1));
    build.exchange(sent, ring.right, received, ring.left);
  });
}

// The partial sum of block b starts on the right of device b and ends on b: step i receives the sum
// of block self - 2 - i and adds the local slice. Partial sums alternate between two buffers; the
// last one arrives in `output`.
static void ringReduce(CollectiveBuilder &build, const Ring &ring,
                       function_ref<Value(Value)> inputBlock, Value output) {
  Value zero = build.constant(0);
  int64_t lastStep = ring.size - 2;
  Value partial;
  if (lastStep > 0) {
    SmallVector<int64_t> shape(typeOf(output).getShape());
    shape.insert(shape.begin(), std::min<int64_t>(lastStep, 2));
    partial = build.scratch(shape);
  }
  auto step = [&](Value sent, Value received, Value i) {
    build.exchange(sent, ring.right, received, ring.left);
    build.accumulate(inputBlock(blockBehind(build, i, 2)), received);
  };
  step(inputBlock(blockBehind(build, zero, 1)), lastStep > 0 ? build.element(partial, 0) : output,
       zero);
  build.loop(1, lastStep, [&](Value i) {
    Value sent = build.element(partial, build.mod(build.add(i, 1), 2));
    step(sent, build.element(partial, build.mod(i, 2)), i);
  });
  if (lastStep > 0) {
    step(build.element(partial, (lastStep - 1) % 2), output, build.constant(lastStep));
    build.release(partial);
  }
}

void hostir::expandAllGather(CollectiveBuilder &build, Value input, Value output) {
  Ring ring(build);
  build.copy(input, build.element(output, build.self()));
  ringGather(build, ring, [&](Value index) { return build.element(output, index); });
}

void hostir::expandReduceScatter(CollectiveBuilder &build, Value input, Value output) {
  Ring ring(build);
  ringReduce(build, ring, [&](Value index) { return build.element(input, index); }, output);
}

void hostir::expandAllToAll(CollectiveBuilder &build, Value input, Value output) {
  build.copy(build.element(input, build.self()), build.element(output, build.self()));
  build.loop(1, build.size(), [&](Value distance) {
    Value to = build.wrap(build.add(build.self(), distance));
    Value from = blockBehind(build, distance, 0);
    build.exchange(build.element(input, to), to, build.element(output, from), from);
  });
}

//===----------------------------------------------------------------------===//
// All-reduce
//===----------------------------------------------------------------------===//

static Value flatten(CollectiveBuilder &build, Value buffer) {
  ReassociationIndices all(typeOf(buffer).getRank());
  for (auto [dim, index] : llvm::enumerate(all))
    index = dim;
  return memref::CollapseShapeOp::create(build, buffer, ArrayRef<ReassociationIndices>{all});
}

// The dimension that is cut into chunks; -1 if none has as many indices as there are devices.
static int64_t chooseDim(ArrayRef<int64_t> shape, int64_t size) {
  int64_t best = -1;
  for (auto [dim, extent] : llvm::enumerate(shape)) {
    if (extent < size)
      continue;
    if (extent % size == 0)
      return dim;
    if (best < 0 || extent > shape[best])
      best = dim;
  }
  return best;
}

// All devices reduce in the same order, so that they get the same bits.
static void gatherAndReduce(CollectiveBuilder &build, const Ring &ring, Value input, Value output) {
  SmallVector<int64_t> shape(typeOf(input).getShape());
  shape.insert(shape.begin(), ring.size);
  Value terms = build.scratch(shape);
  build.copy(input, build.element(terms, build.self()));
  ringGather(build, ring, [&](Value index) { return build.element(terms, index); });
  build.reduceFirst(terms, output);
  build.release(terms);
}

void hostir::expandAllReduce(CollectiveBuilder &build, Value input, Value output) {
  Ring ring(build);
  bool divides = typeOf(input).getRank() > 0 && typeOf(input).getDimSize(0) % ring.size == 0;
  if (!divides && typeOf(input).getRank() > 1 && isDense(typeOf(input)) &&
      isDense(typeOf(output))) {
    input = flatten(build, input);
    output = flatten(build, output);
  }
  ArrayRef<int64_t> shape = typeOf(input).getShape();
  int64_t dim = chooseDim(shape, ring.size);
  if (dim < 0)
    return gatherAndReduce(build, ring, input, output);

  int64_t rows = shape[dim] / ring.size;
  auto chunk = [&](Value buffer, Value index) {
    return build.range(buffer, dim, getAsOpFoldResult(build.mul(index, rows)), rows);
  };
  Value own = chunk(output, build.self());
  ringReduce(build, ring, [&](Value index) { return chunk(input, index); }, own);
  ringGather(build, ring, [&](Value index) { return chunk(output, index); });

  if (int64_t rest = shape[dim] % ring.size) {
    OpFoldResult offset = build.getIndexAttr(rows * ring.size);
    // In this order, whatever compiler evaluates the arguments of a call.
    Value from = build.range(input, dim, offset, rest), to = build.range(output, dim, offset, rest);
    gatherAndReduce(build, ring, from, to);
  }
}
