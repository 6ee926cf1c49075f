//===- SpecializeExtents.cpp - `?` extents become numbers -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SpecializeExtents.h"

#include "Retype.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/ReshapeShapes.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

static constexpr StringLiteral kFromOperands = "its operands";

std::string fusion::describe(BlockArgument argument) {
  unsigned number = argument.getArgNumber();
  std::string text = "argument " + std::to_string(number);
  auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
  if (auto name = function ? function.getArgAttrOfType<StringAttr>(number, kNameAttrName) : nullptr)
    text += (" (\"" + name.getValue() + "\")").str();
  return text;
}

InFlightDiagnostic fusion::emitErrorAt(Value value) {
  InFlightDiagnostic diag = emitError(value.getLoc());
  if (auto argument = dyn_cast<BlockArgument>(value))
    diag << describe(argument) << ": ";
  return diag;
}

LogicalResult fusion::verifyAxes(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  AxesAttr axes = getAxes(value);
  if (!axes)
    return success();
  return axes.verifyEncoding(type.getShape(), type.getElementType(),
                             [&] { return emitErrorAt(value); });
}

static RankedTensorType getTensorType(Value value) {
  return dyn_cast<RankedTensorType>(value.getType());
}

static SmallVector<int64_t> allDims(Value value) {
  return llvm::to_vector(llvm::seq<int64_t>(0, getTensorType(value).getRank()));
}

Extents::Extents(func::FuncOp function) : function(function) {
  function.walk([&](BroadcastOp op) {
    SmallVector<Stretch> &dims = stretches[op];
    for (auto [extent, dim] : llvm::zip_equal(op.getInput().getType().getShape(), op.getDims())) {
      bool open = !op.getType().isDynamicDim(dim);
      dims.push_back(open ? Stretch::Open : extent == 1 ? Stretch::Repeated : Stretch::Same);
    }
  });
}

Extents::Dim Extents::getOrigin(Dim dim) const {
  auto it = origins.find(dim);
  return it == origins.end() ? dim : it->second;
}

LogicalResult Extents::refine(Value value, ArrayRef<int64_t> shape, const Twine &source) {
  return refine(value, shape, source, {}, {});
}

/// Adds a note about the source of an extent, if it is another value.
static void noteSource(InFlightDiagnostic &diag, Value value, Value source, int64_t extent) {
  if (!source || source == value)
    return;
  Diagnostic &note = diag.attachNote(source.getLoc());
  note << "extent " << extent << " is that of ";
  if (auto argument = dyn_cast<BlockArgument>(source))
    note << describe(argument);
  else
    note << "the result of '" << source.getDefiningOp()->getName() << "'";
}

LogicalResult Extents::refine(Value value, ArrayRef<int64_t> shape, const Twine &source, Value from,
                              ArrayRef<int64_t> dims) {
  RankedTensorType type = getTensorType(value);
  if (static_cast<int64_t>(shape.size()) != type.getRank())
    return emitErrorAt(value) << "expected a shape of rank " << type.getRank() << " from " << source
                              << ", found rank " << shape.size();
  SmallVector<int64_t> refined(type.getShape());
  bool changed = false;
  for (auto [dim, extent] : llvm::enumerate(shape)) {
    int64_t &mine = refined[dim];
    if (ShapedType::isDynamic(extent) || mine == extent)
      continue;
    Dim here(value, dim);
    Dim there = from ? getOrigin({from, dims[dim]}) : here;
    if (!ShapedType::isDynamic(mine)) {
      InFlightDiagnostic diag = emitErrorAt(value);
      diag << "expected extent " << mine << " in dimension " << dim << " of "
           << Type(withAxes(type, {})) << ", found " << extent << " from " << source;
      noteSource(diag, value, getOrigin(here).first, mine);
      noteSource(diag, value, there.first, extent);
      return diag;
    }
    mine = extent;
    changed = true;
    ++numFilled;
    if (from)
      origins[here] = there;
  }
  if (!changed)
    return success();
  retype(value, RankedTensorType::get(refined, type.getElementType(), type.getEncoding()));
  if (Operation *op = value.getDefiningOp())
    push(op);
  for (Operation *user : value.getUsers())
    push(user);
  return verifyAxes(value);
}

void Extents::push(Operation *op) {
  if (queued.insert(op).second)
    worklist.push_back(op);
}

LogicalResult Extents::flow(Value from, Value to, ArrayRef<int64_t> dims, const Twine &source) {
  RankedTensorType type = getTensorType(from);
  SmallVector<int64_t> shape;
  for (int64_t dim : dims)
    shape.push_back(dim < 0 ? ShapedType::kDynamic : type.getDimSize(dim));
  return refine(to, shape, source, from, dims);
}

LogicalResult Extents::tie(Value operand, Value result, ArrayRef<int64_t> dims) {
  SmallVector<int64_t> inverse(getTensorType(operand).getRank(), -1);
  for (auto [i, dim] : llvm::enumerate(dims))
    if (dim >= 0)
      inverse[dim] = i;
  if (failed(flow(operand, result, dims, kFromOperands)))
    return failure();
  return flow(result, operand, inverse,
              "the result of '" + result.getDefiningOp()->getName().getStringRef() + "'");
}

