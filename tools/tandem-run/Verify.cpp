//===- Verify.cpp - gathered results against the oracle ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Verify.h"

#include "Inputs.h"
#include "tandem/Runtime/Context.h"
#include "tandem/Schema/stream_program_generated.h"

#include <cmath>
#include <fmt/format.h>

using namespace tandem;
using namespace tandem::run;

uint32_t run::termsOf(const Program &program, uint32_t argument) {
  const sp::Argument *info = program.index().arguments()->Get(argument);
  return info->partial() ? std::max(info->partial_axes_size(), 1u) : 1;
}

Expected<uint32_t> run::termOfRank(const Placement &placement, uint32_t rank, uint32_t terms,
                                   const std::string &name) {
  uint32_t place = 0, holders = 0;
  for (uint32_t other = 0; other < placement.size(); ++other)
    if (placement[other] == placement[rank]) {
      place += other < rank;
      ++holders;
    }
  if (holders != terms)
    return Status(Code::Unsupported,
                  fmt::format("argument \"{}\" is partial in {} terms, and {} ranks hold the same "
                              "elements as rank {}: cannot tell who holds which term",
                              name, terms, holders, rank));
  return place;
}

static double reduceTerms(ReduceOp op, double a, double b) {
  switch (op) {
  case ReduceOp::Sum:
    return a + b;
  case ReduceOp::Max:
    return std::isnan(a) ? a : b > a || std::isnan(b) ? b : a;
  case ReduceOp::Min:
    return std::isnan(a) ? a : b < a || std::isnan(b) ? b : a;
  }
  return a;
}

Expected<Tensor> run::assemble(const ArgumentInfo &info, const Placement &placement, uint32_t terms,
                               const std::vector<std::string> &parts) {
  Tensor whole(info.dtype, info.shape);
  auto count = static_cast<size_t>(whole.numElements());
  std::vector<uint32_t> holders(count, 0);
  std::vector<double> reduced(info.partial ? count : 0);
  for (uint32_t rank = 0; rank < placement.size(); ++rank) {
    const Shard &shard = placement[rank];
    Tensor part(info.dtype, {shard.numElements()});
    if (parts[rank].size() != part.data.size())
      return Status(Code::Internal,
                    fmt::format("argument \"{}\", rank {}: {} bytes, expected {}", info.name, rank,
                                parts[rank].size(), part.data.size()));
    if (!part.data.empty())
      std::memcpy(part.data.data(), parts[rank].data(), part.data.size());
    int64_t differs = -1;
    shard.forEach([&](int64_t local, int64_t logical) {
      auto element = static_cast<size_t>(logical);
      bool first = holders[element]++ == 0;
      if (info.partial)
        reduced[element] = first ? part.get(local)
                                 : reduceTerms(info.partialOp, reduced[element], part.get(local));
      else if (first)
        whole.setBits(logical, part.bits(local));
      else if (whole.bits(logical) != part.bits(local) && differs < 0)
        differs = logical;
    });
    if (differs >= 0)
      return Status(Code::Internal,
                    fmt::format("argument \"{}\", index {}: rank {} holds another value than rank "
                                "{}; copies must be equal to the last bit",
                                info.name, indexText(info.shape, differs), rank,
                                rankOf(placement, differs)));
  }
  for (size_t i = 0; i < count; ++i) {
    if (holders[i] == 0)
      return Status(Code::InvalidProgram,
                    fmt::format("argument \"{}\", index {}: no rank holds this element", info.name,
                                indexText(info.shape, static_cast<int64_t>(i))));
    if (info.partial) {
      double value = reduced[i];
      // Copies of a term have been added as often as there are copies.
      if (info.partialOp == ReduceOp::Sum)
        value *= static_cast<double>(terms) / holders[i];
      whole.set(static_cast<int64_t>(i), value);
    }
  }
  return whole;
}

Comparison run::compare(const Tensor &out, const Tensor &reference, bool exact, bool reducedWire) {
  Comparison result;
  result.exact = exact || out.dtype == DType::I32;
  if (!result.exact) {
    result.tolerance = out.dtype == DType::F32 ? 1e-5 : out.dtype == DType::F16 ? 1e-3 : 8e-3;
    result.tolerance *= reducedWire ? 2 : 1;
  }
  int64_t count = out.numElements(), firstDifferent = -1;
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < count; ++i) {
    double a = out.get(i), b = reference.get(i);
    difference += (a - b) * (a - b);
    norm += b * b;
    // Not the values: a poisoned element is a NaN on both sides at worst.
    if (firstDifferent < 0 && out.bits(i) != reference.bits(i))
      firstDifferent = i;
  }
  if (firstDifferent < 0)
    return result;
  result.error = norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
  if (result.exact) {
    result.firstWrong = firstDifferent;
    return result;
  }
  // A NaN compares false with everything.
  if (result.error <= result.tolerance)
    return result;
  // The first that is wrong by itself, not by rounding; else the first that differs.
  double typical = std::sqrt(norm / static_cast<double>(count));
  result.firstWrong = firstDifferent;
  for (int64_t i = firstDifferent; i < count; ++i) {
    double off = std::fabs(out.get(i) - reference.get(i));
    if (!(off <= 4 * result.tolerance * (typical + std::fabs(reference.get(i))))) {
      result.firstWrong = i;
      break;
    }
  }
  return result;
}

bool run::onlyMovesData(const Program &program) {
  for (const sp::Command *command : *program.data().commands())
    switch (command->kind()) {
    case sp::CommandKind::matmul:
    case sp::CommandKind::accumulate:
    case sp::CommandKind::reduce:
    case sp::CommandKind::launch:
      return false;
    case sp::CommandKind::collective: {
      auto kind = static_cast<CollectiveKind>(command->op());
      if (kind == CollectiveKind::AllReduce || kind == CollectiveKind::ReduceScatter ||
          kind == CollectiveKind::Reduce)
        return false;
      break;
    }
    default:
      break;
    }
  return true;
}

Expected<std::vector<Tensor>> run::runOracle(std::shared_ptr<const Program> oracle,
                                             std::vector<Tensor> &inputs) {
  ContextOptions options;
  options.device = createCpuDevice();
  options.launch = createSelfLaunch();
  options.timeout = std::chrono::hours(1);
  TANDEM_ASSIGN_OR_RETURN(auto context, Context::create(std::move(options)));
  TANDEM_ASSIGN_OR_RETURN(auto instance, Instance::create(*context, oracle));
  std::vector<Tensor> results;
  const auto &arguments = oracle->arguments();
  results.reserve(arguments.size());
  size_t nextInput = 0;
  for (uint32_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].isResult) {
      results.emplace_back(arguments[i].dtype, arguments[i].shape);
      poison(results.back());
    }
    Tensor &tensor = arguments[i].isResult ? results.back() : inputs[nextInput++];
    TANDEM_RETURN_IF_ERROR(
        instance->bind(i, {tensor.data.data(), tensor.layout()}, tensor.data.size()));
  }
  TANDEM_RETURN_IF_ERROR(instance->run());
  return results;
}

int run::rankOf(const Placement &placement, int64_t element) {
  for (size_t rank = 0; rank < placement.size(); ++rank) {
    bool held = false;
    placement[rank].forEach([&](int64_t, int64_t logical) { held |= logical == element; });
    if (held)
      return static_cast<int>(rank);
  }
  return -1;
}
