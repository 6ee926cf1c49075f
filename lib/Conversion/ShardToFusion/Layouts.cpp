//===- Layouts.cpp - the logical tensors of a partitioned function *- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Layouts.h"

#include "Constants.h"
#include "OrderAxes.h"
#include "StructuredOp.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Support/ElementTypes.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::shardfusion;

static StringAttr getAxisName(MLIRContext *context, unsigned axis) {
  return StringAttr::get(context, "axis" + Twine(axis));
}

MeshAttr shardfusion::getMesh(shard::GridOp grid) {
  MLIRContext *context = grid.getContext();
  SmallVector<MeshAxis> axes;
  for (auto [i, size] : llvm::enumerate(grid.getShape()))
    axes.push_back({getAxisName(context, static_cast<unsigned>(i)), size});
  if (failed(MeshAttr::verify([&] { return grid.emitOpError(); }, grid.getSymNameAttr(), axes, {})))
    return {};
  return MeshAttr::get(context, grid.getSymNameAttr(), axes, {});
}

Layouts::Layouts(func::FuncOp function, shard::GridOp grid)
    : function(function), grid(grid), mesh(shardfusion::getMesh(grid)) {}

std::string Layouts::describe(int16_t axis) const {
  return ("grid axis " + Twine(axis) + " of @" + mesh.getName().getValue()).str();
}

RankedTensorType Layouts::getType(const Layout &layout, Type element) const {
  MLIRContext *context = mesh.getContext();
  auto nameOf = [&](int16_t axis) { return mesh.getAxes()[static_cast<size_t>(axis)].name; };
  SmallVector<fusion::DimAxesAttr> dims;
  for (const GridAxes &axes : layout.axes) {
    SmallVector<fusion::Digit> digits;
    for (int16_t axis : axes)
      digits.push_back(fusion::Digit::device(nameOf(axis)));
    dims.push_back(fusion::DimAxesAttr::get(context, digits));
  }
  SmallVector<StringAttr> partial(llvm::map_range(layout.partial, nameOf));
  return RankedTensorType::get(layout.shape, element,
                               fusion::AxesAttr::get(context, mesh, dims, partial, layout.kind));
}

RankedTensorType Layouts::getType(Value value) const {
  return getType(get(value), getElementTypeOrSelf(value));
}

/// Reads `tandem.split_axes`.
LogicalResult Layouts::readAnnotation(Attribute attr, Value value, Location loc) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  auto dims = dyn_cast<ArrayAttr>(attr);
  auto fail = [&] {
    return emitError(loc) << "expected lists of grid axes for up to " << (type ? type.getRank() : 0)
                          << " dimensions in '" << kSplitAxesAttrName << "', each axis of @"
                          << mesh.getName().getValue() << " at most once, found " << attr;
  };
  if (!dims || !type || static_cast<int64_t>(dims.size()) > type.getRank())
    return fail();
  SmallVector<GridAxes> axes(static_cast<size_t>(type.getRank()));
  SmallVector<bool> used(grid.getShape().size(), false);
  for (auto [dim, entry] : llvm::enumerate(dims)) {
    auto list = dyn_cast<ArrayAttr>(entry);
    if (!list)
      return fail();
    for (Attribute item : list) {
      auto number = dyn_cast<IntegerAttr>(item);
      if (!number || number.getValue().isNegative() || number.getValue().uge(used.size()) ||
          used[number.getValue().getZExtValue()])
        return fail();
      used[number.getValue().getZExtValue()] = true;
      axes[dim].push_back(static_cast<int16_t>(number.getInt()));
    }
  }
  // Along an axis of one device all placements are the same.
  for (GridAxes &list : axes)
    llvm::erase_if(
        list, [&](int16_t axis) { return mesh.getAxes()[static_cast<size_t>(axis)].size == 1; });
  auto [it, inserted] = annotations.try_emplace(value, axes);
  if (!inserted && it->second != axes)
    return emitError(loc) << "expected one '" << kSplitAxesAttrName << "' of a value, found "
                          << attr << " and another one";
  return success();
}

/// Identical placements of all values, with those that `kinds` has among the partial ones.
static PlacementTable getAlikeTable(Operation *op, llvm::function_ref<bool(ReduceKind)> kinds) {
  PlacementTable table;
  llvm::copy_if(op->getOperands(), std::back_inserter(table.values),
                [](Value value) { return isa<RankedTensorType>(value.getType()); });
  llvm::append_range(table.values, op->getResults());
  auto addRow = [&](Placement placement) {
    table.rows.emplace_back(table.values.size(), placement);
  };
  addRow(Placement::replicated());
  for (int64_t d = 0; d < cast<RankedTensorType>(op->getResult(0).getType()).getRank(); ++d)
    addRow(Placement::split(d));
  for (ReduceKind kind : {ReduceKind::Sum, ReduceKind::Max, ReduceKind::Min})
    if (kinds(kind))
      addRow(Placement::partial(kind));
  return table;
}

