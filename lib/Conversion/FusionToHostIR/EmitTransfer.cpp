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
// digits that are local on both sides. Where digits cross, each index of the run is a piece of its
// own, and both sides go through those of a pair in ascending order.
//
// A receiver knows its own coordinates and runs through the values of the digits that are device
// digits of the source alone: each names one sender. A sender runs through those of the target
// alone. Of several devices that hold a piece, the one sends that has the receiver's own
// coordinates on the axes that do not matter: itself, if it holds it. A receiver outside of the
// source's mesh has no such coordinates; those who get parts of one piece take its holders in turn.
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

/// Whose pieces are gone through: what this device sends, receives, or has itself.
enum class Role { Send, Receive, Own };

class Transfer {
public:
  Transfer(Emitter &emitter, Location loc, const ReshardPlan &plan, Value source, Value target,
           Value stream);

  void emit();

private:
  /// A piece: the value of each common digit that is fixed (of a run that crosses, its index), and
  /// the coordinates of the device at the other end.
  using Visit = function_ref<void(ArrayRef<Value> values, const Coordinates &far)>;
  /// A loop over one digit of a run, or over a mesh axis that the target does not use.
  struct Open {
    size_t digit = 0;
    std::optional<size_t> part;
    StringAttr axis;
    int64_t size;
  };

  Value index(int64_t value) { return emitter.getIndex(value); }
  Value equal(Value a, Value b) {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, a, b);
  }
  Value differ(Value a, Value b) {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, a, b);
  }
  /// Makes `condition` demand that both are equal too.
  void require(Value &condition, Value a, Value b);
  /// The digit of `size` that has `inner` indices inside and `outer` outside of it.
  Value digitOf(Value number, int64_t size, int64_t outer, int64_t inner);
  Value digitOf(const SideDigit &digit, const Coordinates &coordinates) {
    return digitOf(coordinates.lookup(digit.axis), digit.size, digit.outer, digit.inner);
  }
  /// The value of one part of a run at `index`.
  Value partOf(ArrayRef<SideDigit> parts, size_t number, Value index);
  /// Adds what a digit of this value contributes to the number.
  void addTo(Value &number, Value value, int64_t inner);
  /// Row-major position in `mesh`.
  Value position(fusion::MeshAttr mesh, const Coordinates &coordinates);
  /// The position in the group of all devices of one at a position of either mesh.
  Value inWhole(bool ofSource, Value position);
  Coordinates mine(fusion::MeshAttr mesh);
  /// The view of one side's buffer with the device digits of the other side fixed.
  Value view(bool ofSource, ArrayRef<Value> values);
  /// `body` under `condition` (null: always).
  void onlyIf(Value condition, function_ref<void()> body);
  /// Nested loops over 0 ... size-1 for each of `opens`.
  void loops(ArrayRef<Open> opens, SmallVector<Value> &chosen, function_ref<void()> body);

  void walk(Role role, Visit visit);
  void visitPiece(Role role, ArrayRef<Open> opens, ArrayRef<Value> chosen,
                  SmallVector<Value> values, Visit visit);
  bool isFixed(StringAttr axis) const { return sameMesh && !usedBySource.contains(axis); }
  Coordinates getHolder(ArrayRef<Value> values, const Coordinates &receiver, Value inSource,
                        const Coordinates &receiverInSource);
  bool isLocal() const;
  fusion::MeshAttr joinMeshes();

  void copyOwn();
  void receive();
  void send();

  Emitter &emitter;
  OpBuilder &builder;
  Location loc;
  const ReshardPlan &plan;
  Value source, target, stream;
  bool sameMesh, share = false; // whether the meshes have devices in common
  /// Mesh axes that split a side.
  llvm::SmallDenseSet<StringAttr> usedBySource, usedByTarget;
  /// Axes of the source, of more than one device, along which a piece has several holders.
  SmallVector<fusion::MeshAxis> free;
  fusion::MeshAttr whole; // all devices of both meshes
  Value me;               // this device's position in it
  Value inSource;         // whether it is in the source's mesh; null: surely
};

} // namespace

