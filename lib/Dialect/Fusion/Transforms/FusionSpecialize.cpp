//===- FusionSpecialize.cpp - fusion-specialize -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PassLog.h"
#include "Retype.h"
#include "SpecializeExtents.h"
#include "SpecializeMesh.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/Transforms/Passes.h"
#include "tandem/Support/ElementTypes.h"
#include "tandem/Support/VaryingAttrs.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"

namespace tandem::fusion {
#define GEN_PASS_DEF_FUSIONSPECIALIZE
#include "tandem/Dialect/Fusion/Transforms/Passes.h.inc"
} // namespace tandem::fusion

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

using Shape = SmallVector<int64_t>;

static LogicalResult verifyKnown(Value value, const Twine &what) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type)
    return success();
  // What is only computed may be narrower or wider in registers, but has a number of bits.
  Type element = type.getElementType();
  if (isa<BlockArgument>(value) ? !isElementType(element) : !element.isIntOrFloat())
    return emitError(value.getLoc())
           << "expected elements of " << what << " of " << kElementTypes << ", found " << element;
  if (AxesAttr axes = getAxes(value))
    for (const MeshAxis &axis : axes.getMesh().getAxes())
      if (ShapedType::isDynamic(axis.size))
        return emitError(value.getLoc())
               << "expected a known size of axis " << axis.name << " of mesh "
               << axes.getMesh().getName() << ", found '?' (name it with option 'mesh')";
  for (auto [dim, extent] : llvm::enumerate(type.getShape()))
    if (ShapedType::isDynamic(extent))
      return emitError(value.getLoc())
             << "expected a known extent in dimension " << dim << " of " << what
             << ", found '?' in " << type
             << (isa<BlockArgument>(value) ? " (give extents with option 'shape')" : "");
  int64_t bytes = llvm::divideCeil(type.getElementTypeBitWidth(), 8);
  for (int64_t extent : type.getShape())
    if (llvm::MulOverflow(bytes, std::max<int64_t>(extent, 1), bytes))
      return emitError(value.getLoc())
             << "expected " << what << " of less than 2^63 bytes, found " << withAxes(type, {});
  return success();
}

namespace {
struct FusionSpecializePass : public fusion::impl::FusionSpecializeBase<FusionSpecializePass> {
  using FusionSpecializeBase::FusionSpecializeBase;

  void runOnOperation() override {
    PassLog logger("fusion-specialize", log);
    extents = 0;
    if (failed(specializeMeshes(getOperation(), mesh, devices, logger)) || failed(parseShapes()))
      return signalPassFailure();
    if (failed(checkEntry()) || failed(checkNames()))
      return signalPassFailure();
    if (bound < 0) {
      getOperation().emitError() << "option bound: expected at least 1, found " << bound;
      return signalPassFailure();
    }
    if (!deterministic.empty() && !isDeterminism(deterministic)) {
      getOperation().emitError() << "option deterministic: expected bitwise, batch or tp, found \""
                                 << deterministic << "\"";
      return signalPassFailure();
    }
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      if (!deterministic.empty())
        function->setAttr(kDeterministicAttrName, StringAttr::get(&getContext(), deterministic));
      if (failed(specialize(function)))
        return signalPassFailure();
    }
    logger.summary(getOperation().getLoc(), {{"extents", extents}});
    numExtents += extents;
  }

private:
  unsigned extents = 0;
  /// By name or position of the argument; the option owns the names.
  llvm::MapVector<StringRef, Shape> shapes;

  LogicalResult checkEntry() {
    auto function = getOperation().lookupSymbol<func::FuncOp>(entry);
    if (entry.empty() || (function && !function.isExternal()))
      return success();
    return getOperation().emitError()
           << "expected a function of that name with a body in option 'entry', found '" << entry
           << "'";
  }

