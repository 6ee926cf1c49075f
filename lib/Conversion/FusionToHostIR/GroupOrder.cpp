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

LogicalResult tandem::chooseSchedule(StreamGroup &group) {
  fusion::ReshardOp source;
  for (fusion::ReshardOp reshard : group.reshards()) {
    fusion::ScheduleAttr named = reshard.getScheduleAttr();
    if (!named)
      continue;
    bool isNamed = !reshard.getChosen();
    // Two that can't both be had: the user's word goes before a choice, and what is not the
    // fallback before it.
    bool isBetter = !group.schedule ||
                    std::pair(isNamed, named.getKind() != fusion::ScheduleKind::Pipeline) >
                        std::pair(group.scheduleIsNamed,
                                  group.schedule.getKind() != fusion::ScheduleKind::Pipeline);
    if (isBetter) {
      group.schedule = named;
      group.scheduleIsNamed = isNamed;
      source = reshard;
    } else if (isNamed && named.getKind() != fusion::ScheduleKind::Pipeline &&
               named != group.schedule) {
      InFlightDiagnostic diag = reshard.emitError("schedule ")
                                << named << " stands in one stream loop with " << group.schedule;
      diag.attachNote(source.getLoc()) << "the other schedule";
      return diag;
    }
  }
  if (!group.schedule)
    group.schedule =
        fusion::ScheduleAttr::get(group.ops.front()->getContext(), fusion::ScheduleKind::Pipeline);
  return success();
}

FailureOr<SmallVector<StreamGroup>> tandem::sortGroups(func::FuncOp func,
                                                       SmallVector<StreamGroup> groups) {
  DenseMap<Operation *, unsigned> groupOf, number;
  for (auto [i, op] : llvm::enumerate(func.getBody().front()))
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
  SmallVector<StreamGroup> sorted;
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
    return func.emitError("stream loops depend on each other in a circle");
  return sorted;
}
