//===- Shapes.cpp - what is measured ----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Shapes.h"

#include "CommandLine.h"

#include <charconv>
#include <fmt/format.h>
#include <utility>

using namespace tandem;
using namespace tandem::bench;
using run::splitList;

static Status wrongShape(std::string message) {
  return Status(Code::InvalidArgument, std::move(message));
}

std::string bench::toString(Op op) {
  return op == Op::AllGather ? "ag" : op == Op::ReduceScatter ? "rs" : "ar";
}

std::string bench::describe(Op op) {
  return op == Op::AllGather       ? "all-gather, matmul"
         : op == Op::ReduceScatter ? "matmul, reduce-scatter"
                                   : "matmul, all-reduce";
}

Expected<Op> bench::parseOp(const std::string &text) {
  for (Op op : {Op::AllGather, Op::ReduceScatter, Op::AllReduce})
    if (text == toString(op))
      return op;
  return wrongShape(fmt::format("expected one of ag, rs, ar, found \"{}\"", text));
}

double Case::bytesReceived(uint32_t ranks) const {
  double part = double(ranks - 1) / ranks;
  if (op == Op::AllGather)
    return part * double(m) * double(k) * sizeOf(dtype);
  return part * double(m) * double(n) * sizeOf(resultType()) * (op == Op::AllReduce ? 2 : 1);
}

std::string Case::types() const {
  return fmt::format("{}{}", tandem::toString(dtype), rowScales ? "-rows" : "");
}

std::string Case::text(char separator) const {
  return fmt::format("{}{}{}x{}x{}{}{}", toString(op), separator, m, n, k, separator, types());
}

namespace {

/// N and K of all ranks: the layers of known models.
constexpr int64_t kGathers[][2] = {{11008, 4096}, {14336, 4096},  {28672, 8192}, {57344, 8192},
                                   {10240, 8192}, {53248, 16384}, {49152, 12288}};
constexpr int64_t kReductions[][2] = {{4096, 11008}, {4096, 14336},  {8192, 28672},
                                      {8192, 8192},  {16384, 53248}, {12288, 49152}};

Expected<int64_t> extent(const std::string &option, const std::string &text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > kMaxExtent)
    return wrongShape(
        fmt::format("{}: expected a number from 1 to {}, found \"{}\"", option, kMaxExtent, text));
  return value;
}

/// "ag:MxNxK" or "ag:NxK", for each of the tokens.
Status addShape(const std::string &text, const std::vector<int64_t> &tokens,
                std::vector<Case> &cases) {
  size_t colon = text.find(':');
  std::vector<int64_t> extents;
  auto op = parseOp(text.substr(0, colon));
  if (!op)
    return op.status().withPrefix(fmt::format("--shapes: \"{}\": ", text));
  if (colon != std::string::npos)
    for (const std::string &part : splitList(text.substr(colon + 1), 'x')) {
      TANDEM_ASSIGN_OR_RETURN(int64_t value, extent("--shapes", part));
      extents.push_back(value);
    }
  if (extents.size() == 3)
    cases.push_back({*op, extents[0], extents[1], extents[2]});
  else if (extents.size() == 2)
    for (int64_t m : tokens)
      cases.push_back({*op, m, extents[0], extents[1]});
  else
    return wrongShape(fmt::format("--shapes: expected OP:MxNxK or OP:NxK, found \"{}\"", text));
  return Status();
}

} // namespace

Status bench::parseTypes(const std::string &text, const std::string &option, Case &entry) {
  std::string known;
  for (DType type : {DType::F32, DType::F16, DType::BF16, DType::F8E4M3FN})
    for (bool rows : {false, true}) {
      if (rows && !isFp8(type))
        continue;
      entry.dtype = type;
      entry.rowScales = rows;
      if (text == entry.types())
        return Status();
      known += (known.empty() ? "" : ", ") + entry.types();
    }
  return wrongShape(fmt::format("{}: expected one of {}, found \"{}\"", option, known, text));
}

Expected<std::vector<Case>> bench::parseCases(const std::string &shapes, const std::string &tokens,
                                              const std::string &dtypes) {
  std::vector<int64_t> rows;
  for (const std::string &part : splitList(tokens)) {
    TANDEM_ASSIGN_OR_RETURN(int64_t value, extent("--tokens", part));
    rows.push_back(value);
  }
  std::vector<Case> untyped, cases;
  if (!shapes.empty()) {
    for (const std::string &part : splitList(shapes))
      TANDEM_RETURN_IF_ERROR(addShape(part, rows, untyped));
  } else {
    for (int64_t m : rows) {
      for (auto [n, k] : kGathers)
        untyped.push_back({Op::AllGather, m, n, k});
      for (Op op : {Op::ReduceScatter, Op::AllReduce})
        for (auto [n, k] : kReductions)
          untyped.push_back({op, m, n, k});
    }
  }
  for (const std::string &part : splitList(dtypes)) {
    for (Case entry : untyped) {
      TANDEM_RETURN_IF_ERROR(parseTypes(part, "--dtypes", entry));
      cases.push_back(entry);
    }
  }
  return cases;
}

