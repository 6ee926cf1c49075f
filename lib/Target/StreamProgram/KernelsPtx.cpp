//===- KernelsPtx.cpp - elementwise kernels for NVIDIA GPUs -----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel becomes a gpu.module with two functions, `rows` and `strided`; docs/kernels.md says how
// they are called. Arithmetic is that of expression code: registers are f32 or i32, f16 and bf16
// are rounded when they are stored and where `arith.truncf` says so. Functions without an
// instruction are expanded, so that nothing of the CUDA toolkit is needed.
//
//===----------------------------------------------------------------------===//

#include "Code.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/DialectConversion.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"

#include <cmath>

using namespace mlir;

namespace tandem::target {

namespace {

constexpr int64_t kAccessBytes = 16;
constexpr unsigned kStridedDims = 4;

class PtxBuilder {
public:
  explicit PtxBuilder(hostir::KernelOp kernel);

  /// The module, lowered to llvm and nvvm.
  FailureOr<OwningOpRef<ModuleOp>> run();

private:
  /// One operand's element type and the arguments that say where it is.
  struct Operand {
    Type element;
    Value pointer;
    SmallVector<Value> strides;
  };
  using Operands = SmallVector<Operand>;

  /// A function of `extents` numbers, then a pointer and `numStrides` strides per operand; the
  /// builder stands in its body.
  std::pair<SmallVector<Value>, Operands> beginFunction(StringRef name, unsigned extents,
                                                        unsigned numStrides);
  LogicalResult rows();
  LogicalResult strided();

  /// Computes elements at `offsets` (one per operand): `width` adjacent ones, or one if that is 0.
  LogicalResult element(const Operands &operands, ArrayRef<Value> offsets);
  FailureOr<Value> compute(Operation *op, ArrayRef<Value> operands);
  Value load(const Operand &operand, Value offset);
  void store(const Operand &operand, Value offset, Value value);

  Type shaped(Type element) const {
    return width == 0 ? element : VectorType::get({width}, element);
  }
  /// The type in registers.
  Type registerType(Type type) {
    Type element = getElementTypeOrSelf(type);
    return shaped(isa<FloatType>(element) ? b.getF32Type() : element);
  }
  Value number(int64_t value) { return arith::ConstantIndexOp::create(b, loc, value); }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulIOp::create(b, loc, x, y); }
  Value asIndex(Value value) { return arith::IndexCastOp::create(b, loc, b.getIndexType(), value); }
  /// Number of this thread along x, over all blocks.
  Value threadNumber() {
    Value block = mul(gpu::BlockIdOp::create(b, loc, gpu::Dimension::x),
                      gpu::BlockDimOp::create(b, loc, gpu::Dimension::x));
    return add(block, gpu::ThreadIdOp::create(b, loc, gpu::Dimension::x));
  }

  LogicalResult convertToNvvm();
  LogicalResult lower();

