//===- FusionDialect.cpp - the dialect and its discardable attributes -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Fusion/IR/FusionDialect.h"

#include "ElementwiseModels.h"
#include "OpVerify.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Support/VaryingAttrs.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

#include "tandem/Dialect/Fusion/IR/FusionDialect.cpp.inc"

void FusionDialect::initialize() {
  registerAttributes();
  registerOps();
  attachElementwiseModels(*getContext());
}

/// Verifies a hint for `fusion-insert-reshards`.
static LogicalResult verifyHint(Operation *op, NamedAttribute attr) {
  StringRef name = attr.getName().getValue();
  if (!isLocalComputation(op))
    return op->emitOpError() << "expected '" << name << "' on an operation that computes locally";
  if (name == kScheduleAttrName) {
    if (!isa<ScheduleAttr>(attr.getValue()))
      return op->emitOpError() << "expected a '#fusion.schedule' in '" << name << "', found "
                               << attr.getValue();
    return success();
  }
  auto hint = dyn_cast<StringAttr>(attr.getValue());
  if (!hint || (hint != "before" && hint != "after"))
    return op->emitOpError() << "expected \"before\" or \"after\" in '" << name << "', found "
                             << attr.getValue();
  return success();
}

static LogicalResult verifyVaryingAttr(CallOp call, NamedAttribute attr) {
  FailureOr<SmallVector<SmallVector<int64_t>>> numbers = call.getParallelDims();
  if (failed(numbers)) // an error of the op
    return success();
  int64_t count = llvm::count_if(numbers->front(), [](int64_t number) { return number >= 0; });
  if (areDims(attr.getValue(), count))
    return success();
  return call.emitOpError() << "expected ascending parallel dimensions below " << count << " in '"
                            << kVaryingAttrName << "', found " << attr.getValue();
}

static LogicalResult verifyVaryingAttr(ReshapeOp reshape, NamedAttribute attr) {
  auto lists = dyn_cast<ArrayAttr>(attr.getValue());
  if (lists && lists.size() == 2 && areDims(lists[0], reshape.getInput().getType().getRank()) &&
      areDims(lists[1], reshape.getType().getRank()))
    return success();
  return reshape.emitOpError() << "expected ascending dimensions of the operand and of the result "
                                  "in '"
                               << kVaryingAttrName << "', found " << attr.getValue();
}

LogicalResult FusionDialect::verifyOperationAttribute(Operation *op, NamedAttribute attr) {
  if (auto call = dyn_cast<CallOp>(op); call && attr.getName() == kVaryingAttrName)
    return verifyVaryingAttr(call, attr);
  if (auto reshape = dyn_cast<ReshapeOp>(op); reshape && attr.getName() == kVaryingAttrName)
    return verifyVaryingAttr(reshape, attr);
  if (attr.getName() == kScheduleAttrName || attr.getName() == kGatherAttrName)
    return verifyHint(op, attr);
  StringRef name = attr.getName().getValue();
  if (name != kReferenceOfAttrName && name != kDeterministicAttrName)
    return op->emitOpError() << "expected an attribute of dialect 'fusion' on an operation, found '"
                             << name << "'"
                             << suggestName(name, {kScheduleAttrName, kGatherAttrName,
                                                   kReferenceOfAttrName, kDeterministicAttrName});
  if (!isa<FunctionOpInterface>(op))
    return op->emitOpError() << "expected '" << name << "' on a function";
  if (name == kDeterministicAttrName) {
    auto level = dyn_cast<StringAttr>(attr.getValue());
    if (!level || !isDeterminism(level.getValue()))
      return op->emitOpError() << "expected \"bitwise\", \"batch\" or \"tp\" in '" << name
                               << "', found " << attr.getValue();
    return success();
  }
  if (!isa<FlatSymbolRefAttr>(attr.getValue()))
    return op->emitOpError() << "expected a symbol in '" << kReferenceOfAttrName << "', found "
                             << attr.getValue();
  return success();
}

/// `dictionaries`: the attributes of all arguments, or of all results; `attr` is in number `index`.
/// A name differs from those of the others, also from the "arg1" or "res1" of one without a name.
static LogicalResult verifyNameAttr(Operation *op, NamedAttribute attr, StringRef what,
                                    ArrayAttr dictionaries, unsigned index) {
  auto name = dyn_cast<StringAttr>(attr.getValue());
  if (!name || name.empty())
    return op->emitOpError() << "expected a nonempty string in '" << kNameAttrName << "', found "
                             << attr.getValue();
  for (unsigned other = 0; other < dictionaries.size(); ++other) {
    Attribute given = cast<DictionaryAttr>(dictionaries[other]).get(kNameAttrName);
    if (given ? other < index && given == name
              : other != index && name == (what.take_front(3) + Twine(other)).str())
      return op->emitOpError() << "expected " << what << "s with different names, found " << name
                               << " for " << other << " and " << index;
  }
  return success();
}

