//===- FusionPadExtents.cpp - fusion-pad-extents -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DimGroups.h"
#include "PassLog.h"
#include "Retype.h"
#include "SpecializeExtents.h"
#include "ZeroPadding.h"
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
using Dim = DimGroups::Dim;

/// Pads the dimensions of one function.
class Padder {
public:
  Padder(func::FuncOp function, const PassLog &logger) : function(function), logger(logger) {}

  LogicalResult run();
  size_t numPadded() const { return groups.size(); } ///< groups of dimensions

private:
  static Dim dimOf(Value value, int64_t dim) { return DimGroups::dimOf(value, dim); }
  static RankedTensorType typeOf(Value value) {
    return dyn_cast<RankedTensorType>(value.getType());
  }
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
  int64_t paddedExtent(Value value, int64_t dim) const;
  SmallVector<int64_t> paddedShape(Value value) const;
  bool isPadded(Value value, int64_t dim) const {
    return paddedExtent(value, dim) != typeOf(value).getDimSize(dim);
  }

  void decide(Operation *op);
  bool takesPadding(Operation *op, unsigned operand, int64_t dim);
  bool addsNothing(Operation *op, int64_t factor);
  void fitAttention(AttentionOp attention);
  void fit(Operation *op);
  Value cut(Operation *op, Value value, ArrayRef<int64_t> extents);
  Value append(OpBuilder &builder, Location loc, Value value, RankedTensorType type, int64_t dim);
  void extend(OpResult result);
  void setExtents();