  hostir::KernelOp kernel;
  MLIRContext *context;
  OpBuilder b;
  Location loc;
  OwningOpRef<ModuleOp> module;
  gpu::GPUModuleOp gpuModule;
  int64_t width = 0;
};

PtxBuilder::PtxBuilder(hostir::KernelOp kernel)
    : kernel(kernel), context(kernel.getContext()), b(context), loc(kernel.getLoc()) {
  context
      ->loadDialect<arith::ArithDialect, cf::ControlFlowDialect, gpu::GPUDialect, LLVM::LLVMDialect,
                    math::MathDialect, NVVM::NVVMDialect, scf::SCFDialect, vector::VectorDialect>();
  module = ModuleOp::create(loc);
  b.setInsertionPointToEnd(module->getBody());
  gpuModule = gpu::GPUModuleOp::create(b, loc, "kernel");
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

std::pair<SmallVector<Value>, PtxBuilder::Operands>
PtxBuilder::beginFunction(StringRef name, unsigned extents, unsigned numStrides) {
  SmallVector<Type> elements(kernel.getResultTypes());
  llvm::append_range(elements, kernel.getArgumentTypes());
  SmallVector<Type> types(extents, b.getI64Type());
  for (size_t i = 0; i < elements.size(); ++i) {
    types.push_back(LLVM::LLVMPointerType::get(context, /*addressSpace=*/1));
    types.append(numStrides, b.getI64Type());
  }
  b.setInsertionPointToEnd(gpuModule.getBody());
  auto function = gpu::GPUFuncOp::create(b, loc, name, b.getFunctionType(types, {}));
  function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  b.setInsertionPointToEnd(&function.getBody().front());
  gpu::ReturnOp::create(b, loc);
  b.setInsertionPoint(function.getBody().front().getTerminator());

  SmallVector<Value> sizes;
  for (unsigned i = 0; i < extents; ++i)
    sizes.push_back(asIndex(function.getArgument(i)));
  Operands operands;
  unsigned next = extents;
  for (Type element : elements) {
    Operand operand{element, function.getArgument(next++), {}};
    for (unsigned i = 0; i < numStrides; ++i)
      operand.strides.push_back(asIndex(function.getArgument(next++)));
    operands.push_back(std::move(operand));
  }
  return {std::move(sizes), std::move(operands)};
}

/// Adjacent columns: each thread computes 16 bytes of the widest operand at a time.
LogicalResult PtxBuilder::rows() {
  auto [sizes, operands] = beginFunction("rows", 2, 1);
  int64_t bytes = 1;
  for (const Operand &operand : operands)
    bytes = std::max<int64_t>(bytes, operand.element.getIntOrFloatBitWidth() / 8);
  int64_t vector = kAccessBytes / bytes;
  Value rows = sizes[0], columns = sizes[1];
  Value column = mul(threadNumber(), number(vector));
  Value isFull = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle,
                                       add(column, number(vector)), columns);
  auto loop = scf::ForOp::create(b, loc, gpu::BlockIdOp::create(b, loc, gpu::Dimension::y), rows,
                                 gpu::GridDimOp::create(b, loc, gpu::Dimension::y));
  b.setInsertionPointToStart(loop.getBody());
  SmallVector<Value> starts;
  for (const Operand &operand : operands)
    starts.push_back(mul(loop.getInductionVar(), operand.strides[0]));
  auto at = [&](Value index) {
    return llvm::map_to_vector(starts, [&](Value start) { return add(start, index); });
  };
  auto branch = scf::IfOp::create(b, loc, isFull, /*withElseRegion=*/true);
  b.setInsertionPointToStart(branch.thenBlock());
  width = vector;
  if (failed(element(operands, at(column))))
    return failure();
  b.setInsertionPointToStart(branch.elseBlock());
  width = 0;
  auto rest = scf::ForOp::create(b, loc, column, columns, number(1));
  b.setInsertionPointToStart(rest.getBody());
  return element(operands, at(rest.getInductionVar()));
}

/// Any strides: one element at a time.
LogicalResult PtxBuilder::strided() {
  auto [sizes, operands] = beginFunction("strided", kStridedDims, kStridedDims);
  width = 0;
  Value count = sizes[0];
  for (unsigned d = 1; d < kStridedDims; ++d)
    count = mul(count, sizes[d]);
  Value step = mul(gpu::GridDimOp::create(b, loc, gpu::Dimension::x),
                   gpu::BlockDimOp::create(b, loc, gpu::Dimension::x));
  auto loop = scf::ForOp::create(b, loc, threadNumber(), count, step);
  b.setInsertionPointToStart(loop.getBody());
  SmallVector<Value> index(kStridedDims);
  Value left = loop.getInductionVar();
  for (unsigned d = kStridedDims; d-- > 1;) {
    index[d] = arith::RemUIOp::create(b, loc, left, sizes[d]);
    left = arith::DivUIOp::create(b, loc, left, sizes[d]);
  }
  index[0] = left;
  SmallVector<Value> offsets;
  for (const Operand &operand : operands) {
    Value offset = mul(index[0], operand.strides[0]);
    for (unsigned d = 1; d < kStridedDims; ++d)
      offset = add(offset, mul(index[d], operand.strides[d]));
    offsets.push_back(offset);
  }
  return element(operands, offsets);
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

static Value addressOf(OpBuilder &b, Location loc, Type element, Value pointer, Value offset) {
  Value index = arith::IndexCastOp::create(b, loc, b.getI64Type(), offset);
  return LLVM::GEPOp::create(b, loc, pointer.getType(), element, pointer,
                             ArrayRef<LLVM::GEPArg>{index});
}

Value PtxBuilder::load(const Operand &operand, Value offset) {
  Value address = addressOf(b, loc, operand.element, operand.pointer, offset);
  unsigned alignment = operand.element.getIntOrFloatBitWidth() / 8 *
                       static_cast<unsigned>(std::max<int64_t>(width, 1));
  Value value = LLVM::LoadOp::create(b, loc, shaped(operand.element), address, alignment);
  Type type = registerType(operand.element);
  return value.getType() == type ? value : arith::ExtFOp::create(b, loc, type, value).getResult();
}

void PtxBuilder::store(const Operand &operand, Value offset, Value value) {
  Value address = addressOf(b, loc, operand.element, operand.pointer, offset);
  unsigned alignment = operand.element.getIntOrFloatBitWidth() / 8 *
                       static_cast<unsigned>(std::max<int64_t>(width, 1));
  if (Type type = shaped(operand.element); value.getType() != type)
    value = arith::TruncFOp::create(b, loc, type, value);
  LLVM::StoreOp::create(b, loc, value, address, alignment);
}

LogicalResult PtxBuilder::element(const Operands &operands, ArrayRef<Value> offsets) {
  Block &body = kernel.getBody().front();
  unsigned outputs = kernel.getResultTypes().size();
  llvm::DenseMap<Value, Value> values;
  for (BlockArgument argument : body.getArguments()) {
    unsigned k = outputs + argument.getArgNumber();
    values[argument] = load(operands[k], offsets[k]);
  }
  for (Operation &op : body.without_terminator()) {
    SmallVector<Value> inputs =
        llvm::map_to_vector(op.getOperands(), [&](Value v) { return values.lookup(v); });
    FailureOr<Value> result = compute(&op, inputs);
    if (failed(result))
      return failure();
    values[op.getResult(0)] = *result;
  }
  for (auto [k, value] : llvm::enumerate(body.getTerminator()->getOperands()))
    store(operands[k], offsets[k], values.lookup(value));
  return success();
}

/// What lowers to instructions, or is expanded to such. The same as in expression code.
static bool isSupported(Operation *op) {
  return isa<arith::ArithDialect>(op->getDialect()) ||
         isa<math::AbsFOp, math::CeilOp, math::CosOp, math::ErfOp, math::ExpOp, math::Exp2Op,
             math::FloorOp, math::FmaOp, math::Log10Op, math::Log2Op, math::LogOp, math::PowFOp,
             math::RsqrtOp, math::SinOp, math::SqrtOp, math::TanhOp>(op);
}

FailureOr<Value> PtxBuilder::compute(Operation *op, ArrayRef<Value> operands) {
  if (op->getNumResults() != 1 || !isSupported(op))
    return op->emitOpError("has no counterpart in PTX");
  Type type = registerType(op->getResult(0).getType());
  auto splat = [&](TypedAttr value) -> Value {
    auto vector = dyn_cast<VectorType>(type);
    return arith::ConstantOp::create(
        b, loc, vector ? TypedAttr(DenseElementsAttr::get(vector, Attribute(value))) : value);
  };
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto number = dyn_cast<FloatAttr>(constant.getValue());
    if (!number)
      return splat(constant.getValue());
    return splat(b.getF32FloatAttr(static_cast<float>(number.getValueAsDouble())));
  }
  if (isa<arith::ExtFOp>(op))
    return operands[0];
  if (isa<arith::TruncFOp>(op)) {
    // A store rounds by itself.
    if (llvm::all_of(op->getUsers(), [](Operation *user) { return isa<hostir::YieldOp>(user); }))
      return operands[0];
    Type narrow = shaped(op->getResult(0).getType());
    Value rounded = arith::TruncFOp::create(b, loc, narrow, operands[0]);
    return arith::ExtFOp::create(b, loc, type, rounded).getResult();
  }
  // Upstream would call libdevice for these.
  if (isa<arith::MaxNumFOp>(op))
    return LLVM::MaxNumOp::create(b, loc, type, operands[0], operands[1]).getResult();
  if (isa<arith::MinNumFOp>(op))
    return LLVM::MinNumOp::create(b, loc, type, operands[0], operands[1]).getResult();
  if (isa<math::Log10Op>(op)) {
    Value log = math::LogOp::create(b, loc, operands[0]);
    return arith::MulFOp::create(b, loc, log, splat(b.getF32FloatAttr(1.0f / std::log(10.0f))))
        .getResult();
  }
  OperationState state(loc, op->getName(), operands, type,
                       op->getDiscardableAttrDictionary().getValue());
  state.propertiesAttr = op->getPropertiesAsAttribute();
  return b.create(state)->getResult(0);
}

//===----------------------------------------------------------------------===//
// Lowering
//===----------------------------------------------------------------------===//

/// As `convert-gpu-to-nvvm`, but for functions that have instructions: that pass calls libdevice.
LogicalResult PtxBuilder::convertToNvvm() {
  LowerToLLVMOptions options(context);
  options.overrideIndexBitwidth(64);
  LLVMTypeConverter converter(context, options);
  configureGpuToNVVMTypeConverter(converter);
  RewritePatternSet patterns(context);
  populateMathToLLVMConversionPatterns(converter, patterns, /*approximateLog1p=*/false,
                                       /*benefit=*/10);
  arith::populateArithToLLVMConversionPatterns(converter, patterns);
  cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
  populateVectorToLLVMConversionPatterns(converter, patterns);
  populateGpuToNVVMConversionPatterns(converter, patterns);
  ConversionTarget target(*context);
  target.addLegalDialect<LLVM::LLVMDialect, NVVM::NVVMDialect>();
  target.addLegalOp<gpu::GPUModuleOp>();
  target.addIllegalDialect<arith::ArithDialect, cf::ControlFlowDialect, math::MathDialect,
                           vector::VectorDialect>();
  target.addIllegalOp<gpu::GPUFuncOp, gpu::ReturnOp, gpu::BlockIdOp, gpu::BlockDimOp,
                      gpu::GridDimOp, gpu::ThreadIdOp>();
  return applyPartialConversion(gpuModule, target, std::move(patterns));
}

LogicalResult PtxBuilder::lower() {
  RewritePatternSet patterns(context);
  math::populateExpansionPatterns(patterns, {"exp2", "powf", "rsqrt"});
  populateMathPolynomialApproximationPatterns(patterns, [](StringRef) { return true; });
  if (failed(applyPatternsGreedily(gpuModule, std::move(patterns))))
    return kernel.emitOpError("math functions could not be expanded");
  PassManager manager(context);
  manager.addNestedPass<gpu::GPUModuleOp>(createSCFToControlFlowPass());
  manager.addNestedPass<gpu::GPUModuleOp>(createCSEPass());
  if (failed(manager.run(*module)) || failed(convertToNvvm()))
    return kernel.emitOpError("could not be lowered to nvvm");
  return success();
}

FailureOr<OwningOpRef<ModuleOp>> PtxBuilder::run() {
  if (failed(rows()) || failed(strided()) || failed(lower()))
    return failure();
  return std::move(module);
}

} // namespace

FailureOr<std::string> buildPtx(hostir::KernelOp kernel, StringRef arch) {
  FailureOr<OwningOpRef<ModuleOp>> module = PtxBuilder(kernel).run();
  if (failed(module))
    return failure();
  return translateToPtx(*(**module).getOps<gpu::GPUModuleOp>().begin(), arch);
}

} // namespace tandem::target
