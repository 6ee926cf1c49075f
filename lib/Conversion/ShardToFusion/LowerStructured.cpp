//===- LowerStructured.cpp - linalg ops become fusion ops -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Constants.h"
#include "Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/IR/ReshapeShapes.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::shardfusion;

/// A tensor whose dimensions are the loops of `order`: extents and axes from the values that have
/// them.
Lowering::Space Lowering::makeSpace(StructuredOp &s, ArrayRef<unsigned> order) const {
  Space space;
  space.position.resize(s.op.getNumLoops());
  SmallVector<int64_t> extents = s.op.getStaticLoopRanges();
  for (auto [at, loop] : llvm::enumerate(order)) {
    space.position[loop] = at;
    space.layout.shape.push_back(ShapedType::kDynamic);
    space.layout.axes.emplace_back();
  }
  auto read = [&](Value value, ArrayRef<unsigned> loops) {
    if (!layouts.has(value))
      return;
    const Layout &layout = layouts.get(value);
    for (auto [dim, loop] : llvm::enumerate(loops)) {
      if (!llvm::is_contained(order, loop))
        continue;
      if (!ShapedType::isDynamic(layout.shape[dim]))
        space.layout.shape[space.position[loop]] = layout.shape[dim];
      space.layout.axes[space.position[loop]] = layout.axes[dim];
    }
  };
  for (unsigned i = 0; i < s.op->getNumOperands(); ++i)
    if (s.readsTensor(i))
      read(s.op->getOperand(i), s.loops[i]);
  read(s.op->getResult(0), s.loops.back());
  // Loops over constants alone.
  for (auto [at, loop] : llvm::enumerate(order))
    if (ShapedType::isDynamic(space.layout.shape[at]) && space.layout.axes[at].empty())
      space.layout.shape[at] = extents[loop];
  return space;
}

/// Operand `operand` as a tensor over the space: permuted and broadcast.
Value Lowering::getInSpace(Location loc, StructuredOp &s, unsigned operand, const Space &space) {
  Value value = s.op->getOperand(operand);
  Type element = getElementTypeOrSelf(value);
  if (!isa<RankedTensorType>(value.getType()) || getSplat(value))
    return getScalar(s.op, value, space.layout, element);
  FailureOr<Value> logical = use(s.op, value);
  if (failed(logical))
    return {};
  ArrayRef<unsigned> loops = s.loops[operand];
  Layout layout = layouts.get(value);
  auto permutation = llvm::to_vector(llvm::seq<int64_t>(0, static_cast<int64_t>(loops.size())));
  auto place = [&](int64_t dim) { return space.position[loops[static_cast<size_t>(dim)]]; };
  llvm::sort(permutation, [&](int64_t a, int64_t b) { return place(a) < place(b); });
  Value result = permute(loc, *logical, layout, permutation);
  if (loops.size() == space.layout.shape.size())
    return result;
  SmallVector<int64_t> dims(
      llvm::map_range(permutation, [&](int64_t dim) { return static_cast<int64_t>(place(dim)); }));
  Layout whole = space.layout;
  whole.partial = layout.partial;
  whole.kind = layout.kind;
  return fusion::BroadcastOp::create(builder, loc, layouts.getType(whole, element), result, dims);
}

/// The body's value `s.mapped` for all elements of the space at once.
LogicalResult Lowering::lowerBody(StructuredOp &s, const Space &space, Value &result) {
  IRMapping mapping;
  GridAxes partial;
  ReduceKind kind = ReduceKind::Sum;
  auto find = [&](Value scalar) -> Value {
    if (Value known = mapping.lookupOrNull(scalar))
      return known;
    auto argument = dyn_cast<BlockArgument>(scalar);
    bool isOperand = argument && argument.getOwner() == s.op.getBlock();
    Value tensor;
    if (isOperand) {
      OpOperand *operand = s.op.getMatchingOpOperand(argument);
      tensor = getInSpace(s.op.getLoc(), s, operand->getOperandNumber(), space);
      if (layouts.has(operand->get())) {
        partial = layouts.get(operand->get()).partial;
        kind = layouts.get(operand->get()).kind;
      }
    } else {
      tensor = getScalar(s.op, scalar, space.layout, scalar.getType());
    }
    if (tensor)
      mapping.map(scalar, tensor);
    return tensor;
  };
  for (Operation &op : s.op.getBlock()->without_terminator()) {
    if (&op == s.combiner || isa<arith::ConstantOp>(op))
      continue;
    for (Value operand : op.getOperands())
      if (!find(operand))
        return failure();
    Operation *copy = builder.clone(op, mapping);
    Layout layout = space.layout;
    layout.partial = partial;
    layout.kind = kind;
    copy->getResult(0).setType(layouts.getType(layout, op.getResult(0).getType()));
    mapping.map(op.getResult(0), copy->getResult(0));
  }
  result = find(s.mapped);
  return success(result != nullptr);
}