  /// `name=8x64`; a scalar is `name=`.
  LogicalResult parseShapes() {
    shapes.clear();
    for (const std::string &option : shape) {
      StringRef text = option;
      auto [name, extents] = text.split('=');
      Shape given;
      bool valid = !name.empty() && text.contains('=');
      for (StringRef part : llvm::split(extents, 'x')) {
        int64_t extent;
        if (extents.empty())
          break;
        if (part == "?" && bound > 0)
          given.push_back(ShapedType::kDynamic);
        else if (part.getAsInteger(10, extent) || extent < 0)
          valid = false;
        else
          given.push_back(extent);
      }
      if (!valid || !shapes.insert({name, given}).second)
        return getOperation().emitError()
               << "expected 'argument=8x64' for distinct arguments in option 'shape', found '"
               << text << "'";
    }
    return success();
  }

  /// The option's shape of an argument, if any.
  llvm::MapVector<StringRef, Shape>::iterator findOption(func::FuncOp function, unsigned number) {
    if (!entry.empty() && function.getSymName() != entry)
      return shapes.end();
    auto it = shapes.find("arg" + std::to_string(number));
    auto name = function.getArgAttrOfType<StringAttr>(number, kNameAttrName);
    return it == shapes.end() && name ? shapes.find(name.getValue()) : it;
  }

