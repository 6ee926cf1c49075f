//===- KernelsGpu.cpp - elementwise kernels for GPUs ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel becomes a gpu.module with two functions, `rows` and `strided`; docs/kernels.md describes
// their calls. Arithmetic is that of expression code: narrow floats are computed in f32 and rounded
// at stores and `arith.truncf`; an i1 is a byte in memory, and so is a float of 8 bits, which is
// converted by integer instructions: those of GPUs saturate, or have other types. Functions without
// an instruction are expanded, so neither a CUDA toolkit nor ROCm is needed.
//
//===----------------------------------------------------------------------===//

#include "Code.h"
#include "GpuArithmetic.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/GPUCommon/GPUCommonPass.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/GPUToROCDL/GPUToROCDLPass.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/AMDGPU/Utils/Chipset.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/LLVMIR/ROCDLDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/DialectConversion.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"
#include "tandem/Support/ElementTypes.h"

using namespace mlir;

namespace tandem::target {

namespace {

constexpr int64_t kAccessBytes = 16;
constexpr unsigned kStridedDims = 4;

class GpuKernelBuilder : GpuArithmetic {
public:
  GpuKernelBuilder(hostir::KernelOp kernel, const GpuArchitecture &architecture);

  /// The module, lowered to llvm, and to nvvm or rocdl.
  FailureOr<OwningOpRef<ModuleOp>> run();

private:
  /// One operand's element type and its location arguments.
  struct Operand {
    Type element; ///< in memory: i8 for i1 and for floats of 8 bits
    bool isTruth = false;
    Type fp8; ///< null if it is none
    Value pointer;
    SmallVector<Value> strides;
    Value isSpread; ///< all columns have one element (in `rows`); null: not so
  };
  using Operands = SmallVector<Operand>;

  /// Creates a function with `extents` numbers, then a pointer and `numStrides` strides per
  /// operand, and moves the builder into its body.
  std::pair<SmallVector<Value>, Operands> beginFunction(StringRef name, unsigned extents,
                                                        unsigned numStrides);
  LogicalResult rows();
  LogicalResult strided();

  /// Computes `width` adjacent elements at `offsets` (one per operand); one element if `width` is
  /// 0.
  LogicalResult element(const Operands &operands, ArrayRef<Value> offsets);
  Value load(const Operand &operand, Value offset);
  void store(const Operand &operand, Value offset, Value value);
  Value number(int64_t value) { return arith::ConstantIndexOp::create(b, loc, value); }
  Value mul(Value x, Value y) { return arith::MulIOp::create(b, loc, x, y); }
  Value asIndex(Value value) { return arith::IndexCastOp::create(b, loc, b.getIndexType(), value); }
  /// A number of the launch, which the driver of an AMD GPU passes after the arguments: upstream
  /// asks a library of ROCm for it.
  Value hidden(unsigned offset, unsigned bits) {
    Type pointer = LLVM::LLVMPointerType::get(context, /*addressSpace=*/4);
    Value base = LLVM::CallIntrinsicOp::create(
                     b, loc, pointer, b.getStringAttr("llvm.amdgcn.implicitarg.ptr"), ValueRange())
                     .getResult(0);
    Value at = LLVM::GEPOp::create(b, loc, pointer, b.getI8Type(), base,
                                   ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(offset)});
    Value value = LLVM::LoadOp::create(b, loc, b.getIntegerType(bits), at, bits / 8);
    return arith::IndexCastUIOp::create(b, loc, b.getIndexType(), value);
  }
  /// Along x. Their places are those of code object version 5.
  Value blockThreads() {
    return architecture.isAmd() ? hidden(12, 16)
                                : gpu::BlockDimOp::create(b, loc, gpu::Dimension::x).getResult();
  }
  Value gridBlocks(gpu::Dimension dimension) {
    return architecture.isAmd() ? hidden(dimension == gpu::Dimension::x ? 0 : 4, 32)
                                : gpu::GridDimOp::create(b, loc, dimension).getResult();
  }
  /// This thread's number along x, over all blocks.
  Value threadNumber() {
    Value block = mul(gpu::BlockIdOp::create(b, loc, gpu::Dimension::x), blockThreads());
    return add(block, gpu::ThreadIdOp::create(b, loc, gpu::Dimension::x));
  }

  LogicalResult convertToLlvm();
  LogicalResult lower();

