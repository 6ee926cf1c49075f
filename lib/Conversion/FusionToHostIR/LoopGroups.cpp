//===- LoopGroups.cpp - the loops of a block while they are found -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LoopGroups.h"

#include "llvm/ADT/SetVector.h"
#include <queue>

using namespace mlir;
using namespace tandem;

LoopGroups::LoopGroups(Block &block) : block(block) {
  for (auto [i, op] : llvm::enumerate(block))
    number[&op] = i;
  findOrder();
}

/// Calls use memory of the embedder: one that reads it follows the last one that writes it, one
/// that writes it follows that one and all that have read since. A loop that is formed is as its
/// calls.
void LoopGroups::findOrder() {
  Operation *lastWrite = nullptr;
  SmallVector<Operation *> reads; // since lastWrite
  for (Operation &op : block) {
    bool uses = false, writes = false;
    op.walk([&](fusion::CallOp call) {
      uses |= call.getEffects().has_value();
      writes |= call.isOrdered();
    });
    if (!uses)
      continue;
    if (lastWrite)
      orderedAfter[&op].push_back(lastWrite);
    if (!writes) {
      reads.push_back(&op);
      continue;
    }
    if (!reads.empty())
      orderedAfter[&op].append(reads);
    reads.clear();
    lastWrite = &op;
  }
}

void LoopGroups::forEachPredecessor(Operation *op, function_ref<void(Operation *)> visit) const {
  if (auto before = orderedAfter.find(op); before != orderedAfter.end())
    llvm::for_each(before->second, visit);
  for (Value operand : op->getOperands())
    if (Operation *producer = operand.getDefiningOp())
      visit(producer);
}

unsigned LoopGroups::create() {
  groups.emplace_back();
  return groups.size() - 1;
}

bool LoopGroups::dependsOn(Operation *op, unsigned group) const {
  unsigned first = number.lookup(groups[group].ops.front());
  SmallVector<Operation *> worklist{op};
  SmallPtrSet<Operation *, 16> seen;
  llvm::SmallDenseSet<unsigned> seenGroups;
  while (!worklist.empty()) {
    Operation *current = worklist.pop_back_val();
    // An op of another group runs when all of that group runs.
    unsigned other = getGroup(current);
    Operation *last = other == kNone ? current : groups[other].ops.back();
    if (number.lookup(last) < first || !seen.insert(current).second)
      continue;
    if (other == group)
      return true;
    if (other != kNone && !seenGroups.insert(other).second)
      continue;
    for (Operation *member : other == kNone ? ArrayRef(current) : ArrayRef(groups[other].ops))
      forEachPredecessor(member, [&](Operation *before) { worklist.push_back(before); });
  }
  return false;
}

bool LoopGroups::mustFollow(Operation *op, unsigned group) const {
  auto before = orderedAfter.find(op);
  return before != orderedAfter.end() &&
         llvm::any_of(before->second, [&](Operation *other) { return dependsOn(other, group); });
}

void LoopGroups::append(StreamLoop &to, const StreamLoop &from) const {
  to.ops.append(from.ops);
  llvm::sort(to.ops,
             [&](Operation *a, Operation *b) { return number.lookup(a) < number.lookup(b); });
  to.accumulators.insert(from.accumulators.begin(), from.accumulators.end());
  to.digitMaps.insert(from.digitMaps.begin(), from.digitMaps.end());
}

void LoopGroups::merge(unsigned into, unsigned group) {
  for (Operation *member : groups[group].ops)
    groupOf[member] = into;
  append(groups[into], groups[group]);
  groups[group] = StreamLoop();
}

FailureOr<std::vector<StreamLoop>> LoopGroups::sort() {
  SmallVector<SmallVector<unsigned>> users(groups.size());
  SmallVector<unsigned> missing(groups.size(), 0);
  for (auto [i, group] : llvm::enumerate(groups)) {
    llvm::SmallSetVector<unsigned, 4> producers;
    for (Operation *op : group.ops)
      forEachPredecessor(op, [&, i = i](Operation *before) {
        if (unsigned other = getGroup(before); other != i && other != kNone)
          producers.insert(other);
      });
    for (unsigned producer : producers)
      users[producer].push_back(i);
    missing[i] = producers.size();
  }

  auto isLater = [&](unsigned a, unsigned b) {
    return number[groups[a].ops.front()] > number[groups[b].ops.front()];
  };
  std::priority_queue<unsigned, std::vector<unsigned>, decltype(isLater)> ready(isLater);
  // Groups that were merged into others are empty.
  unsigned left = 0;
  for (auto [i, group] : llvm::enumerate(groups)) {
    left += !group.ops.empty();
    if (!group.ops.empty() && missing[i] == 0)
      ready.push(i);
  }
  std::vector<StreamLoop> sorted;
  for (; !ready.empty(); --left) {
    unsigned i = ready.top();
    ready.pop();
    for (unsigned user : users[i])
      if (--missing[user] == 0)
        ready.push(user);
    sorted.push_back(std::move(groups[i]));
  }
  if (left)
    return block.getParentOp()->emitError("stream loops depend on each other in a cycle");
  return sorted;
}
