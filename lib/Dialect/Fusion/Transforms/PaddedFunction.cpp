//===- PaddedFunction.cpp - tensors that are larger than their values -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PaddedFunction.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

PaddedFunction::PaddedFunction(func::FuncOp function, const PassLog &logger, bool varies)
    : function(function), logger(logger), varies(varies) {
  function.walk([&](Operation *op) { group(op); });
}

SmallVector<int64_t> PaddedFunction::dimsOf(Value value) {
  RankedTensorType type = typeOf(value);
  return llvm::to_vector(llvm::seq<int64_t>(0, type ? type.getRank() : 0));
}

SmallVector<int64_t> PaddedFunction::getPaddedDims(Value value) const {
  return llvm::filter_to_vector(dimsOf(value), [&](int64_t dim) { return isPadded(value, dim); });
}

RankedTensorType PaddedFunction::getPaddedType(Value value) const {
  if (auto it = types.find(value); it != types.end())
    return it->second;
  RankedTensorType type = typeOf(value);
  SmallVector<int64_t> shape =
      llvm::map_to_vector(dimsOf(value), [&](int64_t dim) { return getPaddedExtent(value, dim); });
  return type.clone(shape);
}

void PaddedFunction::annotate(StringRef name, function_ref<Attribute(Value)> get) {
  for (BlockArgument argument : function.getArguments())
    if (Attribute found = get(argument))
      function.setArgAttr(argument.getArgNumber(), name, found);
  for (OpOperand &returned : function.getBody().front().getTerminator()->getOpOperands())
    if (Attribute found = get(returned.get()))
      function.setResultAttr(returned.getOperandNumber(), name, found);
}

//===----------------------------------------------------------------------===//
// Factors
//===----------------------------------------------------------------------===//

/// The factor of a dimension that is one piece, but for pieces of extent 1: these have no room for
/// another index, whatever the extent of the dimension.
static std::optional<int64_t> getFactor(ArrayRef<int64_t> factors, ArrayRef<DimPiece> pieces,
                                        int64_t dim) {
  if (pieces.empty())
    return dim < static_cast<int64_t>(factors.size()) ? factors[dim] : AxesRule::kNone;
  std::optional<int64_t> found, unit;
  for (auto [piece, factor] : llvm::zip_equal(pieces, factors)) {
    if (piece.dim != dim)
      continue;
    if (piece.extent == 1) {
      unit = factor;
      continue;
    }
    if (found)
      return std::nullopt;
    found = factor;
  }
  return found ? found : unit;
}

namespace {
/// The operands or the results of a rule.
struct Side {
  Side(const AxesRule &rule, bool areResults)
      : factors(areResults ? rule.results : rule.operands),
        pieces(areResults ? rule.resultPieces : rule.operandPieces) {}
  std::optional<int64_t> getFactor(unsigned number, int64_t dim) const {
    return ::getFactor(factors[number], pieces.empty() ? ArrayRef<DimPiece>() : pieces[number],
                       dim);
  }

  ArrayRef<SmallVector<int64_t>> factors;
  ArrayRef<SmallVector<DimPiece>> pieces;
};
} // namespace

/// The factor of a dimension of an operand or a result; none if the dimension is repeated, or if
/// the op cuts it into pieces or joins it with others of more than one index.
static std::optional<int64_t> getFactor(const AxesRule &rule, bool ofResult, unsigned number,
                                        int64_t dim) {
  std::optional<int64_t> factor = Side(rule, ofResult).getFactor(number, dim);
  if (!factor || *factor == AxesRule::kNone || !rule.regroups())
    return factor == AxesRule::kNone ? std::nullopt : factor;
  // It must be a whole dimension on the other side, too.
  Side other(rule, !ofResult);
  const int64_t *it = llvm::find(other.factors[0], *factor);
  if (it == other.factors[0].end() ||
      other.getFactor(0, other.pieces[0][it - other.factors[0].begin()].dim) != factor)
    return std::nullopt;
  return factor;
}

std::optional<AxesRule> PaddedFunction::getRule(Operation *op) const {
  // A kernel of the embedder is told the extent of a run, but not that a known one is padded.
  if (isa<CallOp>(op) && !varies)
    return std::nullopt;
  return getAxesRule(op);
}

