//===- Placement.cpp - how values lie along a grid axis ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Placement.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/raw_ostream.h"

using namespace tandem;
using namespace tandem::shardfusion;

PlacementSet PlacementSet::all(int64_t rank, bool partial) {
  PlacementSet set;
  set.insert(Placement::replicated());
  for (int64_t dim = 0; dim < rank; ++dim)
    set.insert(Placement::split(dim));
  if (partial)
    for (ReduceKind kind : {ReduceKind::Sum, ReduceKind::Max, ReduceKind::Min})
      set.insert(Placement::partial(kind));
  return set;
}

Placement PlacementSet::front() const {
  return Placement(static_cast<unsigned>(llvm::countr_zero(bits)));
}

std::string PlacementSet::str() const {
  SmallVector<std::string> parts;
  if (contains(Placement::replicated()))
    parts.push_back("replicated");
  for (ReduceKind kind : {ReduceKind::Sum, ReduceKind::Max, ReduceKind::Min})
    if (contains(Placement::partial(kind)))
      parts.push_back("partial by " + stringifyReduceKind(kind).str());
  SmallVector<std::string> dims;
  for (int64_t dim = 0; dim < kMaxRank; ++dim)
    if (contains(Placement::split(dim)))
      dims.push_back(std::to_string(dim));
  if (!dims.empty())
    parts.push_back("split in dimension " + llvm::join(dims, " or "));
  return parts.empty() ? "nothing" : llvm::join(parts, ", or ");
}

void PlacementSolver::addTable(Operation *op, PlacementTable table) {
  auto number = static_cast<unsigned>(constraints.size());
  for (Value value : table.values)
    users[value].push_back(number);
  constraints.push_back({op, std::move(table)});
  worklist.push_back(number);
  queued.push_back(true);
}

/// Drops the rows that no longer fit, and the placements that are in no row.
bool PlacementSolver::revise(Constraint &constraint) {
  PlacementTable &table = constraint.table;
  llvm::erase_if(table.rows, [&](ArrayRef<Placement> row) {
    return !llvm::all_of(llvm::zip_equal(table.values, row), [&](auto pair) {
      return domains.lookup(std::get<0>(pair)).contains(std::get<1>(pair));
    });
  });
  if (table.rows.empty())
    return false;
  for (auto [i, value] : llvm::enumerate(table.values)) {
    PlacementSet supported;
    for (ArrayRef<Placement> row : table.rows)
      supported.insert(row[i]);
    PlacementSet &domain = domains[value];
    PlacementSet smaller = domain & supported;
    if (smaller == domain)
      continue;
    domain = smaller;
    for (unsigned user : users[value])
      if (!queued[user]) {
        queued[user] = true;
        worklist.push_back(user);
      }
  }
  return true;
}

Operation *PlacementSolver::propagate() {
  // First in, first out: facts spread evenly, and a long chain of ops is walked a few times only.
  for (size_t next = 0; next < worklist.size(); ++next) {
    Constraint &constraint = constraints[worklist[next]];
    queued[worklist[next]] = false;
    SmallVector<PlacementSet> before;
    for (Value value : constraint.table.values)
      before.push_back(domains.lookup(value));
    if (revise(constraint))
      continue;
    llvm::raw_string_ostream os(conflict);
    auto name = [&](Value value) {
      auto operands = constraint.op->getOperands();
      auto it = llvm::find(operands, value);
      return value.getDefiningOp() == constraint.op ? "the result"
             : it == operands.end()
                 ? "the initial value"
                 : "operand " + std::to_string(std::distance(operands.begin(), it));
    };
    for (auto [i, value] : llvm::enumerate(constraint.table.values)) {
      ArrayRef<Value> earlier = ArrayRef<Value>(constraint.table.values).take_front(i);
      if (!llvm::is_contained(earlier, value))
        os << (i == 0 ? "" : "; ") << name(value) << " is " << before[i].str();
    }
    return constraint.op;
  }
  worklist.clear();
  return nullptr;
}

Operation *PlacementSolver::decide(Value value, Placement placement) {
  PlacementSet one;
  one.insert(placement);
  domains[value] = domains.lookup(value) & one;
  for (unsigned user : users[value]) {
    queued[user] = true;
    worklist.push_back(user);
  }
  return propagate();
}
