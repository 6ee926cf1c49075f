//===- Gated.cpp - one-sided puts, one matmul whose kernel waits for them -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Schedule.h"

#include "Support/GatherLoop.h"
#include "Support/OneSided.h"
#include "Support/Peers.h"
#include "Support/SliceFactors.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "tandem/Program/Gated.h"

#include <utility>

using namespace mlir;
using namespace tandem;

/// SMs that the kernel leaves to others: a signal needs one, and clusters of thread blocks take two
/// at a time. Also those of a kernel that pushes.
static constexpr int64_t kReservedSms = 2;

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

/// The dimensions before the last one as one, if memory allows it.
static FailureOr<Value> collapseRows(OpBuilder &builder, Location loc, Value matrices) {
  auto type = cast<MemRefType>(matrices.getType());
  SmallVector<ReassociationIndices> groups(2);
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    groups[dim + 1 < type.getRank() ? 0 : 1].push_back(dim);
  if (!memref::CollapseShapeOp::isGuaranteedCollapsible(type, groups))
    return failure();
  return memref::CollapseShapeOp::create(builder, loc, matrices, groups).getResult();
}

/// Emits a product of matrices of rows with one matrix as products of two matrices.
static void multiplyMatrices(ProgramBuilder &program, hostir::MatmulOp like, Value lhs,
                             Value output) {
  OpBuilder &builder = program.getBuilder();
  Location loc = like.getLoc();
  if (cast<MemRefType>(lhs.getType()).getRank() > 2) {
    FailureOr<Value> rows = collapseRows(builder, loc, lhs);
    FailureOr<Value> results = failed(rows) ? rows : collapseRows(builder, loc, output);
    if (failed(results)) {
      (void)program.loop(loc, 0, cast<MemRefType>(lhs.getType()).getDimSize(0), [&](Value index) {
        OpFoldResult number = index;
        Value matrix = hostir::buildElementView(builder, loc, lhs, number);
        multiplyMatrices(program, like, matrix,
                         hostir::buildElementView(builder, loc, output, number));
        return success();
      });
      return;
    }
    lhs = *rows;
    output = *results;
  }
  hostir::MatmulOp::create(builder, loc, lhs, like.getRhs(), /*bias=*/Value(), output,
                           like.getStream(), /*transpose_a=*/false, like.getTransposeB(),
                           like.getAccumulate());
}

/// Takes from the parts of a gated matmul what they may not have: a bias, and further dimensions.
static void simplifyParts(ProgramBuilder &program, hostir::GatedMatmulOp gated) {
  SmallVector<hostir::MatmulOp> parts;
  gated.getBody().walk([&](hostir::MatmulOp part) { parts.push_back(part); });
  OpBuilder &builder = program.getBuilder();
  for (hostir::MatmulOp part : parts) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(part);
    multiplyMatrices(program, part, part.getLhs(), part.getOutput());
    part.erase();
  }
}