/// Adds the initial value to the result of a reduction, or keeps it for the one over devices.
LogicalResult Lowering::addInit(StructuredOp &s, Value &result) {
  Value init = s.getInit();
  std::optional<Splat> splat = getSplat(init);
  if (splat && splat->isNeutral(s.reduceKind))
    return success();
  Value resultTensor = s.op->getResult(0);
  std::optional<LeadInit> lead =
      init.getDefiningOp() ? getLeadInit(init.getDefiningOp()) : std::nullopt;
  if (lead) {
    Layout layout = layouts.get(init);
    layout.partial.clear();
    if (std::optional<Splat> constant = getSplat(lead->init)) {
      addends[resultTensor] = getScalar(s.op, lead->init, layout, getElementTypeOrSelf(lead->init));
      return success(addends[resultTensor] != nullptr);
    }
    FailureOr<Value> logical = use(s.op, lead->init);
    if (failed(logical))
      return failure();
    addends[resultTensor] = *logical;
    return success();
  }
  Value other = splat ? getScalar(s.op, init, layouts.get(resultTensor), getElementTypeOrSelf(init))
                      : use(s.op, init).value_or(Value());
  if (!other)
    return failure();
  IRMapping mapping;
  for (Value operand : s.combiner->getOperands())
    mapping.map(operand, operand == s.mapped ? result : other);
  Operation *copy = builder.clone(*s.combiner, mapping);
  copy->getResult(0).setType(cast<RankedTensorType>(result.getType()));
  result = copy->getResult(0);
  return success();
}

/// Upstream takes `?` for any extent. Here an extent is part of a type.
LogicalResult Lowering::verifyExtents(StructuredOp &s) const {
  SmallVector<std::optional<std::pair<int64_t, unsigned>>> known(s.op.getNumLoops());
  auto text = [](int64_t extent) {
    return ShapedType::isDynamic(extent) ? std::string("?") : std::to_string(extent);
  };
  auto name = [&](unsigned value) {
    return value < s.op->getNumOperands() ? "operand " + std::to_string(value) : "the result";
  };
  for (unsigned i = 0; i <= s.op->getNumOperands(); ++i) {
    bool isResult = i == s.op->getNumOperands();
    Value value = isResult ? s.op->getResult(0) : s.op->getOperand(i);
    if (!layouts.has(value) || (!isResult && !s.readsTensor(i)))
      continue;
    ArrayRef<int64_t> shape = layouts.get(value).shape;
    for (auto [dim, loop] : llvm::enumerate(isResult ? s.loops.back() : s.loops[i])) {
      if (!known[loop])
        known[loop] = {shape[dim], i};
      auto [extent, first] = *known[loop];
      if (shape[dim] != extent)
        return s.op->emitOpError()
               << "expected one logical extent for all dimensions of a loop, known or `?`; found "
               << text(extent) << " in " << name(first) << " and " << text(shape[dim]) << " in "
               << name(i);
    }
  }
  return success();
}

LogicalResult Lowering::lowerStructured(StructuredOp &s) {
  if (failed(verifyExtents(s)))
    return failure();
  ArrayRef<unsigned> resultLoops = s.loops.back();
  SmallVector<unsigned> order(resultLoops);
  Value result;
  if (s.kind == StructuredKind::Contraction) {
    if (failed(lowerContraction(s, result)) || failed(addInit(s, result)))
      return failure();
  } else if (s.kind == StructuredKind::Elementwise) {
    if (failed(lowerBody(s, makeSpace(s, order), result)))
      return failure();
  } else {
    SmallVector<int64_t> dims;
    for (unsigned loop = 0; loop < s.op.getNumLoops(); ++loop)
      if (!llvm::is_contained(resultLoops, loop)) {
        dims.push_back(static_cast<int64_t>(order.size()));
        order.push_back(loop);
      }
    if (failed(lowerBody(s, makeSpace(s, order), result)))
      return failure();
    result = fusion::ReduceOp::create(builder, s.op.getLoc(), layouts.getType(s.op->getResult(0)),
                                      s.reduceKind, result, dims, /*keep_dims=*/false);
    if (failed(addInit(s, result)))
      return failure();
  }
  values[s.op->getResult(0)] = result;
  return success();
}

/// The extent of dimensions that become one: `?` if one of them is.
static int64_t mergeExtents(ArrayRef<int64_t> extents) {
  int64_t product = 1;
  for (int64_t extent : extents) {
    if (ShapedType::isDynamic(extent))
      return ShapedType::kDynamic;
    product *= extent;
  }
  return product;
}

/// A fusion.reshape with `?` extents states by their places alone which dimensions become one.
static LogicalResult verifyMerge(Operation *op, ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  std::string reason;
  if (succeeded(fusion::inferReshapedShape(from, to, reason)))
    return success();
  return op->emitOpError() << "expected at most one `?` in a value of which loops become one: "
                              "several that only one factor has, or that are contracted; "
                           << reason;
}

