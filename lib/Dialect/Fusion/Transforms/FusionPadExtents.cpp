//===- FusionPadExtents.cpp - fusion-pad-extents -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PaddedFunction.h"
#include "Retype.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "tandem/Dialect/Fusion/Transforms/Passes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

namespace tandem::fusion {
#define GEN_PASS_DEF_FUSIONPADEXTENTS
#include "tandem/Dialect/Fusion/Transforms/Passes.h.inc"
} // namespace tandem::fusion

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

namespace {
/// Pads the dimensions of one function.
class Padder : PaddedFunction {
public:
  Padder(func::FuncOp function, const PassLog &logger)
      : PaddedFunction(function, logger, /*varies=*/false) {}

  LogicalResult run();
  size_t numPadded() const { return groups.size(); } ///< groups of dimensions
  using PaddedFunction::getNumFilled;

private:
  void forEachValue(function_ref<void(Value)> visit);
  /// Dimensions that are padded alike.
  struct Group {
    Value value;         ///< one with such a dimension
    int64_t unit = 1;    ///< the least multiple of what all digits of them need
    int64_t devices = 1; ///< the same of device digits alone
    int64_t extent = 0;  ///< padded
  };
  LogicalResult forEachPadded(function_ref<LogicalResult(Value, int64_t, Group &)> visit);
  LogicalResult require(Value value, int64_t dim, Group &group, bool withLastStream);
  LogicalResult roundUp();
  LogicalResult choose();

  int64_t getPaddedExtent(Value value, int64_t dim) const override;
  bool isPadded(Value value, int64_t dim) const override {
    return getPaddedExtent(value, dim) != typeOf(value).getDimSize(dim);
  }
  Value getMask(MeshAttr mesh, Value value, int64_t dim) override;
  LogicalResult hideKeys(AttentionOp attention) override;
  LogicalResult exclude(OpOperand &operand, ArrayRef<int64_t> dims) override;
  Value append(OpBuilder &builder, Location loc, Value value, RankedTensorType type, int64_t dim);
  void extend(OpResult result, ArrayRef<int64_t> dims);

  llvm::MapVector<Dim, Group> groups; ///< by leader; what is not padded is in none
  DenseMap<std::tuple<Attribute, int64_t, int64_t>, Value> masks;
};
} // namespace

void Padder::forEachValue(function_ref<void(Value)> visit) {
  for (Value argument : function.getArguments())
    if (typeOf(argument))
      visit(argument);
  function.walk([&](Operation *op) {
    for (Value result : op->getResults())
      if (typeOf(result))
        visit(result);
  });
}

//===----------------------------------------------------------------------===//
// Which dimensions are padded alike
//===----------------------------------------------------------------------===//

/// Product of a dimension's digits, without the innermost slices, which may be of any number.
static FailureOr<int64_t> getProduct(DimAxesAttr dim, MeshAttr mesh, bool withLastStream) {
  int64_t product = 1;
  for (const Digit &digit : dim.getDigits()) {
    bool isLastStream = digit.isStream() && &digit == &dim.getDigits().back();
    if (digit.isRest() || (isLastStream && !withLastStream))
      continue;
    if (llvm::MulOverflow(product, getDigitSize(digit, mesh), product))
      return failure();
  }
  return product;
}

LogicalResult Padder::forEachPadded(function_ref<LogicalResult(Value, int64_t, Group &)> visit) {
  LogicalResult done = success();
  forEachValue([&](Value value) {
    for (int64_t dim = 0; getAxes(value) && dim < typeOf(value).getRank(); ++dim)
      if (auto it = groups.find(leaderOf(value, dim)); it != groups.end() && succeeded(done))
        done = visit(value, dim, it->second);
  });
  return done;
}

/// Makes the unit of the group a multiple of what the digits of one of its dimensions need.
LogicalResult Padder::require(Value value, int64_t dim, Group &group, bool withLastStream) {
  AxesAttr axes = getAxes(value);
  FailureOr<int64_t> product = getProduct(axes.getDims()[dim], axes.getMesh(), withLastStream);
  int64_t devices = 1;
  for (const Digit &digit : axes.getDims()[dim].getDigits())
    if (digit.isDevice())
      devices *= getDigitSize(digit, axes.getMesh());
  auto multiply = [](int64_t &unit, int64_t by) {
    return llvm::MulOverflow(unit / std::gcd(unit, by), by, unit);
  };
  if (multiply(group.devices, devices) || failed(product) || multiply(group.unit, *product))
    return emitError(value.getLoc())
           << "expected digits of dimension " << dim << " whose product fits 63 bits";
  return success();
}