/// Adds a row to all rows of `target`.
static void addRow(OpBuilder &builder, Location loc, Value row, Value target, Value stream) {
  auto type = cast<MemRefType>(target.getType());
  SmallVector<int64_t> rowStrides, strides(type.getRank(), 0);
  int64_t offset = 0;
  (void)cast<MemRefType>(row.getType()).getStridesAndOffset(rowStrides, offset);
  strides.back() = rowStrides.back();
  auto layout = StridedLayoutAttr::get(builder.getContext(), offset, strides);
  auto repeated = MemRefType::get(type.getShape(), type.getElementType(), layout);
  Value rows = memref::ReinterpretCastOp::create(builder, loc, repeated, row, offset,
                                                 type.getShape(), strides);
  hostir::AccumulateOp::create(builder, loc, ReduceKind::Sum, rows, target, stream);
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

namespace {

/// The ops of a loop that compute: matmuls of gathered rows, each of which is one gated matmul, and
/// the others, which run whole after them.
struct GatedOps {
  explicit GatedOps(const GatherLoop &gather);

  SmallVector<fusion::MatmulOp> gated;
  SmallVector<Operation *> later;
};

/// Own rows go to the peers. Each matmul reads own rows first, then those of the others as they
/// arrive in the receive memory. If a kernel cannot read own rows where they lie, they are copied
/// into the receive memory, which thus becomes the whole left operand.
class GatedGather {
public:
  /// `blocks`: of the kernel that pushes; none: copy engines do.
  GatedGather(const GatherLoop &gather, ProgramBuilder &program, std::optional<int64_t> blocks)
      : gather(gather), blocks(blocks), ops(gather), reshard(gather.gathers.front()),
        body(gather.loop, program, /*sharesSums=*/false), program(program),
        builder(program.getBuilder()), loc(gather.getLoc()),
        peers(program, loc, gather.plan.mesh, gather.plan.axes),
        puts(peers, gather.plan.mesh, gather.plan.axes) {}

  LogicalResult emit();

private:
  LogicalResult forEachSlice(Value owner, bool isOwn, TransferFn emit) {
    return gather.digits.forEachSlice(body, loc, owner, /*isFirst=*/isOwn, {}, onMain, emit);
  }
  LogicalResult pushOwn();
  LogicalResult copyOwn();
  bool canReadOwn();
  LogicalResult prepare();
  LogicalResult multiply(fusion::MatmulOp matmul);
  LogicalResult multiplyRows(fusion::MatmulOp matmul);
  LogicalResult copyToResult();

  const GatherLoop &gather;
  const std::optional<int64_t> blocks;
  const GatedOps ops;
  fusion::ReshardOp reshard;
  LoopEmitter body;
  ProgramBuilder &program;
  OpBuilder &builder;
  Location loc;
  Peers peers;
  OneSided puts;
  Value received;         ///< all rows; peers write here
  bool isInPlace = false; ///< matmuls read own rows in the operand of the gather
};

} // namespace

//===----------------------------------------------------------------------===//
// What is gated
//===----------------------------------------------------------------------===//

/// Whether the loop's digits cut a value into blocks of rows, which are vectors of its last
/// dimension.
static bool isCutByRows(RankedTensorType type, const StreamLoop &loop) {
  if (type.getRank() < 2)
    return false;
  size_t streams = 0;
  for (fusion::DimAxesAttr dim : fusion::getAxes(type).getDims().drop_back())
    streams += llvm::count_if(dim.getDigits(),
                              [](const fusion::Digit &digit) { return digit.isStream(); });
  return streams == loop.streamSizes.size();
}

/// Whether a slice has one row of each of several matrices. Memory then allows to see them as one
/// matrix, whose rows are not neighbours in the whole one.
static bool hasRowsApart(RankedTensorType type) {
  FailureOr<SmallVector<SmallVector<fusion::ResolvedDigit>>> dims = fusion::resolveDims(type);
  if (failed(dims))
    return false;
  int64_t matrices = 1, rows = 1, fewestRows = 1;
  for (auto [extent, digits] : llvm::zip(type.getShape().drop_back(), *dims)) {
    if (extent == 1)
      continue;
    matrices *= rows;
    rows = fewestRows = 1;
    for (const fusion::ResolvedDigit &digit : digits) {
      bool isRagged = digit.ragged > 0;
      int64_t most = isRagged                                  ? digit.stride
                     : digit.kind == fusion::DigitKind::Serial ? digit.size
                                                               : 1;
      rows *= most;
      fewestRows *= isRagged ? digit.ragged - digit.stride * (digit.size - 1) : most;
    }
  }
  return matrices > 1 && fewestRows == 1;
}

/// Whether the rows of a device are one block of the gathered rows, which begins and ends at tiles
/// of kernels. Products without kernels are computed part by part, and have no tiles.
static bool isOneBlock(RankedTensorType input, const fusion::SliceReshard &plan) {
  FailureOr<SmallVector<SmallVector<fusion::ResolvedDigit>>> dims = fusion::resolveDims(input);
  if (failed(dims))
    return false;
  int64_t rows = 1; // of a device, in the dimensions and digits so far
  for (const SmallVector<fusion::ResolvedDigit> &digits : ArrayRef(*dims).drop_back())
    for (const fusion::ResolvedDigit &digit : digits) {
      if (digit.ragged)
        return false;
      if (digit.kind != fusion::DigitKind::Device)
        rows *= digit.size;
      else if (rows > 1 && llvm::is_contained(plan.axes, digit.axis))
        return false;
    }
  Type type = input.getElementType();
  return rows % program::kOwnRowsUnit == 0 || !(type.isF16() || type.isBF16());
}

/// Whether memory has rows of neighbouring elements, at equal distances that kernels can load.
static bool hasContiguousRows(MemRefType type) {
  if (!hostir::isArrayOfRows(type, 1))
    return false;
  // Kernels load rows in units of 16 bytes.
  if (!type.getElementType().isF16() && !type.getElementType().isBF16())
    return true;
  auto [strides, offset] = type.getStridesAndOffset();
  return strides.back() == 1 && strides[strides.size() - 2] % 8 == 0 &&
         !ShapedType::isDynamic(offset) && offset % 8 == 0;
}

/// What keeps a matmul of the loop from being a gated one; empty: nothing.
static std::string findObstacle(fusion::MatmulOp matmul, const GatherLoop &gather) {
  const StreamLoop &loop = gather.loop;
  fusion::ReshardOp reshard = gather.gathers.front();
  if (matmul.getLhs() != reshard.getResult() || matmul.getTransposeA() ||
      loop.contains(matmul.getRhs().getDefiningOp()) || matmul.getBias() == reshard.getResult() ||
      (matmul.getBias() && loop.contains(matmul.getBias().getDefiningOp())))
    return "matmuls with the gathered rows as rows of their left operand, found another operand";
  if (cast<RankedTensorType>(matmul.getRhs().getType()).getRank() != 2)
    return "matmuls by one matrix, found a right operand of another rank";
  if (!isCutByRows(matmul.getType(), loop) || loop.accumulators.contains(matmul) ||
      loop.digitMaps.contains(matmul))
    return "matmuls whose results are cut into the same blocks of rows, found " +
           fusion::formatAxes(fusion::getAxes(matmul.getType()));
  return "";
}

GatedOps::GatedOps(const GatherLoop &gather) {
  for (Operation *op : gather.consumers) {
    auto matmul = dyn_cast<fusion::MatmulOp>(op);
    if (matmul && findObstacle(matmul, gather).empty())
      gated.push_back(matmul);
    else
      later.push_back(op);
  }
}

/// What keeps a loop from having gated matmuls; empty: nothing.
static std::string findObstacle(const GatherLoop &gather) {
  if (gather.gathers.size() != 1)
    return "one gather, found " + std::to_string(gather.gathers.size());
  if (gather.isPersonalized)
    return "a gather, found an all-to-all";
  fusion::ReshardOp reshard = gather.gathers.front();
  if (!isCutByRows(reshard.getType(), gather.loop))
    return "a gather of blocks of rows, found the slices " +
           fusion::formatAxes(fusion::getAxes(reshard.getType()));
  if (hasRowsApart(reshard.getType()))
    return "slices with more than one row of each matrix, found " +
           fusion::formatAxes(fusion::getAxes(reshard.getType()));
  if (!GatedOps(gather).gated.empty())
    return "";
  for (Operation *op : gather.consumers)
    if (auto matmul = dyn_cast<fusion::MatmulOp>(op))
      return findObstacle(matmul, gather);
  return "a matmul of the gathered rows, found none";
}

//===----------------------------------------------------------------------===//
// The commands of a gather
//===----------------------------------------------------------------------===//

LogicalResult GatedGather::pushOwn() {
  Value copies = program.getWorker(loc, 0);
  if (!blocks || peers.devices == 1)
    return puts.putSlices(body, gather, received, [&](Value) { return copies; });
  return puts.pushSlices(body, gather, received, *blocks, copies);
}

/// Into the receive memory.
LogicalResult GatedGather::copyOwn() {
  return forEachSlice(peers.me, /*isOwn=*/true, [&](Value, const SliceIndex &slice, Value) {
    FailureOr<ReshardPlan> plan = planReshardFor(reshard, slice, peers.me, builder);
    if (failed(plan))
      return failure();
    Value source = program.getBuffer(reshard.getInput());
    hostir::CopyOp::create(builder, loc, makeView(builder, loc, source, plan->source, true),
                           makeView(builder, loc, received, plan->target, true),
                           program.getMainStream());
    return success();
  });
}

/// Whether the matmuls may read own rows where they lie: as one block of whole tiles.
bool GatedGather::canReadOwn() {
  return isOneBlock(reshard.getInput().getType(), gather.plan) &&
         hasContiguousRows(cast<MemRefType>(program.getBuffer(reshard.getInput()).getType())) &&
         llvm::all_of(ops.gated, [&](fusion::MatmulOp op) { return gather.mayReadOwn(op); });
}

/// All results are whole: there is no slice of them that something waits for.
LogicalResult GatedGather::prepare() {
  received = gather.allocReceived(program).front();
  isInPlace = canReadOwn();
  return failure(
      llvm::any_of(gather.loop.ops, [&](Operation *op) { return failed(body.prepare(op)); }));
}

LogicalResult GatedGather::multiply(fusion::MatmulOp matmul) {
  Value main = program.getMainStream();
  int64_t left = std::max(kReservedSms, blocks.value_or(0));
  auto gated = hostir::GatedMatmulOp::create(builder, loc, main, builder.getI64IntegerAttr(left));
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.createBlock(&gated.getBody());
    if (failed(multiplyRows(matmul)))
      return failure();
    simplifyParts(program, gated);
  }
  if (Value bias = matmul.getBias())
    addRow(builder, matmul.getLoc(), program.getBuffer(bias), program.getBuffer(matmul.getResult()),
           main);
  return success();
}

