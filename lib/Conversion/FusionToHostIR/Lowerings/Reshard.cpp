//===- Reshard.cpp - lowering of fusion.reshard to a copy, a collective or messages -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Transfer.h"

#include "../OpLowering.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace tandem;

static std::optional<hostir::CollectiveKind> getCollective(fusion::ReshardKind reshard) {
  using fusion::ReshardKind;
  switch (reshard) {
  case ReshardKind::AllGather:
    return hostir::CollectiveKind::AllGather;
  case ReshardKind::AllReduce:
    return hostir::CollectiveKind::AllReduce;
  case ReshardKind::ReduceScatter:
    return hostir::CollectiveKind::ReduceScatter;
  case ReshardKind::AllToAll:
    return hostir::CollectiveKind::AllToAll;
  case ReshardKind::OwnerMoves:
  case ReshardKind::Broadcast:
    return hostir::CollectiveKind::Broadcast;
  case ReshardKind::Reduce:
    return hostir::CollectiveKind::Reduce;
  case ReshardKind::Gather:
    return hostir::CollectiveKind::Gather;
  case ReshardKind::Scatter:
    return hostir::CollectiveKind::Scatter;
  case ReshardKind::Nothing:
  case ReshardKind::Slice:
  case ReshardKind::Permute:
  case ReshardKind::SendRecv:
  case ReshardKind::Sequence:
  case ReshardKind::Unsupported:
  case ReshardKind::Transfer:
    return std::nullopt;
  }
  return std::nullopt;
}

/// Whether the collective has a dimension for the ranks on one side. The other dimensions must
/// agree, so views of other kinds keep dimensions of extent 1.
static bool hasRankDim(fusion::ReshardKind kind) {
  return kind == fusion::ReshardKind::AllGather || kind == fusion::ReshardKind::ReduceScatter ||
         kind == fusion::ReshardKind::AllToAll || kind == fusion::ReshardKind::Gather ||
         kind == fusion::ReshardKind::Scatter;
}

/// A message from device `from` of `fromMesh` to device `to` of `toMesh`, on a channel of these
/// two.
static void emitMessage(ProgramBuilder &program, Location loc, int64_t from, Value sent, int64_t to,
                        Value received, Value stream) {
  OpBuilder &builder = program.getBuilder();
  MLIRContext *context = builder.getContext();
  auto rank = StringAttr::get(context, "rank");
  auto name = StringAttr::get(context, "ranks" + Twine(from) + "+" + Twine(to));
  auto pair = MeshAttr::get(context, name, {{rank, 2}}, {from, to});
  Value channel = program.getChannel(pair, {rank}, hostir::Capability::TwoSided);
  program.onMesh(loc, pair, [&] {
    Value me = program.getDeviceIndex(pair, rank);
    Value isSender = program.math(loc).isEqual(me, 0);
    auto group = hostir::GroupOp::create(builder, loc, channel, stream);
    OpBuilder::InsertionGuard guard(builder);
    builder.createBlock(&group.getBody());
    auto ifOp = scf::IfOp::create(builder, loc, isSender, /*withElseRegion=*/true);
    builder.setInsertionPoint(ifOp.thenBlock()->getTerminator());
    hostir::SendOp::create(builder, loc, sent, program.getIndex(1));
    builder.setInsertionPoint(ifOp.elseBlock()->getTerminator());
    hostir::RecvOp::create(builder, loc, received, program.getIndex(0));
  });
}

/// A reduction of floats in the order of the group: the terms are gathered, and each device that
/// gets a sum adds them up itself. `kind`: all-reduce, reduce-scatter or reduce.
static void emitOrderedReduction(ProgramBuilder &program, Location loc, const ReshardPlan &plan,
                                 hostir::CollectiveKind kind, Value source, Value target,
                                 Value root, Value channel, Value stream) {
  using hostir::CollectiveKind;
  OpBuilder &builder = program.getBuilder();
  auto type = cast<MemRefType>(target.getType());
  SmallVector<int64_t> shape{plan.groupSize()};
  shape.append(type.getShape().begin(), type.getShape().end());
  Value terms = hostir::AllocOp::create(builder, loc, shape, type.getElementType(), stream);
  CollectiveKind gather = kind == CollectiveKind::ReduceScatter ? CollectiveKind::AllToAll
                          : kind == CollectiveKind::AllReduce   ? CollectiveKind::AllGather
                                                                : CollectiveKind::Gather;
  hostir::CollectiveOp::create(builder, loc,
                               hostir::CollectiveKindAttr::get(builder.getContext(), gather),
                               source, terms, root, channel, stream, ReduceKindAttr());
  Value isReceiver;
  if (root)
    isReceiver =
        program.math(loc).isEqual(root, program.getGroupPosition(loc, plan.groupMesh, plan.axes));
  program.onlyIf(loc, isReceiver, [&] {
    auto reduction = ReduceKindAttr::get(builder.getContext(), plan.reduction);
    hostir::ReduceOp::create(builder, loc, reduction, terms, target,
                             builder.getDenseI64ArrayAttr({0}), stream);
  });
}

