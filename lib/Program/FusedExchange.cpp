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

std::vector<ExchangePart> exchangeParts(const Program &program, uint32_t head) {
  const sp::RankProgram &data = program.data();
  std::vector<ExchangePart> parts(data.commands()->Get(head)->aux());
  for (uint32_t i = 0; i < parts.size(); ++i) {
    const sp::Command &command = *data.commands()->Get(head + 1 + i);
    ExchangePart &part = parts[i];
    part.kind = static_cast<CommandKind>(command.kind());
    if (!part.moves())
      continue;
    part.reduceOp = static_cast<uint8_t>(command.reduce_op());
    part.out = command.operands()->Get(0);
    part.in = command.operands()->Get(1);
    part.outLayout = program.layout(data.views()->Get(part.out)->layout()).normalized();
    part.inLayout = program.layout(data.views()->Get(part.in)->layout()).normalized();
  }
  return parts;
}

/// Whether `part` belongs to the move of a step: it moves alike, or stores the sum further.
static bool belongsTo(const ExchangeMove &move, const ExchangeMove &alone, const ExchangePart &part,
                      const std::vector<ExchangePart> &parts) {
  if (move.stores.empty())
    return true;
  if (move.reduces && part.kind != CommandKind::Reduce)
    return part.in == parts[move.stores.front().target].out && part.outLayout == move.out;
  return move.out == alone.out && move.in == alone.in && move.reduces == alone.reduces;
}

std::vector<ExchangeStep> stepsOf(const std::vector<ExchangePart> &parts) {
  std::vector<ExchangeStep> steps;
  for (uint32_t i = 0; i < parts.size(); ++i) {
    const ExchangePart &part = parts[i];
    ExchangeStep *last = steps.empty() ? nullptr : &steps.back();
    bool waits = part.kind == CommandKind::WaitSignal;
    if (!last || (part.kind != CommandKind::Signal && !last->signals.empty()) ||
        (waits && !last->move.stores.empty()))
      last = &steps.emplace_back();
    if (!part.moves()) {
      (waits ? last->waits : last->signals).push_back(i);
      continue;
    }
    if (part.outLayout.numElements() == 0)
      continue;
    ExchangeMove alone;
    alone.out = part.outLayout;
    alone.in = part.inLayout;
    alone.reduces = part.kind == CommandKind::Reduce;
    if (alone.reduces) {
      alone.reduceOp = part.reduceOp;
      alone.terms = part.inLayout.shape[0];
      alone.termStride = part.inLayout.strides[0];
      alone.in = part.inLayout.select(1, false);
    }
    if (!belongsTo(last->move, alone, part, parts))
      last = &steps.emplace_back();
    bool storesSum = last->move.reduces; // a reduction has a step of its own
    uint32_t source = storesSum ? last->move.stores.front().source : i;
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