LogicalResult GatedGather::multiplyRows(fusion::MatmulOp matmul) {
  Value main = program.getMainStream();
  auto multiplySlice = [&](const SliceIndex &slice, bool isOwn) {
    FailureOr<ReshardPlan> plan =
        planReshardFor(reshard, slice, isOwn ? peers.me : Value(), builder);
    if (failed(plan))
      return failure();
    if (isOwn && isInPlace)
      body.readFrom(reshard.getResult(), {program.getBuffer(reshard.getInput()), plan->source});
    else
      body.readFrom(reshard.getResult(), {received, plan->target});
    LogicalResult done = body.emitSlices(matmul.getOperation(), slice, main, /*isStreamUsed=*/true);
    body.clearPlaces();
    return done;
  };
  if (failed(forEachSlice(peers.me, /*isOwn=*/true, [&](Value, const SliceIndex &slice, Value) {
        return multiplySlice(slice, /*isOwn=*/true);
      })))
    return failure();
  return program.loop(loc, 1, peers.devices, [&](Value distance) {
    Value from = peers.getSource(distance);
    return forEachSlice(from, /*isOwn=*/false, [&](Value number, const SliceIndex &slice, Value) {
      puts.waitFor(from, number, main);
      return multiplySlice(slice, /*isOwn=*/false);
    });
  });
}

