//===- Kernels.cpp - elementwise kernels as expression code -----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Code.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

namespace mlir::tandem::target {

namespace {

/// Registers are f32, whatever the type: f16 and bf16 are rounded when they are stored; i1 is 1.0
/// or 0.0.
class ExpressionBuilder {
public:
  explicit ExpressionBuilder(hostir::KernelOp kernel) : kernel(kernel) {}
  FailureOr<std::vector<uint8_t>> run();

private:
  LogicalResult operation(Operation *op);
  std::optional<uint32_t> compute(Operation *op);
  std::optional<uint32_t> compare(arith::CmpFOp op);
  std::optional<uint32_t> constantOf(arith::ConstantOp op);

  uint32_t emit(sp::ExprOp op, uint32_t a = 0, uint32_t b = 0, uint32_t c = 0, float imm = 0) {
    instrs.emplace_back(op, a, b, c, imm);
    return instrs.size() - 1;
  }
  uint32_t number(float value) { return emit(sp::ExprOp::constant, 0, 0, 0, value); }
  /// 1 - a truth value.
  uint32_t negate(uint32_t truth) { return emit(sp::ExprOp::sub, number(1), truth); }
  uint32_t reg(Value value) const { return registers.lookup(value); }

  hostir::KernelOp kernel;
  llvm::DenseMap<Value, uint32_t> registers;
  std::vector<sp::ExprInstr> instrs;
};

std::optional<uint32_t> ExpressionBuilder::constantOf(arith::ConstantOp op) {
  if (auto value = dyn_cast<FloatAttr>(op.getValue())) {
    APFloat f = value.getValue();
    bool lossy = false;
    f.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &lossy);
    return number(f.convertToFloat());
  }
  if (auto value = dyn_cast<IntegerAttr>(op.getValue()); value && value.getType().isInteger(1))
    return number(value.getValue().isZero() ? 0 : 1);
  return std::nullopt;
}

std::optional<uint32_t> ExpressionBuilder::compare(arith::CmpFOp op) {
  using P = arith::CmpFPredicate;
  uint32_t a = reg(op.getLhs()), b = reg(op.getRhs());
  auto less = [&](uint32_t x, uint32_t y) { return emit(sp::ExprOp::cmp_lt, x, y); };
  auto lessEqual = [&](uint32_t x, uint32_t y) { return emit(sp::ExprOp::cmp_le, x, y); };
  auto equal = [&](uint32_t x, uint32_t y) { return emit(sp::ExprOp::cmp_eq, x, y); };
  // A number is equal to itself, a NaN is not.
  auto ordered = [&] { return emit(sp::ExprOp::mul, equal(a, a), equal(b, b)); };
  switch (op.getPredicate()) {
  case P::AlwaysFalse:
    return number(0);
  case P::AlwaysTrue:
    return number(1);
  case P::OLT:
    return less(a, b);
  case P::OGT:
    return less(b, a);
  case P::OLE:
    return lessEqual(a, b);
  case P::OGE:
    return lessEqual(b, a);
  case P::OEQ:
    return equal(a, b);
  case P::ONE:
    return emit(sp::ExprOp::add, less(a, b), less(b, a));
  case P::ORD:
    return ordered();
  case P::UNO:
    return negate(ordered());
  case P::UEQ:
    return negate(emit(sp::ExprOp::add, less(a, b), less(b, a)));
  case P::UNE:
    return negate(equal(a, b));
  case P::ULT:
    return negate(lessEqual(b, a));
  case P::UGT:
    return negate(lessEqual(a, b));
  case P::ULE:
    return negate(less(b, a));
  case P::UGE:
    return negate(less(a, b));
  }
  return std::nullopt;
}

std::optional<uint32_t> ExpressionBuilder::compute(Operation *op) {
  using E = sp::ExprOp;
  using Result = std::optional<uint32_t>;
  auto operand = [&](unsigned i) { return reg(op->getOperand(i)); };
  auto unary = [&](E e) { return Result(emit(e, operand(0))); };
  auto binary = [&](E e) { return Result(emit(e, operand(0), operand(1))); };
  // log2(x) = ln(x) / ln(2).
  auto scaledLog = [&](float base) {
    return Result(emit(E::mul, emit(E::log, operand(0)), number(1.0f / std::log(base))));
  };
  bool onTruth = op->getNumResults() == 1 && op->getResult(0).getType().isInteger(1);
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case([&](arith::ConstantOp o) { return constantOf(o); })
      .Case([&](arith::CmpFOp o) { return compare(o); })
      .Case([&](arith::AddFOp) { return binary(E::add); })
      .Case([&](arith::SubFOp) { return binary(E::sub); })
      .Case([&](arith::MulFOp) { return binary(E::mul); })
      .Case([&](arith::DivFOp) { return binary(E::div); })
      .Case<arith::MaximumFOp, arith::MaxNumFOp>([&](auto) { return binary(E::max); })
      .Case<arith::MinimumFOp, arith::MinNumFOp>([&](auto) { return binary(E::min); })
      .Case([&](math::PowFOp) { return binary(E::pow); })
      .Case([&](arith::NegFOp) { return unary(E::neg); })
      .Case([&](math::AbsFOp) { return unary(E::abs); })
      .Case([&](math::ExpOp) { return unary(E::exp); })
      .Case([&](math::Exp2Op) { return unary(E::exp2); })
      .Case([&](math::LogOp) { return unary(E::log); })
      .Case([&](math::Log2Op) { return scaledLog(2); })
      .Case([&](math::Log10Op) { return scaledLog(10); })
      .Case([&](math::SqrtOp) { return unary(E::sqrt); })
      .Case([&](math::RsqrtOp) { return unary(E::rsqrt); })
      .Case([&](math::TanhOp) { return unary(E::tanh); })
      .Case([&](math::ErfOp) { return unary(E::erf); })
      .Case([&](math::SinOp) { return unary(E::sin); })
      .Case([&](math::CosOp) { return unary(E::cos); })
      .Case([&](math::FloorOp) { return unary(E::floor); })
      .Case([&](math::CeilOp) { return unary(E::ceil); })
      .Case([&](math::FmaOp) { return Result(emit(E::fma, operand(0), operand(1), operand(2))); })
      .Case([&](arith::SelectOp) {
        return Result(emit(E::select, operand(0), operand(1), operand(2)));
      })
      .Case<arith::ExtFOp, arith::TruncFOp>([&](auto) { return Result(operand(0)); })
      .Case<arith::SIToFPOp>([&](auto o) -> Result {
        // An i32 input is a number already; a truth value would be -1.
        if (o.getIn().getType().isInteger(1))
          return emit(E::neg, operand(0));
        return operand(0);
      })
      .Case([&](arith::UIToFPOp o) -> Result {
        if (o.getIn().getType().isInteger(1))
          return operand(0);
        return std::nullopt;
      })
      .Case([&](arith::AndIOp) { return onTruth ? binary(E::mul) : std::nullopt; })
      .Case([&](arith::OrIOp) { return onTruth ? binary(E::max) : std::nullopt; })
      .Case([&](arith::XOrIOp) -> Result {
        return onTruth ? Result(negate(emit(E::cmp_eq, operand(0), operand(1)))) : std::nullopt;
      })
      .Default(std::nullopt);
}

LogicalResult ExpressionBuilder::operation(Operation *op) {
  std::optional<uint32_t> result = compute(op);
  if (!result) {
    InFlightDiagnostic diag = op->emitOpError("has no counterpart in expression code");
    if (op->getNumResults() == 1)
      diag << " for type " << op->getResult(0).getType();
    return diag;
  }
  registers[op->getResult(0)] = *result;
  return success();
}

FailureOr<std::vector<uint8_t>> ExpressionBuilder::run() {
  Block &body = kernel.getBody().front();
  for (BlockArgument arg : body.getArguments())
    registers[arg] = emit(sp::ExprOp::load, arg.getArgNumber());
  for (Operation &op : body.without_terminator())
    if (failed(operation(&op)))
      return failure();
  auto yield = dyn_cast<hostir::YieldOp>(body.back());
  if (!yield)
    return kernel.emitOpError("expected to end in hostir.yield");
  for (auto [number, value] : llvm::enumerate(yield.getValues())) {
    // An f32 register does not hold every i32.
    if (!isa<FloatType>(value.getType()))
      return yield.emitOpError("result ")
             << number << ": expression code cannot store elements of type " << value.getType();
    emit(sp::ExprOp::store, reg(value), number);
  }
  flatbuffers::FlatBufferBuilder builder(1024);
  auto code = builder.CreateVectorOfStructs(instrs);
  builder.Finish(
      sp::CreateExpression(builder, body.getNumArguments(), yield.getNumOperands(), code));
  return std::vector<uint8_t>(builder.GetBufferPointer(),
                              builder.GetBufferPointer() + builder.GetSize());
}

} // namespace

FailureOr<std::vector<uint8_t>> buildExpression(hostir::KernelOp kernel) {
  return ExpressionBuilder(kernel).run();
}

} // namespace mlir::tandem::target
