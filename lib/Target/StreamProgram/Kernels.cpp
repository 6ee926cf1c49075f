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
#include <limits>
#include <tuple>

using namespace mlir;

namespace tandem::target {

namespace {

/// Registers are f32, whatever the floating point type, or i32. f16 and bf16 are rounded when they
/// are stored and where `arith.truncf` says so; i1 is an f32, 1.0 or 0.0.
class ExpressionBuilder {
public:
  explicit ExpressionBuilder(hostir::KernelOp kernel) : kernel(kernel) {}
  FailureOr<std::vector<uint8_t>> run();

private:
  LogicalResult operation(Operation *op);
  std::optional<uint32_t> compute(Operation *op);
  std::optional<uint32_t> computeInteger(Operation *op);
  std::optional<uint32_t> compare(arith::CmpFOp op);
  std::optional<uint32_t> compare(arith::CmpIOp op);
  std::optional<uint32_t> constantOf(arith::ConstantOp op);
  uint32_t truncate(arith::TruncFOp op);
  uint32_t maxOrMinNumber(Operation *op, sp::ExprOp which);

  /// The register of an instruction; one that is there already, if it computes the same.
  uint32_t emit(sp::ExprOp op, uint32_t a = 0, uint32_t b = 0, uint32_t c = 0, float imm = 0) {
    auto [known, isNew] = computed.try_emplace(
        std::make_tuple(static_cast<unsigned>(op), a, b, c, llvm::bit_cast<uint32_t>(imm)),
        instrs.size());
    if (isNew)
      instrs.emplace_back(op, a, b, c, imm);
    return known->second;
  }
  uint32_t number(float value) { return emit(sp::ExprOp::constant, 0, 0, 0, value); }
  uint32_t integer(int32_t value) {
    return emit(sp::ExprOp::constant_i32, static_cast<uint32_t>(value));
  }
  /// 1 - a truth value.
  uint32_t negate(uint32_t truth) { return emit(sp::ExprOp::sub, number(1), truth); }
  uint32_t reg(Value value) const { return registers.lookup(value); }