/// Merges dimensions `first` ... `first + count - 1` into one. Fails if an inner one is split.
LogicalResult Lowering::merge(Operation *op, Value &value, Layout &layout, size_t first,
                              size_t count) {
  if (count == 1)
    return success();
  for (size_t dim = first + 1; dim < first + count; ++dim)
    if (!layout.axes[dim].empty())
      return op->emitOpError() << "expected of several loops that only one factor has, or that are "
                                  "contracted, at most the outermost to be split";
  SmallVector<int64_t> before(layout.shape);
  layout.shape[first] = mergeExtents(ArrayRef(before).slice(first, count));
  auto erase = [&](auto &list) {
    list.erase(list.begin() + static_cast<ptrdiff_t>(first) + 1,
               list.begin() + static_cast<ptrdiff_t>(first + count));
  };
  erase(layout.shape);
  erase(layout.axes);
  if (failed(verifyMerge(op, before, layout.shape)))
    return failure();
  value = fusion::ReshapeOp::create(builder, op->getLoc(),
                                    layouts.getType(layout, getElementTypeOrSelf(value)), value);
  return success();
}

/// A factor with the loops `prefix`, `a`, `b`, the last two merged to one dimension each. If it has
/// `b` before `a` it stays: fusion.matmul reads transposed factors.
Value Lowering::getFactor(StructuredOp &s, unsigned operand, ArrayRef<unsigned> prefix,
                          ArrayRef<unsigned> a, ArrayRef<unsigned> b, bool &transposed) {
  auto join = [&](ArrayRef<unsigned> second, ArrayRef<unsigned> third) {
    SmallVector<unsigned> loops(prefix);
    llvm::append_range(loops, second);
    llvm::append_range(loops, third);
    return loops;
  };
  transposed = !a.empty() && !b.empty() && s.loops[operand] == join(b, a);
  if (transposed)
    std::swap(a, b);
  Space space = makeSpace(s, join(a, b));
  if (layouts.has(s.op->getOperand(operand))) {
    space.layout.partial = layouts.get(s.op->getOperand(operand)).partial;
    space.layout.kind = ReduceKind::Sum;
  }
  Value value = getInSpace(s.op.getLoc(), s, operand, space);
  if (!value ||
      (!b.empty() &&
       failed(merge(s.op, value, space.layout, prefix.size() + a.size(), b.size()))) ||
      (!a.empty() && failed(merge(s.op, value, space.layout, prefix.size(), a.size()))))
    return {};
  return value;
}

/// [extra M ..., batch ..., M, K] x [batch ..., K, N] -> [extra M ..., batch ..., M, N].
LogicalResult Lowering::lowerContraction(StructuredOp &s, Value &result) {
  const ContractedLoops &loops = s.contracted;
  ArrayRef<unsigned> rows = loops.rows;
  SmallVector<unsigned> prefix(rows.empty() ? rows : rows.drop_back());
  llvm::append_range(prefix, loops.batch);
  bool transposeA = false, transposeB = false;
  Value a =
      getFactor(s, s.lhs, prefix, rows.take_back(rows.empty() ? 0 : 1), loops.inner, transposeA);
  Value b = a ? getFactor(s, s.rhs, loops.batch, loops.inner, loops.columns, transposeB) : Value();
  if (!b)
    return failure();

  SmallVector<unsigned> order(prefix);
  llvm::append_range(order, rows.take_back(rows.empty() ? 0 : 1));
  size_t firstColumn = order.size();
  llvm::append_range(order, loops.columns);
  const Layout &final = layouts.get(s.op->getResult(0));
  Layout layout = makeSpace(s, order).layout;
  layout.partial = final.partial;
  layout.kind = final.kind;
  Type element = getElementTypeOrSelf(s.op->getResult(0));
  Layout merged = layout;
  if (loops.columns.size() > 1) {
    merged.shape[firstColumn] = mergeExtents(ArrayRef(layout.shape).drop_front(firstColumn));
    merged.shape.truncate(firstColumn + 1);
    merged.axes.truncate(firstColumn + 1);
    if (failed(verifyMerge(s.op, merged.shape, layout.shape)))
      return failure();
  }
  result = fusion::MatmulOp::create(builder, s.op.getLoc(), layouts.getType(merged, element), a, b,
                                    Value(), transposeA, transposeB);
  if (merged.shape.size() != layout.shape.size())
    result =
        fusion::ReshapeOp::create(builder, s.op.getLoc(), layouts.getType(layout, element), result);
  SmallVector<int64_t> permutation;
  for (unsigned loop : s.loops.back())
    permutation.push_back(llvm::find(order, loop) - order.begin());
  result = permute(s.op.getLoc(), result, layout, permutation);
  return success();
}