/// The outermost dimension of each group may be split, and others behind dimensions of extent 1.
static PlacementTable getReshapeTable(Operation *op, ArrayRef<ReassociationIndices> groups,
                                      bool expands) {
  PlacementTable table = getAlikeTable(op, [](ReduceKind) { return true; });
  llvm::erase_if(table.rows, [](ArrayRef<Placement> row) { return row[0].isSplit(); });
  for (auto [i, group] : llvm::enumerate(groups)) {
    auto merged = Placement::split(static_cast<int64_t>(i));
    for (int64_t dim : group) {
      auto outer = Placement::split(dim);
      table.rows.push_back({expands ? merged : outer, expands ? outer : merged});
      if (cast<RankedTensorType>(table.values[expands ? 1 : 0].getType()).getDimSize(dim) != 1)
        break;
    }
  }
  return table;
}

PlacementTable Layouts::getTable(Operation *op, int16_t axis) const {
  if (auto structured = dyn_cast<linalg::LinalgOp>(op))
    return readStructuredOp(structured)->getTable();
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op))
    return getReshapeTable(op, expand.getReassociationIndices(), true);
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op))
    return getReshapeTable(op, collapse.getReassociationIndices(), false);
  if (std::optional<LeadInit> lead = getLeadInit(op)) {
    if (llvm::is_contained(lead->axes, axis))
      return {{lead->init, op->getResult(0)},
              {{Placement::replicated(), Placement::partial(ReduceKind::Sum)}}};
    PlacementTable table = getAlikeTable(op, [](ReduceKind) { return true; });
    table.values.push_back(lead->init);
    for (SmallVector<Placement> &row : table.rows)
      row.push_back(row.front());
    return table;
  }
  std::optional<Collective> collective = getCollective(op);
  if (collective && llvm::is_contained(collective->axes, axis))
    return {{collective->input, op->getResult(0)}, {{collective->from, collective->to}}};
  bool moves = collective || isa<tensor::CastOp>(op);
  return getAlikeTable(op, [&](ReduceKind kind) { return moves || commutesWith(op, kind); });
}

/// A splat fits any row. It is partial only as the initial value that a reduction leaves alone.
static void dropSplats(PlacementTable &table, Operation *op) {
  auto structured = dyn_cast<linalg::LinalgOp>(op);
  for (size_t i = table.values.size(); i-- != 0;) {
    Value value = table.values[i];
    std::optional<Splat> splat = getSplat(value);
    if (!splat)
      continue;
    bool isInit = structured && structured.getNumReductionLoops() != 0 &&
                  value == structured.getDpsInitOperand(0)->get();
    llvm::erase_if(table.rows, [&](ArrayRef<Placement> row) {
      return row[i].isPartial() && !(isInit && splat->isNeutral(row[i].getKind()));
    });
    table.values.erase(table.values.begin() + static_cast<ptrdiff_t>(i));
    for (SmallVector<Placement> &row : table.rows)
      row.erase(row.begin() + static_cast<ptrdiff_t>(i));
  }
}

/// The arguments must follow; values between constants do not matter.
LogicalResult Layouts::decideArguments(PlacementSolver &solver, int16_t axis) {
  bool open = false;
  for (BlockArgument argument : function.getArguments()) {
    if (!isa<RankedTensorType>(argument.getType()) || solver.getDomain(argument).isSingle())
      continue;
    open = true;
    emitError(argument.getLoc()) << "argument " << argument.getArgNumber() << " of @"
                                 << function.getSymName() << ": its placement along "
                                 << describe(axis) << " does not follow from the collectives ("
                                 << solver.getDomain(argument).str() << "); add '"
                                 << kSplitAxesAttrName
                                 << "' to it or to what it is combined with, such as {"
                                 << kSplitAxesAttrName << " = [[" << axis << "]]} if axis " << axis
                                 << " splits dimension 0";
  }
  return failure(open);
}

