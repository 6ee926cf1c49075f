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

/// What a buffer may hold.
static bool isBufferElement(Type type) {
  return isa<Float32Type, Float16Type, BFloat16Type>(type) || type.isInteger(32);
}

namespace {
/// One kernel's worth of ops. Truth values have no buffers: an op that uses one computes it.
struct Elementwise {
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
} // namespace

static Type elementOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

/// Whether it is a tensor of i1, which has no buffer.
static bool isTruth(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getElementType().isInteger(1);
}

/// Adds the op, and what makes its truth values, to a kernel; returns its number there.
static FailureOr<unsigned> collectElementwise(Operation *op, Elementwise &kernel) {
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
static std::string getKernelKey(const Elementwise &kernel) {
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

static hostir::KernelOp getKernel(ProgramBuilder &program, const Elementwise &elementwise) {
  OpBuilder &builder = program.getBuilder();
  Operation *last = elementwise.ops.back();
  Location loc = last->getLoc();
  SmallVector<Type> inputs =
      llvm::map_to_vector(elementwise.inputs, [](const Elementwise::Input &input) {
        return elementOf(input.operand->get());
      });
  auto compute = [&](ValueRange arguments) {
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
          operands.push_back(source.op ? results[*source.op] : arguments[source.input]);
      }
      OperationState state(op->getLoc(), op->getName(), operands, elementOf(op->getResult(0)),
                           op->getDiscardableAttrDictionary().getValue());
      state.propertiesAttr = op->getPropertiesAsAttribute();
      results.push_back(builder.create(state)->getResult(0));
    }
    return results.back();
  };
  return program.getKernel(loc, getKernelKey(elementwise), last->getName().stripDialect(), inputs,
                           elementOf(last->getResult(0)), compute);
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
  Elementwise elementwise;
  elementwise.ops.push_back(op);
  elementwise.operands.emplace_back();
  hostir::KernelOp kernel = getKernel(program, elementwise);
  Value out = program.getOrAllocBuffer(op->getResult(0));
  program.onMesh(op->getLoc(), fusion::getAxes(op->getResult(0)).getMesh(), [&] {
    program.launch(op->getLoc(), kernel, ValueRange(), out, program.getMainStream());
  });
  return success();
}

namespace {
class ElementwiseLowering : public OpLowering {
  bool readsPlaces() const override { return true; }
  LogicalResult prepare(Operation *op, LoopEmitter &loop) const override {
    return isTruth(op->getResult(0)) ? success() : OpLowering::prepare(op, loop);
  }
  LogicalResult emit(Operation *op, const SliceIndex *index, Value stream,
                     LoopEmitter &loop) const override;
};
} // namespace

LogicalResult ElementwiseLowering::emit(Operation *op, const SliceIndex *index, Value stream,
                                        LoopEmitter &loop) const {
  ProgramBuilder &program = loop.program;
  OpBuilder &builder = loop.getBuilder();
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

  OpDims dims;
  dims.result = getLocalDims(resultType, index);
  SmallVector<Value> inputs;
  SmallVector<SmallVector<int64_t>> factors;
  for (const Elementwise::Input &input : elementwise.inputs) {
    Operation *user = input.operand->getOwner();
    std::optional<fusion::AxesRule> rule = fusion::getAxesRule(user);
    if (!rule)
      return user->emitError("expected an elementwise op with one result");
    unsigned number = input.operand->getOperandNumber();
    dims.operands.push_back(getOperandDims(user, *rule, number, dims.result));
    inputs.push_back(loop.getSource(input.operand->get(), dims.operands.back()));
    factors.push_back(rule->operands[number]);
  }
  if (failed(alignDims(builder, op, factors, fusion::getAxesRule(op)->results[0], dims)))
    return failure();
  for (auto [buffer, mine] : llvm::zip_equal(inputs, dims.operands))
    buffer = makeView(builder, loc, buffer, mine, true);
  Value out = makeView(builder, loc, program.getOrAllocBuffer(op->getResult(0)), dims.result, true);
  hostir::KernelOp kernel = getKernel(program, elementwise);
  program.launch(loc, kernel, inputs, out, stream);
  return success();
}

void tandem::addElementwiseLowering(OpLowerings &lowerings) {
  lowerings.addElementwise(std::make_unique<ElementwiseLowering>());
}
