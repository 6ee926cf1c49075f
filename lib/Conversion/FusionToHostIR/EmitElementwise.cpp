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

/// What a buffer may hold.
static bool isBufferElement(Type type) {
  return isa<Float32Type, Float16Type, BFloat16Type>(type) || type.isInteger(32);
}

/// One kernel's worth of ops. Truth values have no buffers: who uses one computes it.
struct Emitter::Elementwise {
  /// An operand of an op: a number, the result of an earlier op, or an input.
  struct Operand {
    TypedAttr scalar;
    std::optional<unsigned> op;
    unsigned input = 0;
  };
  struct Input {
    OpOperand *operand;
  };
  SmallVector<Operation *> ops; ///< producers first
  SmallVector<SmallVector<Operand>> operands;
  SmallVector<Input> inputs; ///< of distinct values
};

static Type elementOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

bool Emitter::isTruth(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getElementType().isInteger(1);
}

FailureOr<unsigned> Emitter::collectElementwise(Operation *op, Elementwise &kernel) {
  if (const auto *known = llvm::find(kernel.ops, op); known != kernel.ops.end())
    return known - kernel.ops.begin();
  if (!op->hasTrait<OpTrait::Elementwise>() || op->getNumResults() != 1 || op->getNumRegions() != 0)
    return op->emitError("expected an elementwise op with one result");
  SmallVector<Elementwise::Operand> operands;
  for (OpOperand &operand : op->getOpOperands()) {
    DenseElementsAttr constant;
    auto type = dyn_cast<RankedTensorType>(operand.get().getType());
    if (matchPattern(operand.get(), m_Constant(&constant))) {
      if (!constant.isSplat())
        return op->emitError("operand ") << operand.getOperandNumber()
                                         << ": a constant that is not a splat is not lowered yet";
      operands.push_back({constant.getSplatValue<TypedAttr>(), {}});
      continue;
    }
    if (isTruth(operand.get())) {
      Operation *producer = operand.get().getDefiningOp();
      if (!producer)
        return op->emitError("operand ")
               << operand.getOperandNumber() << ": expected a tensor of i1 that an elementwise op "
               << "makes, found an argument";
      FailureOr<unsigned> number = collectElementwise(producer, kernel);
      if (failed(number))
        return failure();
      unsigned made = *number;
      operands.push_back({{}, made});
      continue;
    }
    if (!type || !isBufferElement(type.getElementType()))
      return op->emitError("expected tensors of f32, f16, bf16 or i32, found ")
             << operand.get().getType();
    const auto *known = llvm::find_if(kernel.inputs, [&](const Elementwise::Input &input) {
      return input.operand->get() == operand.get();
    });
    operands.push_back({{}, {}, static_cast<unsigned>(known - kernel.inputs.begin())});
    if (known == kernel.inputs.end())
      kernel.inputs.push_back({&operand});
  }
  kernel.ops.push_back(op);
  kernel.operands.push_back(std::move(operands));
  return kernel.ops.size() - 1;
}

/// What a kernel computes, as text: ops that agree in it share the kernel.
std::string Emitter::getKernelKey(const Elementwise &kernel) {
  std::string key;
  llvm::raw_string_ostream os(key);
  for (auto [op, operands] : llvm::zip_equal(kernel.ops, kernel.operands)) {
    os << op->getName() << op->getDiscardableAttrDictionary() << op->getPropertiesAsAttribute();
    for (const Elementwise::Operand &operand : operands) {
      if (operand.scalar)
        os << ',' << operand.scalar;
      else if (operand.op)
        os << ",op" << *operand.op;
      else
        os << ",in" << operand.input;
    }
    os << "->" << elementOf(op->getResult(0)) << ';';
  }
  for (const Elementwise::Input &input : kernel.inputs)
    os << elementOf(input.operand->get()) << ',';
  return key;
}

