//===- TransferPieces.cpp - which pieces a device sends, receives or has -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Transfer.h"

using namespace mlir;
using namespace tandem;

void Transfer::walk(Role role, Visit visit) {
  segments.assign(plan.digits.size(), nullptr);
  walkSegments(role, 0, visit);
}

/// Visits the segments of digit `number` and of later digits.
void Transfer::walkSegments(Role role, size_t number, Visit visit) {
  while (number < plan.digits.size() && plan.digits[number].segments.empty())
    ++number;
  if (number == plan.digits.size())
    return walkPieces(role, visit);
  const CommonDigit &digit = plan.digits[number];
  bool isShort = digit.target.length != digit.target.chunk;
  int64_t last = digit.target.size / digit.target.chunk;
  for (const Segment &segment : digit.segments) {
    if ((segment.slice == last) != isShort)
      continue;
    segments[number] = &segment;
    Value condition = isShort ? Value() : equal(digit.target.value, index(segment.slice));
    program.onlyIf(loc, condition, [&] { walkSegments(role, number + 1, visit); });
  }
}

/// The owner and the receiver of a digit's segment.
void Transfer::placeSegment(Role role, size_t number, const Coordinates &local,
                            const Coordinates &inSourceMesh, Coordinates &remote,
                            Value &condition) {
  const CommonDigit &digit = plan.digits[number];
  const Segment &segment = *segments[number];
  for (bool ofSource : {true, false}) {
    bool isHere = ofSource == (role == Role::Send);
    int64_t rest = ofSource ? segment.block : segment.targetBlock;
    for (const SideDigit &part :
         llvm::reverse(ofSource ? ArrayRef(digit.sourceParts) : ArrayRef(digit.targetParts))) {
      Value value = index(rest % part.size);
      rest /= part.size;
      if (part.isStream())
        require(condition, value, part.value);
      if (!part.isDevice())
        continue;
      if (!isHere)
        addTo(remote[part.axis], value, part.inner);
      if (isHere || (role == Role::Send && isFixed(part.axis)))
        require(condition, value, digitOf(part, local));
      else if (role == Role::Own)
        require(condition, value, digitOf(part, inSourceMesh));
    }
  }
}

/// Visits the pieces of a role: first the facts common to all pieces, then a loop per digit that
/// distinguishes them.
void Transfer::walkPieces(Role role, Visit visit) {
  bool localIsSource = role == Role::Send;
  Coordinates local = mine(localIsSource ? plan.sourceMesh : plan.mesh);
  Coordinates inSourceMesh;
  if (role == Role::Own)
    inSourceMesh = mine(plan.sourceMesh);
  SmallVector<Value> values(plan.digits.size());
  SmallVector<Open> opens;
  Value condition;
  for (auto [number, digit] : llvm::enumerate(plan.digits)) {
    if (!digit.segments.empty())
      continue;
    if (digit.crosses()) {
      for (auto [i, part] : llvm::enumerate(localIsSource ? digit.sourceParts : digit.targetParts))
        if (part.kind == fusion::DigitKind::Serial)
          opens.push_back({number, i, {}, part.size});
      continue;
    }
    const SideDigit &from = digit.source, &to = digit.target;
    const SideDigit &here = localIsSource ? from : to, &there = localIsSource ? to : from;
    if (here.isDevice())
      values[number] = digitOf(here, local);
    else if (to.isStream())
      values[number] = to.value;
    else if (there.isDevice() && role == Role::Own)
      values[number] = digitOf(from, inSourceMesh);
    else if (there.isDevice() && localIsSource && isFixed(to.axis))
      values[number] = digitOf(to, local);
    else if (there.isDevice())
      opens.push_back({number, {}, {}, there.size});
    // Both sides fix the digit: own pieces are those where they agree.
    if (role == Role::Own && from.isDevice() && (to.isDevice() || to.isStream()))
      require(condition, values[number], digitOf(from, inSourceMesh));
    if (localIsSource && from.isDevice() && to.isStream())
      require(condition, values[number], to.value);
    if (localIsSource && from.isDevice() && to.isDevice() && isFixed(to.axis))
      require(condition, values[number], digitOf(to, local));
  }
  if (localIsSource)
    for (const MeshAxis &axis : plan.mesh.getAxes())
      if (!usedByTarget.contains(axis.name) && !isFixed(axis.name))
        opens.push_back({0, {}, axis.name, axis.size});
  program.onlyIf(loc, condition, [&] {
    SmallVector<Value> chosen;
    loops(opens, chosen, [&] { visitPiece(role, opens, chosen, values, visit); });
  });
}

