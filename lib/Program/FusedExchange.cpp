//===- FusedExchange.cpp - the steps of a fused exchange --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Program/FusedExchange.h"

#include "ProgramImpl.h"

#include <algorithm>
#include <set>

namespace tandem::program {

std::vector<ExchangeStep> stepsOf(const Program &program, uint32_t head) {
  const sp::RankProgram &data = program.data();
  auto part = [&](uint32_t i) -> const sp::Command & {
    return *data.commands()->Get(head + 1 + i);
  };
  auto view = [&](uint32_t i, unsigned k) { return part(i).operands()->Get(k); };
  auto layout = [&](uint32_t i, unsigned k) {
    return program.layout(data.views()->Get(view(i, k))->layout()).normalized();
  };
  std::vector<ExchangeStep> steps;
  for (uint32_t i = 0; i < data.commands()->Get(head)->aux(); ++i) {
    auto kind = static_cast<CommandKind>(part(i).kind());
    bool waits = kind == CommandKind::WaitSignal, isSignal = kind == CommandKind::Signal;
    ExchangeStep *last = steps.empty() ? nullptr : &steps.back();
    if (!last || (!isSignal && !last->signals.empty()) || (waits && !last->move.stores.empty()))
      last = &steps.emplace_back();
    if (waits || isSignal) {
      (waits ? last->waits : last->signals).push_back(i);
      continue;
    }
    ExchangeMove alone;
    alone.out = layout(i, 0);
    alone.in = layout(i, 1);
    if (alone.out.numElements() == 0)
      continue;
    alone.reduces = kind == CommandKind::Reduce;
    if (alone.reduces) {
      alone.reduceOp = static_cast<uint8_t>(part(i).reduce_op());
      alone.terms = alone.in.shape[0];
      alone.termStride = alone.in.strides[0];
      alone.in = alone.in.select(1, false);
    }
    // A reduction has a step of its own, but for what stores its sum further.
    const ExchangeMove &move = last->move;
    bool storesSum = move.reduces && !alone.reduces && alone.out == move.out &&
                     view(i, 1) == view(move.stores.front().target, 0);
    bool isAlike = !move.reduces && !alone.reduces && alone.out == move.out && alone.in == move.in;
    uint32_t source = storesSum ? move.stores.front().source : i;
    if (!move.stores.empty() && !storesSum && !isAlike)
      last = &steps.emplace_back();
    if (last->move.stores.empty())
      last->move = alone;
    last->move.stores.push_back({source, i});
  }
  return steps;
}

std::string whyNoKernel(const std::vector<ExchangeStep> &steps) {
  size_t waits = 0, stores = 0, signals = 0;
  std::vector<std::pair<Layout, Layout>> shapes; // of targets and sources
  std::set<DType> types;
  bool adds = false;
  for (const ExchangeStep &step : steps) {
    waits += step.waits.size();
    stores += step.move.stores.size();
    signals += step.signals.size();
    if (step.move.stores.empty())
      continue;
    std::pair shape(step.move.out, step.move.in);
    if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end())
      shapes.push_back(std::move(shape));
    types.insert(step.move.out.dtype);
    adds |= step.move.reduces;
  }
  if (steps.size() > kMostExchangeSteps || stores > kMostExchangeStores)
    return fmt::format("expected at most {} steps and {} stores, found {} and {}",
                       kMostExchangeSteps, kMostExchangeStores, steps.size(), stores);
  if (waits > kMostExchangeWaits || signals > kMostExchangeSignals)
    return fmt::format("expected at most {} waits and {} signals, found {} and {}",
                       kMostExchangeWaits, kMostExchangeSignals, waits, signals);
  if (shapes.size() > kMostExchangeShapes)
    return fmt::format("expected at most {} shapes, found {}", kMostExchangeShapes, shapes.size());
  if (adds && types.size() > 1)
    return "expected one type in all steps of an exchange that adds";
  for (DType type : types)
    if (!exchangeKernelType(type, adds))
      return fmt::format("there is no kernel for {}", toString(type));
  return "";
}

} // namespace tandem::program
