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

#include <cmath>
#include <limits>

using namespace mlir;

namespace tandem::target {

namespace {

constexpr int64_t kAccessBytes = 16;
constexpr unsigned kStridedDims = 4;

class GpuKernelBuilder {
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
  FailureOr<Value> compute(Operation *op, ArrayRef<Value> operands);
  /// A constant of a register type.
  Value splat(Type type, TypedAttr value) {
    auto vector = dyn_cast<VectorType>(type);
    return arith::ConstantOp::create(
        b, loc, vector ? TypedAttr(DenseElementsAttr::get(vector, Attribute(value))) : value);
  }
  Value integerLike(Value value, int64_t number) {
    return splat(value.getType(), b.getIntegerAttr(getElementTypeOrSelf(value.getType()), number));
  }
  Value compare(arith::CmpIPredicate predicate, Value value, int64_t number) {
    return arith::CmpIOp::create(b, loc, predicate, value, integerLike(value, number));
  }
  Value divide(Operation *op, Value x, Value y);
  Value remainder(Value x, Value y);
  Value toInteger(Type type, Value x);
  Value toOdd(Value x, bool isSigned);
  Value load(const Operand &operand, Value offset);
  void store(const Operand &operand, Value offset, Value value);
  /// f32 from the bytes of a float of 8 bits, and the nearest such bytes.
  Value fromFp8(Type fp8, Value bytes);
  Value toFp8(Type fp8, Value x);

