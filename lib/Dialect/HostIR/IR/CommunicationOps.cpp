//===- CommunicationOps.cpp - collectives, messages and signals -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpVerify.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

bool hostir::hasRoot(CollectiveKind kind) {
  return kind == CollectiveKind::Broadcast || kind == CollectiveKind::Reduce ||
         kind == CollectiveKind::Gather || kind == CollectiveKind::Scatter;
}

bool hostir::isReducing(CollectiveKind kind) {
  return kind == CollectiveKind::AllReduce || kind == CollectiveKind::ReduceScatter ||
         kind == CollectiveKind::Reduce;
}

// collective_c1
static LogicalResult verifyCollectiveShapes(CollectiveOp op, int64_t size) {
  SmallVector<int64_t> input(cast<MemRefType>(op.getInput().getType()).getShape());
  SmallVector<int64_t> expected = input;
  switch (op.getKind()) {
  case CollectiveKind::AllGather:
  case CollectiveKind::Gather:
    expected.insert(expected.begin(), size);
    break;
  case CollectiveKind::ReduceScatter:
  case CollectiveKind::Scatter:
  case CollectiveKind::AllToAll:
    if (input.empty() || input.front() != size)
      return op.emitOpError() << "expected an input whose first extent is the group's size " << size
                              << ", found " << printShape(input);
    if (op.getKind() != CollectiveKind::AllToAll)
      expected.erase(expected.begin());
    break;
  case CollectiveKind::AllReduce:
  case CollectiveKind::Broadcast:
  case CollectiveKind::Reduce:
    break;
  }
  return verifyShape(op, "an output", op.getOutput(), expected);
}

