//===- ShareReshards.cpp - one reshard for all who ask for the same pieces -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ShareReshards.h"

#include "Retype.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

/// Gives the reshard the type, unless that differs and one of its users is bound to the old one
/// (elementwise ops have one type all round, and a return that of the signature) or is not local
/// with the new one.
static bool takeType(ReshardOp op, RankedTensorType type) {
  RankedTensorType old = op.getType();
  if (old == type)
    return true;
  auto isFree = [](Operation *user) { return isa<FusionTensorOpInterface>(user); };
  if (!llvm::all_of(op->getUsers(), isFree))
    return false;
  retype(op.getResult(), type);
  auto isLocal = [](Operation *user) { return succeeded(verifyLocal(user, nullptr)); };
  if (llvm::all_of(op->getUsers(), isLocal))
    return true;
  retype(op.getResult(), old);
  return false;
}

/// Of `known`, one that does for the users of `op` too; both have one type then. Null: none.
static ReshardOp findShared(ArrayRef<ReshardOp> known, ReshardOp op) {
  for (ReshardOp other : known)
    if (other.getType() == op.getType())
      return other;
  // Slices are a loop's concern: who needs none takes any.
  for (ReshardOp other : known) {
    bool isSliced = getAxes(op.getType()).hasStream();
    if (isSliced == getAxes(other.getType()).hasStream())
      continue;
    if (isSliced ? takeType(other, op.getType()) : takeType(op, other.getType()))
      return other;
  }
  return {};
}

void fusion::shareReshards(func::FuncOp function,
                           llvm::function_ref<void(ReshardOp, Location)> shared) {
  // Within a block, who stands first dominates.
  for (Block &block : function.getBody()) {
    using Key = std::pair<std::pair<Value, Attribute>, Attribute>;
    llvm::DenseMap<Key, SmallVector<ReshardOp, 1>> standing;
    for (ReshardOp op : llvm::make_early_inc_range(block.getOps<ReshardOp>())) {
      // A part of a reshard that is written out already is as its sequence has it.
      if (op.getRowAttr())
        continue;
      // The key holds the words on how data moves: another schedule is another reshard.
      Key key = {{op.getInput(), getAxes(op.getType()).getPlacement()}, op.getScheduleAttr()};
      SmallVector<ReshardOp, 1> &known = standing[key];
      ReshardOp other = findShared(known, op);
      if (!other) {
        known.push_back(op);
        continue;
      }
      shared(other, op.getLoc());
      op.getResult().replaceAllUsesWith(other.getResult());
      op.erase();
    }
  }
}
