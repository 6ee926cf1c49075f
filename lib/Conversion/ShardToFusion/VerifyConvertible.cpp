//===- VerifyConvertible.cpp - ops that have a counterpart in fusion -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Constants.h"
#include "Layouts.h"
#include "StructuredOp.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/LinalgInterfaces.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Support/ElementTypes.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::shardfusion;

static std::optional<ReduceKind> convertKind(shard::ReductionKind kind) {
  switch (kind) {
  case shard::ReductionKind::Sum:
    return ReduceKind::Sum;
  case shard::ReductionKind::Max:
    return ReduceKind::Max;
  case shard::ReductionKind::Min:
    return ReduceKind::Min;
  default:
    return std::nullopt;
  }
}

/// The placement of what a collective reduces; none if fusion has no such reduction.
static std::optional<Placement> getReduced(shard::ReductionKind kind) {
  std::optional<ReduceKind> known = convertKind(kind);
  return known ? std::optional(Placement::partial(*known)) : std::nullopt;
}

static Placement splitAt(const APInt &dim) {
  return Placement::split(static_cast<int64_t>(dim.getZExtValue()));
}

std::optional<Collective> shardfusion::getCollective(Operation *op) {
  using Found = std::optional<Collective>;
  auto all = Placement::replicated();
  auto make = [](auto op, Placement from, Placement to) -> Found {
    return Collective{op.getInput(), GridAxes(op.getGridAxes()), from, to};
  };
  return TypeSwitch<Operation *, Found>(op)
      .Case([&](shard::AllGatherOp op) { return make(op, splitAt(op.getGatherAxis()), all); })
      .Case([&](shard::AllSliceOp op) { return make(op, all, splitAt(op.getSliceAxis())); })
      .Case([&](shard::AllToAllOp op) {
        return make(op, splitAt(op.getConcatAxis()), splitAt(op.getSplitAxis()));
      })
      .Case([&](shard::AllReduceOp op) -> Found {
        auto from = getReduced(op.getReduction());
        return from ? make(op, *from, all) : Found();
      })
      .Case([&](shard::ReduceScatterOp op) -> Found {
        auto from = getReduced(op.getReduction());
        return from ? make(op, *from, splitAt(op.getScatterAxis())) : Found();
      })
      .Default([](Operation *) { return Found(); });
}

/// Reductions and types of a collective.
static LogicalResult verifyCollective(Operation *op) {
  if (!getCollective(op))
    return op->emitOpError() << "expected the reduction sum, max or min, found "
                             << op->getAttr("reduction");
  auto exchange = dyn_cast<shard::AllToAllOp>(op);
  if (exchange && exchange.getSplitAxis() == exchange.getConcatAxis())
    return op->emitOpError() << "expected different split and concat axes, found "
                             << exchange.getSplitAxis().getZExtValue()
                             << " for both (that permutes the blocks of the logical tensor)";
  Type from = getElementTypeOrSelf(op->getOperand(0)), to = getElementTypeOrSelf(op->getResult(0));
  if (from != to)
    return op->emitOpError() << "expected a result of the operand's element type " << from
                             << ", found " << to << " (convert the operand before)";
  return success();
}

static LogicalResult verifyTensor(Operation *op, Value value) {
  auto type = dyn_cast<TensorType>(value.getType());
  if (!type)
    return success();
  if (!type.hasRank())
    return op->emitOpError() << "expected tensors with a rank, found " << type;
  if (!isElementType(type.getElementType()))
    return op->emitOpError() << "expected elements of " << kElementTypes << ", found " << type;
  if (type.getRank() > PlacementSet::kMaxRank)
    return op->emitOpError() << "expected a rank of up to " << PlacementSet::kMaxRank << ", found "
                             << type;
  return success();
}

static LogicalResult verifyElementwise(Operation *op) {
  if (!isa<fusion::FusionTensorOpInterface>(op))
    return op->emitOpError() << "expected an elementwise op that kernels compute";
  for (Type type : op->getOperandTypes())
    if (!isa<RankedTensorType>(type))
      return op->emitOpError() << "expected tensors, found an operand of type " << type;
  return success();
}