namespace {
class ReshardLowering : public OpLowering {
  LogicalResult emit(Operation *op, const SliceIndex *index, Value stream,
                     LoopEmitter &loop) const override;
};
} // namespace

LogicalResult ReshardLowering::emit(Operation *operation, const SliceIndex *index, Value stream,
                                    LoopEmitter &loop) const {
  auto op = cast<fusion::ReshardOp>(operation);
  Location loc = op.getLoc();
  ProgramBuilder &program = loop.program;
  OpBuilder &builder = loop.getBuilder();
  Value sourceBuffer = program.getBuffer(op.getInput());
  Value targetBuffer = program.getOrAllocBuffer(op.getResult());
  Explained<ReshardPlan> plan = planReshard(op, index ? *index : SliceIndex(), builder);
  if (failed(plan))
    return plan.report();
  bool direct = loop.sendsMessages && !plan->reduces() && getCollective(plan->kind);
  if (plan->kind == fusion::ReshardKind::Transfer || direct) {
    Transfer(program, loc, *plan, sourceBuffer, targetBuffer, stream).emit();
    return success();
  }
  for (SmallVector<LocalDigit> &dim : plan->source)
    for (LocalDigit &digit : dim)
      if (std::optional<int64_t> axis = digit.label.getAxis())
        digit.index = program.getDeviceIndex(plan->mesh, plan->axes[*axis]);

  bool keepRank = !hasRankDim(plan->kind);
  Value source = makeView(builder, loc, sourceBuffer, plan->source, keepRank);
  Value target = makeView(builder, loc, targetBuffer, plan->target, keepRank);
  std::optional<hostir::CollectiveKind> kind = getCollective(plan->kind);
  if (!kind) {
    hostir::CopyOp::create(builder, loc, source, target, stream);
    return success();
  }
  auto kindAttr = hostir::CollectiveKindAttr::get(builder.getContext(), *kind);
  ReduceKindAttr reduction;
  if (plan->reduces())
    reduction = ReduceKindAttr::get(builder.getContext(), plan->reduction);
  Value channel = program.getChannel(plan->groupMesh, plan->axes, hostir::Capability::Collectives);
  Value root = plan->owner;
  // If the root is outside the mesh, a device of the mesh is its proxy.
  int64_t proxyRoot = -1;
  if (plan->root != -1) {
    proxyRoot = plan->root;
    if (plan->groupMesh.position(plan->root) == -1)
      proxyRoot = plan->groupMesh.worldRank(0);
    root = program.getIndex(plan->groupPosition(proxyRoot));
  }
  Value proxyBuffer;
  if (proxyRoot != plan->root)
    proxyBuffer = hostir::allocLike(builder, loc, target, stream);
  bool proxySends = proxyBuffer && plan->kind == fusion::ReshardKind::Broadcast;
  if (proxySends)
    emitMessage(program, loc, plan->root, source, proxyRoot, proxyBuffer, stream);
  bool isOrdered = program.isDeterministic() && reduction && plan->reduction == ReduceKind::Sum &&
                   isa<FloatType>(op.getType().getElementType());
  program.onMesh(loc, plan->groupMesh, [&] {
    if (isOrdered)
      return emitOrderedReduction(program, loc, *plan, *kind, source,
                                  proxyBuffer ? proxyBuffer : target, root, channel, stream);
    hostir::CollectiveOp::create(builder, loc, kindAttr, proxySends ? proxyBuffer : source,
                                 proxyBuffer && !proxySends ? proxyBuffer : target, root, channel,
                                 stream, reduction);
  });
  if (proxyBuffer && !proxySends)
    emitMessage(program, loc, proxyRoot, proxyBuffer, plan->root, target, stream);
  return success();
}

void tandem::attachReshardLowering(MLIRContext &context) {
  attachLowering<fusion::ReshardOp, ReshardLowering>(context);
}
