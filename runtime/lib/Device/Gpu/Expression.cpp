//===- Expression.cpp - expression code, interpreted by the GPU ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GpuDevice.h"

#include "tandem/Program/Program.h"
#include "tandem/Program/stream_program_generated.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace tandem::gpu {

namespace {

bool isLoad(sp::ExprOp op) { return op == sp::ExprOp::load || op == sp::ExprOp::load_i32; }
bool isStore(sp::ExprOp op) { return op == sp::ExprOp::store || op == sp::ExprOp::store_i32; }

/// The registers that an instruction reads; fields that it has no use for may hold anything.
std::vector<uint32_t> readsOf(const sp::ExprInstr &instr) {
  const uint32_t fields[] = {instr.a(), instr.b(), instr.c()};
  return {fields, fields + registersRead(instr.op())};
}

/// Gives every value a register for as long as it is read; stores go last.
Expected<std::vector<ExpressionStep>> assign(const sp::Expression &expression) {
  std::vector<const sp::ExprInstr *> order;
  for (bool stores : {false, true})
    for (const sp::ExprInstr *instr : *expression.code())
      if (isStore(instr->op()) == stores)
        order.push_back(instr);
  std::map<const sp::ExprInstr *, uint32_t> number;
  for (uint32_t i = 0; i < expression.code()->size(); ++i)
    number[expression.code()->Get(i)] = i;
  std::vector<size_t> lastRead(expression.code()->size(), 0);
  for (size_t i = 0; i < order.size(); ++i)
    for (uint32_t value : readsOf(*order[i]))
      lastRead[value] = i;
  std::vector<int32_t> registers(lastRead.size(), 0), free;
  for (int32_t r = kExpressionRegisters; r-- > 0;)
    free.push_back(r);
  std::vector<ExpressionStep> steps;
  for (size_t i = 0; i < order.size(); ++i) {
    const sp::ExprInstr &instr = *order[i];
    sp::ExprOp op = instr.op();
    std::vector<uint32_t> reads = readsOf(instr);
    ExpressionStep step;
    step.op = static_cast<int32_t>(op);
    step.imm = instr.imm();
    int32_t *fields[] = {&step.a, &step.b, &step.c};
    for (size_t k = 0; k < reads.size(); ++k)
      *fields[k] = registers[reads[k]];
    if (isLoad(op)) // operands of the launch are outputs, then inputs
      step.a = static_cast<int32_t>(instr.a() + expression.outputs());
    else if (isStore(op))
      step.b = static_cast<int32_t>(instr.b());
    else if (op == sp::ExprOp::constant_i32)
      step.a = static_cast<int32_t>(instr.a());
    std::sort(reads.begin(), reads.end());
    reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
    for (uint32_t value : reads)
      if (lastRead[value] == i)
        free.push_back(registers[value]);
    if (!isStore(op)) {
      uint32_t value = number[&instr];
      if (lastRead[value] == 0)
        continue; // nobody reads it
      if (free.empty())
        return Status(Code::Unsupported,
                      fmt::format("an expression that holds more than {} values at once",
                                  static_cast<int>(kExpressionRegisters)));
      step.result = registers[value] = free.back();
      free.pop_back();
    }
    steps.push_back(step);
  }
  return steps;
}

/// An expression, interpreted by the GPU.
class ExpressionOperation final : public GpuOperation {
public:
  explicit ExpressionOperation(Tools tools) : tools(std::move(tools)) {}

  Status prepare(const LaunchDesc &desc) {
    // Copied because a byte vector's own fields may be unaligned.
    std::vector<uint64_t> aligned((desc.codeSize + 7) / 8);
    std::memcpy(aligned.data(), desc.code, desc.codeSize);
    TANDEM_ASSIGN_OR_RETURN(std::vector<ExpressionStep> steps,
                            assign(*flatbuffers::GetRoot<sp::Expression>(aligned.data())));
    if (desc.operands.size() > kMaxExpressionOperands)
      return Status(Code::Unsupported, fmt::format("{} operands", desc.operands.size()));
    std::vector<Layout> layouts;
    for (const Operand &operand : desc.operands) {
      slots.push_back(operand.slot);
      layouts.push_back(operand.layout);
    }
    Loops loops(layouts);
    total = loops.total();
    std::vector<ExpressionOperand> operands(layouts.size());
    for (size_t k = 0; total && k < layouts.size(); ++k) {
      operands[k].dtype = static_cast<int32_t>(layouts[k].dtype);
      operands[k].innerStride = loops.innerStride(k);
      for (size_t d = 0; d < loops.outer(); ++d)
        operands[k].strides[d] = loops.outerStride(k, d);
    }
    Expression expression;
    expression.inner = static_cast<uint64_t>(loops.inner());
    expression.outer = static_cast<int32_t>(loops.outer());
    for (size_t d = 0; d < loops.outer(); ++d)
      expression.extents[d] = static_cast<uint64_t>(loops.outerExtent(d));
    expression.steps = static_cast<int32_t>(steps.size());
    TANDEM_ASSIGN_OR_RETURN(function, tools->kernels->get("expression"));
    return store(expression, operands, steps);
  }

  Status issue(GpuStream &stream, const Frame &frame) override {
    if (total == 0)
      return Status();
    ExpressionPointers pointers;
    for (size_t k = 0; k < slots.size(); ++k)
      pointers.data[k] = frame.pointers[slots[k]];
    void *expression = memory.data();
    void *arguments[] = {argument(expression), argument(total), argument(pointers)};
    ++tools->interpreted;
    return tools->kernels->launch(function, total, stream.native(), arguments);
  }

private:
  /// All three in one piece of memory.
  Status store(Expression expression, const std::vector<ExpressionOperand> &operands,
               const std::vector<ExpressionStep> &steps) {
    uint64_t operandBytes = operands.size() * sizeof(ExpressionOperand);
    uint64_t stepBytes = steps.size() * sizeof(ExpressionStep);
    TANDEM_ASSIGN_OR_RETURN(
        memory, Scratch::make(tools->state, sizeof(Expression) + operandBytes + stepBytes));
    auto *base = static_cast<std::byte *>(memory.data());
    expression.operands = reinterpret_cast<const ExpressionOperand *>(base + sizeof(Expression));
    expression.code =
        reinterpret_cast<const ExpressionStep *>(base + sizeof(Expression) + operandBytes);
    std::vector<std::byte> image(sizeof(Expression) + operandBytes + stepBytes);
    std::memcpy(image.data(), &expression, sizeof(Expression));
    std::memcpy(image.data() + sizeof(Expression), operands.data(), operandBytes);
    std::memcpy(image.data() + sizeof(Expression) + operandBytes, steps.data(), stepBytes);
    return tools->driver().copy(base, image.data(), image.size());
  }

  Tools tools;
  FunctionHandle function = nullptr;
  std::vector<uint32_t> slots;
  uint64_t total = 0;
  Scratch memory;
};

} // namespace

Expected<std::unique_ptr<Operation>> prepareExpression(const Tools &tools, const LaunchDesc &desc) {
  auto operation = std::make_unique<ExpressionOperation>(tools);
  TANDEM_RETURN_IF_ERROR(operation->prepare(desc));
  return std::unique_ptr<Operation>(std::move(operation));
}

} // namespace tandem::gpu
