//===- FusionSplitSums.cpp - sums that do not depend on the devices -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PassLog.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/Transforms/Passes.h"
#include <numeric>

namespace tandem::fusion {
#define GEN_PASS_DEF_FUSIONSPLITSUMS
#include "tandem/Dialect/Fusion/Transforms/Passes.h.inc"
} // namespace tandem::fusion

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

/// The slices of a dimension over which devices add up. At most so many devices can take part.
static constexpr int64_t kSlices = 8;

namespace {
/// Builds ops on values whose first dimension has the terms of a sum.
class TermBuilder {
public:
  TermBuilder(Operation *op, AxesAttr axes)
      : builder(op), loc(op->getLoc()), whole(DimAxesAttr::get(op->getContext(), {})),
        axes(axes.withPartial({}, ReduceKind::Sum)) {
    builder.setInsertionPointAfter(op);
  }

  RankedTensorType getType(ArrayRef<int64_t> shape, Type element, ArrayRef<DimAxesAttr> dims) {
    return RankedTensorType::get(shape, element, axes.withDims(dims));
  }
  Value reshape(Value value, ArrayRef<int64_t> shape, ArrayRef<DimAxesAttr> dims) {
    RankedTensorType type = getType(shape, getElementTypeOrSelf(value.getType()), dims);
    return type == value.getType() ? value : ReshapeOp::create(builder, loc, type, value);
  }
  /// `value` with dimension `dim` as kSlices slices, which become the first dimension.
  Value slice(Value value, int64_t dim);
  /// Adds up neighbours among the terms until `count` are left.
  Value addNeighbours(Value terms, int64_t count);

  OpBuilder builder;
  Location loc;
  DimAxesAttr whole;
  AxesAttr axes;
};

struct FusionSplitSumsPass : public fusion::impl::FusionSplitSumsBase<FusionSplitSumsPass> {
  using FusionSplitSumsBase::FusionSplitSumsBase;

  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (!isSameOnAllMeshes(func) || func->hasAttr(kReferenceOfAttrName))
      return markAllAnalysesPreserved();
    PassLog logger("fusion-split-sums", log);
    unsigned split = 0;
    SmallVector<ReshardOp> reshards;
    func.walk([&](ReshardOp op) {
      if (getAxes(op.getInput()).isPartial() && isa<FloatType>(op.getType().getElementType()) &&
          getAxes(op.getInput()).getPartialKind() == ReduceKind::Sum)
        reshards.push_back(op);
    });
    for (ReshardOp op : reshards) {
      if (failed(rewrite(op)))
        return signalPassFailure();
      logger(op.getLoc(), [&](raw_ostream &os) { os << "a sum of " << kSlices << " slices"; });
      op.erase();
      ++split;
    }
    for (Block &block : func.getBody())
      for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
        if (isOpTriviallyDead(&op))
          op.erase();
    numSplit += split;
    logger.summary(func.getLoc(), {{"split", split}});
  }

private:
  LogicalResult rewrite(ReshardOp op);
  FailureOr<Value> makeTerms(TermBuilder &build, Operation *op, StringAttr axis);
};
} // namespace

Value TermBuilder::slice(Value value, int64_t dim) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape(type.getShape());
  SmallVector<DimAxesAttr> dims(getAxes(type).getDims());
  shape[dim] /= kSlices;
  shape.insert(shape.begin() + dim, kSlices);
  dims.insert(dims.begin() + dim + 1, whole);
  Value sliced = reshape(value, shape, dims);
  SmallVector<int64_t> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin(), order.begin() + dim, order.begin() + dim + 1);
  std::rotate(shape.begin(), shape.begin() + dim, shape.begin() + dim + 1);
  std::rotate(dims.begin(), dims.begin() + dim, dims.begin() + dim + 1);
  return PermuteOp::create(builder, loc, getType(shape, type.getElementType(), dims), sliced,
                           order);
}

Value TermBuilder::addNeighbours(Value terms, int64_t count) {
  auto type = cast<RankedTensorType>(terms.getType());
  SmallVector<int64_t> shape(type.getShape());
  SmallVector<DimAxesAttr> dims(getAxes(type).getDims());
  while (shape[0] > count) {
    // Dimension 0 keeps what splits it over devices; pairs follow each other.
    shape[0] /= 2;
    shape.insert(shape.begin() + 1, 2);
    dims.insert(dims.begin() + 1, whole);
    Value pairs = reshape(terms, shape, dims);
    shape.erase(shape.begin() + 1);
    dims.erase(dims.begin() + 1);
    terms = ReduceOp::create(builder, loc, getType(shape, type.getElementType(), dims),
                             ReduceKind::Sum, pairs, ArrayRef<int64_t>{1}, false);
  }
  return terms;
}