void PaddedFunction::group(Operation *op) {
  if (auto reshard = dyn_cast<ReshardOp>(op))
    for (int64_t dim : dimsOf(reshard.getInput()))
      unite(reshard.getInput(), dim, reshard.getResult(), dim);
  std::optional<AxesRule> rule = getRule(op);
  if (!rule)
    return;
  SmallVector<std::optional<Dim>> first(rule->factors.size());
  auto visit = [&](ValueRange values, bool areResults) {
    for (auto [number, value] : llvm::enumerate(values))
      for (int64_t dim : dimsOf(value)) {
        std::optional<int64_t> factor = getFactor(*rule, areResults, number, dim);
        if (!factor || rule->factors[*factor] == FactorKind::Whole)
          continue;
        std::optional<Dim> &other = first[*factor];
        if (other)
          joined.unionSets(*other, dimOf(value, dim));
        else
          other = dimOf(value, dim);
      }
  };
  visit(op->getOperands(), false);
  visit(op->getResults(), true);
  // Rows read keys up to their own token only: then padding, which comes last, is read by padding
  // only.
  if (auto attention = dyn_cast<AttentionOp>(op);
      attention && attention.getCausal() && !attention.getZigzag()) {
    int64_t tokens = attention.getType().getRank() - 2;
    unite(attention.getQuery(), tokens, attention.getKey(), tokens);
  }
}

PaddedFunction::Dim PaddedFunction::findLeader(Value value, int64_t dim) const {
  auto leader = joined.findLeader(dimOf(value, dim));
  return leader == joined.member_end() ? dimOf(value, dim) : *leader;
}

//===----------------------------------------------------------------------===//
// Zeros
//===----------------------------------------------------------------------===//

/// Whether an elementwise op gives exactly 0 if its operands are 0 (a select: those that it selects
/// from).
static bool keepsZero(Operation *op) {
  return isa<arith::AddFOp, arith::AddIOp, arith::SubFOp, arith::SubIOp, arith::MulFOp,
             arith::MulIOp, arith::MaximumFOp, arith::MaxNumFOp, arith::MaxSIOp, arith::MinimumFOp,
             arith::MinNumFOp, arith::MinSIOp, arith::NegFOp, arith::ExtFOp, arith::TruncFOp,
             arith::SIToFPOp, arith::SelectOp, math::AbsFOp, math::AbsIOp, math::SqrtOp,
             math::TanhOp, math::ErfOp, math::SinOp, math::ExpM1Op, math::Log1pOp, math::FloorOp,
             math::CeilOp, math::RoundOp, math::TruncOp>(op);
}

/// Whether the elements of a result are those of arguments, or finite constants.
static bool hasGivenElements(OpResult result, const DenseMap<Value, bool> &given) {
  Operation *op = result.getOwner();
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto floats = dyn_cast<DenseFPElementsAttr>(constant.getValue());
    // The iterator visits each element of a splat, of which there may be millions.
    if (floats && floats.isSplat())
      return floats.getSplatValue<APFloat>().isFinite();
    return !floats || llvm::all_of(floats, [](const APFloat &value) { return value.isFinite(); });
  }
  return isa<ReshardOp, PermuteOp, ReshapeOp, SliceOp, BroadcastOp, ConcatOp, arith::NegFOp,
             arith::ExtFOp, math::AbsFOp>(op) &&
         llvm::all_of(op->getOperands(), [&](Value operand) { return given.lookup(operand); });
}

bool PaddedFunction::isZero(Value value, int64_t dim) const {
  auto it = zeros.find(value);
  return it != zeros.end() && it->second[dim];
}

void PaddedFunction::findZeros() {
  for (Value argument : function.getArguments()) {
    zeros[argument].assign(dimsOf(argument).size(), true);
    given[argument] = true;
  }
  function.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) {
    std::optional<AxesRule> rule = getRule(op);
    for (OpResult result : op->getResults()) {
      given[result] = hasGivenElements(result, given);
      zeros[result] = llvm::map_to_vector(
          dimsOf(result), [&](int64_t dim) { return computeZero(result, rule, dim); });
    }
  });
}

