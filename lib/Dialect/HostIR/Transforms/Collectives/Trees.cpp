//===- Trees.cpp - collectives with a root -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Binomial trees over *virtual* positions v = (self - root) modulo the group's size: the root is 0.
// In the round of `mask` (a power of two), devices v and v + mask communicate, for multiples v of 2
// * mask. The subtree of v + mask is the devices v + mask ... v + 2 * mask - 1, clipped to the
// group.
//
//===----------------------------------------------------------------------===//

#include "CollectiveBuilder.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;

namespace {
struct Tree {
  Tree(CollectiveBuilder &build, Value root)
      : build(build), root(root), size(build.size()),
        self(build.wrap(build.sub(build.add(build.self(), size), root))) {}

  /// Position in the group of virtual position `v`, v < 2 * size.
  Value member(Value v) { return build.wrap(build.add(v, root)); }
  Value above(int64_t mask) { return member(build.add(self, mask)); }
  Value below(int64_t mask) { return member(build.sub(self, build.constant(mask))); }
  Value isRoot() { return build.isEqual(self, 0); }
  /// Whether this device is v (isChild: v + mask) of a pair of the round.
  Value isParent(int64_t mask) {
    return build.both(build.isEqual(build.mod(self, 2 * mask), 0), build.isLess(self, size - mask));
  }
  Value isChild(int64_t mask) { return build.isEqual(build.mod(self, 2 * mask), mask); }

  CollectiveBuilder &build;
  Value root;
  int64_t size;
  Value self;
};
} // namespace

static SmallVector<int64_t> roundsUp(int64_t size) {
  SmallVector<int64_t> masks;
  for (int64_t mask = 1; mask < size; mask *= 2)
    masks.push_back(mask);
  return masks;
}

// From the root: in each round, all devices with the data send it.
void hostir::expandBroadcast(CollectiveBuilder &build, Value input, Value output, Value root) {
  Tree tree(build, root);
  build.ifThen(tree.isRoot(), [&] { build.copy(input, output); });
  for (int64_t mask : roundsUp(tree.size)) {
    // Devices 0 ... mask-1 have the data; those with a partner send.
    int64_t senders = std::min(mask, tree.size - mask);
    build.ifThen(build.isLess(tree.self, senders), [&] { build.send(output, tree.above(mask)); });
    // Below mask, the difference wraps to a large number.
    Value index = build.sub(tree.self, build.constant(mask));
    build.ifThen(build.isLess(index, senders), [&] { build.receive(output, tree.below(mask)); });
  }
}

// To the root: sums of growing subtrees.
void hostir::expandReduce(CollectiveBuilder &build, Value input, Value output, Value root) {
  Tree tree(build, root);
  Value sum = build.scratch(typeOf(input).getShape());
  Value arrived = build.scratch(typeOf(input).getShape());
  build.copy(input, sum);
  for (int64_t mask : roundsUp(tree.size)) {
    build.ifThen(tree.isParent(mask), [&] {
      build.receive(arrived, tree.above(mask));
      build.accumulate(arrived, sum);
    });
    build.ifThen(tree.isChild(mask), [&] { build.send(sum, tree.below(mask)); });
  }
  build.release(arrived);
  build.ifThen(tree.isRoot(), [&] { build.copy(sum, output); });
  build.release(sum);
}

//===----------------------------------------------------------------------===//
// Gather and scatter
//===----------------------------------------------------------------------===//

// Calls `message` with the size of the subtree of virtual position `child` in the round of `mask`:
// equal for all children, except that the group's end may clip the last subtree.
static void withSubtreeSize(Tree &tree, Value child, int64_t mask,
                            function_ref<void(int64_t)> message) {
  int64_t last = mask + llvm::alignDown(tree.size - 1 - mask, 2 * mask);
  int64_t cut = std::min(mask, tree.size - last);
  if (cut == mask)
    return message(mask);
  if (last == mask) // the only child
    return message(cut);
  CollectiveBuilder &build = tree.build;
  build.ifThen(build.isEqual(child, last), [&] { message(cut); }, [&] { message(mask); });
}

static Value makeSlots(Tree &tree, MemRefType slice) {
  SmallVector<int64_t> shape(slice.getShape());
  shape.insert(shape.begin(), tree.size);
  return tree.build.scratch(shape);
}

// Slot i of a device holds the slice of virtual position self + i.
void hostir::expandGather(CollectiveBuilder &build, Value input, Value output, Value root) {
  Tree tree(build, root);
  Value slots = makeSlots(tree, typeOf(input));
  OpFoldResult first = build.getIndexAttr(0);
  build.copy(input, build.element(slots, 0));
  for (int64_t mask : roundsUp(tree.size)) {
    build.ifThen(tree.isParent(mask), [&] {
      withSubtreeSize(tree, build.add(tree.self, mask), mask, [&](int64_t count) {
        OpFoldResult offset = build.getIndexAttr(mask);
        build.receive(build.range(slots, 0, offset, count), tree.above(mask));
      });
    });
    build.ifThen(tree.isChild(mask), [&] {
      withSubtreeSize(tree, tree.self, mask, [&](int64_t count) {
        build.send(build.range(slots, 0, first, count), tree.below(mask));
      });
    });
  }
  build.ifThen(tree.isRoot(), [&] {
    build.loop(0, tree.size, [&](Value v) {
      build.copy(build.element(slots, v), build.element(output, tree.member(v)));
    });
  });
  build.release(slots);
}

// The reverse of gather.
void hostir::expandScatter(CollectiveBuilder &build, Value input, Value output, Value root) {
  Tree tree(build, root);
  Value slots = makeSlots(tree, typeOf(output));
  OpFoldResult first = build.getIndexAttr(0);
  build.ifThen(tree.isRoot(), [&] {
    build.loop(0, tree.size, [&](Value v) {
      build.copy(build.element(input, tree.member(v)), build.element(slots, v));
    });
  });
  SmallVector<int64_t> masks = roundsUp(tree.size);
  for (int64_t mask : llvm::reverse(masks)) {
    build.ifThen(tree.isChild(mask), [&] {
      withSubtreeSize(tree, tree.self, mask, [&](int64_t count) {
        build.receive(build.range(slots, 0, first, count), tree.below(mask));
      });
    });
    build.ifThen(tree.isParent(mask), [&] {
      withSubtreeSize(tree, build.add(tree.self, mask), mask, [&](int64_t count) {
        OpFoldResult offset = build.getIndexAttr(mask);
        build.send(build.range(slots, 0, offset, count), tree.above(mask));
      });
    });
  }
  build.copy(build.element(slots, 0), output);
  build.release(slots);
}
