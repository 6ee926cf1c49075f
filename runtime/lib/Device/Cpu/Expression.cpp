//===- Expression.cpp - the elementwise kernels of the CPU ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CpuDevice.h"

#include "tandem/Runtime/HostOps.h"
#include "tandem/Schema/stream_program_generated.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tandem::cpu {

namespace {

constexpr int64_t kTile = 256;

/// One instruction on one tile. Registers are rows of kTile floats; loops this plain vectorise.
void evaluate(const sp::ExprInstr &instr, size_t count, float *registers, float *result,
              int64_t n) {
  // Fields that the operation does not use may hold anything.
  auto row = [&](uint32_t r) { return registers + (r < count ? int64_t(r) * kTile : 0); };
  const float *a = row(instr.a()), *b = row(instr.b()), *c = row(instr.c());
  auto loop = [&](auto f) {
    for (int64_t i = 0; i < n; ++i)
      result[i] = f(i);
  };
  switch (instr.op()) {
  case sp::ExprOp::load:
  case sp::ExprOp::store: // moved by the caller
    return;
  case sp::ExprOp::constant:
    return loop([&](int64_t) { return instr.imm(); });
  case sp::ExprOp::add:
    return loop([&](int64_t i) { return a[i] + b[i]; });
  case sp::ExprOp::sub:
    return loop([&](int64_t i) { return a[i] - b[i]; });
  case sp::ExprOp::mul:
    return loop([&](int64_t i) { return a[i] * b[i]; });
  case sp::ExprOp::div:
    return loop([&](int64_t i) { return a[i] / b[i]; });
  case sp::ExprOp::max: // NaN if either is
    return loop([&](int64_t i) { return a[i] > b[i] || std::isnan(a[i]) ? a[i] : b[i]; });
  case sp::ExprOp::min:
    return loop([&](int64_t i) { return a[i] < b[i] || std::isnan(a[i]) ? a[i] : b[i]; });
  case sp::ExprOp::pow:
    return loop([&](int64_t i) { return std::pow(a[i], b[i]); });
  case sp::ExprOp::neg:
    return loop([&](int64_t i) { return -a[i]; });
  case sp::ExprOp::abs:
    return loop([&](int64_t i) { return std::fabs(a[i]); });
  case sp::ExprOp::exp:
    return loop([&](int64_t i) { return std::exp(a[i]); });
  case sp::ExprOp::exp2:
    return loop([&](int64_t i) { return std::exp2(a[i]); });
  case sp::ExprOp::log:
    return loop([&](int64_t i) { return std::log(a[i]); });
  case sp::ExprOp::sqrt:
    return loop([&](int64_t i) { return std::sqrt(a[i]); });
  case sp::ExprOp::rsqrt:
    return loop([&](int64_t i) { return 1.0f / std::sqrt(a[i]); });
  case sp::ExprOp::tanh:
    return loop([&](int64_t i) { return std::tanh(a[i]); });
  case sp::ExprOp::erf:
    return loop([&](int64_t i) { return std::erf(a[i]); });
  case sp::ExprOp::sin:
    return loop([&](int64_t i) { return std::sin(a[i]); });
  case sp::ExprOp::cos:
    return loop([&](int64_t i) { return std::cos(a[i]); });
  case sp::ExprOp::floor:
    return loop([&](int64_t i) { return std::floor(a[i]); });
  case sp::ExprOp::ceil:
    return loop([&](int64_t i) { return std::ceil(a[i]); });
  case sp::ExprOp::cmp_lt:
    return loop([&](int64_t i) { return a[i] < b[i] ? 1.0f : 0.0f; });
  case sp::ExprOp::cmp_le:
    return loop([&](int64_t i) { return a[i] <= b[i] ? 1.0f : 0.0f; });
  case sp::ExprOp::cmp_eq:
    return loop([&](int64_t i) { return a[i] == b[i] ? 1.0f : 0.0f; });
  case sp::ExprOp::select:
    return loop([&](int64_t i) { return a[i] != 0.0f ? b[i] : c[i]; });
  case sp::ExprOp::fma:
    return loop([&](int64_t i) { return std::fma(a[i], b[i], c[i]); });
  }
}

class ExpressionOperation final : public HostOperation {
public:
  ExpressionOperation(std::vector<sp::ExprInstr> code, uint32_t outputs,
                      const std::vector<Operand> &operands)
      : code(std::move(code)), outputs(outputs) {
    std::vector<Layout> layouts;
    for (const Operand &operand : operands) {
      slots.push_back(operand.slot);
      types.push_back(operand.layout.dtype);
      layouts.push_back(operand.layout);
    }
    nest = LoopNest(layouts);
  }

  Status execute(const Frame &frame) override {
    std::vector<std::byte *> bases;
    for (uint32_t slot : slots)
      bases.push_back(static_cast<std::byte *>(frame.pointers[slot]));
    std::vector<float> registers(code.size() * kTile);
    nest.run(bases, [&](std::byte *const *at) {
      for (int64_t i = 0; i < nest.rowLength(); i += kTile)
        tile(at, i, std::min(kTile, nest.rowLength() - i), registers.data());
    });
    return Status();
  }

private:
  void tile(std::byte *const *at, int64_t i, int64_t n, float *registers) const {
    auto place = [&](size_t k) {
      return at[k] + i * nest.rowStride(k) * static_cast<int64_t>(sizeOf(types[k]));
    };
    // Stores come last: an output may be the same memory as an input that is loaded after the store
    // stands.
    for (size_t r = 0; r < code.size(); ++r) {
      float *result = registers + static_cast<int64_t>(r) * kTile;
      if (code[r].op() == sp::ExprOp::load) {
        size_t k = outputs + code[r].a();
        loadAsF32(types[k], place(k), nest.rowStride(k), n, result);
      } else {
        evaluate(code[r], code.size(), registers, result, n);
      }
    }
    for (const sp::ExprInstr &instr : code)
      if (instr.op() == sp::ExprOp::store)
        storeFromF32(types[instr.b()], registers + int64_t(instr.a()) * kTile, place(instr.b()),
                     nest.rowStride(instr.b()), n);
  }

  std::vector<sp::ExprInstr> code;
  uint32_t outputs;
  std::vector<uint32_t> slots;
  std::vector<DType> types;
  LoopNest nest;
};

} // namespace

Expected<std::unique_ptr<Operation>> prepareLaunch(const LaunchDesc &desc) {
  if (static_cast<sp::KernelFormat>(desc.format) != sp::KernelFormat::expression)
    return Status(Code::Unsupported,
                  "kernel \"" + std::string(desc.name) +
                      "\": the cpu device runs expressions, not native code for \"" +
                      std::string(desc.target) + "\"");
  // Verified with the program; copied because a byte vector's own fields may be unaligned.
  std::vector<uint64_t> aligned((desc.codeSize + 7) / 8);
  std::memcpy(aligned.data(), desc.code, desc.codeSize);
  const auto *expression = flatbuffers::GetRoot<sp::Expression>(aligned.data());
  std::vector<sp::ExprInstr> code;
  for (const sp::ExprInstr *instr : *expression->code())
    code.push_back(*instr);
  return std::make_unique<ExpressionOperation>(std::move(code), expression->outputs(),
                                               desc.operands);
}

} // namespace tandem::cpu