bool PaddedFunction::computeZero(OpResult result, const std::optional<AxesRule> &rule,
                                 int64_t dim) const {
  Operation *op = result.getOwner();
  if (isa<ReshardOp>(op))
    return isZero(op->getOperand(0), dim);
  if (!givesPadding(result, rule, dim))
    return true; // 0 is appended
  if (isa<arith::ConstantOp>(op))
    return matchPattern(op, m_AnyZeroFloat()) || matchPattern(op, m_Zero());
  std::optional<int64_t> factor = getFactor(*rule, true, result.getResultNumber(), dim);
  if (!factor)
    return false;
  // None: the operand has no such dimension.
  auto isOperandZero = [&](unsigned operand) -> std::optional<bool> {
    Value value = op->getOperand(operand);
    for (int64_t d : dimsOf(value))
      if (getFactor(*rule, false, operand, d) == factor)
        return isZero(value, d);
    return std::nullopt;
  };
  // A product of 0 and what is finite.
  auto isProductZero = [&](unsigned a, unsigned b) {
    bool isZeroA = isOperandZero(a).value_or(false), isZeroB = isOperandZero(b).value_or(false);
    return (isZeroA && (isZeroB || given.lookup(op->getOperand(b)))) ||
           (isZeroB && given.lookup(op->getOperand(a)));
  };
  if (isElementwise(op)) {
    if (isa<arith::MulFOp, arith::MulIOp>(op) && isProductZero(0, 1))
      return true;
    for (unsigned i = isa<arith::SelectOp>(op) ? 1 : 0; i < op->getNumOperands(); ++i)
      if (!isOperandZero(i).value_or(false))
        return false;
    return keepsZero(op) && op->getNumOperands() > 0;
  }
  if (isa<MatmulOp>(op))
    return isProductZero(0, 1) && (op->getNumOperands() < 3 || isOperandZero(2).value_or(false));
  if (isa<GroupedMatmulOp>(op))
    return isProductZero(0, 1);
  if (auto reduce = dyn_cast<ReduceOp>(op); reduce && reduce.getKind() != ReduceKind::Sum)
    return false;
  return isa<ReduceOp, PermuteOp, ReshapeOp, SliceOp, BroadcastOp>(op) &&
         isOperandZero(0).value_or(false);
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

PaddedFunction::Need PaddedFunction::getNeed(OpOperand &operand,
                                             const std::optional<AxesRule> &rule,
                                             int64_t dim) const {
  Operation *op = operand.getOwner();
  if (isa<ReshardOp, func::ReturnOp>(op))
    return Need::Anything;
  std::optional<int64_t> factor;
  if (rule)
    factor = getFactor(*rule, false, operand.getOperandNumber(), dim);
  if (!factor || llvm::is_contained(rule->exact, *factor))
    return Need::None;
  switch (rule->factors[*factor]) {
  case FactorKind::Parallel:
    return Need::Anything;
  case FactorKind::Whole:
    // An index before a known end stays where it is.
    return isa<SliceOp>(op) && !varies ? Need::Anything : Need::None;
  case FactorKind::Folded:
    if (&operand == &cast<AttentionOp>(op).getKeyMutable())
      return Need::HiddenKeys;
    // The weight of a hidden key is 0, but 0 * infinity is not.
    break;
  case FactorKind::Reduction:
    break;
  }
  bool isSum = rule->reduceKind == ReduceKind::Sum;
  if (isSum && isZero(operand.get(), dim))
    return Need::Anything;
  // The checker knows that a sum with 0 is that of the reference, which has no padding of known
  // size. It does not know the identities of a maximum and a minimum.
  AxesAttr axes = getAxes(operand.get());
  return (axes && axes.isPartial()) || (!isSum && !varies) ? Need::None : Need::Identity;
}

bool PaddedFunction::givesPadding(OpResult result, const std::optional<AxesRule> &rule,
                                  int64_t dim) const {
  Operation *op = result.getOwner();
  if (!rule)
    return isa<ReshardOp>(op);
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
    return elements && elements.isSplat();
  }
  std::optional<int64_t> factor = getFactor(*rule, true, result.getResultNumber(), dim);
  // A dimension that is only repeated takes any extent.
  if (!factor)
    return isa<BroadcastOp>(op);
  return rule->factors[*factor] == FactorKind::Parallel &&
         !llvm::is_contained(rule->exact, *factor);
}

