//===- EmitTransfer.cpp - a reshard as messages between pairs of devices -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Any reshard that only moves data. Both sides are cut into common digits; each is a device digit,
// a stream digit or a local one on either side. For one pair of devices all digits that are a
// device digit on some side are fixed, so what one sends to the other is one strided box: the
// digits that are local on both sides.
//
// A receiver knows its own coordinates and runs through the values of the digits that are device
// digits of the source alone: each names one sender. A sender runs through those of the target
// alone. Where a value is replicated on the source, the device that has the receiver's own
// coordinates (on another mesh: coordinate 0) sends.
//
//===----------------------------------------------------------------------===//

#include "Emitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::tandem;

namespace {

/// Coordinates by mesh axis; null: none.
using Coordinates = llvm::SmallDenseMap<StringAttr, Value>;

/// What both directions of a transfer share.
class Transfer {
public:
  Transfer(Emitter &emitter, Location loc, const ReshardPlan &plan, Value source, Value target,
           Value stream)
      : emitter(emitter), builder(emitter.getBuilder()), loc(loc), plan(plan), source(source),
        target(target), stream(stream), sameMesh(plan.sourceMesh == plan.mesh) {
    for (const CommonDigit &digit : plan.digits) {
      if (digit.source.isDevice())
        usedBySource.insert(digit.source.axis);
      if (digit.target.isDevice())
        usedByTarget.insert(digit.target.axis);
    }
  }

  LogicalResult emit();

private:
  Value index(int64_t value) { return emitter.getIndex(value); }
  Value equal(Value a, Value b) {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, a, b);
  }
  Value both(Value a, Value b) {
    return a && b ? arith::AndIOp::create(builder, loc, a, b).getResult() : a ? a : b;
  }
  /// The value of one digit of a device whose coordinate on the digit's axis is `coordinate`.
  Value digitOf(const SideDigit &digit, Value coordinate);
  /// Adds what a digit of this value contributes to the coordinate.
  void addTo(Value &coordinate, const SideDigit &digit, Value value);
  /// Row-major position in `mesh`, plus `first`.
  Value position(fusion::MeshAttr mesh, const Coordinates &coordinates, int64_t first);
  Coordinates mine(fusion::MeshAttr mesh);
  /// The view of one side's buffer with the device digits of the other side fixed: values by number
  /// of the digit.
  Value view(bool ofSource, ArrayRef<Value> values);
  /// `body` under `condition` (null: always).
  void onlyIf(Value condition, function_ref<void()> body);
  /// Nested loops over 0 ... size-1 for each of `sizes`.
  void loops(ArrayRef<int64_t> sizes, SmallVector<Value> &values, function_ref<void()> body);

  void copyOwn();
  void receive(int64_t firstOfSource, Value me);
  void send(int64_t firstOfTarget, Value me);

  Emitter &emitter;
  OpBuilder &builder;
  Location loc;
  const ReshardPlan &plan;
  Value source, target, stream;
  bool sameMesh;
  llvm::SmallDenseSet<StringAttr> usedBySource, usedByTarget;
};

} // namespace

Value Transfer::digitOf(const SideDigit &digit, Value coordinate) {
  if (digit.inner > 1)
    coordinate = arith::DivUIOp::create(builder, loc, coordinate, index(digit.inner));
  if (digit.outer > 1)
    coordinate = arith::RemUIOp::create(builder, loc, coordinate, index(digit.size));
  return coordinate;
}

void Transfer::addTo(Value &coordinate, const SideDigit &digit, Value value) {
  if (digit.inner > 1)
    value = arith::MulIOp::create(builder, loc, value, index(digit.inner));
  coordinate =
      coordinate ? arith::AddIOp::create(builder, loc, coordinate, value).getResult() : value;
}

Value Transfer::position(fusion::MeshAttr mesh, const Coordinates &coordinates, int64_t first) {
  Value sum = index(0);
  for (const fusion::MeshAxis &axis : mesh.getAxes()) {
    Value size = index(axis.size);
    sum = arith::MulIOp::create(builder, loc, sum, size);
    sum = arith::AddIOp::create(builder, loc, sum, coordinates.lookup(axis.name));
  }
  return first ? arith::AddIOp::create(builder, loc, sum, index(first)).getResult() : sum;
}

Coordinates Transfer::mine(fusion::MeshAttr mesh) {
  Coordinates coordinates;
  for (const fusion::MeshAxis &axis : mesh.getAxes())
    coordinates[axis.name] = emitter.getDeviceIndex(mesh, axis.name);
  return coordinates;
}