  /// Checks that every shape belongs to an argument.
  LogicalResult checkNames() {
    llvm::StringSet<> used;
    SmallVector<std::string> known;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal() || (!entry.empty() && function.getSymName() != entry))
        continue;
      for (unsigned number = 0; number < function.getNumArguments(); ++number) {
        if (auto *it = findOption(function, number); it != shapes.end())
          used.insert(it->first);
        auto name = function.getArgAttrOfType<StringAttr>(number, kNameAttrName);
        std::string shown = name ? name.getValue().str() : "arg" + std::to_string(number);
        if (!llvm::is_contained(known, shown))
          known.push_back(shown);
      }
    }
    for (const auto &[name, shape] : shapes)
      if (!used.contains(name))
        return getOperation().emitError()
               << "expected an argument (" << llvm::join(known, ", ")
               << ") in option 'shape', found '" << name
               << "': arguments are named by fusion.name, or by position, as arg0";
    return success();
  }

  /// The shape that option `shape` or `fusion.shape` gives to an argument; null if neither does.
  FailureOr<std::optional<Shape>> getGivenShape(func::FuncOp function, BlockArgument argument) {
    unsigned number = argument.getArgNumber();
    if (const auto *it = findOption(function, number); it != shapes.end())
      return std::optional(it->second);
    auto attr = function.getArgAttrOfType<ArrayAttr>(number, kShapeAttrName);
    if (!attr)
      return std::optional<Shape>();
    Shape shape;
    for (Attribute item : attr) {
      if (auto integer = dyn_cast<IntegerAttr>(item)) {
        shape.push_back(integer.getInt());
        continue;
      }
      StringRef axis = cast<StringAttr>(item).getValue();
      AxesAttr axes = getAxes(argument);
      std::optional<int64_t> size = axes && axes.getMesh().axisIndex(axis) >= 0
                                        ? axes.getMesh().axisSize(axis)
                                        : findAxisSize(getOperation(), axis);
      if (!size || ShapedType::isDynamic(*size))
        return emitError(argument.getLoc())
               << "expected a mesh axis of known size in '" << kShapeAttrName << "', found \""
               << axis << "\" (name its size with option 'mesh')";
      shape.push_back(*size);
    }
    return std::optional(shape);
  }

  LogicalResult specialize(func::FuncOp function) {
    Extents filled(function);
    if (failed(fill(function, filled)))
      return failure();
    extents += filled.getNumFilled();
    for (BlockArgument argument : function.getArguments())
      if (failed(verifyKnown(argument, describe(argument))))
        return failure();
    WalkResult walked = function.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (auto ret = dyn_cast<func::ReturnOp>(op))
        return succeeded(checkReturn(function, ret)) ? WalkResult::advance()
                                                     : WalkResult::interrupt();
      // Fusion ops verify this themselves, other dialects' ops do not.
      if (isElementwise(op) && failed(verifyAttributeNames(op)))
        return WalkResult::interrupt();
      for (auto [i, result] : llvm::enumerate(op->getResults()))
        if (failed(verifyAxes(result)) || failed(verifyKnown(result, "result " + Twine(i))))
          return WalkResult::interrupt();
      return WalkResult::advance();
    });
    if (walked.wasInterrupted())
      return failure();
    updateSignature(function);
    return success();
  }

  /// Fills extents from the given shapes.
  LogicalResult fill(func::FuncOp function, Extents &filled) {
    for (BlockArgument argument : function.getArguments()) {
      if (!isa<RankedTensorType>(argument.getType()))
        continue;
      FailureOr<std::optional<Shape>> given = getGivenShape(function, argument);
      if (failed(given))
        return failure();
      function.removeArgAttr(argument.getArgNumber(), kShapeAttrName);
      if ((*given && failed(filled.refine(argument, **given, "its given shape"))) ||
          failed(verifyAxes(argument)))
        return failure();
    }
    return success(succeeded(filled.propagate()) && succeeded(applyBound(function, filled)));
  }

  /// With a bound, the extents of arguments that are still `?` vary up to it.
  LogicalResult applyBound(func::FuncOp function, Extents &filled) {
    if (bound <= 0)
      return success();
    auto openDims = [](RankedTensorType type) {
      auto dims = llvm::seq<int64_t>(0, type.getRank());
      return llvm::filter_to_vector(dims, [&](int64_t dim) { return type.isDynamicDim(dim); });
    };
    // The bound may be the extent of other dimensions, too: of a reshape, only here is it known
    // which ones vary.
    SmallVector<std::tuple<ReshapeOp, Shape, Shape>> reshapes;
    function.walk([&](ReshapeOp op) {
      reshapes.push_back({op, openDims(op.getInput().getType()), openDims(op.getType())});
    });
    bool varies = false;
    for (BlockArgument argument : function.getArguments()) {
      auto type = dyn_cast<RankedTensorType>(argument.getType());
      if (!type || type.hasStaticShape())
        continue;
      Shape shape(type.getShape());
      SmallVector<int64_t> dims = openDims(type);
      for (int64_t dim : dims)
        shape[dim] = bound;
      if (failed(filled.refine(argument, shape, "the bound")))
        return failure();
      function.setArgAttr(argument.getArgNumber(), kVaryingAttrName,
                          DenseI64ArrayAttr::get(&getContext(), dims));
      varies = true;
    }
    if (!varies)
      return function.emitError()
             << "expected an argument with a `?` extent in option 'shape' or in its type, since "
                "there is a bound";
    if (failed(filled.propagate()))
      return failure();
    auto getVarying = [&](Shape &dims, RankedTensorType type) -> Attribute {
      llvm::erase_if(dims, [&](int64_t dim) { return type.getDimSize(dim) != bound; });
      return DenseI64ArrayAttr::get(&getContext(), dims);
    };
    for (auto &[op, from, to] : reshapes)
      op->setAttr(kVaryingAttrName,
                  ArrayAttr::get(&getContext(), {getVarying(from, op.getInput().getType()),
                                                 getVarying(to, op.getType())}));
    return success();
  }

  /// Checks the return against the signature.
  LogicalResult checkReturn(func::FuncOp function, func::ReturnOp ret) {
    for (auto [i, operand, type] : llvm::enumerate(ret.getOperands(), function.getResultTypes())) {
      auto promised = dyn_cast<RankedTensorType>(type);
      auto found = dyn_cast<RankedTensorType>(operand.getType());
      if (promised && found && failed(verifyCompatibleShape(promised.getShape(), found.getShape())))
        return ret.emitOpError() << "expected result " << i << " of type " << withAxes(promised, {})
                                 << ", found " << withAxes(found, {});
    }
    return success();
  }
};
} // namespace