static LogicalResult verifyShapeAttr(Operation *op, Type type, NamedAttribute attr) {
  auto shape = dyn_cast<ArrayAttr>(attr.getValue());
  auto tensor = dyn_cast_if_present<RankedTensorType>(type);
  if (!tensor)
    return op->emitOpError() << "expected '" << kShapeAttrName << "' on a ranked tensor, found "
                             << type;
  if (!shape || static_cast<int64_t>(shape.size()) != tensor.getRank())
    return op->emitOpError() << "expected an array of " << tensor.getRank() << " entries in '"
                             << kShapeAttrName << "', found " << attr.getValue();
  for (Attribute entry : shape) {
    auto extent = dyn_cast<IntegerAttr>(entry);
    auto axis = dyn_cast<StringAttr>(entry);
    if (!axis && !(extent && extent.getValue().isNonNegative()))
      return op->emitOpError() << "expected an extent or the name of a mesh axis in '"
                               << kShapeAttrName << "', found " << entry;
  }
  return success();
}

static LogicalResult verifyExtentsAttr(Operation *op, Type type, NamedAttribute attr) {
  auto extents = dyn_cast<DenseI64ArrayAttr>(attr.getValue());
  auto tensor = dyn_cast_if_present<RankedTensorType>(type);
  if (extents && tensor && extents.size() == tensor.getRank() &&
      llvm::all_of(llvm::zip_equal(extents.asArrayRef(), tensor.getShape()), [](auto pair) {
        return std::get<0>(pair) >= 0 && std::get<0>(pair) <= std::get<1>(pair);
      }))
    return success();
  return op->emitOpError() << "expected extents up to those of " << type << " in '"
                           << kExtentsAttrName << "', found " << attr.getValue();
}

static LogicalResult verifyVaryingAttr(Operation *op, Type type, NamedAttribute attr) {
  auto tensor = dyn_cast_if_present<RankedTensorType>(type);
  if (areDims(attr.getValue(), tensor ? tensor.getRank() : 0))
    return success();
  return op->emitOpError() << "expected ascending dimensions of " << type << " in '"
                           << kVaryingAttrName << "', found " << attr.getValue();
}

LogicalResult FusionDialect::verifyRegionArgAttribute(Operation *op, unsigned regionIndex,
                                                      unsigned argIndex, NamedAttribute attr) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function)
    return op->emitOpError() << "expected '" << attr.getName().getValue()
                             << "' on an argument of a function";
  StringRef name = attr.getName().getValue();
  if (name == kNameAttrName)
    return verifyNameAttr(op, attr, "argument", function.getAllArgAttrs(), argIndex);
  if (name == kShapeAttrName)
    return verifyShapeAttr(op, function.getArgumentTypes()[argIndex], attr);
  if (name == kExtentsAttrName)
    return verifyExtentsAttr(op, function.getArgumentTypes()[argIndex], attr);
  if (name == kVaryingAttrName)
    return verifyVaryingAttr(op, function.getArgumentTypes()[argIndex], attr);
  if (name == kMaskAttrName && isa<UnitAttr>(attr.getValue()))
    return success();
  return op->emitOpError() << "expected an attribute of dialect 'fusion' on an argument, found '"
                           << name << "'"
                           << suggestName(name, {kNameAttrName, kShapeAttrName, kExtentsAttrName,
                                                 kVaryingAttrName});
}

LogicalResult FusionDialect::verifyRegionResultAttribute(Operation *op, unsigned regionIndex,
                                                         unsigned resultIndex,
                                                         NamedAttribute attr) {
  StringRef name = attr.getName().getValue();
  if (name == kNameAttrName)
    return verifyNameAttr(op, attr, "result", cast<FunctionOpInterface>(op).getAllResultAttrs(),
                          resultIndex);
  if (name == kExtentsAttrName)
    return verifyExtentsAttr(op, cast<FunctionOpInterface>(op).getResultTypes()[resultIndex], attr);
  if (name == kVaryingAttrName)
    return verifyVaryingAttr(op, cast<FunctionOpInterface>(op).getResultTypes()[resultIndex], attr);
  return op->emitOpError() << "expected an attribute of dialect 'fusion' on a result, found '"
                           << name << "'"
                           << suggestName(name,
                                          {kNameAttrName, kExtentsAttrName, kVaryingAttrName});
}

AxesAttr tandem::fusion::getAxes(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? dyn_cast_if_present<AxesAttr>(tensor.getEncoding()) : AxesAttr();
}

RankedTensorType tandem::fusion::withAxes(RankedTensorType type, AxesAttr axes) {
  return RankedTensorType::get(type.getShape(), type.getElementType(), axes);
}