LogicalResult PaddedFunction::fitOps() {
  findZeros();
  // An op's rule needs the extents as written, so it is read before any op is changed. Example:
  // after its operand 3x3 was padded to 4x3, the rule of a reshape to 3x1x3 would be that of
  // another reshape.
  std::vector<Use> uses;
  function.getBody().walk([&](Operation *op) {
    std::optional<AxesRule> rule = getRule(op);
    for (OpOperand &operand : op->getOpOperands()) {
      Use use{&operand, rule ? rule->reduceKind : ReduceKind::Sum, {}, {}, {}};
      for (int64_t dim : getPaddedDims(operand.get())) {
        Need need = getNeed(operand, rule, dim);
        if (need != Need::Anything)
          (need == Need::Identity     ? use.identity
           : need == Need::HiddenKeys ? use.hiddenKeys
                                      : use.none)
              .push_back(dim);
      }
      if (!use.identity.empty() || !use.hiddenKeys.empty() || !use.none.empty())
        uses.push_back(std::move(use));
    }
    for (OpResult result : op->getResults()) {
      SmallVector<int64_t> whole = llvm::filter_to_vector(
          getPaddedDims(result), [&](int64_t dim) { return !givesPadding(result, rule, dim); });
      if (!whole.empty())
        computedWhole.push_back({result, whole});
    }
  });
  for (const Use &use : uses)
    if (failed(fit(use)))
      return failure();
  return success();
}

LogicalResult PaddedFunction::fit(const Use &use) {
  Operation *user = use.operand->getOwner();
  Value original = use.operand->get();
  if ((!use.hiddenKeys.empty() && failed(hideKeys(cast<AttentionOp>(user)))) ||
      (!use.none.empty() && failed(exclude(*use.operand, use.none))))
    return failure();
  for (int64_t dim : use.identity)
    use.operand->set(fill(user, use.operand->get(), original, dim, use.kind));
  return success();
}

/// The mesh that a value is or will probably be on, of its operands or else of an argument.
static MeshAttr findMesh(Value value, func::FuncOp function) {
  while (value && !getAxes(value)) {
    Operation *op = value.getDefiningOp();
    value = op && op->getNumOperands() > 0 ? op->getOperand(0) : Value();
  }
  for (Value argument : function.getArguments())
    if (!value && getAxes(argument))
      value = argument;
  return value ? getAxes(value).getMesh() : nullptr;
}

/// The mask along `dim` of a tensor of `type`, in a tensor like it.
Value PaddedFunction::broadcastMask(OpBuilder &builder, Value original, RankedTensorType type,
                                    int64_t dim) {
  Value mask = getMask(findMesh(original, function), original, dim);
  auto likeIt = RankedTensorType::get(type.getShape(), builder.getI1Type(), type.getEncoding());
  return add(BroadcastOp::create(builder, original.getLoc(), likeIt, mask, ArrayRef<int64_t>{dim}));
}

Value PaddedFunction::fill(Operation *user, Value value, Value original, int64_t dim,
                           ReduceKind kind) {
  Value &found = filled[{value, dim, static_cast<int>(kind)}];
  if (found)
    return found;
  RankedTensorType type = getPaddedType(value);
  OpBuilder builder(user);
  Location loc = user->getLoc();
  Value exists = broadcastMask(builder, original, type, dim);
  Value identity = add(arith::ConstantOp::create(
      builder, loc, DenseElementsAttr::get(type, getIdentity(kind, type.getElementType()))));
  found = add(arith::SelectOp::create(builder, loc, type, exists, value, identity));
  ++numFilled;
  logger(loc, [&](raw_ostream &os) {
    os << "the padding of dimension " << dim << " of an operand is filled";
  });
  return found;
}
