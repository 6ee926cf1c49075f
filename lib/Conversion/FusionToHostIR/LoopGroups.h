//===- LoopGroups.h - the loops of a block while they are found -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_LOOPGROUPS_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_LOOPGROUPS_H

#include "StreamLoop.h"
#include "tandem/Support/LLVM.h"
#include <vector>

namespace tandem {

/// The ops of a block in groups that become loops, by number, and which group must run before
/// which: by data flow and, of calls that use memory of the embedder, by the block's order.
class LoopGroups {
public:
  static constexpr unsigned kNone = ~0u;

  explicit LoopGroups(Block &block);

  StreamLoop &operator[](unsigned group) { return groups[group]; }
  const StreamLoop &operator[](unsigned group) const { return groups[group]; }
  /// The group of an op, or of the one that makes a value; `kNone` if there is none.
  unsigned getGroup(Operation *op) const { return op ? groupOf.lookup_or(op, kNone) : kNone; }
  unsigned getGroup(Value value) const { return getGroup(value.getDefiningOp()); }
  void setGroup(Operation *op, unsigned group) { groupOf[op] = group; }
  /// A new group without ops.
  unsigned create();

  /// Whether `op` needs, through ops outside of it, what `group` makes.
  bool dependsOn(Operation *op, unsigned group) const;
  /// Whether `op` must run after all of `group`, since one of the two writes memory that the other
  /// one uses: it cannot join.
  bool mustFollow(Operation *op, unsigned group) const;

  /// Adds the ops of a loop to another one, in the block's order.
  void append(StreamLoop &to, const StreamLoop &from) const;
  /// Moves all ops of a group to another one.
  void merge(unsigned into, unsigned group);

  /// The groups by their dependences; among those that are free, by their first op. Error at the
  /// block's op if they depend on each other in a cycle.
  FailureOr<std::vector<StreamLoop>> sort();

private:
  void findOrder();
  /// Visits the ops that must run before an op.
  void forEachPredecessor(Operation *op, function_ref<void(Operation *)> visit) const;

  Block &block;
  std::vector<StreamLoop> groups;
  DenseMap<Operation *, unsigned> groupOf;
  DenseMap<Operation *, unsigned> number; // position in the block
  /// The ops whose run an op must follow although it reads none of their results.
  DenseMap<Operation *, SmallVector<Operation *>> orderedAfter;
};

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_LOOPGROUPS_H