LogicalResult CollectiveOp::verify() {
  if (failed(verifySameElementType(*this, getInput(), getOutput())))
    return failure();
  ChannelOp channel = getChannelOp(getChannel());
  if (channel && channel.groupSize() >= 0 &&
      failed(verifyCollectiveShapes(*this, channel.groupSize())))
    return failure();

  StringRef kind = stringifyCollectiveKind(getKind());
  if (hasRoot(getKind()) && !getRoot())
    return emitOpError() << "expected a root of '" << kind << "', found none";
  if (!hasRoot(getKind()) && getRoot())
    return emitOpError() << "expected no root of '" << kind << "'";
  if (getRoot() && failed(verifyPosition(*this, "a root", getRoot(), getChannel())))
    return failure();
  if (getReduction() && !isReducing(getKind()))
    return emitOpError() << "expected no 'reduction' of '" << kind << "'";

  if (channel && !channel.can(Capability::Collectives) && !channel.can(Capability::TwoSided)) {
    InFlightDiagnostic diag = emitOpError()
                              << "expected a channel with 'collectives' or 'two_sided'";
    diag.attachNote(channel.getLoc()) << "channel " << channel.getNameAttr() << " cannot";
    return diag;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Two-sided messages
//===----------------------------------------------------------------------===//

LogicalResult GroupOp::verify() {
  return verifyCapability(*this, getChannel(), Capability::TwoSided);
}

LogicalResult GroupOp::verifyRegions() {
  WalkResult walk = getBody().walk([&](Operation *op) {
    if (isa<SendOp, RecvOp, TranslatePositionOp>(op) || isView(op) ||
        isa_and_present<arith::ArithDialect, scf::SCFDialect>(op->getDialect()))
      return WalkResult::advance();
    op->emitOpError() << "expected only sends, receives, views, 'arith' and 'scf' in a group";
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

static LogicalResult verifyMessage(Operation *op, Value peer) {
  auto group = op->getParentOfType<GroupOp>();
  if (!group)
    return op->emitOpError() << "expected to be inside a 'hostir.group'";
  return verifyPosition(op, "a peer", peer, group.getChannel());
}

LogicalResult SendOp::verify() { return verifyMessage(*this, getPeer()); }

LogicalResult RecvOp::verify() { return verifyMessage(*this, getPeer()); }

//===----------------------------------------------------------------------===//
// One-sided messages
//===----------------------------------------------------------------------===//

LogicalResult PutOp::verify() {
  if (failed(verifySameShapeAndElementType(*this, getSource(), getTarget())))
    return failure();
  if (!isSymmetric(getTarget().getType()))
    return emitOpError() << "expected a target in symmetric memory, found "
                         << getTarget().getType();
  if (failed(verifyCapability(*this, getChannel(), Capability::OneSided)))
    return failure();
  return verifyPosition(*this, "a peer", getPeer(), getChannel());
}

LogicalResult SignalOp::verify() {
  if (failed(verifyCapability(*this, getChannel(), Capability::OneSided)) ||
      failed(verifyConstantAtLeast(*this, "a value", getValue(), 1)) ||
      failed(verifyConstantAtLeast(*this, "a slot", getSlot(), 0)))
    return failure();
  return verifyPosition(*this, "a peer", getPeer(), getChannel());
}

LogicalResult WaitSignalOp::verify() {
  if (failed(verifyConstantAtLeast(*this, "a value", getValue(), 1)))
    return failure();
  return verifyConstantAtLeast(*this, "a slot", getSlot(), 0);
}

//===----------------------------------------------------------------------===//
// Exchanges
//===----------------------------------------------------------------------===//

// peer_exchange_c1, of a group of `size`
static LogicalResult verifyExchangeShapes(PeerExchangeOp op, int64_t size) {
  using K = ExchangeKind;
  K kind = op.getKind();
  for (auto [input, output] : llvm::zip_equal(op.getInputs(), op.getOutputs())) {
    SmallVector<int64_t> expected(cast<MemRefType>(input.getType()).getShape());
    SmallVector<int64_t> added = expected; // what a device adds up
    if (kind == K::AllGather)
      expected.insert(expected.begin(), size);
    if (kind == K::ReduceScatter) {
      if (expected.empty() || expected.front() != size)
        return op.emitOpError() << "expected an input whose first extent is the group's size "
                                << size << ", found " << printShape(expected);
      expected.erase(expected.begin());
      added = expected;
    }
    if (failed(verifySameElementType(op, input, output)) ||
        failed(verifyShape(op, "an output", output, expected)))
      return failure();
    if (!op.reduces())
      continue;
    int64_t cut = op.getCut();
    if (op.isTwoShot()) {
      if (cut < 0 || cut >= static_cast<int64_t>(added.size()) || added[cut] % size != 0)
        return op.emitOpError() << "expected 'cut' to be a dimension that is a multiple of " << size
                                << ", found " << cut << " of " << printShape(added);
      added[cut] /= size;
    }
    added.insert(added.begin(), size);
    if (failed(verifySameElementType(op, input, op.getScratch())) ||
        failed(verifyShape(op, "a scratch", op.getScratch(), added)))
      return failure();
  }
  for (auto [output, copy] : llvm::zip(op.getOutputs(), op.getCopies()))
    if (failed(verifySameShapeAndElementType(op, output, copy)))
      return failure();
  return success();
}

LogicalResult PeerExchangeOp::verify() {
  constexpr int64_t most = 1024;
  if (int64_t blocks = getBlocksAttr().getInt(); blocks < 1 || blocks > most)
    return emitOpError() << "expected 1 to " << most << " thread blocks, found " << blocks;
  if (int64_t slot = getSlotAttr().getInt(); slot < 0)
    return emitOpError() << "expected a slot of at least 0, found " << slot;
  if (failed(verifyCapability(*this, getChannel(), Capability::OneSided)))
    return failure();
  if (getValue() && failed(verifyConstantAtLeast(*this, "a value", getValue(), 1)))
    return failure();
  size_t values = getInputs().size();
  if (values == 0 || getOutputs().size() != values || (values > 1 && reduces()))
    return emitOpError() << "expected one input and one output, or as many of both of an "
                            "all_gather or put_all, found "
                         << values << " and " << getOutputs().size();
  bool mayCopy = isAllGather() || isTwoShot(), peersStore = mayCopy || isPush();
  if (!getCopies().empty() && (!mayCopy || getCopies().size() != values))
    return emitOpError() << "expected " << (mayCopy ? "a copy for each output" : "no copies")
                         << ", found " << getCopies().size();
  if (reduces() != bool(getScratch()))
    return emitOpError() << "expected " << (reduces() ? "a scratch" : "no scratch");
  SmallVector<Value> reached(peersStore ? ValueRange(getOutputs()) : ValueRange());
  if (getScratch())
    reached.push_back(getScratch());
  for (Value buffer : reached)
    if (!isSymmetric(buffer.getType()))
      return emitOpError() << "expected symmetric memory where peers store, found "
                           << buffer.getType();
  ChannelOp channel = getChannelOp(getChannel());
  if (channel && channel.groupSize() >= 0)
    return verifyExchangeShapes(*this, channel.groupSize());
  return success();
}