LogicalResult Extents::visitResults(FusionTensorOpInterface op) {
  SmallVector<SmallVector<int64_t>> inferred;
  if (failed(op.inferResultShapes(inferred)))
    return failure();
  for (auto [result, shape] : llvm::zip_equal(op->getResults(), inferred))
    if (failed(refine(result, shape, kFromOperands)))
      return failure();
  return success();
}

/// By the op's rule: all dimensions of a parallel factor have one extent.
LogicalResult Extents::visitLocal(Operation *op) {
  AxesRule rule = *getAxesRule(op);
  auto forEach = [&](function_ref<LogicalResult(Value, Value, ArrayRef<int64_t>)> visit) {
    for (auto [result, factors] : llvm::zip_equal(op->getResults(), rule.results))
      for (auto [operand, known] : llvm::zip_equal(op->getOperands(), rule.operands)) {
        SmallVector<int64_t> dims =
            llvm::map_to_vector(factors, [&, known = ArrayRef(known)](int64_t factor) -> int64_t {
              const int64_t *it = llvm::find(known, factor);
              bool isSame = factor != AxesRule::kNone && it != known.end() &&
                            rule.factors[factor] == FactorKind::Parallel;
              return isSame ? it - known.begin() : -1;
            });
        if (getTensorType(operand) && failed(visit(operand, result, dims)))
          return failure();
      }
    return success();
  };
  auto tensorOp = dyn_cast<FusionTensorOpInterface>(op);
  // Extents inferred from one operand are reported with their source.
  if (failed(forEach([&](Value operand, Value result, ArrayRef<int64_t> dims) {
        return flow(operand, result, dims, kFromOperands);
      })) ||
      (tensorOp && !isElementwise(op) && failed(visitResults(tensorOp))))
    return failure();
  return forEach([&](Value operand, Value result, ArrayRef<int64_t> dims) {
    return tie(operand, result, dims);
  });
}

LogicalResult Extents::visitBroadcast(BroadcastOp op) {
  SmallVector<int64_t> dims(op.getType().getRank(), -1);
  for (auto [i, dim] : llvm::enumerate(op.getDims()))
    if (stretches[op][i] == Stretch::Same)
      dims[dim] = i;
  return tie(op.getInput(), op.getResult(), dims);
}

LogicalResult Extents::settleRepeated(BroadcastOp op) {
  SmallVector<int64_t> shape(op.getType().getRank(), ShapedType::kDynamic);
  for (auto [i, dim] : llvm::enumerate(op.getDims()))
    if (stretches[op][i] == Stretch::Repeated && op.getType().isDynamicDim(dim))
      shape[dim] = 1;
  return refine(op.getResult(), shape, kFromOperands);
}

LogicalResult Extents::visitReshape(ReshapeOp op) {
  if (failed(visitResults(op)))
    return failure();
  std::string reason;
  FailureOr<SmallVector<int64_t>> shape =
      inferReshapedShape(op.getType().getShape(), op.getInput().getType().getShape(), reason);
  if (failed(shape))
    return op.emitOpError() << reason;
  return refine(op.getInput(), *shape, "the result of 'fusion.reshape'");
}

/// Applies the signature's results; reports contradictions at the return.
LogicalResult Extents::visitReturn(func::ReturnOp op) {
  if (op->getParentOp() != function)
    return success();
  for (auto [operand, type] : llvm::zip_equal(op.getOperands(), function.getResultTypes())) {
    auto promised = dyn_cast<RankedTensorType>(type);
    RankedTensorType found = getTensorType(operand);
    if (promised && found &&
        succeeded(verifyCompatibleShape(promised.getShape(), found.getShape())) &&
        failed(refine(operand, promised.getShape(), "the function's type")))
      return failure();
  }
  return success();
}

LogicalResult Extents::visit(Operation *op) {
  if (auto ret = dyn_cast<func::ReturnOp>(op))
    return visitReturn(ret);
  if (auto reshard = dyn_cast<ReshardOp>(op))
    return tie(reshard.getInput(), reshard.getResult(), allDims(reshard.getInput()));
  if (auto broadcast = dyn_cast<BroadcastOp>(op))
    return visitBroadcast(broadcast);
  if (auto reshape = dyn_cast<ReshapeOp>(op))
    return visitReshape(reshape);
  return isLocalComputation(op) ? visitLocal(op) : success();
}

LogicalResult Extents::drain() {
  while (!worklist.empty()) {
    Operation *op = worklist.front();
    worklist.pop_front();
    queued.erase(op);
    if (failed(visit(op)))
      return failure();
  }
  return success();
}

LogicalResult Extents::propagate() {
  // Program order first, for readable errors.
  worklist.clear();
  queued.clear();
  function.walk<WalkOrder::PreOrder>([&](Operation *op) { push(op); });
  if (failed(drain()))
    return failure();
  WalkResult settled = function.walk([&](BroadcastOp op) {
    return succeeded(settleRepeated(op)) && succeeded(drain()) ? WalkResult::advance()
                                                               : WalkResult::interrupt();
  });
  return failure(settled.wasInterrupted());
}