Transfer::Transfer(Emitter &emitter, Location loc, const ReshardPlan &plan, Value source,
                   Value target, Value stream)
    : emitter(emitter), builder(emitter.getBuilder()), loc(loc), plan(plan), source(source),
      target(target), stream(stream), sameMesh(plan.sourceMesh == plan.mesh) {
  auto use = [](llvm::SmallDenseSet<StringAttr> &used, const SideDigit &digit) {
    if (digit.isDevice())
      used.insert(digit.axis);
  };
  for (const CommonDigit &digit : plan.digits) {
    use(usedBySource, digit.source);
    use(usedByTarget, digit.target);
    for (const SideDigit &part : digit.sourceParts)
      use(usedBySource, part);
    for (const SideDigit &part : digit.targetParts)
      use(usedByTarget, part);
  }
  if (!sameMesh)
    for (const fusion::MeshAxis &axis : plan.sourceMesh.getAxes())
      if (axis.size > 1 && !usedBySource.contains(axis.name))
        free.push_back(axis);
}

//===----------------------------------------------------------------------===//
// Numbers and views
//===----------------------------------------------------------------------===//

void Transfer::require(Value &condition, Value a, Value b) {
  if (a == b)
    return;
  Value alike = equal(a, b);
  condition = condition ? arith::AndIOp::create(builder, loc, condition, alike).getResult() : alike;
}

Value Transfer::digitOf(Value number, int64_t size, int64_t outer, int64_t inner) {
  if (inner > 1)
    number = arith::DivUIOp::create(builder, loc, number, index(inner));
  if (outer > 1)
    number = arith::RemUIOp::create(builder, loc, number, index(size));
  return number;
}

Value Transfer::partOf(ArrayRef<SideDigit> parts, size_t number, Value index) {
  int64_t inner = 1;
  for (const SideDigit &part : parts.drop_front(number + 1))
    inner *= part.size;
  return digitOf(index, parts[number].size, number == 0 ? 1 : 2, inner);
}

void Transfer::addTo(Value &number, Value value, int64_t inner) {
  if (inner > 1)
    value = arith::MulIOp::create(builder, loc, value, index(inner));
  number = number ? arith::AddIOp::create(builder, loc, number, value).getResult() : value;
}

Value Transfer::position(fusion::MeshAttr mesh, const Coordinates &coordinates) {
  Value sum = index(0);
  for (const fusion::MeshAxis &axis : mesh.getAxes()) {
    sum = arith::MulIOp::create(builder, loc, sum, index(axis.size));
    sum = arith::AddIOp::create(builder, loc, sum, coordinates.lookup(axis.name));
  }
  return sum;
}