Value Transfer::view(bool ofSource, ArrayRef<Value> values) {
  Value buffer = ofSource ? source : target;
  LocalDims dims(cast<MemRefType>(buffer.getType()).getRank());
  for (auto [number, digit] : llvm::enumerate(plan.digits)) {
    const SideDigit &side = ofSource ? digit.source : digit.target;
    if (side.isDevice())
      continue;
    Value value = digit.target.isStream() ? digit.target.value : values[number];
    dims[digit.dim].push_back({side.size, value, static_cast<int64_t>(number)});
  }
  return makeView(builder, loc, buffer, dims, true);
}

void Transfer::onlyIf(Value condition, function_ref<void()> body) {
  if (!condition)
    return body();
  auto ifOp = scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(ifOp.thenBlock()->getTerminator());
  body();
}

void Transfer::loops(ArrayRef<int64_t> sizes, SmallVector<Value> &values,
                     function_ref<void()> body) {
  if (sizes.empty())
    return body();
  (void)emitter.loop(loc, 0, sizes.front(), [&](Value value) {
    values.push_back(value);
    loops(sizes.drop_front(), values, body);
    values.pop_back();
    return success();
  });
}

/// What this device has itself is copied: each digit has the value that its own coordinates give it
/// on either side.
void Transfer::copyOwn() {
  Coordinates me = mine(plan.mesh);
  SmallVector<Value> values(plan.digits.size());
  Value condition;
  for (auto [number, digit] : llvm::enumerate(plan.digits)) {
    Value from =
        digit.source.isDevice() ? digitOf(digit.source, me.lookup(digit.source.axis)) : Value();
    Value to = digit.target.isDevice()   ? digitOf(digit.target, me.lookup(digit.target.axis))
               : digit.target.isStream() ? digit.target.value
                                         : Value();
    if (from && to && from != to)
      condition = both(condition, equal(from, to));
    values[number] = from ? from : to;
  }
  onlyIf(condition, [&] {
    Value from = view(true, values), to = view(false, values);
    hostir::CopyOp::create(builder, loc, from, to, stream);
  });
}

void Transfer::receive(int64_t firstOfSource, Value me) {
  Coordinates mineOnTarget = mine(plan.mesh);
  SmallVector<Value> values(plan.digits.size());
  SmallVector<int64_t> open, sizes;
  for (auto [number, digit] : llvm::enumerate(plan.digits)) {
    if (digit.target.isDevice()) {
      values[number] = digitOf(digit.target, mineOnTarget.lookup(digit.target.axis));
    } else if (digit.target.isStream()) {
      values[number] = digit.target.value;
    } else if (digit.source.isDevice()) {
      open.push_back(number);
      sizes.push_back(digit.source.size);
    }
  }
  SmallVector<Value> chosen;
  loops(sizes, chosen, [&] {
    for (auto [number, value] : llvm::zip_equal(open, chosen))
      values[number] = value;
    Coordinates sender;
    for (const fusion::MeshAxis &axis : plan.sourceMesh.getAxes())
      if (!usedBySource.contains(axis.name))
        sender[axis.name] = sameMesh ? mineOnTarget.lookup(axis.name) : index(0);
    for (auto [number, digit] : llvm::enumerate(plan.digits))
      if (digit.source.isDevice())
        addTo(sender[digit.source.axis], digit.source, values[number]);
    Value from = position(plan.sourceMesh, sender, firstOfSource);
    Value notMe;
    if (sameMesh)
      notMe = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, from, me);
    onlyIf(notMe, [&] {
      Value place = view(false, values);
      hostir::RecvOp::create(builder, loc, place, from);
    });
  });
}