  func::FuncOp function;
  const PassLog &logger;
  DimGroups dims;
  llvm::MapVector<Dim, Group> groups; ///< by leader; what is not padded is in none
  std::optional<ZeroPadding> padding;
  /// By dimension: whether an op takes an operand with padding, and gives a result with it.
  DenseMap<OpOperand *, SmallVector<bool>> takes;
  DenseMap<Value, SmallVector<bool>> gives;
  DenseMap<Value, RankedTensorType> types; // new ones
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
      if (auto it = groups.find(dims.leaderOf(value, dim)); it != groups.end() && succeeded(done))
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
        groups.try_emplace(dims.leaderOf(value, dim), Group{value});
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

int64_t Padder::paddedExtent(Value value, int64_t dim) const {
  if (std::optional<Dim> leader = dims.findLeader(value, dim))
    if (auto it = groups.find(*leader); it != groups.end())
      return it->second.extent;
  return typeOf(value).getDimSize(dim);
}

SmallVector<int64_t> Padder::paddedShape(Value value) const {
  return llvm::map_to_vector(llvm::seq<int64_t>(0, typeOf(value).getRank()),
                             [&](int64_t dim) { return paddedExtent(value, dim); });
}

//===----------------------------------------------------------------------===//
// Ops that need the extents as they were
//===----------------------------------------------------------------------===//

/// Whether the padding of a contracted or added dimension is 0 in all operands that have it.
bool Padder::addsNothing(Operation *op, int64_t factor) {
  if (auto reduce = dyn_cast<ReduceOp>(op); reduce && reduce.getKind() != ReduceKind::Sum)
    return false;
  std::optional<AxesRule> rule = getAxesRule(op);
  for (auto [operand, factors] : llvm::zip_equal(op->getOperands(), rule->operands))
    if (const int64_t *it = llvm::find(factors, factor);
        it != factors.end() && !padding->isZero(operand, it - factors.begin()))
      return false;
  return isa<MatmulOp, GroupedMatmulOp, ReduceOp>(op);
}

/// Whether an op computes what it should with this dimension of an operand padded.
bool Padder::takesPadding(Operation *op, unsigned operand, int64_t dim) {
  if (isa<ReshardOp, func::ReturnOp>(op))
    return true;
  // An index below the extent stays where it is.
  if (isa<SliceOp>(op))
    return true;
  std::optional<AxesRule> rule = getAxesRule(op);
  if (!rule || isa<CallOp>(op))
    return false;
  std::optional<int64_t> factor = getOperandFactor(*rule, operand, dim);
  if (!factor || *factor == AxesRule::kNone)
    return false;
  switch (rule->factors[*factor]) {
  case FactorKind::Parallel:
    return followsPadding(op, *rule, *factor);
  case FactorKind::Reduction:
    return addsNothing(op, *factor);
  case FactorKind::Folded:
    return isa<AttentionOp>(op) && !cast<AttentionOp>(op).getZigzag();
  case FactorKind::Whole:
    return false;
  }
  return false;
}

/// Fills `takes` and `gives` for an op, before any op is changed. The op's axes rule needs the
/// extents as written. Example: after its operand 3x3 was padded to 4x3, the rule of a reshape to
/// 3x1x3 would be that of another reshape.
void Padder::decide(Operation *op) {
  for (OpOperand &operand : op->getOpOperands())
    if (RankedTensorType type = typeOf(operand.get()))
      for (int64_t dim = 0; dim < type.getRank(); ++dim)
        takes[&operand].push_back(!isPadded(operand.get(), dim) ||
                                  takesPadding(op, operand.getOperandNumber(), dim));
  for (OpResult result : op->getResults())
    if (RankedTensorType type = typeOf(result))
      for (int64_t dim = 0; dim < type.getRank(); ++dim)
        gives[result].push_back(!isPadded(result, dim) ||
                                givesPadding(op, result.getResultNumber(), dim));
}

/// `value` with these extents, its first indices in each dimension. A slice needs what it cuts
/// whole, so each device gets all of these dimensions.
Value Padder::cut(Operation *op, Value value, ArrayRef<int64_t> extents) {
  RankedTensorType type = typeOf(value);
  AxesAttr axes = getAxes(value);
  SmallVector<int64_t> shape = paddedShape(value);
  if (axes) {
    SmallVector<DimAxesAttr> digits(axes.getDims());
    for (auto [dim, extent] : llvm::enumerate(extents))
      if (shape[dim] != extent)
        digits[dim] = DimAxesAttr::get(axes.getContext(), {});
    axes = axes.withDims(digits);
  }
  OpBuilder builder(op);
  int64_t rank = type.getRank();
  Value result = SliceOp::create(builder, op->getLoc(),
                                 RankedTensorType::get(extents, type.getElementType(), axes), value,
                                 SmallVector<int64_t>(rank, 0), SmallVector<int64_t>(rank, 1));
  types[result] = typeOf(result);
  logger(op->getLoc(), [&](raw_ostream &os) {
    os << "an operand is needed without padding: all devices get it whole";
  });
  return result;
}

/// `value` with zeros after its indices of dimension `dim`, of type `type`.
Value Padder::append(OpBuilder &builder, Location loc, Value value, RankedTensorType type,
                     int64_t dim) {
  auto it = types.find(value);
  int64_t extent = (it == types.end() ? typeOf(value) : it->second).getDimSize(dim);
  SmallVector<int64_t> more(type.getShape());
  more[dim] -= extent;
  auto zeroType = RankedTensorType::get(more, type.getElementType(), type.getEncoding());
  auto zero = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(zeroType));
  auto concat = ConcatOp::create(builder, loc, type, ValueRange{value, zero}, dim);
  types[zero] = zeroType;
  types[concat] = type;
  return concat;
}

/// Appends zeros to a result that the op computes without padding.
void Padder::extend(OpResult result) {
  RankedTensorType type = typeOf(result);
  SmallVector<int64_t> shape(type.getShape()), wanted = paddedShape(result);
  Operation *op = result.getOwner();
  OpBuilder builder(op);
  builder.setInsertionPointAfter(op);
  AxesAttr axes = getAxes(type), found = axes;
  Value value = result;
  SmallPtrSet<Operation *, 8> made;
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (gives.lookup(result)[dim])
      shape[dim] = wanted[dim];
  SmallVector<DimAxesAttr> digits(axes ? axes.getDims() : ArrayRef<DimAxesAttr>());
  for (int64_t dim = 0; axes && dim < type.getRank(); ++dim)
    if (shape[dim] != wanted[dim])
      digits[dim] = DimAxesAttr::get(axes.getContext(), {});
  if (axes)
    found = axes.withDims(digits);
  types[result] = RankedTensorType::get(shape, type.getElementType(), found);
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (shape[dim] != wanted[dim]) {
      shape[dim] = wanted[dim];
      value = append(builder, op->getLoc(), value,
                     RankedTensorType::get(shape, type.getElementType(), found), dim);
      made.insert(value.getDefiningOp());
    }
  if (value == result)
    return;
  if (axes && axes != found) {
    auto reshard = ReshardOp::create(
        builder, op->getLoc(), RankedTensorType::get(shape, type.getElementType(), axes), value);
    made.insert(reshard);
    types[reshard] = reshard.getType();
    value = reshard;
  }
  result.replaceAllUsesExcept(value, made);
}

