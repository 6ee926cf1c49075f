//===- GroupOrder.cpp - the schedules of stream groups, and their order -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GroupOrder.h"

#include "llvm/ADT/SetVector.h"
#include <queue>

using namespace mlir;
using namespace tandem;

FailureOr<std::vector<StreamGroup>> tandem::sortGroups(Block &block,
                                                       std::vector<StreamGroup> groups) {
  DenseMap<Operation *, unsigned> groupOf, number;
  for (auto [i, op] : llvm::enumerate(block))
    number[&op] = i;
  for (auto [i, group] : llvm::enumerate(groups))
    for (Operation *op : group.ops)
      groupOf[op] = i;
  SmallVector<SmallVector<unsigned>> users(groups.size());
  SmallVector<unsigned> missing(groups.size(), 0);
  for (auto [i, group] : llvm::enumerate(groups)) {
    llvm::SmallSetVector<unsigned, 4> producers;
    for (Operation *op : group.ops)
      for (Value operand : op->getOperands())
        if (Operation *producer = operand.getDefiningOp())
          if (auto found = groupOf.find(producer); found != groupOf.end() && found->second != i)
            producers.insert(found->second);
    for (unsigned producer : producers)
      users[producer].push_back(i);
    missing[i] = producers.size();
  }

  auto later = [&](unsigned a, unsigned b) {
    return number[groups[a].ops.front()] > number[groups[b].ops.front()];
  };
  std::priority_queue<unsigned, std::vector<unsigned>, decltype(later)> ready(later);
  for (unsigned i = 0; i < groups.size(); ++i)
    if (missing[i] == 0)
      ready.push(i);
  std::vector<StreamGroup> sorted;
  while (!ready.empty()) {
    unsigned i = ready.top();
    ready.pop();
    for (unsigned user : users[i])
      if (--missing[user] == 0)
        ready.push(user);
    sorted.push_back(std::move(groups[i]));
    // What is communicated for others goes first, whatever stood before it in the text.
    auto isFree = [&](Operation *op) {
      return isa<fusion::ReshardOp>(op) && llvm::none_of(op->getOperands(), [&](Value operand) {
               Operation *producer = operand.getDefiningOp();
               auto found = groupOf.find(producer);
               return found != groupOf.end() && found->second == i;
             });
    };
    llvm::sort(sorted.back().ops, [&](Operation *a, Operation *b) {
      return std::pair(!isFree(a), number[a]) < std::pair(!isFree(b), number[b]);
    });
  }
  if (sorted.size() != groups.size())
    return block.getParentOp()->emitError("stream loops depend on each other in a circle");
  return sorted;
}