/// The terms of a sum over the devices of `axis`, a first dimension of kSlices: `op` on slices of
/// what it adds up.
FailureOr<Value> FusionSplitSumsPass::makeTerms(TermBuilder &build, Operation *op,
                                                StringAttr axis) {
  auto fail = [&](const Twine &what) -> FailureOr<Value> {
    return op->emitOpError() << "with fusion.deterministic = \"" << kSameOnAllMeshes
                             << "\", expected " << what;
  };
  /// Whether that dimension of an operand is split over the devices of the axis alone, and evenly.
  auto isSliced = [&](Value value, int64_t dim) {
    ArrayRef<Digit> digits = getAxes(value).getDims()[dim].getDigits();
    int64_t extent = cast<RankedTensorType>(value.getType()).getDimSize(dim);
    return digits.size() == 1 && digits[0] == Digit::device(axis) && extent % kSlices == 0;
  };
  const std::string expected = ("an extent that " + Twine(kSlices) +
                                " divides, split over one mesh axis, where devices add up")
                                   .str();
  build.builder.setInsertionPoint(op);
  if (auto reduce = dyn_cast<ReduceOp>(op)) {
    int64_t dim = getAxes(reduce.getInput()).dimOfDeviceAxis(axis);
    if (dim < 0 || !isSliced(reduce.getInput(), dim))
      return fail(expected);
    Value terms = build.slice(reduce.getInput(), dim);
    auto type = cast<RankedTensorType>(reduce.getType());
    SmallVector<int64_t> shape(type.getShape()), reduced;
    SmallVector<DimAxesAttr> dims(getAxes(type).getDims());
    shape.insert(shape.begin(), kSlices);
    dims.insert(dims.begin(), getAxes(terms).getDims()[0]);
    for (int64_t one : reduce.getDims())
      reduced.push_back(one + 1);
    return ReduceOp::create(build.builder, build.loc,
                            build.getType(shape, type.getElementType(), dims), ReduceKind::Sum,
                            terms, reduced, reduce.getKeepDims())
        .getResult();
  }
  auto matmul = dyn_cast<MatmulOp>(op);
  if (!matmul || matmul.isLhsVector() || matmul.isRhsVector())
    return fail("a matmul of matrices or a reduction where devices add up");
  if (!isSliced(matmul.getLhs(), matmul.lhsK()) || !isSliced(matmul.getRhs(), matmul.rhsK()))
    return fail(expected);
  // Batch dimensions are aligned at their ends, so a first one needs equal ranks.
  auto type = cast<RankedTensorType>(matmul.getType());
  auto makeOperand = [&](Value value, int64_t dim) {
    Value sliced = build.slice(value, dim);
    auto found = cast<RankedTensorType>(sliced.getType());
    SmallVector<int64_t> shape(found.getShape());
    SmallVector<DimAxesAttr> dims(getAxes(found).getDims());
    shape.insert(shape.begin() + 1, type.getRank() + 1 - found.getRank(), 1);
    dims.insert(dims.begin() + 1, type.getRank() + 1 - found.getRank(), build.whole);
    return build.reshape(sliced, shape, dims);
  };
  Value lhs = makeOperand(matmul.getLhs(), matmul.lhsK());
  Value rhs = makeOperand(matmul.getRhs(), matmul.rhsK());
  Type element = type.getElementType();
  if (element.getIntOrFloatBitWidth() < 32)
    element = build.builder.getF32Type();
  SmallVector<int64_t> shape(type.getShape());
  SmallVector<DimAxesAttr> dims(getAxes(type).getDims());
  shape.insert(shape.begin(), kSlices);
  dims.insert(dims.begin(), getAxes(lhs).getDims()[0]);
  return MatmulOp::create(build.builder, build.loc, build.getType(shape, element, dims), lhs, rhs,
                          Value(), matmul.getTransposeA(), matmul.getTransposeB())
      .getResult();
}

LogicalResult FusionSplitSumsPass::rewrite(ReshardOp op) {
  AxesAttr axes = getAxes(op.getInput()), to = getAxes(op.getType());
  Operation *producer = op.getInput().getDefiningOp();
  auto type = cast<RankedTensorType>(op.getType());
  if (!producer || axes.getPartial().size() != 1 || to.isPartial() ||
      to.getMesh() != axes.getMesh())
    return op.emitOpError()
           << "with fusion.deterministic = \"" << kSameOnAllMeshes
           << "\", expected a sum over the devices of one mesh axis that the program "
              "adds up, found "
           << formatAxes(axes);
  StringAttr axis = axes.getPartial()[0];
  int64_t devices = axes.getMesh().axisSize(axis.getValue());
  if (devices > kSlices || kSlices % devices != 0)
    return op.emitOpError() << "with fusion.deterministic = \"" << kSameOnAllMeshes
                            << "\", expected 1, 2, 4 or " << kSlices
                            << " devices that add up, found " << devices;
  TermBuilder build(producer, axes);
  FailureOr<Value> terms = makeTerms(build, producer, axis);
  if (failed(terms))
    return failure();
  build.builder.setInsertionPoint(op);
  // Neighbours on a device, then those of devices, which are brought together as they are.
  Value mine = build.addNeighbours(*terms, devices);
  SmallVector<int64_t> shape(cast<RankedTensorType>(mine.getType()).getShape());
  SmallVector<DimAxesAttr> dims(to.getDims());
  dims.insert(dims.begin(), build.whole);
  Type element = getElementTypeOrSelf(mine.getType());
  Value all = ReshardOp::create(build.builder, op.getLoc(), build.getType(shape, element, dims),
                                mine, op.getScheduleAttr());
  Value sum = build.reshape(build.addNeighbours(all, 1), type.getShape(), to.getDims());
  if (element != type.getElementType())
    sum = arith::TruncFOp::create(build.builder, op.getLoc(), type, sum);
  op.getResult().replaceAllUsesWith(sum);
  return success();
}
