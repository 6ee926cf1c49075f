//===- Transfer.h - a reshard as messages between pairs of devices -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Lowers any reshard that only moves data. Both sides are cut into common digits; on each side a
// digit is a device, stream or local digit. For one pair of devices, all digits that are device
// digits on some side are fixed, so the pair exchanges one strided box of the digits that are local
// on both sides. If digits cross, each index of the run is a separate piece, sent and received in
// ascending order. If slices are unequal and span several shards, each part of a slice is written
// out, under a condition on the slice's number.
//
// A receiver computes its senders from its own coordinates: it loops over the digits that are
// device digits only of the source. A sender loops over those that are device digits only of the
// target. Among several holders of a piece, the sender is the one with the receiver's coordinates
// on the other axes (the receiver itself, if it holds the piece). Receivers outside the source's
// mesh use the holders round-robin.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_LOWERINGS_TRANSFER_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_LOWERINGS_TRANSFER_H

#include "../ProgramBuilder.h"
#include "../ReshardPlan.h"
#include "tandem/Support/LLVM.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace tandem {

/// Coordinates by mesh axis; null: none.
using Coordinates = llvm::SmallDenseMap<StringAttr, Value>;

/// The pieces to visit: those that this device sends, receives, or has already.
enum class Role { Send, Receive, Own };

class Transfer {
public:
  Transfer(ProgramBuilder &program, Location loc, const ReshardPlan &plan, Value source,
           Value target, Value stream);

  void emit();

private:
  /// A piece: the value of each fixed common digit (its index, in a crossing run), and the
  /// coordinates of the other device.
  using Visit = function_ref<void(ArrayRef<Value> values, const Coordinates &remote)>;
  /// A loop over a digit of a run, or over a mesh axis that the target does not use.
  struct Open {
    size_t digit = 0;
    std::optional<size_t> part;
    StringAttr axis;
    int64_t size;
  };

  Value index(int64_t value) { return program.getIndex(value); }
  hostir::IndexBuilder math() { return program.math(loc); }
  Value equal(Value a, Value b) { return math().isEqual(a, b); }
  Value differ(Value a, Value b) { return math().compare(arith::CmpIPredicate::ne, a, b); }
  /// Adds a == b to `condition`.
  void require(Value &condition, Value a, Value b);
  /// The digit of `size` with `inner` indices inside and `outer` outside it.
  Value digitOf(Value number, int64_t size, int64_t outer, int64_t inner);
  Value digitOf(const SideDigit &digit, const Coordinates &coordinates) {
    return digitOf(coordinates.lookup(digit.axis), digit.size, digit.outer, digit.inner);
  }
  /// The value of one part of a run at `index`.
  Value partOf(ArrayRef<SideDigit> parts, size_t number, Value index);
  /// Adds what a digit of this value contributes to the number.
  void addTo(Value &number, Value value, int64_t inner);
  /// Row-major position in `mesh`.
  Value position(MeshAttr mesh, const Coordinates &coordinates);
  /// The position in the group of all devices of one at a position of either mesh.
  Value inWhole(bool ofSource, Value position);
  Coordinates mine(MeshAttr mesh);
  /// The view of one side's buffer with the device digits of the other side fixed.
  Value view(bool ofSource, ArrayRef<Value> values);
  void addSegment(bool ofSource, const CommonDigit &digit, const Segment &segment,
                  SmallVectorImpl<LocalDigit> &local);
  /// Nested loops over 0 ... size-1 for each of `opens`.
  void loops(ArrayRef<Open> opens, SmallVector<Value> &chosen, function_ref<void()> body);

  void walk(Role role, Visit visit);
  void walkSegments(Role role, size_t number, Visit visit);
  void walkPieces(Role role, Visit visit);
  void visitPiece(Role role, ArrayRef<Open> opens, ArrayRef<Value> chosen,
                  SmallVector<Value> values, Visit visit);
  void placeSegment(Role role, size_t number, const Coordinates &local,
                    const Coordinates &inSourceMesh, Coordinates &remote, Value &condition);
  bool isFixed(StringAttr axis) const { return sameMesh && !usedBySource.contains(axis); }
  Coordinates getHolder(ArrayRef<Value> values, const Coordinates &receiver, Value inSource,
                        const Coordinates &receiverInSource);
  bool isLocal() const;
  MeshAttr joinMeshes();

  void copyOwn();
  void receive();
  void send();

  ProgramBuilder &program;
  OpBuilder &builder;
  Location loc;
  const ReshardPlan &plan;
  Value source, target, stream;
  bool sameMesh, share = false; // whether the meshes have devices in common
  /// Mesh axes that split a side.
  llvm::SmallDenseSet<StringAttr> usedBySource, usedByTarget;
  /// Axes of the source, of more than one device, along which a piece has several holders.
  SmallVector<MeshAxis> free;
  /// For digits with segments: the current one.
  SmallVector<const Segment *> segments;
  MeshAttr whole; // all devices of both meshes
  Value me;       // this device's position in it
  Value inSource; // whether this device is in the source's mesh; null: always
};

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_LOWERINGS_TRANSFER_H