FailureOr<hostir::KernelOp> Emitter::getKernel(const Elementwise &elementwise) {
  hostir::KernelOp &kernel = kernels[getKernelKey(elementwise)];
  if (kernel)
    return kernel;

  Operation *last = elementwise.ops.back();
  Location loc = last->getLoc();
  SmallVector<Type> inputs =
      llvm::map_to_vector(elementwise.inputs, [](const Elementwise::Input &input) {
        return elementOf(input.operand->get());
      });

  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(program);
  OperationState state(loc, hostir::KernelOp::getOperationName());
  auto &properties = state.getOrAddProperties<hostir::KernelOp::Properties>();
  properties.sym_name =
      builder.getStringAttr(program.getSymName() + "." + last->getName().stripDialect());
  properties.sym_visibility = builder.getStringAttr("private");
  properties.function_type =
      TypeAttr::get(builder.getFunctionType(inputs, elementOf(last->getResult(0))));
  Block *body = new Block();
  state.addRegion()->push_back(body);
  kernel = cast<hostir::KernelOp>(builder.create(state));
  // The table makes the name unique.
  if (!symbols)
    symbols.emplace(program->getParentOp());
  symbols->insert(kernel);

  builder.setInsertionPointToStart(body);
  for (Type input : inputs)
    body->addArgument(input, loc);
  SmallVector<Value> results;
  for (auto [op, sources] : llvm::zip_equal(elementwise.ops, elementwise.operands)) {
    if (DenseElementsAttr constant; matchPattern(op, m_Constant(&constant))) {
      results.push_back(
          arith::ConstantOp::create(builder, loc, constant.getSplatValue<TypedAttr>()));
      continue;
    }
    SmallVector<Value> operands;
    for (const Elementwise::Operand &source : sources) {
      if (source.scalar)
        operands.push_back(arith::ConstantOp::create(builder, op->getLoc(), source.scalar));
      else
        operands.push_back(source.op ? results[*source.op] : body->getArgument(source.input));
    }
    OperationState compute(op->getLoc(), op->getName(), operands, elementOf(op->getResult(0)),
                           op->getDiscardableAttrDictionary().getValue());
    compute.propertiesAttr = op->getPropertiesAsAttribute();
    results.push_back(builder.create(compute)->getResult(0));
  }
  hostir::YieldOp::create(builder, loc, results.back());
  return kernel;
}

LogicalResult Emitter::emitConstant(Operation *op) {
  DenseElementsAttr constant;
  if (!matchPattern(op, m_Constant(&constant)) || !constant.isSplat())
    return op->emitError("a constant that is not a splat is not lowered yet");
  if (!fusion::getAxes(op->getResult(0)))
    return op->emitError("expected results with axes, found ") << op->getResult(0).getType();
  Elementwise elementwise;
  elementwise.ops.push_back(op);
  elementwise.operands.emplace_back();
  FailureOr<hostir::KernelOp> kernel = getKernel(elementwise);
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
  if (op->getNumResults() == 1 && isTruth(op->getResult(0)))
    return success();
  Elementwise elementwise;
  if (failed(collectElementwise(op, elementwise)))
    return failure();
  auto resultType = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!resultType || !isBufferElement(resultType.getElementType()))
    return op->emitError("expected tensors of f32, f16, bf16 or i32, found ")
           << op->getResult(0).getType();

  LocalDims outDims = getLocalDims(resultType, index);
  SmallVector<Value> inputs;
  for (const Elementwise::Input &input : elementwise.inputs) {
    Operation *user = input.operand->getOwner();
    std::optional<fusion::AxesRule> rule = fusion::getAxesRule(user);
    if (!rule)
      return user->emitError("expected an elementwise op with one result");
    LocalDims dims = getOperandDims(user, *rule, input.operand->getOperandNumber(), outDims);
    inputs.push_back(getOperandView(input.operand->get(), dims, loc));
  }
  Value out = getResultView(op->getResult(0), outDims, loc);
  FailureOr<hostir::KernelOp> kernel = getKernel(elementwise);
  if (failed(kernel))
    return failure();
  hostir::LaunchOp::create(builder, loc, FlatSymbolRefAttr::get(kernel->getSymNameAttr()), inputs,
                           ValueRange(out), stream);
  return success();
}
