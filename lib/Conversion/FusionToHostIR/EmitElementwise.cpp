//===- EmitElementwise.cpp - emits slices of elementwise ops as kernel launches -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/SymbolTable.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::tandem;

/// What a kernel computes, as text: ops that agree in it share the kernel.
static std::string getKernelKey(Operation *op, ArrayRef<TypedAttr> scalars) {
  std::string key;
  llvm::raw_string_ostream os(key);
  os << op->getName() << op->getAttrDictionary() << op->getPropertiesAsAttribute();
  for (auto [operand, scalar] : llvm::zip_equal(op->getOperands(), scalars)) {
    os << ',';
    if (scalar)
      os << scalar;
    else
      os << cast<RankedTensorType>(operand.getType()).getElementType();
  }
  os << "->" << cast<RankedTensorType>(op->getResult(0).getType()).getElementType();
  return key;
}

FailureOr<hostir::KernelOp> Emitter::getKernel(Operation *op, ArrayRef<TypedAttr> scalars) {
  hostir::KernelOp &kernel = kernels[getKernelKey(op, scalars)];
  if (kernel)
    return kernel;

  Location loc = op->getLoc();
  SmallVector<Type> inputs;
  for (auto [operand, scalar] : llvm::zip_equal(op->getOperands(), scalars))
    if (!scalar)
      inputs.push_back(cast<RankedTensorType>(operand.getType()).getElementType());
  Type output = cast<RankedTensorType>(op->getResult(0).getType()).getElementType();

  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(program);
  OperationState state(loc, hostir::KernelOp::getOperationName());
  auto &properties = state.getOrAddProperties<hostir::KernelOp::Properties>();
  properties.sym_name =
      builder.getStringAttr(program.getSymName() + "." + op->getName().stripDialect());
  properties.sym_visibility = builder.getStringAttr("private");
  properties.function_type = TypeAttr::get(builder.getFunctionType(inputs, output));
  Block *body = new Block();
  state.addRegion()->push_back(body);
  kernel = cast<hostir::KernelOp>(builder.create(state));
  // The table makes the name unique.
  if (!symbols)
    symbols.emplace(program->getParentOp());
  symbols->insert(kernel);

  builder.setInsertionPointToStart(body);
  SmallVector<Value> operands;
  for (auto [operand, scalar] : llvm::zip_equal(op->getOperands(), scalars)) {
    if (scalar)
      operands.push_back(arith::ConstantOp::create(builder, loc, scalar));
    else
      operands.push_back(
          body->addArgument(cast<RankedTensorType>(operand.getType()).getElementType(), loc));
  }
  if (DenseElementsAttr constant; matchPattern(op, m_Constant(&constant))) {
    operands = {arith::ConstantOp::create(builder, loc, constant.getSplatValue<TypedAttr>())};
    hostir::YieldOp::create(builder, loc, operands);
    return kernel;
  }
  OperationState compute(loc, op->getName(), operands, output,
                         op->getDiscardableAttrDictionary().getValue());
  compute.propertiesAttr = op->getPropertiesAsAttribute();
  Operation *scalarOp = builder.create(compute);
  hostir::YieldOp::create(builder, loc, scalarOp->getResults());
  return kernel;
}

LogicalResult Emitter::emitConstant(Operation *op) {
  DenseElementsAttr constant;
  if (!matchPattern(op, m_Constant(&constant)) || !constant.isSplat())
    return op->emitError("a constant that is not a splat is not lowered yet");
  if (!fusion::getAxes(op->getResult(0)))
    return op->emitError("expected results with axes, found ") << op->getResult(0).getType();
  FailureOr<hostir::KernelOp> kernel = getKernel(op, {});
  if (failed(kernel))
    return failure();
  Value out = getOrAllocBuffer(op->getResult(0));
  onMesh(op->getLoc(), fusion::getAxes(op->getResult(0)).getMesh(), [&] {
    hostir::LaunchOp::create(builder, op->getLoc(),
                             FlatSymbolRefAttr::get((*kernel).getSymNameAttr()), ValueRange(),
                             ValueRange(out), mainStream);
  });
  return success();
}

LogicalResult Emitter::emitElementwise(Operation *op, const SliceIndex *index, Value stream) {
  Location loc = op->getLoc();
  std::optional<fusion::AxesRule> rule = fusion::getAxesRule(op);
  if (!rule || op->getNumResults() != 1 || op->getNumRegions() != 0)
    return op->emitError("expected an elementwise op with one result");
  auto isBufferType = [](Type type) {
    Type element = cast<RankedTensorType>(type).getElementType();
    return isa<Float32Type, Float16Type, BFloat16Type>(element) || element.isInteger(32);
  };
  for (Type type : llvm::concat<const Type>(op->getOperandTypes(), op->getResultTypes()))
    if (!isa<RankedTensorType>(type) || !isBufferType(type))
      return op->emitError("expected tensors of f32, f16, bf16 or i32, found ") << type;

  LocalDims outDims = getLocalDims(cast<RankedTensorType>(op->getResult(0).getType()), index);
  SmallVector<TypedAttr> scalars;
  SmallVector<Value> inputs;
  for (OpOperand &operand : op->getOpOperands()) {
    DenseElementsAttr constant;
    if (matchPattern(operand.get(), m_Constant(&constant))) {
      if (!constant.isSplat())
        return op->emitError("operand ") << operand.getOperandNumber()
                                         << ": a constant that is not a splat is not lowered yet";
      scalars.push_back(constant.getSplatValue<TypedAttr>());
      continue;
    }
    scalars.push_back({});
    LocalDims dims = getOperandDims(op, *rule, operand.getOperandNumber(), outDims);
    inputs.push_back(getOperandView(operand.get(), dims, loc));
  }
  Value out = getResultView(op->getResult(0), outDims, loc);
  FailureOr<hostir::KernelOp> kernel = getKernel(op, scalars);
  if (failed(kernel))
    return failure();
  hostir::LaunchOp::create(builder, loc, FlatSymbolRefAttr::get(kernel->getSymNameAttr()), inputs,
                           ValueRange(out), stream);
  return success();
}