void Transfer::send(int64_t firstOfTarget, Value me) {
  Coordinates mineOnSource = mine(plan.sourceMesh);
  SmallVector<Value> values(plan.digits.size());
  SmallVector<int64_t> open, sizes; // digits whose value names the receiver
  SmallVector<StringAttr> openAxes; // axes over which the target replicates
  Coordinates receiver;
  Value condition;
  auto require = [&](Value a, Value b) {
    if (a != b)
      condition = both(condition, equal(a, b));
  };
  // The sender of a replicated value is the one with the receiver's own coordinates.
  auto isFixed = [&](StringAttr axis) { return sameMesh && !usedBySource.contains(axis); };
  for (auto [number, digit] : llvm::enumerate(plan.digits)) {
    if (digit.source.isDevice())
      values[number] = digitOf(digit.source, mineOnSource.lookup(digit.source.axis));
    if (digit.target.isStream() && digit.source.isDevice())
      require(values[number], digit.target.value);
    if (digit.target.isStream())
      values[number] = digit.target.value;
    if (!digit.target.isDevice())
      continue;
    StringAttr axis = digit.target.axis;
    if (digit.source.isDevice()) {
      addTo(receiver[axis], digit.target, values[number]);
      if (isFixed(axis))
        require(values[number], digitOf(digit.target, mineOnSource.lookup(axis)));
    } else if (isFixed(axis)) {
      values[number] = digitOf(digit.target, mineOnSource.lookup(axis));
      addTo(receiver[axis], digit.target, values[number]);
    } else {
      open.push_back(number);
      sizes.push_back(digit.target.size);
    }
  }
  for (const fusion::MeshAxis &axis : plan.mesh.getAxes()) {
    if (usedByTarget.contains(axis.name))
      continue;
    if (isFixed(axis.name)) {
      receiver[axis.name] = mineOnSource.lookup(axis.name);
    } else {
      openAxes.push_back(axis.name);
      sizes.push_back(axis.size);
    }
  }
  if (!sameMesh)
    for (const fusion::MeshAxis &axis : plan.sourceMesh.getAxes())
      if (!usedBySource.contains(axis.name))
        require(mineOnSource.lookup(axis.name), index(0));

  SmallVector<Value> chosen;
  onlyIf(condition, [&] {
    loops(sizes, chosen, [&] {
      Coordinates to = receiver;
      for (size_t i = 0; i < open.size(); ++i) {
        const SideDigit &digit = plan.digits[open[i]].target;
        values[open[i]] = chosen[i];
        addTo(to[digit.axis], digit, chosen[i]);
      }
      for (size_t i = 0; i < openAxes.size(); ++i)
        to[openAxes[i]] = chosen[open.size() + i];
      Value peer = position(plan.mesh, to, firstOfTarget);
      Value notMe;
      if (sameMesh)
        notMe = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, peer, me);
      onlyIf(notMe, [&] {
        Value piece = view(true, values);
        hostir::SendOp::create(builder, loc, piece, peer);
      });
    });
  });
}

LogicalResult Transfer::emit() {
  MLIRContext *context = builder.getContext();
  auto groupOf = [&](Value channel, function_ref<void()> body) {
    auto group = hostir::GroupOp::create(builder, loc, channel, stream);
    OpBuilder::InsertionGuard guard(builder);
    builder.createBlock(&group.getBody());
    body();
  };
  if (sameMesh) {
    SmallVector<StringAttr> axes;
    for (const fusion::MeshAxis &axis : plan.mesh.getAxes())
      axes.push_back(axis.name);
    copyOwn();
    if (axes.empty())
      return success();
    Value channel = emitter.getChannel(plan.mesh, axes, hostir::Capability::TwoSided);
    Value me = position(plan.mesh, mine(plan.mesh), 0);
    groupOf(channel, [&] {
      receive(0, me);
      send(0, me);
    });
    return success();
  }

  // One group of all devices of both: those of the source first.
  SmallVector<int64_t> devices;
  int64_t numSource = plan.sourceMesh.numDevices(), numTarget = plan.mesh.numDevices();
  for (int64_t i = 0; i < numSource; ++i)
    devices.push_back(plan.sourceMesh.worldRank(i));
  for (int64_t i = 0; i < numTarget; ++i) {
    if (plan.sourceMesh.position(plan.mesh.worldRank(i)) != -1)
      return emitError(loc) << "a reshard between two meshes that share device "
                            << plan.mesh.worldRank(i) << " is not lowered yet, expected @"
                            << plan.sourceMesh.getName().getValue() << " and @"
                            << plan.mesh.getName().getValue() << " to have no device in common";
    devices.push_back(plan.mesh.worldRank(i));
  }
  auto rank = StringAttr::get(context, "rank");
  auto name = StringAttr::get(context, plan.sourceMesh.getName().getValue() + "+" +
                                           plan.mesh.getName().getValue());
  auto whole = fusion::MeshAttr::get(context, name, {{rank, numSource + numTarget}}, devices);
  Value channel = emitter.getChannel(whole, {rank}, hostir::Capability::TwoSided);
  emitter.onMesh(loc, whole, [&] {
    Value inSource = hostir::InMeshOp::create(builder, loc, plan.sourceMesh);
    Value inTarget = hostir::InMeshOp::create(builder, loc, plan.mesh);
    groupOf(channel, [&] {
      onlyIf(inTarget, [&] { receive(0, {}); });
      onlyIf(inSource, [&] { send(numSource, {}); });
    });
  });
  return success();
}

LogicalResult Emitter::emitTransfer(fusion::ReshardOp op, const ReshardPlan &plan, Value stream) {
  Value target = getOrAllocBuffer(op.getResult());
  return Transfer(*this, op.getLoc(), plan, getBuffer(op.getInput()), target, stream).emit();
}
