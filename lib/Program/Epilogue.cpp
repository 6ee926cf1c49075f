//===- Epilogue.cpp - what follows a matmul in place ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Program/Epilogue.h"

#include "ProgramImpl.h"

#include "tandem/Program/Gated.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tandem::program {

namespace {

using sp::ExprOp;

/// alpha * factors * product + the sum of weights[i] * input i + constant.
struct Affine {
  double alpha = 0, constant = 0;
  std::vector<double> weights;
  std::vector<uint32_t> factors = {}; ///< inputs, ascending; if alpha is not 0

  bool isWithoutInputs() const {
    return std::all_of(weights.begin(), weights.end(), [](double weight) { return weight == 0; });
  }
  bool isConstant() const { return alpha == 0 && isWithoutInputs(); }
  /// Whether it is the product, scaled.
  bool isProduct() const { return alpha != 0 && constant == 0 && isWithoutInputs(); }
  /// If it is a multiple of an input, which one.
  std::optional<uint32_t> input() const {
    auto isUsed = [](double weight) { return weight != 0; };
    auto used = std::find_if(weights.begin(), weights.end(), isUsed);
    if (alpha != 0 || constant != 0 || used == weights.end() ||
        std::any_of(used + 1, weights.end(), isUsed))
      return std::nullopt;
    return static_cast<uint32_t>(used - weights.begin());
  }
  /// A product, times input `input`, whose weight is `weight`.
  Affine scaledBy(uint32_t input, double weight) const {
    Affine scaled = times(weight);
    scaled.factors.insert(std::upper_bound(scaled.factors.begin(), scaled.factors.end(), input),
                          input);
    return scaled;
  }
  /// this + factor * other
  Affine plus(const Affine &other, double factor) const {
    Affine sum = *this;
    if (alpha == 0)
      sum.factors = other.factors;
    sum.alpha += factor * other.alpha;
    sum.constant += factor * other.constant;
    for (size_t i = 0; i < weights.size(); ++i)
      sum.weights[i] += factor * other.weights[i];
    return sum;
  }
  Affine times(double factor) const {
    return Affine{0, 0, std::vector<double>(weights.size())}.plus(*this, factor);
  }
};

double constantOf(const sp::ExprInstr &instr) {
  auto bits = static_cast<uint32_t>(instr.bits());
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

double gelu(double x) {
  return 0.5 * x *
         (1 + std::tanh(std::sqrt(0.6366197723675814 /* 2 / pi */) * (x + 0.044715 * x * x * x)));
}

double activated(Activation activation, double x) {
  switch (activation) {
  case Activation::None:
  case Activation::Relu: // found by its form
    return x;
  case Activation::Gelu:
    return gelu(x);
  case Activation::Silu:
    return x / (1 + std::exp(-x));
  }
  return 0;
}

/// Longer code is none: activations are compared with each value on the way.
constexpr uint32_t kMostInstructions = 64;

/// Recognises the function by its form where it is affine or a maximum with 0, and other
/// activations by their operations and their values at many points: a formula can be written in
/// many ways.
class FunctionFinder {
public:
  FunctionFinder(const sp::Expression &expression, const std::vector<bool> &isProduct, DType type)
      : code(*expression.code()), isProduct(isProduct), type(type) {}

  std::optional<EpilogueFunction> run() {
    if (code.size() > kMostInstructions)
      return std::nullopt;
    for (uint32_t i = 0; i < code.size(); ++i)
      if (!read(i))
        return std::nullopt;
    if (const auto &affine = affines[stored])
      return describe(*affine, Activation::None);
    if (maxima + tanhs + exps != 1)
      return std::nullopt;
    if (maxima)
      return findRelu();
    Activation activation = tanhs ? Activation::Gelu : Activation::Silu;
    // Its operand is one of the values on the way.
    for (const auto &affine : affines)
      if (affine && isActivationOf(*affine, activation))
        if (auto found = describe(*affine, activation))
          return found;
    return std::nullopt;
  }

private:
  /// What is stored is the maximum of an affine value and 0.
  std::optional<EpilogueFunction> findRelu() const {
    const sp::ExprInstr *last = code.Get(stored);
    if (last->op() == ExprOp::round_f16 || last->op() == ExprOp::round_bf16)
      last = code.Get(last->a());
    if (last->op() != ExprOp::max)
      return std::nullopt;
    for (auto [value, zero] : {std::pair(last->a(), last->b()), std::pair(last->b(), last->a())})
      if (affines[value] && affines[zero] && affines[zero]->isConstant() &&
          affines[zero]->constant == 0)
        return describe(*affines[value], Activation::Relu);
    return std::nullopt;
  }

  /// Notes what instruction `i` computes; false if no epilogue has it.
  bool read(uint32_t i) {
    const sp::ExprInstr &instr = *code.Get(i);
    if (instr.type() != sp::RegisterType::f32 || (isRounded(i) && instr.op() != ExprOp::store))
      return false;
    std::optional<Affine> &result = affines.emplace_back();
    auto operand = [&](uint32_t number) -> const std::optional<Affine> & {
      return affines[number];
    };
    Affine zero{0, 0, std::vector<double>(isProduct.size())};
    switch (instr.op()) {
    case ExprOp::load:
      result = zero;
      (isProduct[instr.a()] ? result->alpha : result->weights[instr.a()]) = 1;
      return true;
    case ExprOp::constant:
      result = zero;
      result->constant = constantOf(instr);
      return true;
    case ExprOp::store:
      stored = instr.a();
      return true;
    case ExprOp::round_f16:
    case ExprOp::round_bf16: // the store rounds to the same type
      result = operand(instr.a());
      return type == (instr.op() == ExprOp::round_f16 ? DType::F16 : DType::BF16);
    case ExprOp::neg:
      if (operand(instr.a()))
        result = operand(instr.a())->times(-1);
      return true;
    case ExprOp::add:
    case ExprOp::sub:
      result = sum(operand(instr.a()), operand(instr.b()), instr.op() == ExprOp::add ? 1 : -1);
      return true;
    case ExprOp::mul:
      result = product(operand(instr.a()), operand(instr.b()));
      return true;
    case ExprOp::fma:
      result = sum(product(operand(instr.a()), operand(instr.b())), operand(instr.c()), 1);
      return true;
    case ExprOp::div:
      if (const auto &by = operand(instr.b()); operand(instr.a()) && by && by->isConstant())
        result = operand(instr.a())->times(1 / by->constant);
      return true;
    case ExprOp::max:
      ++maxima;
      return true;
    case ExprOp::tanh:
      ++tanhs;
      return true;
    case ExprOp::exp:
      ++exps;
      return true;
    default:
      return false;
    }
  }

  /// Whether instruction `i` reads a value that was rounded on the way.
  bool isRounded(uint32_t i) const {
    uint32_t used[] = {code.Get(i)->a(), code.Get(i)->b(), code.Get(i)->c()};
    for (unsigned k = 0; k < registersRead(code.Get(i)->op()); ++k)
      if (ExprOp op = code.Get(used[k])->op(); op == ExprOp::round_f16 || op == ExprOp::round_bf16)
        return true;
    return false;
  }

  static std::optional<Affine> sum(const std::optional<Affine> &a, const std::optional<Affine> &b,
                                   double factor) {
    if (!a || !b || (a->alpha != 0 && b->alpha != 0 && a->factors != b->factors))
      return std::nullopt;
    return a->plus(*b, factor);
  }
  static std::optional<Affine> product(const std::optional<Affine> &a,
                                       const std::optional<Affine> &b) {
    if (!a || !b)
      return std::nullopt;
    for (auto [scale, scaled] : {std::pair(&*a, &*b), std::pair(&*b, &*a)})
      if (auto input = scale->input(); input && scaled->isProduct())
        return scaled->scaledBy(*input, scale->weights[*input]);
    if (!a->isConstant() && !b->isConstant())
      return std::nullopt;
    return a->isConstant() ? b->times(a->constant) : a->times(b->constant);
  }

  std::optional<EpilogueFunction> describe(const Affine &affine, Activation activation) const {
    if (affine.alpha == 0 || affine.constant != 0)
      return std::nullopt;
    return EpilogueFunction{activation, affine.alpha, affine.weights, affine.factors};
  }

  /// Evaluates the code at points that vary all inputs.
  bool isActivationOf(const Affine &affine, Activation activation) const {
    if (affine.alpha == 0)
      return false;
    // Constants of the type differ from those of the formula by so much.
    double tolerance = std::ldexp(1, type == DType::BF16 ? -9 : type == DType::F16 ? -12 : -20);
    constexpr int kPoints = 96;
    uint64_t state = 1;
    auto random = [&] { // from -1 to 1
      state = state * 6364136223846793005u + 1442695040888963407u;
      return static_cast<double>(state >> 40) / (1 << 23) - 1;
    };
    std::vector<double> inputs(isProduct.size()), values;
    for (int point = 0; point < kPoints; ++point) {
      double x = (point % 2 ? 8 : 1.0 / 64) * random(), rest = affine.constant;
      double scale = affine.alpha;
      for (size_t i = 0; i < inputs.size(); ++i) {
        inputs[i] = 4 * random();
        rest += affine.weights[i] * inputs[i];
      }
      for (uint32_t input : affine.factors)
        scale *= inputs[input];
      double expected = activated(activation, x);
      double found = evaluate((x - rest) / scale, inputs, values);
      if (!(std::abs(found - expected) <= tolerance * std::abs(x)))
        return false;
    }
    return true;
  }

  double evaluate(double product, const std::vector<double> &inputs,
                  std::vector<double> &values) const {
    values.clear();
    for (const sp::ExprInstr *instr : code) {
      auto value = [&](uint32_t number) { return values[number]; };
      double &result = values.emplace_back();
      switch (instr->op()) {
      case ExprOp::load:
        result = isProduct[instr->a()] ? product : inputs[instr->a()];
        break;
      case ExprOp::constant:
        result = constantOf(*instr);
        break;
      case ExprOp::add:
        result = value(instr->a()) + value(instr->b());
        break;
      case ExprOp::sub:
        result = value(instr->a()) - value(instr->b());
        break;
      case ExprOp::mul:
        result = value(instr->a()) * value(instr->b());
        break;
      case ExprOp::div:
        result = value(instr->a()) / value(instr->b());
        break;
      case ExprOp::fma:
        result = value(instr->a()) * value(instr->b()) + value(instr->c());
        break;
      case ExprOp::neg:
        result = -value(instr->a());
        break;
      case ExprOp::max:
        result = std::max(value(instr->a()), value(instr->b()));
        break;
      case ExprOp::tanh:
        result = std::tanh(value(instr->a()));
        break;
      case ExprOp::exp:
        result = std::exp(value(instr->a()));
        break;
      default: // roundings and stores
        result = value(instr->a());
        break;
      }
    }
    return values[stored];
  }

  const flatbuffers::Vector<const sp::ExprInstr *> &code;
  const std::vector<bool> &isProduct;
  DType type;
  std::vector<std::optional<Affine>> affines; ///< per instruction; none: it is not affine
  uint32_t stored = 0;
  int maxima = 0, tanhs = 0, exps = 0;
};

/// Whether the view repeats one row.
bool isRow(const Layout &layout) {
  for (unsigned d = 0; d + 1 < layout.rank; ++d)
    if (layout.shape[d] > 1 && layout.strides[d] != 0)
      return false;
  return true;
}

/// The whole result of a gated matmul, if it stays on this rank.
std::optional<PlacedView> gatedOut(const Program &program, uint32_t head) {
  std::vector<GatedPart> parts = gatedParts(program, head);
  auto product = describeGated(parts);
  if (!product || !product->targets.empty() || !product->whyNoTargets.empty())
    return std::nullopt;
  PlacedView out = parts[product->firstOut].out;
  out.layout = product->out;
  return out;
}

/// Gives the inputs of the launch their roles.
bool addInputs(const Program &program, const EpilogueFunction &function,
               const std::vector<uint32_t> &views, MatmulEpilogue &epilogue) {
  const Layout &out = placedView(program, views[0]).layout;
  for (uint32_t i = 0; i < function.weights.size(); ++i) {
    double weight = function.weights[i];
    if (weight == 0)
      continue;
    Layout layout = placedView(program, views[i + 1]).layout;
    if (epilogue.bias == sp::kNoView && weight == 1 && isRow(layout)) {
      epilogue.bias = views[i + 1];
    } else if (epilogue.residual == sp::kNoView && layout == out) {
      epilogue.residual = views[i + 1];
      epilogue.beta = static_cast<float>(weight);
    } else {
      return false;
    }
  }
  return true;
}

/// Gives the inputs that the product is multiplied by their roles.
bool addScales(const Program &program, const EpilogueFunction &function,
               const std::vector<uint32_t> &views, MatmulEpilogue &epilogue) {
  enum { One = 0, Columns = 1, Rows = 2, Others = 4 };
  for (bool isOne : {false, true}) // single numbers go where there is a place left
    for (uint32_t input : function.factors) {
      Layout layout = placedView(program, views[input + 1]).layout;
      if (layout.dtype != DType::F32)
        return false;
      unsigned varies = One;
      for (unsigned d = 0; d < layout.rank; ++d)
        if (layout.shape[d] > 1 && layout.strides[d] != 0)
          varies |= d + 1 == layout.rank ? Columns : d + 2 == layout.rank ? Rows : Others;
      if ((varies == One) != isOne)
        continue;
      bool isRow = isOne ? epilogue.rowScale == sp::kNoView : varies == Rows;
      uint32_t &scale = isRow ? epilogue.rowScale : epilogue.columnScale;
      if (scale != sp::kNoView || varies > Rows)
        return false;
      scale = views[input + 1];
    }
  return true;
}

bool isSymmetric(const Program &program, uint32_t view) {
  const sp::RankProgram &data = program.data();
  return data.buffers()->Get(data.views()->Get(view)->buffer())->space() == sp::Space::symmetric;
}

/// Whether a gated matmul has gates.
bool waits(const Program &program, uint32_t head) {
  const sp::RankProgram &data = program.data();
  for (uint32_t i = 1; i <= data.commands()->Get(head)->aux(); ++i)
    if (data.commands()->Get(head + i)->kind() == sp::CommandKind::wait_signal)
      return true;
  return false;
}

} // namespace

std::optional<EpilogueFunction> findEpilogueFunction(const sp::Expression &expression,
                                                     const std::vector<bool> &isProduct,
                                                     DType type) {
  return FunctionFinder(expression, isProduct, type).run();
}

std::optional<MatmulEpilogue> findEpilogue(const Program &program, uint32_t matmul) {
  const sp::RankProgram &data = program.data();
  const sp::Command &product = *data.commands()->Get(matmul);
  bool isGated = isGatedMatmul(product.kind());
  uint32_t next = matmul + 1 + (isGated ? product.aux() : 0);
  if ((!isGated && product.kind() != sp::CommandKind::matmul) || next >= data.commands()->size() ||
      program.index().deterministic() != sp::Determinism::none ||
      product.flags() & static_cast<uint8_t>(sp::CommandFlags::accumulate))
    return std::nullopt;
  const sp::Command &launch = *data.commands()->Get(next);
  if (launch.kind() != sp::CommandKind::launch || launch.stream() != product.stream())
    return std::nullopt;
  const sp::Kernel &kernel = *data.kernels()->Get(launch.aux());
  if (kernel.format() != sp::KernelFormat::expression || !kernel.code())
    return std::nullopt;
  std::vector<uint32_t> views(launch.operands()->Get(1));
  for (uint32_t k = 0; k < views.size(); ++k)
    views[k] = data.launch_operands()->Get(launch.operands()->Get(0) + k);
  PlacedView out;
  if (isGated) {
    auto whole = gatedOut(program, matmul);
    if (!whole)
      return std::nullopt;
    out = *whole;
  } else {
    out = placedView(program, product.operands()->Get(0));
  }
  if (views.empty() || placedView(program, views[0]) != out)
    return std::nullopt;
  // The code may lie at any address there.
  auto copy = allocateAligned(kernel.code()->size());
  if (!copy)
    return std::nullopt;
  std::memcpy(copy.get(), kernel.code()->data(), kernel.code()->size());
  const auto *expression =
      flatbuffers::GetRoot<sp::Expression>(reinterpret_cast<const uint8_t *>(copy.get()));
  if (expression->outputs() != 1)
    return std::nullopt;
  std::vector<bool> isProduct;
  for (uint32_t i = 1; i < views.size(); ++i) {
    PlacedView input = placedView(program, views[i]);
    Overlap found = overlap(input, out);
    if (found == Overlap::Partial)
      return std::nullopt;
    isProduct.push_back(found == Overlap::Same);
  }
  auto function = findEpilogueFunction(*expression, isProduct, out.layout.dtype);
  MatmulEpilogue epilogue;
  if (!function || !addInputs(program, *function, views, epilogue) ||
      !addScales(program, *function, views, epilogue))
    return std::nullopt;
  if (!function->factors.empty() &&
      (isGated || !isFp8(placedView(program, product.operands()->Get(1)).layout.dtype) ||
       product.operands()->Get(3) != sp::kNoView))
    return std::nullopt;
  // A tile waits for the gates of its own rows, the launch for all: it may read what comes last.
  if (isGated && waits(program, matmul))
    for (uint32_t view : {epilogue.bias, epilogue.residual})
      if (view != sp::kNoView && isSymmetric(program, view))
        return std::nullopt;
  epilogue.activation = function->activation;
  epilogue.alpha = static_cast<float>(function->alpha);
  // The matmul's own bias is the row, and is not scaled.
  if (uint32_t own = product.operands()->Get(3); !isGated && own != sp::kNoView)
    if (epilogue.bias != sp::kNoView || epilogue.alpha != 1 ||
        placedView(program, own).layout.rank != 1)
      return std::nullopt;
  return epilogue;
}

} // namespace tandem::program