/// Pads the group to units; a number of slices that the padded extent does not have then divides
/// the unit.
LogicalResult Padder::roundUp() {
  for (bool changed = true; changed;) {
    changed = false;
    LogicalResult done = forEachPadded([](Value value, int64_t dim, Group &group) -> LogicalResult {
      int64_t extent = typeOf(value).getDimSize(dim), rounded;
      if (llvm::AddOverflow(extent, group.unit - 1, rounded))
        return emitError(value.getLoc())
               << "expected an extent that can be padded to a multiple of " << group.unit
               << ", found " << extent;
      group.extent = rounded / group.unit * group.unit;
      return success();
    });
    if (failed(done) || failed(forEachPadded([&](Value value, int64_t dim, Group &group) {
          AxesAttr axes = getAxes(value);
          if (succeeded(resolveDim(axes.getDims()[dim], group.extent, axes.getMesh())))
            return success();
          int64_t before = group.unit;
          LogicalResult required = require(value, dim, group, /*withLastStream=*/true);
          changed |= group.unit != before;
          return required;
        })))
      return failure();
  }
  return success();
}

LogicalResult Padder::choose() {
  forEachValue([&](Value value) {
    AxesAttr axes = getAxes(value);
    for (int64_t dim = 0; axes && dim < typeOf(value).getRank(); ++dim)
      if (axes.mustBePadded(dim, typeOf(value).getDimSize(dim)))
        groups.try_emplace(leaderOf(value, dim), Group{value});
  });
  if (failed(forEachPadded([&](Value value, int64_t dim, Group &group) {
        return require(value, dim, group, /*withLastStream=*/false);
      })) ||
      failed(roundUp()) ||
      failed(forEachPadded([](Value value, int64_t dim, Group &group) -> LogicalResult {
        int64_t extent = typeOf(value).getDimSize(dim);
        if (group.unit / 8 <= std::max(extent, group.devices))
          return success();
        return emitError(value.getLoc())
               << "expected digits for dimension " << dim << " of " << extent
               << " indices of at most eight times as many pieces, found " << group.unit;
      })))
    return failure();
  for (auto &[leader, padded] : groups) {
    const Group &group = padded;
    logger(group.value.getLoc(), [&](raw_ostream &os) {
      os << "an extent is padded to " << group.extent << ", a multiple of " << group.unit;
    });
  }
  return success();
}

int64_t Padder::getPaddedExtent(Value value, int64_t dim) const {
  auto it = groups.find(findLeader(value, dim));
  return it == groups.end() ? typeOf(value).getDimSize(dim) : it->second.extent;
}

//===----------------------------------------------------------------------===//
// Ops that need the extents as they were
//===----------------------------------------------------------------------===//

/// `axes` with these dimensions whole on all devices.
static AxesAttr withWhole(AxesAttr axes, ArrayRef<int64_t> dims) {
  if (!axes)
    return axes;
  SmallVector<DimAxesAttr> digits(axes.getDims());
  for (int64_t dim : dims)
    digits[dim] = DimAxesAttr::get(axes.getContext(), {});
  return axes.withDims(digits);
}

static RankedTensorType withExtent(RankedTensorType type, int64_t dim, int64_t extent) {
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = extent;
  return type.clone(shape);
}

/// Cuts the padding of `dims` off an operand. A slice needs what it cuts whole, so each device gets
/// all of these dimensions.
LogicalResult Padder::exclude(OpOperand &operand, ArrayRef<int64_t> dims) {
  Operation *op = operand.getOwner();
  Value value = operand.get();
  RankedTensorType type = getPaddedType(value), written = typeOf(value);
  for (int64_t dim : dims)
    type = withExtent(type, dim, written.getDimSize(dim));
  OpBuilder builder(op);
  operand.set(add(SliceOp::create(
      builder, op->getLoc(), withAxes(type, withWhole(getAxes(type), dims)), value,
      SmallVector<int64_t>(type.getRank(), 0), SmallVector<int64_t>(type.getRank(), 1))));
  logger(op->getLoc(), [&](raw_ostream &os) {
    os << "an operand is needed without padding: all devices get it whole";
  });
  return success();
}