/// Of a gathered value that the program returns.
LogicalResult GatedGather::copyToResult() {
  Value result = program.getBuffer(reshard.getResult());
  if (result == received)
    return success();
  if (failed(forEachSlice(peers.me, /*isOwn=*/true, [&](Value, const SliceIndex &slice, Value) {
        return gather.copyOwn(body, peers.me, slice, program.getMainStream());
      })))
    return failure();
  return program.loop(loc, 1, peers.devices, [&](Value distance) {
    return forEachSlice(
        peers.getSource(distance), /*isOwn=*/false, [&](Value, const SliceIndex &slice, Value) {
          return gather.copyReceived(body, received, slice, program.getMainStream());
        });
  });
}

LogicalResult GatedGather::emit() {
  if (failed(prepare()))
    return failure();
  program.fork(loc, 1);
  LogicalResult done = program.onMesh(loc, gather.plan.mesh, [&] {
    if (failed(pushOwn()) || (!isInPlace && failed(copyOwn())) ||
        llvm::any_of(ops.gated, [&](fusion::MatmulOp op) { return failed(multiply(op)); }))
      return failure();
    return copyToResult();
  });
  // Before the join: a launch right after the matmul may run in its kernel.
  bool hasOwn = !isInPlace || program.getBuffer(reshard.getResult()) != received;
  auto completeRows = [&] {
    if (!std::exchange(hasOwn, true) && succeeded(done))
      done = program.onMesh(loc, gather.plan.mesh, [&] { return copyOwn(); });
  };
  for (Operation *op : ops.later) {
    if (llvm::is_contained(op->getOperands(), reshard.getResult()))
      completeRows();
    if (succeeded(done))
      done = body.emitSlice(op, nullptr, program.getMainStream());
  }
  // Others read all rows after the loop.
  if (llvm::any_of(reshard.getResult().getUsers(),
                   [&](Operation *user) { return !llvm::is_contained(gather.consumers, user); }))
    completeRows();
  program.join(loc, 1);
  return done;
}

