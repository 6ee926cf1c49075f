//===- Transfer.cpp - a reshard as messages between pairs of devices -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Transfer.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace tandem;

Transfer::Transfer(ProgramBuilder &program, Location loc, const ReshardPlan &plan, Value source,
                   Value target, Value stream)
    : program(program), builder(program.getBuilder()), loc(loc), plan(plan), source(source),
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
    for (const MeshAxis &axis : plan.sourceMesh.getAxes())
      if (axis.size > 1 && !usedBySource.contains(axis.name))
        free.push_back(axis);
}

//===----------------------------------------------------------------------===//
// Numbers and views
//===----------------------------------------------------------------------===//

void Transfer::require(Value &condition, Value a, Value b) {
  if (a != b)
    condition = math().both(condition, equal(a, b));
}

Value Transfer::digitOf(Value number, int64_t size, int64_t outer, int64_t inner) {
  number = math().div(number, inner);
  return outer > 1 ? math().mod(number, size) : number;
}

Value Transfer::partOf(ArrayRef<SideDigit> parts, size_t number, Value index) {
  int64_t inner = 1;
  for (const SideDigit &part : parts.drop_front(number + 1))
    inner *= part.size;
  return digitOf(index, parts[number].size, number == 0 ? 1 : 2, inner);
}

void Transfer::addTo(Value &number, Value value, int64_t inner) {
  number = math().add(number, math().mul(value, inner));
}

Value Transfer::position(MeshAttr mesh, const Coordinates &coordinates) {
  Value number;
  for (const MeshAxis &axis : mesh.getAxes())
    number = math().linear(number, axis.size, coordinates.lookup(axis.name));
  return number ? number : index(0);
}

Value Transfer::inWhole(bool ofSource, Value position) {
  MeshAttr mesh = ofSource ? plan.sourceMesh : plan.mesh;
  // A joined mesh lists the source's devices first.
  if (mesh == whole || (ofSource && whole != plan.mesh))
    return position;
  if (!share)
    return math().add(position, plan.sourceMesh.numDevices());
  return hostir::TranslatePositionOp::create(builder, loc, position, mesh, whole);
}

Coordinates Transfer::mine(MeshAttr mesh) {
  Coordinates coordinates;
  for (const MeshAxis &axis : mesh.getAxes())
    coordinates[axis.name] = program.getDeviceIndex(mesh, axis.name);
  return coordinates;
}

/// Adds the local digits of one side for a segment of `digit`: fixed indices, and a run of the
/// innermost.
void Transfer::addSegment(bool ofSource, const CommonDigit &digit, const Segment &segment,
                          SmallVectorImpl<LocalDigit> &local) {
  int64_t span = 1, block = ofSource ? segment.block : segment.targetBlock;
  ArrayRef<SideDigit> parts = ofSource ? digit.sourceParts : digit.targetParts;
  for (const SideDigit &part : parts)
    span *= part.size;
  for (const SideDigit &part : parts) {
    span /= part.size;
    if (!part.isDevice())
      local.push_back({part.size, part.isStream() ? part.value : index(block / span % part.size)});
  }
  Value begin = ofSource ? index(segment.offset)
                         : math().add(math().mul(digit.target.value, digit.target.chunk),
                                      segment.sliceOffset);
  int64_t size = ofSource ? digit.source.size : digit.target.size;
  local.push_back({size, begin, 0, 1, segment.length});
}