/// Visits one piece, inside the loops.
void Transfer::visitPiece(Role role, ArrayRef<Open> opens, ArrayRef<Value> chosen,
                          SmallVector<Value> values, Visit visit) {
  bool localIsSource = role == Role::Send;
  Coordinates local = mine(localIsSource ? plan.sourceMesh : plan.mesh), remote;
  Coordinates inSourceMesh;
  if (role == Role::Own)
    inSourceMesh = mine(plan.sourceMesh);
  llvm::SmallDenseMap<std::pair<size_t, size_t>, Value> ofParts;
  for (auto [open, value] : llvm::zip_equal(opens, chosen)) {
    if (open.axis)
      remote[open.axis] = value;
    else if (open.part)
      ofParts[{open.digit, *open.part}] = value;
    else
      values[open.digit] = value;
  }
  Value condition;
  for (auto [number, digit] : llvm::enumerate(plan.digits)) {
    if (!digit.segments.empty()) {
      placeSegment(role, number, local, inSourceMesh, remote, condition);
      continue;
    }
    if (!digit.crosses()) {
      const SideDigit &there = localIsSource ? digit.target : digit.source;
      if (there.isDevice())
        addTo(remote[there.axis], values[number], there.inner);
      continue;
    }
    ArrayRef<SideDigit> here = localIsSource ? digit.sourceParts : digit.targetParts;
    ArrayRef<SideDigit> there = localIsSource ? digit.targetParts : digit.sourceParts;
    int64_t inner = digit.source.size;
    for (auto [i, part] : llvm::enumerate(here)) {
      inner /= part.size;
      Value value = part.isDevice()   ? digitOf(part, local)
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
        addTo(remote[part.axis], value, part.inner);
      if (part.isDevice() && role == Role::Own)
        require(condition, value, digitOf(part, inSourceMesh));
      if (part.isDevice() && localIsSource && isFixed(part.axis))
        require(condition, value, digitOf(part, local));
    }
  }
  if (localIsSource)
    for (const MeshAxis &axis : plan.mesh.getAxes())
      if (!usedByTarget.contains(axis.name) && isFixed(axis.name))
        remote[axis.name] = local.lookup(axis.name);
  program.onlyIf(loc, condition, [&] { visit(values, remote); });
}

/// The coordinates along `free` of the holder that sends a piece to device `receiver` of the
/// target's mesh. `receiverInSource`: the receiver's position in the source's mesh, if `inSource`
/// (null: it has none).
Coordinates Transfer::getHolder(ArrayRef<Value> values, const Coordinates &receiver, Value inSource,
                                const Coordinates &receiverInSource) {
  Coordinates holder;
  if (free.empty())
    return holder;
  // The receiver's number among the receivers of parts of the piece.
  Value turn;
  int64_t holders = 1, receivers = 1;
  auto add = [&](Value value, int64_t size) {
    receivers *= size;
    turn = math().linear(turn, size, value);
  };
  for (auto [number, digit] : llvm::enumerate(plan.digits))
    if (digit.target.isDevice() && !digit.source.isDevice())
      add(values[number], digit.target.size);
  for (const MeshAxis &axis : plan.mesh.getAxes())
    if (!usedByTarget.contains(axis.name))
      add(receiver.lookup(axis.name), axis.size);
  for (const MeshAxis &axis : free)
    holders *= axis.size;
  if (!turn)
    turn = index(0);
  if (receivers > holders)
    turn = math().mod(turn, holders);
  int64_t outer = 1;
  for (const MeshAxis &axis : free) {
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