/// `value` with zeros after its indices of dimension `dim`, of type `type`.
Value Padder::append(OpBuilder &builder, Location loc, Value value, RankedTensorType type,
                     int64_t dim) {
  int64_t extent = getPaddedType(value).getDimSize(dim);
  Value zero = add(arith::ConstantOp::create(
      builder, loc, builder.getZeroAttr(withExtent(type, dim, type.getDimSize(dim) - extent))));
  return add(ConcatOp::create(builder, loc, type, ValueRange{value, zero}, dim));
}

/// Appends zeros to a result that the op computes without padding in `dims`.
void Padder::extend(OpResult result, ArrayRef<int64_t> dims) {
  RankedTensorType wanted = getPaddedType(result), written = typeOf(result);
  Operation *op = result.getOwner();
  OpBuilder builder(op);
  builder.setInsertionPointAfter(op);
  RankedTensorType type = withAxes(wanted, withWhole(getAxes(wanted), dims));
  for (int64_t dim : dims)
    type = withExtent(type, dim, written.getDimSize(dim));
  types[result] = type;
  Value value = result;
  SmallPtrSet<Operation *, 8> made;
  for (int64_t dim : dims) {
    type = withExtent(type, dim, wanted.getDimSize(dim));
    value = append(builder, op->getLoc(), value, type, dim);
    made.insert(value.getDefiningOp());
  }
  if (type != wanted) {
    value = add(ReshardOp::create(builder, op->getLoc(), wanted, value));
    made.insert(value.getDefiningOp());
  }
  result.replaceAllUsesExcept(value, made);
}

Value Padder::getMask(MeshAttr mesh, Value value, int64_t dim) {
  int64_t extent = typeOf(value).getDimSize(dim), padded = getPaddedExtent(value, dim);
  Value &found = masks[{mesh, extent, padded}];
  if (found)
    return found;
  auto builder = OpBuilder::atBlockBegin(&function.getBody().front());
  Attribute axes = mesh ? Attribute(AxesAttr::getReplicated(mesh, 1)) : Attribute();
  auto type = RankedTensorType::get({extent}, builder.getI1Type(), axes);
  Value exists =
      add(arith::ConstantOp::create(builder, value.getLoc(), DenseElementsAttr::get(type, true)));
  return found = append(builder, value.getLoc(), exists, withExtent(type, 0, padded), 0);
}

LogicalResult Padder::hideKeys(AttentionOp attention) {
  int64_t tokens = attention.getType().getRank() - 2;
  if (!attention.getCausal() && !attention.getKeyCount())
    attention.setKeyCount(attention.getKey().getType().getDimSize(tokens));
  return success();
}

LogicalResult Padder::run() {
  if (failed(choose()))
    return failure();
  if (groups.empty())
    return success();
  // What the embedder's buffers have.
  annotate(kExtentsAttrName, [&](Value value) -> Attribute {
    return getPaddedDims(value).empty()
               ? Attribute()
               : DenseI64ArrayAttr::get(function.getContext(), typeOf(value).getShape());
  });
  if (failed(fitOps()))
    return failure();
  for (const auto &[result, dims] : computedWhole)
    extend(result, dims);
  forEachValue([&](Value value) {
    if (RankedTensorType wanted = getPaddedType(value); wanted != typeOf(value))
      retype(value, wanted);
  });
  updateSignature(function);
  return success();
}

namespace {
struct FusionPadExtentsPass : public fusion::impl::FusionPadExtentsBase<FusionPadExtentsPass> {
  using FusionPadExtentsBase::FusionPadExtentsBase;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal() || !function.getBody().hasOneBlock())
      return;
    PassLog logger("fusion-pad-extents", log);
    Padder padder(function, logger);
    if (failed(padder.run()) || failed(verifyFits(function)))
      return signalPassFailure();
    logger.summary(function.getLoc(), {{"extents padded", padder.numPadded()},
                                       {"operands filled", padder.getNumFilled()}});
    numPadded += padder.numPadded();
    numFilled += padder.getNumFilled();
    if (!padder.numPadded())
      markAllAnalysesPreserved();
  }
};
} // namespace