Value Transfer::view(bool ofSource, ArrayRef<Value> values) {
  Value buffer = ofSource ? source : target;
  LocalDims dims(cast<MemRefType>(buffer.getType()).getRank());
  for (auto [number, digit] : llvm::enumerate(plan.digits)) {
    auto label = static_cast<int64_t>(number);
    if (!digit.segments.empty()) {
      addSegment(ofSource, digit, *segments[number], dims[digit.dim]);
      continue;
    }
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

void Transfer::loops(ArrayRef<Open> opens, SmallVector<Value> &chosen, function_ref<void()> body) {
  if (opens.empty())
    return body();
  (void)program.loop(loc, 0, opens.front().size, [&](Value value) {
    chosen.push_back(value);
    loops(opens.drop_front(), chosen, body);
    chosen.pop_back();
    return success();
  });
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

/// Copies the elements that this device already has.
void Transfer::copyOwn() {
  walk(Role::Own, [&](ArrayRef<Value> values, const Coordinates &) {
    Value from = view(true, values), to = view(false, values);
    hostir::CopyOp::create(builder, loc, from, to, stream);
  });
}

void Transfer::receive() {
  Coordinates receiver = mine(plan.mesh);
  walk(Role::Receive, [&](ArrayRef<Value> values, const Coordinates &remote) {
    Coordinates sender = remote;
    if (sameMesh) {
      for (const MeshAxis &axis : plan.mesh.getAxes())
        if (!usedBySource.contains(axis.name))
          sender[axis.name] = receiver.lookup(axis.name);
    } else {
      for (const MeshAxis &axis : plan.sourceMesh.getAxes())
        if (!usedBySource.contains(axis.name))
          sender[axis.name] = index(0);
      Value known; // whether this device holds shards too
      if (share && !free.empty())
        known = inSource ? inSource : arith::ConstantIntOp::create(builder, loc, 1, 1).getResult();
      Coordinates holder = getHolder(values, receiver, known, mine(plan.sourceMesh));
      for (const MeshAxis &axis : free)
        sender[axis.name] = holder.lookup(axis.name);
    }
    Value from = inWhole(true, position(plan.sourceMesh, sender));
    program.onlyIf(loc, share ? differ(from, me) : Value(), [&] {
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
        known = math().compare(arith::CmpIPredicate::sge, place, index(0));
        int64_t inner = plan.sourceMesh.numDevices(), outer = 1;
        for (const MeshAxis &axis : plan.sourceMesh.getAxes()) {
          inner /= axis.size;
          inSourceMesh[axis.name] = digitOf(place, axis.size, outer, inner);
          outer *= axis.size;
        }
      }
      Coordinates holder = getHolder(values, receiver, known, inSourceMesh);
      for (const MeshAxis &axis : free)
        require(condition, mineOnSource.lookup(axis.name), holder.lookup(axis.name));
    }
    Value peer = inWhole(false, at);
    if (share)
      condition = math().both(condition, differ(peer, me));
    program.onlyIf(loc, condition, [&] {
      Value piece = view(true, values);
      hostir::SendOp::create(builder, loc, piece, peer);
    });
  });
}

/// Whether every device already has all of its elements.
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

/// All devices of both meshes: one of the meshes if it contains all, else a new one with the
/// source's devices first.
MeshAttr Transfer::joinMeshes() {
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
  return MeshAttr::get(context, name, {{StringAttr::get(context, "rank"), numAll}}, devices);
}

void Transfer::emit() {
  whole = joinMeshes();
  program.onMesh(loc, whole, [&] {
    auto isMember = [&](MeshAttr mesh) -> Value {
      if (mesh.numDevices() == whole.numDevices())
        return {};
      return hostir::InMeshOp::create(builder, loc, mesh);
    };
    inSource = isMember(plan.sourceMesh);
    Value inTarget = isMember(plan.mesh);
    if (share)
      program.onlyIf(loc, inSource, [&] { program.onlyIf(loc, inTarget, [&] { copyOwn(); }); });
    if (isLocal() || whole.numDevices() == 1)
      return;
    SmallVector<StringAttr> axes;
    for (const MeshAxis &axis : whole.getAxes())
      axes.push_back(axis.name);
    Value channel = program.getChannel(whole, axes, hostir::Capability::TwoSided);
    me = position(whole, mine(whole));
    auto group = hostir::GroupOp::create(builder, loc, channel, stream);
    OpBuilder::InsertionGuard guard(builder);
    builder.createBlock(&group.getBody());
    program.onlyIf(loc, inTarget, [&] { receive(); });
    program.onlyIf(loc, inSource, [&] { send(); });
  });
}
