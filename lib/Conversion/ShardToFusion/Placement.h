//===- Placement.h - how values lie along a grid axis -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_SHARDTOFUSION_PLACEMENT_H
#define TANDEM_LIB_CONVERSION_SHARDTOFUSION_PLACEMENT_H

#include "tandem/Dialect/Mesh/IR/Mesh.h"
#include "tandem/Support/LLVM.h"

#include <string>

namespace tandem::shardfusion {

/// How one value lies along one grid axis: the same on all devices, split in a dimension, or one
/// partial result per device.
class Placement {
public:
  static Placement replicated() { return Placement(0); }
  static Placement partial(ReduceKind kind) { return Placement(1 + static_cast<unsigned>(kind)); }
  static Placement split(int64_t dim) {
    return Placement(kFirstSplit + static_cast<unsigned>(dim));
  }

  bool isReplicated() const { return code == 0; }
  bool isPartial() const { return code > 0 && code < kFirstSplit; }
  bool isSplit() const { return code >= kFirstSplit; }
  /// The kind of a partial placement.
  ReduceKind getKind() const { return static_cast<ReduceKind>(code - 1); }
  /// The dimension of a split placement.
  int64_t getDim() const { return code - kFirstSplit; }
  bool operator==(Placement other) const { return code == other.code; }

private:
  friend class PlacementSet;
  static constexpr unsigned kFirstSplit = 4;
  explicit Placement(unsigned code) : code(code) {}
  unsigned code;
};

/// A set of placements of tensors of up to `kMaxRank` dimensions.
class PlacementSet {
public:
  static constexpr int64_t kMaxRank = 60;

  PlacementSet() = default;
  /// Every placement of a tensor of this rank, without partial ones unless `partial`.
  static PlacementSet all(int64_t rank, bool partial);
  void insert(Placement placement) { bits |= uint64_t(1) << placement.code; }
  bool contains(Placement placement) const { return (bits >> placement.code & 1) != 0; }
  bool empty() const { return bits == 0; }
  bool isSingle() const { return bits != 0 && (bits & (bits - 1)) == 0; }
  /// The first one: replicated, partial, split in dimension 0, 1, ...
  Placement front() const;
  PlacementSet operator&(PlacementSet other) const { return PlacementSet(bits & other.bits); }
  bool operator==(PlacementSet other) const { return bits == other.bits; }
  /// For people: "replicated, or split in dimension 0".
  std::string str() const;

private:
  explicit PlacementSet(uint64_t bits) : bits(bits) {}
  uint64_t bits = 0;
};

/// The ways in which an op runs along one grid axis without communication other than its own: each
/// row has one placement per value.
struct PlacementTable {
  SmallVector<Value> values;
  SmallVector<SmallVector<Placement>> rows;
};

/// Finds the placements along one grid axis that fit all ops (arc consistency over tables).
class PlacementSolver {
public:
  PlacementSet getDomain(Value value) const { return domains.lookup(value); }
  void setDomain(Value value, PlacementSet domain) { domains[value] = domain; }
  /// Values of `table` without a domain get none: set domains first.
  void addTable(Operation *op, PlacementTable table);
  /// Removes placements that fit no row. Gives the table's op at which none is left, or null.
  Operation *propagate();
  /// Restricts a value to one of its placements and propagates.
  Operation *decide(Value value, Placement placement);
  /// What was known of the values of the op that `propagate` gave: "operand 0 is replicated; ...".
  const std::string &getConflict() const { return conflict; }

private:
  struct Constraint {
    Operation *op;
    PlacementTable table;
  };
  bool revise(Constraint &constraint);

  DenseMap<Value, PlacementSet> domains;
  DenseMap<Value, SmallVector<unsigned>> users;
  std::vector<Constraint> constraints;
  std::vector<unsigned> worklist;
  std::vector<bool> queued;
  std::string conflict;
};

} // namespace tandem::shardfusion

#endif // TANDEM_LIB_CONVERSION_SHARDTOFUSION_PLACEMENT_H
