//===- Elementwise.cpp - lowering of elementwise ops to kernel launches -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../OpLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace tandem;

namespace {
/// An op as a kernel: operands are constants or inputs.
struct Elementwise {
  struct Operand {
    TypedAttr number; ///< null for an input
    unsigned input = 0;
  };
  Operation *op = nullptr;
  SmallVector<Operand> operands;
  SmallVector<OpOperand *> inputs; ///< one per distinct value
};
} // namespace

static Type elementOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

static FailureOr<Elementwise> getElementwise(Operation *op) {
  if (!op->hasTrait<OpTrait::Elementwise>() || op->getNumResults() != 1 || op->getNumRegions() != 0)
    return op->emitError("expected an elementwise op with one result");
  Elementwise result;
  result.op = op;
  for (OpOperand &operand : op->getOpOperands()) {
    DenseElementsAttr constant;
    if (matchPattern(operand.get(), m_Constant(&constant))) {
      if (!constant.isSplat())
        return op->emitError("operand ") << operand.getOperandNumber()
                                         << ": a constant that is not a splat is not lowered yet";
      result.operands.push_back({constant.getSplatValue<TypedAttr>()});
      continue;
    }
    if (!isa<RankedTensorType>(operand.get().getType()))
      return op->emitError("expected tensors, found ") << operand.get().getType();
    const auto *known = llvm::find_if(
        result.inputs, [&](OpOperand *input) { return input->get() == operand.get(); });
    result.operands.push_back({{}, static_cast<unsigned>(known - result.inputs.begin())});
    if (known == result.inputs.end())
      result.inputs.push_back(&operand);
  }
  return result;
}

/// A kernel's computation as text: ops with equal texts share the kernel.
static std::string getKernelKey(const Elementwise &kernel) {
  std::string key;
  llvm::raw_string_ostream os(key);
  Operation *op = kernel.op;
  os << op->getName() << op->getDiscardableAttrDictionary() << op->getPropertiesAsAttribute();
  for (const Elementwise::Operand &operand : kernel.operands) {
    if (operand.number)
      os << ',' << operand.number;
    else
      os << ",in" << operand.input;
  }
  os << "->" << elementOf(op->getResult(0)) << ';';
  for (OpOperand *input : kernel.inputs)
    os << elementOf(input->get()) << ',';
  return key;
}

Value ElementwiseLowering::emitElement(Operation *op, ValueRange elements,
                                       OpBuilder &builder) const {
  OperationState state(op->getLoc(), op->getName(), elements, elementOf(op->getResult(0)),
                       op->getDiscardableAttrDictionary().getValue());
  state.propertiesAttr = op->getPropertiesAsAttribute();
  return builder.create(state)->getResult(0);
}

/// `emitElement` emits the computation on the operands' elements.
static hostir::KernelOp getKernel(ProgramBuilder &program, const Elementwise &elementwise,
                                  function_ref<Value(ValueRange)> emitElement) {
  OpBuilder &builder = program.getBuilder();
  Operation *op = elementwise.op;
  Location loc = op->getLoc();
  SmallVector<Type> inputs = llvm::map_to_vector(
      elementwise.inputs, [](OpOperand *input) { return elementOf(input->get()); });
  auto compute = [&](ValueRange arguments) -> Value {
    SmallVector<Value> operands;
    for (const Elementwise::Operand &source : elementwise.operands)
      operands.push_back(source.number ? arith::ConstantOp::create(builder, loc, source.number)
                                       : arguments[source.input]);
    return emitElement(operands);
  };
  return program.getKernel(loc, getKernelKey(elementwise), op->getName().stripDialect(), inputs,
                           elementOf(op->getResult(0)), compute);
}

LogicalResult tandem::emitConstant(Operation *op, ProgramBuilder &program) {
  DenseElementsAttr constant;
  if (!fusion::getAxes(op->getResult(0)))
    return op->emitError("expected results with axes, found ") << op->getResult(0).getType();
  bool isConstant = matchPattern(op, m_Constant(&constant));
  if (isConstant && constant.empty()) {
    (void)program.getOrAllocBuffer(op->getResult(0));
    return success();
  }
  if (!isConstant || !constant.isSplat())
    return op->emitError("a constant that is not a splat is not lowered yet");
  auto value = dyn_cast<TypedAttr>(constant.getSplatValue<Attribute>());
  if (!value)
    return op->emitError("expected a constant of numbers, found ") << op->getResult(0).getType();
  Elementwise elementwise;
  elementwise.op = op;
  hostir::KernelOp kernel = getKernel(program, elementwise, [&](ValueRange) -> Value {
    return arith::ConstantOp::create(program.getBuilder(), op->getLoc(), value);
  });
  Value out = program.getOrAllocBuffer(op->getResult(0));
  program.onMesh(op->getLoc(), fusion::getAxes(op->getResult(0)).getMesh(), [&] {
    program.launch(op->getLoc(), kernel, ValueRange(), out, program.getMainStream());
  });
  return success();
}

LogicalResult ElementwiseLowering::emit(Operation *op, const SliceIndex *index, Value stream,
                                        LoopEmitter &loop) const {
  ProgramBuilder &program = loop.program;
  OpBuilder &builder = loop.getBuilder();
  Location loc = op->getLoc();
  FailureOr<Elementwise> elementwise = getElementwise(op);
  std::optional<fusion::AxesRule> rule = fusion::getAxesRule(op);
  if (failed(elementwise) || !rule)
    return failure();
  auto resultType = cast<RankedTensorType>(op->getResult(0).getType());

  OpDims dims;
  dims.result = getLocalDims(resultType, index);
  SmallVector<Value> inputs;
  SmallVector<SmallVector<int64_t>> factors;
  for (OpOperand *input : elementwise->inputs) {
    unsigned number = input->getOperandNumber();
    dims.operands.push_back(getOperandDims(op, *rule, number, dims.result));
    inputs.push_back(loop.getSource(input->get(), dims.operands.back()));
    factors.push_back(rule->operands[number]);
  }
  Value out =
      loop.getTarget(op->getResult(0), program.getOrAllocBuffer(op->getResult(0)), dims.result);
  if (failed(alignDims(builder, op, factors, rule->results[0], dims)))
    return failure();
  for (auto [buffer, mine] : llvm::zip_equal(inputs, dims.operands))
    buffer = makeView(builder, loc, buffer, mine, true);
  out = makeView(builder, loc, out, dims.result, true);
  hostir::KernelOp kernel = getKernel(program, *elementwise, [&](ValueRange elements) {
    return emitElement(op, elements, builder);
  });
  program.launch(loc, kernel, inputs, out, stream);
  return success();
}