static Status setKey(Schedule &schedule, const std::string &key, const std::string &value) {
  std::string option = fmt::format("--schedules: \"{}\": {}", schedule.text, key);
  bool push = schedule.name == "push";
  if (schedule.name == "direct" && key == "shots") {
    schedule.shots = value;
    return run::checkChoice(value, {"one", "two"}).withPrefix(option + ": ");
  }
  if (schedule.name == "direct" && key == "signals") {
    schedule.signals = value;
    return run::checkChoice(value, {"step", "block", "word"}).withPrefix(option + ": ");
  }
  if ((push || schedule.name == "gated") && key == "by") {
    schedule.by = value;
    if (push && value == "epilogue")
      return Status();
    return run::checkChoice(value, {"engines", "sms"}).withPrefix(option + ": ");
  }
  bool sliced = schedule.name != "sequence" && schedule.name != "auto" && schedule.name != "direct";
  if (key == "slices" && sliced) {
    TANDEM_ASSIGN_OR_RETURN(schedule.slices, extent(option, value));
  } else if (key == "streams" && sliced && schedule.name != "gated") {
    TANDEM_ASSIGN_OR_RETURN(schedule.streams, extent(option, value));
  } else if (key == "blocks" && (push || schedule.name == "gated" || schedule.name == "direct")) {
    TANDEM_ASSIGN_OR_RETURN(schedule.blocks, extent(option, value));
  } else if (key == "copies" && push) {
    TANDEM_ASSIGN_OR_RETURN(schedule.copies, extent(option, value));
  } else if (key == "sum" && push) {
    schedule.sum = value;
    return run::checkChoice(value, {"reduce", "matmul"}).withPrefix(option + ": ");
  } else if (key == "order" && push) {
    schedule.order = value;
    return run::checkChoice(value, {"rotated", "xor"}).withPrefix(option + ": ");
  } else if (key == "deterministic") {
    schedule.deterministic = value;
    return run::checkChoice(value, {"bitwise", "batch"}).withPrefix(option + ": ");
  } else if (key == "merge" && push && value == "double") {
    schedule.doubling = true;
  } else if (key == "merge" && push) {
    for (const std::string &part : splitList(value, '-')) {
      TANDEM_ASSIGN_OR_RETURN(int64_t count, extent(option, part));
      schedule.merge.push_back(count);
    }
  } else {
    return wrongShape(
        fmt::format("{}: not known there; expected deterministic, slices or streams of "
                    "pipeline and exchange, slices, streams, order, merge, copies, sum, by or "
                    "blocks of push, slices, by or blocks of gated, shots, signals or "
                    "blocks of direct",
                    option));
  }
  return Status();
}

Expected<Schedule> bench::parseSchedule(const std::string &text) {
  Schedule schedule;
  std::vector<std::string> parts = splitList(text, ':');
  schedule.text = text;
  schedule.name = parts[0];
  TANDEM_RETURN_IF_ERROR(run::checkChoice(schedule.name, {"auto", "sequence", "pipeline",
                                                          "exchange", "push", "gated", "direct"})
                             .withPrefix("--schedules: "));
  if (schedule.name == "pipeline")
    schedule.slices = 4;
  for (size_t i = 1; i < parts.size(); ++i) {
    size_t equals = parts[i].find('=');
    if (equals == std::string::npos)
      return wrongShape(
          fmt::format("--schedules: \"{}\": expected key=value, found \"{}\"", text, parts[i]));
    TANDEM_RETURN_IF_ERROR(
        setKey(schedule, parts[i].substr(0, equals), parts[i].substr(equals + 1)));
  }
  return schedule;
}

Expected<std::vector<Schedule>> bench::parseSchedules(const std::string &list) {
  std::vector<Schedule> schedules;
  for (const std::string &text : splitList(list)) {
    TANDEM_ASSIGN_OR_RETURN(Schedule schedule, parseSchedule(text));
    schedules.push_back(std::move(schedule));
  }
  return schedules;
}