  Type shaped(Type element) const {
    return width == 0 ? element : VectorType::get({width}, element);
  }
  /// The type in registers.
  Type registerType(Type type) {
    Type element = getElementTypeOrSelf(type);
    return shaped(element.isF16() || element.isBF16() || isFp8(element) ? b.getF32Type() : element);
  }
  Value number(int64_t value) { return arith::ConstantIndexOp::create(b, loc, value); }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulIOp::create(b, loc, x, y); }
  Value asIndex(Value value) { return arith::IndexCastOp::create(b, loc, b.getIndexType(), value); }
  /// A number of the launch, which the driver of an AMD GPU passes behind the arguments: upstream
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
  OpBuilder b;
  Location loc;
  OwningOpRef<ModuleOp> module;
  gpu::GPUModuleOp gpuModule;
  int64_t width = 0;
};

GpuKernelBuilder::GpuKernelBuilder(hostir::KernelOp kernel, const GpuArchitecture &architecture)
    : kernel(kernel), architecture(architecture), context(kernel.getContext()), b(context),
      loc(kernel.getLoc()) {
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

/// A float of 8 bits: `exponent` bits of exponent, and what follows from them.
struct Fp8 {
  explicit Fp8(Type type)
      : exponent(isa<Float8E4M3FNType>(type) ? 4 : 5), mantissa(7 - exponent),
        bias(128 - (1 << (exponent - 1))), most(exponent == 4 ? 0x7f : 0x7c),
        nan(exponent == 4 ? 0x7f : 0x7e), unit(std::ldexp(1.0f, exponent == 4 ? -9 : -16)) {}
  int64_t exponent, mantissa;
  int64_t bias; ///< what that of f32 has more
  int64_t most; ///< the largest magnitude: the NaN of f8E4M3FN, infinity of f8E5M2
  int64_t nan;
  float unit; ///< the least number
};

Value GpuKernelBuilder::fromFp8(Type fp8, Value bytes) {
  using P = arith::CmpIPredicate;
  Fp8 format(fp8);
  Type integers = shaped(b.getI32Type()), floats = shaped(b.getF32Type());
  Value bits = arith::ExtUIOp::create(b, loc, integers, bytes);
  auto integer = [&](int64_t number) { return integerLike(bits, number); };
  Value size = arith::AndIOp::create(b, loc, bits, integer(0x7f));
  Value sign = arith::ShLIOp::create(b, loc, arith::AndIOp::create(b, loc, bits, integer(0x80)),
                                     integer(24));
  Value small = arith::MulFOp::create(b, loc, arith::SIToFPOp::create(b, loc, floats, size),
                                      splat(floats, b.getF32FloatAttr(format.unit)));
  small = arith::BitcastOp::create(b, loc, integers, small);
  Value result = arith::AddIOp::create(
      b, loc, arith::ShLIOp::create(b, loc, size, integer(23 - format.mantissa)),
      integer(format.bias << 23));
  Value isSmall = compare(P::slt, size, int64_t(1) << format.mantissa);
  result = arith::SelectOp::create(b, loc, isSmall, small, result);
  if (format.exponent == 5)
    result = arith::SelectOp::create(b, loc, compare(P::eq, size, format.most), integer(0x7f800000),
                                     result);
  Value isNaN = compare(format.exponent == 4 ? P::sge : P::sgt, size, format.most);
  result = arith::SelectOp::create(b, loc, isNaN, integer(0x7fc00000), result);
  return arith::BitcastOp::create(b, loc, floats, arith::OrIOp::create(b, loc, result, sign));
}

Value GpuKernelBuilder::toFp8(Type fp8, Value x) {
  using P = arith::CmpIPredicate;
  Fp8 format(fp8);
  int64_t shift = 23 - format.mantissa;
  Type integers = shaped(b.getI32Type()), floats = shaped(b.getF32Type());
  Value bits = arith::BitcastOp::create(b, loc, integers, x);
  auto integer = [&](int64_t number) { return integerLike(bits, number); };
  Value size = arith::AndIOp::create(b, loc, bits, integer(0x7fffffff));
  // Below the least normal number the last bit of the sum is the unit.
  float rounder = std::ldexp(format.unit, 23);
  Value sum = arith::AddFOp::create(b, loc, arith::BitcastOp::create(b, loc, floats, size),
                                    splat(floats, b.getF32FloatAttr(rounder)));
  Value small = arith::SubIOp::create(b, loc, arith::BitcastOp::create(b, loc, integers, sum),
                                      integer(llvm::bit_cast<int32_t>(rounder)));
  Value odd = arith::AndIOp::create(b, loc, arith::ShRUIOp::create(b, loc, size, integer(shift)),
                                    integer(1));
  Value result = arith::AddIOp::create(b, loc, arith::AddIOp::create(b, loc, size, odd),
                                       integer((int64_t(1) << (shift - 1)) - 1));
  result = arith::SubIOp::create(b, loc, arith::ShRUIOp::create(b, loc, result, integer(shift)),
                                 integer(format.bias << format.mantissa));
  result = arith::SelectOp::create(b, loc, compare(P::slt, size, (format.bias + 1) << 23), small,
                                   result);
  Value isLarge = arith::OrIOp::create(b, loc, compare(P::sge, size, 0x7f800000),
                                       compare(P::sgt, result, format.most));
  result = arith::SelectOp::create(b, loc, isLarge, integer(format.most), result);
  result = arith::SelectOp::create(b, loc, compare(P::sgt, size, 0x7f800000), integer(format.nan),
                                   result);
  Value sign = arith::AndIOp::create(b, loc, arith::ShRUIOp::create(b, loc, bits, integer(24)),
                                     integer(0x80));
  result = arith::OrIOp::create(b, loc, result, sign);
  return arith::TruncIOp::create(b, loc, shaped(b.getI8Type()), result);
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

/// Whether an op lowers to instructions or can be expanded; f64 has no expansions.
static bool isSupported(Operation *op) {
  if (isa<arith::ArithDialect>(op->getDialect()))
    return true;
  if (isa<math::AbsFOp, math::AbsIOp, math::CeilOp, math::FloorOp, math::FmaOp, math::RoundOp,
          math::RoundEvenOp, math::SqrtOp, math::TruncOp>(op))
    return true;
  return !op->getResult(0).getType().isF64() &&
         isa<math::CosOp, math::ErfOp, math::ErfcOp, math::ExpOp, math::Exp2Op, math::ExpM1Op,
             math::Log10Op, math::Log1pOp, math::Log2Op, math::LogOp, math::PowFOp, math::RsqrtOp,
             math::SinOp, math::TanhOp>(op);
}

/// Division and remainder by 0 give 0; the least integer divided by -1 is itself. LLVM leaves both
/// undefined, so the instruction divides by 1 there.
Value GpuKernelBuilder::divide(Operation *op, Value x, Value y) {
  Value isZero = compare(arith::CmpIPredicate::eq, y, 0);
  Value isMinusOne = compare(arith::CmpIPredicate::eq, y, -1);
  Value special = arith::OrIOp::create(b, loc, isZero, isMinusOne);
  Value divisor = arith::SelectOp::create(b, loc, special, integerLike(y, 1), y);
  if (isa<arith::RemSIOp>(op))
    return arith::RemSIOp::create(b, loc, x, divisor);
  Value quotient = arith::DivSIOp::create(b, loc, x, divisor);
  Value negative = arith::SubIOp::create(b, loc, integerLike(x, 0), x);
  quotient = arith::SelectOp::create(b, loc, isMinusOne, negative, quotient);
  return arith::SelectOp::create(b, loc, isZero, integerLike(x, 0), quotient);
}

/// fmod of C for |x / y| < 2^24 (2^53 in f64): x - trunc(x / y) * y with one rounding is exact, up
/// to one y if the quotient was rounded up to the next integer.
Value GpuKernelBuilder::remainder(Value x, Value y) {
  using P = arith::CmpFPredicate;
  Type type = x.getType();
  auto number = [&](double value) {
    return splat(type, b.getFloatAttr(getElementTypeOrSelf(type), value));
  };
  Value quotient = math::TruncOp::create(b, loc, arith::DivFOp::create(b, loc, x, y));
  Value rest = math::FmaOp::create(b, loc, arith::NegFOp::create(b, loc, quotient), y, x);
  Value step = math::CopySignOp::create(b, loc, y, x);
  Value sign = math::CopySignOp::create(b, loc, number(1), x);
  Value along = arith::MulFOp::create(b, loc, rest, sign); // negative: the quotient was too large
  Value tooLarge = arith::CmpFOp::create(b, loc, P::OLT, along, number(0));
  Value size = math::AbsFOp::create(b, loc, y);
  Value tooSmall = arith::CmpFOp::create(b, loc, P::OGE, along, size);
  Value more = arith::AddFOp::create(b, loc, rest, step);
  Value less = arith::SubFOp::create(b, loc, rest, step);
  rest = arith::SelectOp::create(b, loc, tooLarge, more, rest);
  rest = arith::SelectOp::create(b, loc, tooSmall, less, rest);
  rest = math::CopySignOp::create(b, loc, rest, x);
  // x itself if y is infinite, unless x is infinite or a NaN.
  Value isFinite = arith::CmpFOp::create(b, loc, P::OLT, math::AbsFOp::create(b, loc, x),
                                         number(std::numeric_limits<double>::infinity()));
  Value isInfinite =
      arith::CmpFOp::create(b, loc, P::OEQ, size, number(std::numeric_limits<double>::infinity()));
  Value keeps = arith::AndIOp::create(b, loc, isFinite, isInfinite);
  return arith::SelectOp::create(b, loc, keeps, x, rest);
}

/// Towards zero, saturating; NaN gives 0. LLVM leaves out-of-range values undefined, so they are
/// replaced before the conversion.
Value GpuKernelBuilder::toInteger(Type type, Value x) {
  using P = arith::CmpFPredicate;
  Type from = x.getType();
  unsigned width = getElementTypeOrSelf(type).getIntOrFloatBitWidth();
  double end = std::ldexp(1.0, static_cast<int>(width) - 1);
  auto number = [&](double value) {
    return splat(from, b.getFloatAttr(getElementTypeOrSelf(from), value));
  };
  // -end - 1 < x < end; for wide integers this is -end <= x, by the spacing of floats.
  Value above = arith::CmpFOp::create(b, loc, P::OGE, x, number(end));
  Value below = arith::CmpFOp::create(b, loc, P::OLT, x, number(-end));
  Value isNaN = arith::CmpFOp::create(b, loc, P::UNO, x, x);
  Value outside = arith::OrIOp::create(b, loc, arith::OrIOp::create(b, loc, above, below), isNaN);
  Value inside = arith::SelectOp::create(b, loc, outside, number(0), x);
  Value result = arith::FPToSIOp::create(b, loc, type, inside);
  auto integer = [&](int64_t value) {
    return splat(type, b.getIntegerAttr(getElementTypeOrSelf(type), value));
  };
  int64_t most = static_cast<int64_t>((uint64_t(1) << (width - 1)) - 1);
  result = arith::SelectOp::create(b, loc, above, integer(most), result);
  return arith::SelectOp::create(b, loc, below, integer(-most - 1), result);
}

/// An f64 or an integer of 32 or 64 bits as f32, rounded to odd (sp::ExprOp::convert_odd): a later
/// rounding to a narrower float is then the only one.
Value GpuKernelBuilder::toOdd(Value x, bool isSigned) {
  using P = arith::CmpFPredicate;
  Type wide = shaped(b.getF64Type()), single = shaped(b.getF32Type()),
       bits32 = shaped(b.getI32Type());
  auto integer = [&](int64_t number) { return integerLike(x, number); };
  auto choose = [&](Value condition, Value yes, Value no) {
    return arith::SelectOp::create(b, loc, condition, yes, no).getResult();
  };
  if (getElementTypeOrSelf(x.getType()).isInteger(64)) {
    // Large ones to at most 53 bits, also of unsigned ones: all below the last decide only whether
    // they are 0.
    int64_t most = int64_t(1) << 53;
    Value shifted = isSigned ? add(x, integer(most)) : x;
    Value isLarge = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ugt, shifted,
                                          integer(isSigned ? 2 * most : most));
    Value low = arith::AndIOp::create(b, loc, x, integer(0xfff));
    Value rest = choose(compare(arith::CmpIPredicate::ne, low, 0), integer(0x800), integer(0));
    Value high = arith::AndIOp::create(b, loc, x, integer(~int64_t(0xfff)));
    x = choose(isLarge, arith::OrIOp::create(b, loc, high, rest), x);
  }
  if (isa<IntegerType>(getElementTypeOrSelf(x.getType())))
    x = isSigned ? arith::SIToFPOp::create(b, loc, wide, x).getResult()
                 : arith::UIToFPOp::create(b, loc, wide, x).getResult();
  Value nearest = arith::TruncFOp::create(b, loc, single, x);
  Value back = arith::ExtFOp::create(b, loc, wide, nearest);
  Value isBelow = arith::CmpFOp::create(b, loc, P::OLT, back, x);
  Value isAbove = arith::CmpFOp::create(b, loc, P::OGT, back, x);
  Value zero = splat(wide, b.getF64FloatAttr(0));
  Value isPositive = arith::CmpFOp::create(b, loc, P::OGT, x, zero);
  // An even number next to x: the other one is odd.
  Value bits = arith::BitcastOp::create(b, loc, bits32, nearest);
  Value grows = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, isBelow, isPositive);
  Value step = choose(grows, integerLike(bits, 1), integerLike(bits, -1));
  Value last = arith::AndIOp::create(b, loc, bits, integerLike(bits, 1));
  Value isInexact = arith::OrIOp::create(b, loc, isBelow, isAbove);
  Value moves =
      arith::AndIOp::create(b, loc, isInexact, compare(arith::CmpIPredicate::eq, last, 0));
  bits = choose(moves, add(bits, step), bits);
  return arith::BitcastOp::create(b, loc, single, bits);
}

FailureOr<Value> GpuKernelBuilder::compute(Operation *op, ArrayRef<Value> operands) {
  if (isa<hostir::ExpDifferenceOp>(op)) {
    Value difference = arith::SubFOp::create(b, loc, operands[0], operands[1]);
    Value scaled = arith::MulFOp::create(b, loc, operands[2], difference);
    auto power = math::ExpOp::create(b, loc, scaled);
    if (isSupported(power))
      return power.getResult();
    return op->emitOpError("has no counterpart on a GPU for type ") << op->getResult(0).getType();
  }
  if (op->getNumResults() != 1 || !isSupported(op)) {
    InFlightDiagnostic diag = op->emitOpError("has no counterpart on a GPU");
    if (op->getNumResults() == 1)
      diag << " for type " << op->getResult(0).getType();
    return diag;
  }
  Type type = registerType(op->getResult(0).getType());
  auto number = [&](double value) {
    return splat(type, b.getFloatAttr(getElementTypeOrSelf(type), value));
  };
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    if (auto value = dyn_cast<FloatAttr>(constant.getValue()))
      return number(value.getValueAsDouble());
    return splat(type, constant.getValue());
  }
  if (isa<arith::ExtFOp>(op) && operands[0].getType() == type)
    return operands[0];
  if (isa<arith::TruncFOp>(op)) {
    Value value = operands[0];
    Type narrow = shaped(op->getResult(0).getType());
    if (value.getType() != type)
      value = narrow == type ? arith::TruncFOp::create(b, loc, type, value).getResult()
                             : toOdd(value, true);
    // A store already rounds.
    if (narrow == type ||
        llvm::all_of(op->getUsers(), [](Operation *user) { return isa<hostir::YieldOp>(user); }))
      return value;
    if (Type fp8 = getElementTypeOrSelf(op->getResult(0).getType()); isFp8(fp8))
      return fromFp8(fp8, toFp8(fp8, value));
    Value rounded = arith::TruncFOp::create(b, loc, narrow, value);
    return arith::ExtFOp::create(b, loc, type, rounded).getResult();
  }
  if (isa<arith::SIToFPOp, arith::UIToFPOp>(op) && type != shaped(op->getResult(0).getType()) &&
      op->getOperand(0).getType().getIntOrFloatBitWidth() >= 32)
    return toOdd(operands[0], isa<arith::SIToFPOp>(op));
  // f16 and bf16 are in f32.
  if (isa<arith::BitcastOp>(op) && op->getResult(0).getType().getIntOrFloatBitWidth() == 16) {
    Value value = operands[0];
    if (Type from = shaped(op->getOperand(0).getType()); value.getType() != from)
      value = arith::TruncFOp::create(b, loc, from, value);
    Type to = shaped(op->getResult(0).getType());
    value = arith::BitcastOp::create(b, loc, to, value);
    return to == type ? value : arith::ExtFOp::create(b, loc, type, value).getResult();
  }
  if (isa<arith::DivSIOp, arith::RemSIOp>(op))
    return divide(op, operands[0], operands[1]);
  if (isa<arith::RemFOp>(op))
    return remainder(operands[0], operands[1]);
  if (isa<arith::FPToSIOp>(op))
    return toInteger(type, operands[0]);
  if (isa<arith::ShLIOp, arith::ShRSIOp>(op)) {
    // Modulo the width.
    int64_t width = getElementTypeOrSelf(type).getIntOrFloatBitWidth();
    Value amount = arith::AndIOp::create(b, loc, operands[1], integerLike(operands[1], width - 1));
    if (isa<arith::ShLIOp>(op))
      return arith::ShLIOp::create(b, loc, operands[0], amount).getResult();
    return arith::ShRSIOp::create(b, loc, operands[0], amount).getResult();
  }
  // Upstream calls libdevice for these.
  if (isa<arith::MaxNumFOp>(op))
    return LLVM::MaxNumOp::create(b, loc, type, operands[0], operands[1]).getResult();
  if (isa<arith::MinNumFOp>(op))
    return LLVM::MinNumOp::create(b, loc, type, operands[0], operands[1]).getResult();
  if (isa<math::Log10Op>(op)) {
    Value log = math::LogOp::create(b, loc, operands[0]);
    return arith::MulFOp::create(b, loc, log, number(1.0 / std::log(10.0))).getResult();
  }
  OperationState state(loc, op->getName(), operands, type,
                       op->getDiscardableAttrDictionary().getValue());
  state.propertiesAttr = op->getPropertiesAsAttribute();
  return b.create(state)->getResult(0);
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
