//===- HostIRDialect.cpp - the dialect and its discardable attributes -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/HostIR/IR/HostIRDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "tandem/Dialect/HostIR/IR/HostIROps.h"
#include "tandem/Support/VaryingAttrs.h"

using namespace mlir;
using namespace tandem::hostir;

#include "tandem/Dialect/HostIR/IR/HostIRDialect.cpp.inc"

void HostIRDialect::initialize() {
  registerTypesAndAttributes();
  registerOps();
}

Operation *HostIRDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type,
                                              Location loc) {
  return arith::ConstantOp::materialize(builder, value, type, loc);
}

LogicalResult HostIRDialect::verifyOperationAttribute(Operation *op, NamedAttribute attr) {
  if (auto call = dyn_cast<CallOp>(op); call && attr.getName() == kVaryingAttrName) {
    auto count = static_cast<int64_t>(call.getExtents().size());
    if (areDims(attr.getValue(), count))
      return success();
    return op->emitOpError() << "expected ascending parallel dimensions below " << count << " in '"
                             << kVaryingAttrName << "', found " << attr.getValue();
  }
  return op->emitOpError() << "expected no attribute of dialect 'hostir' on an operation, found '"
                           << attr.getName().getValue() << "'";
}

// The program op verifies the attributes against the argument's type (program_c2, program_c3).
LogicalResult HostIRDialect::verifyRegionArgAttribute(Operation *op, unsigned regionIndex,
                                                      unsigned argIndex, NamedAttribute attr) {
  StringRef name = attr.getName().getValue();
  Attribute value = attr.getValue();
  if (!isa<ProgramOp>(op))
    return op->emitOpError() << "expected '" << name << "' on an argument of 'hostir.program'";
  auto verify = [&](bool isValid, StringRef expected) -> LogicalResult {
    if (isValid)
      return success();
    return op->emitOpError() << "expected " << expected << " in '" << name << "', found " << value;
  };
  if (name == kNameAttrName)
    return verify(isa<StringAttr>(value) && !cast<StringAttr>(value).empty(), "a nonempty string");
  if (name == kTypeAttrName)
    return verify(isa<TypeAttr>(value) && isa<RankedTensorType>(cast<TypeAttr>(value).getValue()),
                  "a ranked tensor type");
  if (name == kExtentsAttrName)
    return verify(isa<DenseI64ArrayAttr>(value), "extents");
  if (name == kPartsAttrName)
    return verify(isa<ArrayAttr>(value), "a list");
  if (name == kVaryingAttrName)
    return verify(isa<DenseI64ArrayAttr>(value), "dimensions");
  if (name == kResultAttrName || name == kMaskAttrName) {
    if (!isa<UnitAttr>(value))
      return op->emitOpError() << "expected '" << name << "' without a value, found " << value;
    return success();
  }
  return op->emitOpError() << "expected '" << kNameAttrName << "', '" << kTypeAttrName << "', '"
                           << kExtentsAttrName << "', '" << kPartsAttrName << "', '"
                           << kVaryingAttrName << "', '" << kMaskAttrName << "' or '"
                           << kResultAttrName << "' on an argument, found '" << name << "'";
}

bool tandem::hostir::isSymmetric(Type type) {
  auto memref = dyn_cast<MemRefType>(type);
  return memref && isa_and_present<SymmetricAttr>(memref.getMemorySpace());
}

bool tandem::hostir::isBufferSpace(MemRefType type) {
  Attribute space = type.getMemorySpace();
  return !space || isa<SymmetricAttr>(space);
}

bool tandem::hostir::hasStaticStrides(MemRefType type) {
  if (type.getLayout().isIdentity())
    return true; // also with extents of 0, without strides
  SmallVector<int64_t> strides;
  int64_t offset;
  if (failed(type.getStridesAndOffset(strides, offset)))
    return false;
  return llvm::none_of(strides, ShapedType::isDynamic);
}

Value tandem::hostir::getStream(Operation *op) {
  // Loops and conditions may be between a message and its group.
  if (isa<SendOp, RecvOp>(op))
    if (auto group = op->getParentOfType<GroupOp>())
      return group.getStream();
  for (Value operand : op->getOperands())
    if (isa<StreamType>(operand.getType()))
      return operand;
  return {};
}

bool tandem::hostir::isView(Operation *op) {
  // Upstream's transpose lacks the view interface.
  return isa_and_present<ViewLikeOpInterface, memref::TransposeOp>(op) &&
         op->getNumResults() == 1 && isa<MemRefType>(op->getResult(0).getType()) &&
         isa<MemRefType>(op->getOperand(0).getType());
}

Value tandem::hostir::getViewRoot(Value buffer) {
  for (Operation *op = buffer.getDefiningOp(); isView(op); op = buffer.getDefiningOp())
    buffer = op->getOperand(0);
  return buffer;
}