  hostir::KernelOp kernel;
  llvm::DenseMap<Value, uint32_t> registers;
  llvm::DenseMap<std::tuple<unsigned, uint32_t, uint32_t, uint32_t, uint32_t>, uint32_t> computed;
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
  if (auto value = dyn_cast<IntegerAttr>(op.getValue()); value && value.getType().isInteger(32))
    return integer(static_cast<int32_t>(value.getInt()));
  return std::nullopt;
}

/// A store rounds by itself.
uint32_t ExpressionBuilder::truncate(arith::TruncFOp op) {
  if (llvm::all_of(op->getUsers(), [](Operation *user) { return isa<hostir::YieldOp>(user); }))
    return reg(op.getIn());
  return emit(op.getType().isF16() ? sp::ExprOp::round_f16 : sp::ExprOp::round_bf16,
              reg(op.getIn()));
}

/// The other number, if one is a NaN.
uint32_t ExpressionBuilder::maxOrMinNumber(Operation *op, sp::ExprOp which) {
  uint32_t a = reg(op->getOperand(0)), b = reg(op->getOperand(1));
  auto isNumber = [&](uint32_t x) { return emit(sp::ExprOp::cmp_eq, x, x); };
  uint32_t chosen = emit(sp::ExprOp::select, isNumber(b), emit(which, a, b), a);
  return emit(sp::ExprOp::select, isNumber(a), chosen, b);
}

std::optional<uint32_t> ExpressionBuilder::compare(arith::CmpIOp op) {
  using P = arith::CmpIPredicate;
  if (!op.getLhs().getType().isInteger(32))
    return std::nullopt;
  uint32_t a = reg(op.getLhs()), b = reg(op.getRhs());
  P predicate = op.getPredicate();
  if (predicate == P::ult || predicate == P::ule || predicate == P::ugt || predicate == P::uge) {
    // Unsigned order is signed order with the sign turned.
    uint32_t sign = integer(std::numeric_limits<int32_t>::min());
    a = emit(sp::ExprOp::xor_i32, a, sign);
    b = emit(sp::ExprOp::xor_i32, b, sign);
  }
  switch (predicate) {
  case P::eq:
    return emit(sp::ExprOp::cmp_eq_i32, a, b);
  case P::ne:
    return negate(emit(sp::ExprOp::cmp_eq_i32, a, b));
  case P::slt:
  case P::ult:
    return emit(sp::ExprOp::cmp_lt_i32, a, b);
  case P::sle:
  case P::ule:
    return emit(sp::ExprOp::cmp_le_i32, a, b);
  case P::sgt:
  case P::ugt:
    return emit(sp::ExprOp::cmp_lt_i32, b, a);
  case P::sge:
  case P::uge:
    return emit(sp::ExprOp::cmp_le_i32, b, a);
  }
  return std::nullopt;
}

/// Operations whose result is an i32.
std::optional<uint32_t> ExpressionBuilder::computeInteger(Operation *op) {
  using E = sp::ExprOp;
  using Result = std::optional<uint32_t>;
  auto operand = [&](unsigned i) { return reg(op->getOperand(i)); };
  auto binary = [&](E e) { return Result(emit(e, operand(0), operand(1))); };
  auto ofTruth = [&](int32_t value) -> Result {
    if (!op->getOperand(0).getType().isInteger(1))
      return std::nullopt;
    return emit(E::select_i32, operand(0), integer(value), integer(0));
  };
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case([&](arith::ConstantOp o) { return constantOf(o); })
      .Case([&](arith::AddIOp) { return binary(E::add_i32); })
      .Case([&](arith::SubIOp) { return binary(E::sub_i32); })
      .Case([&](arith::MulIOp) { return binary(E::mul_i32); })
      .Case([&](arith::MaxSIOp) { return binary(E::max_i32); })
      .Case([&](arith::MinSIOp) { return binary(E::min_i32); })
      .Case([&](arith::AndIOp) { return binary(E::and_i32); })
      .Case([&](arith::OrIOp) { return binary(E::or_i32); })
      .Case([&](arith::XOrIOp) { return binary(E::xor_i32); })
      .Case([&](arith::ShLIOp) { return binary(E::shl_i32); })
      .Case([&](arith::ShRSIOp) { return binary(E::shr_i32); })
      .Case([&](arith::SelectOp) {
        return Result(emit(E::select_i32, operand(0), operand(1), operand(2)));
      })
      .Case([&](arith::FPToSIOp) { return Result(emit(E::to_i32, operand(0))); })
      .Case([&](arith::ExtUIOp) { return ofTruth(1); })
      .Case([&](arith::ExtSIOp) { return ofTruth(-1); })
      .Default(std::nullopt);
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
  if (op->getNumResults() != 1)
    return std::nullopt;
  bool onTruth = op->getResult(0).getType().isInteger(1);
  if (op->getResult(0).getType().isInteger(32))
    return computeInteger(op);
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case([&](arith::ConstantOp o) { return constantOf(o); })
      .Case<arith::CmpFOp, arith::CmpIOp>([&](auto o) { return compare(o); })
      .Case([&](arith::AddFOp) { return binary(E::add); })
      .Case([&](arith::SubFOp) { return binary(E::sub); })
      .Case([&](arith::MulFOp) { return binary(E::mul); })
      .Case([&](arith::DivFOp) { return binary(E::div); })
      .Case([&](arith::MaximumFOp) { return binary(E::max); })
      .Case([&](arith::MinimumFOp) { return binary(E::min); })
      .Case([&](arith::MaxNumFOp o) { return Result(maxOrMinNumber(o, E::max)); })
      .Case([&](arith::MinNumFOp o) { return Result(maxOrMinNumber(o, E::min)); })
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
      .Case([&](arith::ExtFOp) { return Result(operand(0)); })
      .Case([&](arith::TruncFOp o) { return Result(truncate(o)); })
      .Case([&](arith::SIToFPOp o) -> Result {
        // A truth value is -1.
        if (o.getIn().getType().isInteger(1))
          return emit(E::neg, operand(0));
        if (o.getIn().getType().isInteger(32))
          return emit(E::from_i32, operand(0));
        return std::nullopt;
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
    registers[arg] = emit(isa<FloatType>(arg.getType()) ? sp::ExprOp::load : sp::ExprOp::load_i32,
                          arg.getArgNumber());
  for (Operation &op : body.without_terminator())
    if (failed(operation(&op)))
      return failure();
  auto yield = dyn_cast<hostir::YieldOp>(body.back());
  if (!yield)
    return kernel.emitOpError("expected to end in hostir.yield");
  for (auto [number, value] : llvm::enumerate(yield.getValues()))
    emit(isa<FloatType>(value.getType()) ? sp::ExprOp::store : sp::ExprOp::store_i32, reg(value),
         number);
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

} // namespace tandem::target