  hostir::KernelOp kernel;
  const GpuArchitecture &architecture;
  MLIRContext *context;
  OwningOpRef<ModuleOp> module;
  gpu::GPUModuleOp gpuModule;
};

GpuKernelBuilder::GpuKernelBuilder(hostir::KernelOp kernel, const GpuArchitecture &architecture)
    : GpuArithmetic(kernel.getContext(), kernel.getLoc()), kernel(kernel),
      architecture(architecture), context(kernel.getContext()) {
  context->loadDialect<arith::ArithDialect, cf::ControlFlowDialect, gpu::GPUDialect,
                       LLVM::LLVMDialect, math::MathDialect, NVVM::NVVMDialect, ROCDL::ROCDLDialect,
                       scf::SCFDialect, vector::VectorDialect>();
  module = ModuleOp::create(loc);
  b.setInsertionPointToEnd(module->getBody());
  gpuModule = gpu::GPUModuleOp::create(b, loc, "kernel");
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

std::pair<SmallVector<Value>, GpuKernelBuilder::Operands>
GpuKernelBuilder::beginFunction(StringRef name, unsigned extents, unsigned numStrides) {
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
    bool isTruth = element.isInteger(1);
    Type fp8 = isFp8(element) ? element : Type();
    Type stored = isTruth || fp8 ? b.getI8Type() : element;
    Operand operand{stored, isTruth, fp8, function.getArgument(next++), {}, {}};
    for (unsigned i = 0; i < numStrides; ++i)
      operand.strides.push_back(asIndex(function.getArgument(next++)));
    operands.push_back(std::move(operand));
  }
  return {std::move(sizes), std::move(operands)};
}

/// Adjacent columns, or one element for all columns of an input: each thread computes 16 bytes of
/// the widest operand at a time.
LogicalResult GpuKernelBuilder::rows() {
  auto [sizes, operands] = beginFunction("rows", 2, 2);
  int64_t bytes = 1;
  for (const Operand &operand : operands)
    bytes = std::max<int64_t>(bytes, operand.element.getIntOrFloatBitWidth() / 8);
  for (Operand &input : MutableArrayRef(operands).drop_front(kernel.getResultTypes().size()))
    input.isSpread =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, input.strides[1], number(0));
  int64_t vector = kAccessBytes / bytes;
  Value rows = sizes[0], columns = sizes[1];
  Value column = mul(threadNumber(), number(vector));
  Value isFull = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle,
                                       add(column, number(vector)), columns);
  auto loop = scf::ForOp::create(b, loc, gpu::BlockIdOp::create(b, loc, gpu::Dimension::y), rows,
                                 gridBlocks(gpu::Dimension::y));
  b.setInsertionPointToStart(loop.getBody());
  SmallVector<Value> starts;
  for (const Operand &operand : operands)
    starts.push_back(mul(loop.getInductionVar(), operand.strides[0]));
  auto at = [&, &operands = operands](Value index) {
    SmallVector<Value> offsets;
    for (size_t i = 0; i < starts.size(); ++i)
      offsets.push_back(
          add(starts[i], operands[i].isSpread ? mul(index, operands[i].strides[1]) : index));
    return offsets;
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
LogicalResult GpuKernelBuilder::strided() {
  auto [sizes, operands] = beginFunction("strided", kStridedDims, kStridedDims);
  width = 0;
  Value count = sizes[0];
  for (unsigned d = 1; d < kStridedDims; ++d)
    count = mul(count, sizes[d]);
  Value step = mul(gridBlocks(gpu::Dimension::x), blockThreads());
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

Value GpuKernelBuilder::load(const Operand &operand, Value offset) {
  Value address = addressOf(b, loc, operand.element, operand.pointer, offset);
  unsigned alignment = operand.element.getIntOrFloatBitWidth() / 8 *
                       static_cast<unsigned>(std::max<int64_t>(width, 1));
  Type stored = shaped(operand.element);
  Value value;
  if (width == 0 || !operand.isSpread) {
    value = LLVM::LoadOp::create(b, loc, stored, address, alignment);
  } else {
    auto either = scf::IfOp::create(b, loc, stored, operand.isSpread, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(either.thenBlock());
    Value one = LLVM::LoadOp::create(b, loc, operand.element, address);
    scf::YieldOp::create(b, loc, vector::BroadcastOp::create(b, loc, stored, one).getResult());
    b.setInsertionPointToStart(either.elseBlock());
    Value all = LLVM::LoadOp::create(b, loc, stored, address, alignment);
    scf::YieldOp::create(b, loc, all);
    value = either.getResult(0);
  }
  if (operand.isTruth)
    return compare(arith::CmpIPredicate::ne, value, 0);
  if (operand.fp8)
    return fromFp8(operand.fp8, value);
  Type type = registerType(operand.element);
  return value.getType() == type ? value : arith::ExtFOp::create(b, loc, type, value).getResult();
}

void GpuKernelBuilder::store(const Operand &operand, Value offset, Value value) {
  Value address = addressOf(b, loc, operand.element, operand.pointer, offset);
  unsigned alignment = operand.element.getIntOrFloatBitWidth() / 8 *
                       static_cast<unsigned>(std::max<int64_t>(width, 1));
  Type type = shaped(operand.element);
  if (operand.isTruth)
    value = arith::ExtUIOp::create(b, loc, type, value);
  else if (operand.fp8)
    value = toFp8(operand.fp8, value);
  else if (value.getType() != type)
    value = arith::TruncFOp::create(b, loc, type, value);
  LLVM::StoreOp::create(b, loc, value, address, alignment);
}

LogicalResult GpuKernelBuilder::element(const Operands &operands, ArrayRef<Value> offsets) {
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

//===----------------------------------------------------------------------===//
// Lowering
//===----------------------------------------------------------------------===//

/// Like `convert-gpu-to-nvvm` and `convert-gpu-to-rocdl`, but uses instructions where these passes
/// call libraries.
LogicalResult GpuKernelBuilder::convertToLlvm() {
  LowerToLLVMOptions options(context);
  options.overrideIndexBitwidth(64);
  LLVMTypeConverter converter(context, options);
  if (!architecture.isAmd())
    configureGpuToNVVMTypeConverter(converter);
  RewritePatternSet patterns(context);
  populateMathToLLVMConversionPatterns(converter, patterns, /*approximateLog1p=*/false,
                                       /*benefit=*/10);
  arith::populateArithToLLVMConversionPatterns(converter, patterns);
  cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
  populateVectorToLLVMConversionPatterns(converter, patterns);
  if (architecture.isAmd()) {
    FailureOr<amdgpu::Chipset> chipset = amdgpu::Chipset::parse(architecture.name);
    if (failed(chipset))
      return failure();
    populateGpuToROCDLConversionPatterns(converter, patterns, gpu::amd::HIP, *chipset);
  } else {
    populateGpuToNVVMConversionPatterns(converter, patterns);
  }
  ConversionTarget target(*context);
  target.addLegalDialect<LLVM::LLVMDialect, NVVM::NVVMDialect, ROCDL::ROCDLDialect>();
  target.addLegalOp<gpu::GPUModuleOp>();
  target.addIllegalDialect<arith::ArithDialect, cf::ControlFlowDialect, math::MathDialect,
                           vector::VectorDialect>();
  target.addIllegalOp<gpu::GPUFuncOp, gpu::ReturnOp, gpu::BlockIdOp, gpu::BlockDimOp,
                      gpu::GridDimOp, gpu::ThreadIdOp>();
  return applyPartialConversion(gpuModule, target, std::move(patterns));
}

LogicalResult GpuKernelBuilder::lower() {
  RewritePatternSet patterns(context);
  math::populateExpansionPatterns(patterns, {"exp2", "powf", "rsqrt"});
  populateMathPolynomialApproximationPatterns(patterns, [](StringRef) { return true; });
  if (failed(applyPatternsGreedily(gpuModule, std::move(patterns))))
    return kernel.emitOpError("math functions could not be expanded");
  PassManager manager(context);
  manager.addNestedPass<gpu::GPUModuleOp>(createSCFToControlFlowPass());
  manager.addNestedPass<gpu::GPUModuleOp>(createCSEPass());
  if (failed(manager.run(*module)) || failed(convertToLlvm()))
    return kernel.emitOpError("could not be lowered for ") << architecture.name;
  return success();
}

FailureOr<OwningOpRef<ModuleOp>> GpuKernelBuilder::run() {
  if (failed(rows()) || failed(strided()) || failed(lower()))
    return failure();
  return std::move(module);
}

} // namespace

FailureOr<std::string> compileNative(hostir::KernelOp kernel, const GpuArchitecture &architecture) {
  FailureOr<OwningOpRef<ModuleOp>> module = GpuKernelBuilder(kernel, architecture).run();
  if (failed(module))
    return failure();
  return translateToNative(*(**module).getOps<gpu::GPUModuleOp>().begin(), architecture);
}

} // namespace tandem::target