//===----------------------------------------------------------------------===//
// The schedule
//===----------------------------------------------------------------------===//

namespace {

/// For gathers of rows that matmuls read: each of these is one kernel that waits for the rows
/// (docs/gated.md). What else the loop computes runs after them.
class Gated : public Schedule {
  fusion::ScheduleInfo getInfo() const override { return withPushOptions({"gated", {}}); }
  Explained<SchedulePlan> match(const StreamLoop &loop) const override;
  void getCandidates(const StreamLoop &loop, SmallVectorImpl<Candidate> &candidates) const override;
};

} // namespace

Explained<SchedulePlan> Gated::match(const StreamLoop &loop) const {
  if (std::optional<SchedulePlan> plan = planIfNothingMoves(loop))
    return *plan;
  Explained<GatherLoop> gather = GatherLoop::match(loop);
  if (failed(gather))
    return gather.explanation();
  if (std::string obstacle = findObstacle(*gather); !obstacle.empty())
    return loop.explain() << "schedule gated: expected " << obstacle;
  Explained<std::optional<int64_t>> blocks = getPushBlocks(loop, *gather);
  if (failed(blocks))
    return blocks.explanation();
  SchedulePlan plan{[gather = *gather, blocks = *blocks](ProgramBuilder &program) {
                      return GatedGather(gather, program, blocks).emit();
                    },
                    usesOfPush(*blocks).add(Capability::GatedMatmul)};
  plan.addsBiasSeparately = llvm::any_of(
      GatedOps(*gather).gated, [](fusion::MatmulOp matmul) { return bool(matmul.getBias()); });
  return plan;
}

void Gated::getCandidates(const StreamLoop &loop, SmallVectorImpl<Candidate> &candidates) const {
  // A machine without gated kernels has no price for it.
  for (StringRef options : {"", "by = sms"}) {
    fusion::ScheduleAttr schedule = getAttr(loop.op->getContext(), options);
    if (!loop.streamSizes.empty())
      candidates.push_back({schedule});
    addSliced(loop, schedule, getOwnerFactor, candidates);
  }
}

std::unique_ptr<Schedule> tandem::createGatedSchedule() { return std::make_unique<Gated>(); }