/// Masks the padding of keys.
void Padder::fitAttention(AttentionOp attention) {
  int64_t tokens = attention.getType().getRank() - 2;
  if (isPadded(attention.getKey(), tokens) && !attention.getZigzag()) {
    int64_t extent = attention.getKey().getType().getDimSize(tokens);
    if (!attention.getCausal() && !attention.getKeyCount())
      attention.setKeyCount(extent);
    // The weights of keys that are not read are 0, but 0 * infinity is not.
    Value value = attention.getValue();
    if (!padding->isZero(value, tokens)) {
      SmallVector<int64_t> extents = paddedShape(value), all(extents);
      extents[tokens] = extent;
      Value whole = cut(attention, value, extents);
      OpBuilder builder(attention);
      attention.getValueMutable().assign(append(
          builder, attention.getLoc(), whole,
          RankedTensorType::get(all, typeOf(value).getElementType(), typeOf(whole).getEncoding()),
          tokens));
    }
  }
}

/// Cuts the padding that the op does not take off its operands.
void Padder::fit(Operation *op) {
  if (auto attention = dyn_cast<AttentionOp>(op))
    fitAttention(attention);
  for (OpOperand &operand : op->getOpOperands()) {
    Value value = operand.get();
    if (!typeOf(value) || types.contains(value))
      continue;
    SmallVector<int64_t> extents = paddedShape(value);
    bool mustCut = false;
    for (int64_t dim = 0; dim < typeOf(value).getRank(); ++dim)
      if (!takes.lookup(&operand)[dim]) {
        extents[dim] = typeOf(value).getDimSize(dim);
        mustCut = true;
      }
    if (mustCut)
      operand.set(cut(op, value, extents));
  }
}

/// What the embedder's buffers have of a padded argument or result.
void Padder::setExtents() {
  auto extentsOf = [&](Value value) -> Attribute {
    ArrayRef<int64_t> shape = typeOf(value).getShape();
    return types.contains(value) || ArrayRef<int64_t>(paddedShape(value)) == shape
               ? Attribute()
               : DenseI64ArrayAttr::get(function.getContext(), shape);
  };
  for (BlockArgument argument : function.getArguments())
    if (typeOf(argument))
      if (Attribute extents = extentsOf(argument))
        function.setArgAttr(argument.getArgNumber(), kExtentsAttrName, extents);
  Operation *terminator = function.getBody().front().getTerminator();
  for (OpOperand &returned : terminator->getOpOperands())
    if (typeOf(returned.get()))
      if (Attribute extents = extentsOf(returned.get()))
        function.setResultAttr(returned.getOperandNumber(), kExtentsAttrName, extents);
}

LogicalResult Padder::run() {
  function.walk([&](Operation *op) { dims.group(op); });
  if (failed(choose()))
    return failure();
  if (groups.empty())
    return success();
  setExtents();
  padding.emplace(function);
  SmallVector<Operation *> ops;
  function.getBody().walk([&](Operation *op) { ops.push_back(op); });
  for (Operation *op : ops)
    decide(op);
  SmallVector<OpResult> extended;
  for (Operation *op : ops) {
    fit(op);
    for (OpResult result : op->getResults())
      if (llvm::is_contained(gives.lookup(result), false))
        extended.push_back(result);
  }
  for (OpResult result : extended)
    extend(result);
  forEachValue([&](Value value) {
    RankedTensorType type = typeOf(value);
    auto it = types.find(value);
    RankedTensorType wanted =
        it != types.end()
            ? it->second
            : RankedTensorType::get(paddedShape(value), type.getElementType(), type.getEncoding());
    if (wanted != type)
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
    logger.summary(function.getLoc(), {{"extents padded", padder.numPadded()}});
    numPadded += padder.numPadded();
    if (!padder.numPadded())
      markAllAnalysesPreserved();
  }
};
} // namespace