static LogicalResult verifyStructured(linalg::LinalgOp op) {
  if (op->getNumResults() == 1 && getSplat(op->getResult(0)))
    return success();
  FailureOr<StructuredOp> s = readStructuredOp(op);
  if (failed(s))
    return failure();
  for (OpOperand &operand : op->getOpOperands()) {
    std::optional<Splat> splat = getSplat(operand.get());
    if (s->readsTensor(operand.getOperandNumber()) && splat && !splat->number)
      return op->emitOpError() << "reads tensor.empty, which has no values, as operand "
                               << operand.getOperandNumber() << "; expected linalg.fill before";
  }
  return success();
}

/// The init of partial sums, as shard-partition writes it.
static LogicalResult verifyChoice(Operation *op) {
  std::optional<LeadInit> lead = getLeadInit(op);
  if (!lead)
    return op->emitOpError()
           << "expected the initial value of partial results: one value on the first device of a "
              "grid axis, a constant on the others (control flow has no counterpart in a fusion)";
  if (!getSplat(op->getResult(0)) && !lead->others.isNeutral(ReduceKind::Sum)) {
    InFlightDiagnostic diag = op->emitOpError()
                              << "expected 0 on all devices but the first of grid axis ";
    llvm::interleaveComma(lead->axes, diag);
    return diag;
  }
  return success();
}

LogicalResult shardfusion::verifyConvertible(Operation *op, shard::GridOp grid) {
  for (Value value : llvm::concat<Value>(SmallVector<Value>(op->getOperands()),
                                         SmallVector<Value>(op->getResults())))
    if (failed(verifyTensor(op, value)))
      return failure();
  if (auto used = op->getAttrOfType<FlatSymbolRefAttr>("grid"))
    if (used.getAttr() != grid.getSymNameAttr())
      return op->emitOpError() << "expected one grid per function, found " << used << " after @"
                               << grid.getSymName();
  if (isa<shard::ShardOp>(op))
    return op->emitOpError() << "expected a partitioned function: run --sharding-propagation and "
                                "--shard-partition first";
  if (isa<shard::AllGatherOp, shard::AllSliceOp, shard::AllToAllOp, shard::AllReduceOp,
          shard::ReduceScatterOp>(op))
    return verifyCollective(op);
  if (isa<scf::IfOp>(op))
    return verifyChoice(op);
  if (auto structured = dyn_cast<linalg::LinalgOp>(op))
    return verifyStructured(structured);
  if (isa<arith::ConstantOp>(op)) {
    if (isa<RankedTensorType>(op->getResult(0).getType()) && !getSplat(op->getResult(0)))
      return op->emitOpError() << "expected a constant with one value for all elements (pass "
                                  "others as an argument of the function)";
    return success();
  }
  if (auto convert = dyn_cast<tensor::CastOp>(op)) {
    if (convert.getSource().getType() != convert.getType())
      return op->emitOpError() << "expected a cast to the same type, found "
                               << convert.getSource().getType() << " to " << convert.getType();
    return success();
  }
  // The sizes of `tensor.empty`; a kernel that computes with them is refused where it uses them.
  if (isa<func::ReturnOp, tensor::DimOp, tensor::EmptyOp, tensor::SplatOp, tensor::ExpandShapeOp,
          tensor::CollapseShapeOp, shard::ShardingOp, shard::GridShapeOp, shard::ShardShapeOp,
          shard::ProcessMultiIndexOp, shard::ProcessLinearIndexOp, affine::AffineApplyOp>(op))
    return success();
  bool onTensors = llvm::any_of(op->getResultTypes(), llvm::IsaPred<RankedTensorType>);
  if (OpTrait::hasElementwiseMappableTraits(op))
    return onTensors ? verifyElementwise(op) : success();
  return op->emitOpError() << "has no counterpart in a fusion; expected shard.all_gather, "
                              "reduce_scatter, all_reduce, all_to_all or all_slice, linalg on "
                              "tensors, or elementwise arith and math";
}