LogicalResult Layouts::inferAlong(int16_t axis) {
  PlacementSolver solver;
  Operation *terminator = function.getBody().front().getTerminator();
  for (Value value : values) {
    int64_t rank = cast<RankedTensorType>(value.getType()).getRank();
    bool isReturned = llvm::is_contained(terminator->getOperands(), value);
    PlacementSet domain = PlacementSet::all(rank, !isa<BlockArgument>(value) && !isReturned);
    if (auto it = annotations.find(value); it != annotations.end()) {
      PlacementSet given;
      auto *dim = llvm::find_if(
          it->second, [&](const GridAxes &axes) { return llvm::is_contained(axes, axis); });
      given.insert(dim == it->second.end() ? Placement::replicated()
                                           : Placement::split(dim - it->second.begin()));
      domain = given;
    }
    solver.setDomain(value, domain);
  }
  for (Operation &op : function.getBody().front()) {
    if (op.getNumResults() != 1 || !layouts.contains(op.getResult(0)))
      continue;
    PlacementTable table = getTable(&op, axis);
    dropSplats(table, &op);
    solver.addTable(&op, std::move(table));
  }
  auto explain = [&](Operation *at) {
    auto diag = at->emitOpError() << "does not fit its neighbours along " << describe(axis) << ": "
                                  << solver.getConflict();
    auto structured = dyn_cast<linalg::LinalgOp>(at);
    if (structured && structured.getNumReductionLoops() != 0 &&
        llvm::is_contained(terminator->getOperands(), at->getResult(0)))
      diag.attachNote(terminator->getLoc()) << "a returned value is not partial: reduce it first";
    return LogicalResult(diag);
  };
  if (Operation *conflict = solver.propagate())
    return explain(conflict);
  if (failed(decideArguments(solver, axis)))
    return failure();
  for (Value value : values)
    if (!solver.getDomain(value).isSingle())
      if (Operation *conflict = solver.decide(value, solver.getDomain(value).front()))
        return explain(conflict);

  for (Value value : values) {
    Placement placement = solver.getDomain(value).front();
    Layout &layout = layouts[value];
    if (placement.isSplit()) {
      layout.axes[static_cast<size_t>(placement.getDim())].push_back(axis);
      int64_t &extent = layout.shape[static_cast<size_t>(placement.getDim())];
      if (!ShapedType::isDynamic(extent) &&
          llvm::MulOverflow(extent, mesh.getAxes()[static_cast<size_t>(axis)].size, extent))
        return emitError(value.getLoc())
               << "the logical extent of dimension " << placement.getDim() << " overflows";
    } else if (placement.isPartial()) {
      if (!layout.partial.empty() && layout.kind != placement.getKind())
        return emitError(value.getLoc())
               << "expected partial results of one kind, found " << stringifyReduceKind(layout.kind)
               << " and " << stringifyReduceKind(placement.getKind());
      layout.partial.push_back(axis);
      layout.kind = placement.getKind();
    }
  }
  return success();
}

static LogicalResult verifyArgument(BlockArgument argument) {
  Type type = argument.getType();
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (isElementType(getElementTypeOrSelf(type)) && (tensor || isElementType(type)))
    return success();
  return emitError(argument.getLoc())
         << "argument " << argument.getArgNumber() << ": expected a tensor with a rank or a "
         << "scalar, of " << kElementTypes << ", found " << type;
}

Layout Layouts::getReturned(Value value) const {
  if (auto it = layouts.find(value); it != layouts.end())
    return it->second;
  Layout layout;
  llvm::append_range(layout.shape, cast<RankedTensorType>(value.getType()).getShape());
  layout.axes.resize(layout.shape.size());
  if (auto it = annotations.find(value); it != annotations.end())
    for (auto [dim, axes] : llvm::enumerate(it->second)) {
      layout.axes[dim] = axes;
      for (int16_t axis : ShapedType::isDynamic(layout.shape[dim]) ? GridAxes() : axes)
        layout.shape[dim] *= mesh.getAxes()[static_cast<size_t>(axis)].size;
    }
  return layout;
}

LogicalResult Layouts::infer() {
  Block &body = function.getBody().front();
  for (BlockArgument argument : body.getArguments())
    if (failed(verifyArgument(argument)))
      return failure();
  for (Operation &op : body)
    if (failed(verifyConvertible(&op, grid)))
      return failure();
  auto addValue = [&](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type || getSplat(value))
      return;
    values.push_back(value);
    Layout &layout = layouts[value];
    llvm::append_range(layout.shape, type.getShape());
    layout.axes.resize(static_cast<size_t>(type.getRank()));
  };
  llvm::for_each(body.getArguments(), addValue);
  for (Operation &op : body)
    llvm::for_each(op.getResults(), addValue);

  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (Attribute attr = function.getArgAttr(i, kSplitAxesAttrName))
      if (failed(readAnnotation(attr, function.getArgument(i), function.getArgument(i).getLoc())))
        return failure();
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (Attribute attr = function.getResultAttr(i, kSplitAxesAttrName))
      if (failed(readAnnotation(attr, body.getTerminator()->getOperand(i),
                                body.getTerminator()->getLoc())))
        return failure();
  for (auto [axis, size] : llvm::enumerate(grid.getShape()))
    if (size != 1 && failed(inferAlong(static_cast<int16_t>(axis))))
      return failure();
  return orderAxes(function, layouts, annotations);
}