Value Transfer::inWhole(bool ofSource, Value position) {
  fusion::MeshAttr mesh = ofSource ? plan.sourceMesh : plan.mesh;
  // In a joined mesh the source's devices come first, then the others.
  if (mesh == whole || (ofSource && whole != plan.mesh))
    return position;
  if (!share)
    return arith::AddIOp::create(builder, loc, position, index(plan.sourceMesh.numDevices()));
  return hostir::TranslatePositionOp::create(builder, loc, position, mesh, whole);
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
    auto label = static_cast<int64_t>(number);
    if (digit.crosses()) {
      ArrayRef<SideDigit> parts = ofSource ? digit.sourceParts : digit.targetParts;
      for (auto [i, part] : llvm::enumerate(parts))
        if (!part.isDevice())
          dims[digit.dim].push_back({part.size, partOf(parts, i, values[number]), label});
      continue;
    }
    const SideDigit &side = ofSource ? digit.source : digit.target;
    if (side.isDevice())
      continue;
    Value value = digit.target.isStream() ? digit.target.value : values[number];
    dims[digit.dim].push_back({side.size, value, label, digit.target.chunk, digit.target.length});
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

void Transfer::loops(ArrayRef<Open> opens, SmallVector<Value> &chosen, function_ref<void()> body) {
  if (opens.empty())
    return body();
  (void)emitter.loop(loc, 0, opens.front().size, [&](Value value) {
    chosen.push_back(value);
    loops(opens.drop_front(), chosen, body);
    chosen.pop_back();
    return success();
  });
}

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

/// Goes through the pieces of a role: first what is known of all of them, then a loop for each
/// digit that tells them apart.
void Transfer::walk(Role role, Visit visit) {
  bool nearIsSource = role == Role::Send;
  Coordinates near = mine(nearIsSource ? plan.sourceMesh : plan.mesh);
  Coordinates inSourceMesh;
  if (role == Role::Own)
    inSourceMesh = mine(plan.sourceMesh);
  SmallVector<Value> values(plan.digits.size());
  SmallVector<Open> opens;
  Value condition;
  for (auto [number, digit] : llvm::enumerate(plan.digits)) {
    if (digit.crosses()) {
      for (auto [i, part] : llvm::enumerate(nearIsSource ? digit.sourceParts : digit.targetParts))
        if (part.kind == fusion::DigitKind::Serial)
          opens.push_back({number, i, {}, part.size});
      continue;
    }
    const SideDigit &from = digit.source, &to = digit.target;
    const SideDigit &here = nearIsSource ? from : to, &there = nearIsSource ? to : from;
    if (here.isDevice())
      values[number] = digitOf(here, near);
    else if (to.isStream())
      values[number] = to.value;
    else if (there.isDevice() && role == Role::Own)
      values[number] = digitOf(from, inSourceMesh);
    else if (there.isDevice() && nearIsSource && isFixed(to.axis))
      values[number] = digitOf(to, near);
    else if (there.isDevice())
      opens.push_back({number, {}, {}, there.size});
    // Both sides fix the digit: pieces are those on which they agree.
    if (role == Role::Own && from.isDevice() && (to.isDevice() || to.isStream()))
      require(condition, values[number], digitOf(from, inSourceMesh));
    if (nearIsSource && from.isDevice() && to.isStream())
      require(condition, values[number], to.value);
    if (nearIsSource && from.isDevice() && to.isDevice() && isFixed(to.axis))
      require(condition, values[number], digitOf(to, near));
  }
  if (nearIsSource)
    for (const fusion::MeshAxis &axis : plan.mesh.getAxes())
      if (!usedByTarget.contains(axis.name) && !isFixed(axis.name))
        opens.push_back({0, {}, axis.name, axis.size});
  onlyIf(condition, [&] {
    SmallVector<Value> chosen;
    loops(opens, chosen, [&] { visitPiece(role, opens, chosen, values, visit); });
  });
}

/// One piece, inside the loops.
void Transfer::visitPiece(Role role, ArrayRef<Open> opens, ArrayRef<Value> chosen,
                          SmallVector<Value> values, Visit visit) {
  bool nearIsSource = role == Role::Send;
  Coordinates near = mine(nearIsSource ? plan.sourceMesh : plan.mesh), far;
  Coordinates inSourceMesh;
  if (role == Role::Own)
    inSourceMesh = mine(plan.sourceMesh);
  llvm::SmallDenseMap<std::pair<size_t, size_t>, Value> ofParts;
  for (auto [open, value] : llvm::zip_equal(opens, chosen)) {
    if (open.axis)
      far[open.axis] = value;
    else if (open.part)
      ofParts[{open.digit, *open.part}] = value;
    else
      values[open.digit] = value;
  }
  Value condition;
  for (auto [number, digit] : llvm::enumerate(plan.digits)) {
    if (!digit.crosses()) {
      const SideDigit &there = nearIsSource ? digit.target : digit.source;
      if (there.isDevice())
        addTo(far[there.axis], values[number], there.inner);
      continue;
    }
    ArrayRef<SideDigit> here = nearIsSource ? digit.sourceParts : digit.targetParts;
    ArrayRef<SideDigit> there = nearIsSource ? digit.targetParts : digit.sourceParts;
    int64_t inner = digit.source.size;
    for (auto [i, part] : llvm::enumerate(here)) {
      inner /= part.size;
      Value value = part.isDevice()   ? digitOf(part, near)
                    : part.isStream() ? part.value
                                      : ofParts.lookup({number, i});
      addTo(values[number], value, inner);
    }
    for (auto [i, part] : llvm::enumerate(there)) {
      if (part.kind == fusion::DigitKind::Serial)
        continue;
      Value value = partOf(there, i, values[number]);
      if (part.isStream())
        require(condition, value, part.value);
      else
        addTo(far[part.axis], value, part.inner);
      if (part.isDevice() && role == Role::Own)
        require(condition, value, digitOf(part, inSourceMesh));
      if (part.isDevice() && nearIsSource && isFixed(part.axis))
        require(condition, value, digitOf(part, near));
    }
  }
  if (nearIsSource)
    for (const fusion::MeshAxis &axis : plan.mesh.getAxes())
      if (!usedByTarget.contains(axis.name) && isFixed(axis.name))
        far[axis.name] = near.lookup(axis.name);
  onlyIf(condition, [&] { visit(values, far); });
}

/// Which of its holders sends a piece to the device at `receiver` of the target's mesh: coordinates
/// along `free`. Where it stands in the source's mesh, if `inSource` (null: it does not), is
/// `receiverInSource`.
Coordinates Transfer::getHolder(ArrayRef<Value> values, const Coordinates &receiver, Value inSource,
                                const Coordinates &receiverInSource) {
  Coordinates holder;
  if (free.empty())
    return holder;
  // The number of the receiver among those who get parts of the piece.
  Value turn;
  int64_t holders = 1, receivers = 1;
  auto add = [&](Value value, int64_t size) {
    receivers *= size;
    if (turn)
      turn = arith::MulIOp::create(builder, loc, turn, index(size));
    turn = turn ? arith::AddIOp::create(builder, loc, turn, value).getResult() : value;
  };
  for (auto [number, digit] : llvm::enumerate(plan.digits))
    if (digit.target.isDevice() && !digit.source.isDevice())
      add(values[number], digit.target.size);
  for (const fusion::MeshAxis &axis : plan.mesh.getAxes())
    if (!usedByTarget.contains(axis.name))
      add(receiver.lookup(axis.name), axis.size);
  for (const fusion::MeshAxis &axis : free)
    holders *= axis.size;
  if (!turn)
    turn = index(0);
  if (receivers > holders)
    turn = arith::RemUIOp::create(builder, loc, turn, index(holders));
  int64_t outer = 1;
  for (const fusion::MeshAxis &axis : free) {
    holders /= axis.size;
    Value coordinate = digitOf(turn, axis.size, outer, holders);
    outer *= axis.size;
    if (inSource)
      coordinate = arith::SelectOp::create(builder, loc, inSource,
                                           receiverInSource.lookup(axis.name), coordinate);
    holder[axis.name] = coordinate;
  }
  return holder;
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

/// What this device has itself is copied.
void Transfer::copyOwn() {
  walk(Role::Own, [&](ArrayRef<Value> values, const Coordinates &) {
    Value from = view(true, values), to = view(false, values);
    hostir::CopyOp::create(builder, loc, from, to, stream);
  });
}

void Transfer::receive() {
  Coordinates receiver = mine(plan.mesh);
  walk(Role::Receive, [&](ArrayRef<Value> values, const Coordinates &far) {
    Coordinates sender = far;
    if (sameMesh) {
      for (const fusion::MeshAxis &axis : plan.mesh.getAxes())
        if (!usedBySource.contains(axis.name))
          sender[axis.name] = receiver.lookup(axis.name);
    } else {
      for (const fusion::MeshAxis &axis : plan.sourceMesh.getAxes())
        if (!usedBySource.contains(axis.name))
          sender[axis.name] = index(0);
      Value known; // whether this device holds pieces too
      if (share && !free.empty())
        known = inSource ? inSource : arith::ConstantIntOp::create(builder, loc, 1, 1).getResult();
      Coordinates holder = getHolder(values, receiver, known, mine(plan.sourceMesh));
      for (const fusion::MeshAxis &axis : free)
        sender[axis.name] = holder.lookup(axis.name);
    }
    Value from = inWhole(true, position(plan.sourceMesh, sender));
    onlyIf(share ? differ(from, me) : Value(), [&] {
      Value place = view(false, values);
      hostir::RecvOp::create(builder, loc, place, from);
    });
  });
}

void Transfer::send() {
  Coordinates mineOnSource = mine(plan.sourceMesh);
  walk(Role::Send, [&](ArrayRef<Value> values, const Coordinates &receiver) {
    Value at = position(plan.mesh, receiver);
    Value condition;
    if (!free.empty()) {
      Value known;
      Coordinates inSourceMesh;
      if (share) {
        Value place =
            hostir::TranslatePositionOp::create(builder, loc, at, plan.mesh, plan.sourceMesh);
        known = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge, place, index(0));
        int64_t inner = plan.sourceMesh.numDevices(), outer = 1;
        for (const fusion::MeshAxis &axis : plan.sourceMesh.getAxes()) {
          inner /= axis.size;
          inSourceMesh[axis.name] = digitOf(place, axis.size, outer, inner);
          outer *= axis.size;
        }
      }
      Coordinates holder = getHolder(values, receiver, known, inSourceMesh);
      for (const fusion::MeshAxis &axis : free)
        require(condition, mineOnSource.lookup(axis.name), holder.lookup(axis.name));
    }
    Value peer = inWhole(false, at);
    if (share) {
      Value other = differ(peer, me);
      condition =
          condition ? arith::AndIOp::create(builder, loc, condition, other).getResult() : other;
    }
    onlyIf(condition, [&] {
      Value piece = view(true, values);
      hostir::SendOp::create(builder, loc, piece, peer);
    });
  });
}

/// Whether every device has all of its pieces itself.
bool Transfer::isLocal() const {
  if (plan.staysLocal)
    return true;
  if (sameMesh || !usedBySource.empty())
    return false;
  for (int64_t i = 0, e = plan.mesh.numDevices(); i < e; ++i)
    if (plan.sourceMesh.position(plan.mesh.worldRank(i)) == -1)
      return false;
  return true;
}

/// All devices of both meshes: one of them if it has all, else those of the source first.
fusion::MeshAttr Transfer::joinMeshes() {
  int64_t numSource = plan.sourceMesh.numDevices(), numTarget = plan.mesh.numDevices();
  SmallVector<int64_t> devices;
  for (int64_t i = 0; i < numSource; ++i)
    devices.push_back(plan.sourceMesh.worldRank(i));
  for (int64_t i = 0; i < numTarget; ++i)
    if (int64_t device = plan.mesh.worldRank(i); plan.sourceMesh.position(device) == -1)
      devices.push_back(device);
  auto numAll = static_cast<int64_t>(devices.size());
  share = numAll < numSource + numTarget;
  if (numAll == numSource)
    return plan.sourceMesh;
  if (numAll == numTarget)
    return plan.mesh;
  MLIRContext *context = builder.getContext();
  auto name = StringAttr::get(context, plan.sourceMesh.getName().getValue() + "+" +
                                           plan.mesh.getName().getValue());
  return fusion::MeshAttr::get(context, name, {{StringAttr::get(context, "rank"), numAll}},
                               devices);
}

void Transfer::emit() {
  whole = joinMeshes();
  emitter.onMesh(loc, whole, [&] {
    auto isMember = [&](fusion::MeshAttr mesh) -> Value {
      if (mesh.numDevices() == whole.numDevices())
        return {};
      return hostir::InMeshOp::create(builder, loc, mesh);
    };
    inSource = isMember(plan.sourceMesh);
    Value inTarget = isMember(plan.mesh);
    if (share)
      onlyIf(inSource, [&] { onlyIf(inTarget, [&] { copyOwn(); }); });
    if (isLocal() || whole.numDevices() == 1)
      return;
    SmallVector<StringAttr> axes;
    for (const fusion::MeshAxis &axis : whole.getAxes())
      axes.push_back(axis.name);
    Value channel = emitter.getChannel(whole, axes, hostir::Capability::TwoSided);
    me = position(whole, mine(whole));
    auto group = hostir::GroupOp::create(builder, loc, channel, stream);
    OpBuilder::InsertionGuard guard(builder);
    builder.createBlock(&group.getBody());
    onlyIf(inTarget, [&] { receive(); });
    onlyIf(inSource, [&] { send(); });
  });
}

LogicalResult Emitter::emitTransfer(fusion::ReshardOp op, const ReshardPlan &plan, Value stream) {
  Value target = getOrAllocBuffer(op.getResult());
  Transfer(*this, op.getLoc(), plan, getBuffer(op.getInput()), target, stream).emit();
  return success();
}
