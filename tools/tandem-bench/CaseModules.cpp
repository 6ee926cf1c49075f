//===- CaseModules.cpp - the fusions of a case ------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Suite.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace tandem;
using namespace tandem::bench;

namespace {

std::string mesh(uint32_t ranks) {
  return fmt::format("#tp = #tandem.mesh<\"tp\", [\"x\" = {}]>\n", ranks);
}

std::string tensor(const Case &shape, int64_t rows, int64_t columns, const std::string &axes) {
  return fmt::format("tensor<{}x{}x{}, #fusion.axes<#tp, {}>>", rows, columns,
                     tandem::toString(shape.dtype), axes);
}

std::string attribute(const Schedule &schedule, uint32_t ranks, bool reduces) {
  std::string text = schedule.name == "sequence" ? "pipeline" : schedule.name;
  if (!schedule.shots.empty())
    text += fmt::format(", shots = \"{}\"", schedule.shots);
  if (!schedule.sum.empty())
    text += fmt::format(", sum = {}", schedule.sum);
  if (!schedule.signals.empty())
    text += fmt::format(", signals = \"{}\"", schedule.signals);
  if (!schedule.by.empty())
    text += fmt::format(", by = {}", schedule.by);
  if (schedule.blocks)
    text += fmt::format(", blocks = {}", schedule.blocks);
  if (schedule.copies)
    text += fmt::format(", copies = {}", schedule.copies);
  if (schedule.streams)
    text += fmt::format(", streams = {}", schedule.streams);
  if (!schedule.order.empty())
    text += fmt::format(", order = {}", schedule.order);
  std::vector<int64_t> merge = schedule.merge;
  if (schedule.doubling) {
    merge = {1};
    for (int64_t sum = 1; sum < ranks; sum += merge.back())
      merge.push_back(sum);
    if (reduces) // few where the loop waits for nothing else: at the end
      std::reverse(merge.begin(), merge.end());
  }
  if (!merge.empty())
    text += fmt::format(", merge = [{}]", fmt::join(merge, ", "));
  return "#fusion.schedule<" + text + ">";
}

/// Behind the signature.
std::string attributes(const Schedule &schedule) {
  if (schedule.deterministic.empty())
    return "";
  return fmt::format("attributes {{fusion.deterministic = \"{}\"}} ", schedule.deterministic);
}

/// The digits of dimension 0 of what is computed slice by slice.
std::string slices(const Schedule &schedule, const std::string &owner) {
  if (schedule.name == "sequence" || schedule.name == "auto" || schedule.name == "direct")
    return "-";
  if (schedule.name == "pipeline")
    return fmt::format("{} * stream({})", owner, schedule.slices);
  return schedule.slices > 1 ? fmt::format("stream(\"x\") * stream({})", schedule.slices)
                             : "stream(\"x\")";
}

/// Rows are gathered: the loop goes over them.
std::string gatherText(const Case &c, uint32_t ranks, const Schedule &schedule) {
  std::string x = tensor(c, c.m, c.k, "[didx(\"x\"), -]");
  std::string w = tensor(c, c.k, c.n, "[-, didx(\"x\")]");
  std::string y =
      tensor(c, c.m, c.n, fmt::format("[{}, didx(\"x\")]", slices(schedule, "serial(\"x\")")));
  std::string wanted = schedule.name == "auto"
                           ? ""
                           : fmt::format(" {{fusion.gather = \"before\", fusion.schedule = {}}}",
                                         attribute(schedule, ranks, false));
  return fmt::format(R"({}
func.func @bench(%x: {x} {{fusion.name = "x"}}, %w: {w} {{fusion.name = "w"}}) -> ({y} {{fusion.name = "y"}}) {}{{
  %y = fusion.matmul %x, %w{} : {x}, {w} -> {y}
  return %y : {y}
}}
)",
                     mesh(ranks), attributes(schedule), wanted, fmt::arg("x", x), fmt::arg("w", w),
                     fmt::arg("y", y));
}

/// Terms are reduced. Owners of slices stand in the operand's axes, except for `pipeline`, whose
/// slices are a part of each owner's rows.
std::string reduceText(const Case &c, uint32_t ranks, const Schedule &schedule) {
  bool scatter = c.op == Op::ReduceScatter, pipeline = schedule.name == "pipeline";
  std::string rows = scatter ? "didx(\"x\")" : "-";
  if (pipeline)
    rows = scatter ? fmt::format("didx(\"x\") * stream({})", schedule.slices)
                   : fmt::format("stream({})", schedule.slices);
  std::string terms =
      pipeline && !scatter ? rows : slices(schedule, pipeline ? "serial(\"x\")" : "");
  if (!pipeline && !scatter) // a slice of the sum for each device and round
    rows = terms;
  std::string x = tensor(c, c.m, c.k, "[-, didx(\"x\")]");
  std::string w = tensor(c, c.k, c.n, "[didx(\"x\"), -]");
  std::string p = tensor(c, c.m, c.n, fmt::format("[{}, -], partial = [\"x\"]", terms));
  std::string y = tensor(c, c.m, c.n, fmt::format("[{}, -]", rows));
  std::string body = schedule.name == "auto"
                         ? fmt::format("  %y = fusion.matmul %x, %w : {}, {} -> {}\n", x, w, y)
                         : fmt::format("  %p = fusion.matmul %x, %w : {}, {} -> {}\n"
                                       "  %y = fusion.reshard %p {{schedule = {}}} : {} -> {}\n",
                                       x, w, p, attribute(schedule, ranks, true), p, y);
  return fmt::format(R"({}
func.func @bench(%x: {} {{fusion.name = "x"}}, %w: {} {{fusion.name = "w"}}) -> ({y} {{fusion.name = "y"}}) {}{{
{}  return %y : {y}
}}
)",
                     mesh(ranks), x, w, attributes(schedule), body, fmt::arg("y", y));
}

} // namespace

Expected<std::string> bench::fusedText(const Case &shape, uint32_t ranks,
                                       const Schedule &schedule) {
  if (schedule.doubling && (ranks & (ranks - 1)))
    return Status(
        Code::InvalidArgument,
        fmt::format("merge=double needs a power of 2 as number of ranks, found {}", ranks));
  return shape.op == Op::AllGather ? gatherText(shape, ranks, schedule)
                                   : reduceText(shape, ranks, schedule);
}

std::string bench::matmulText(const Case &c, uint32_t ranks) {
  bool gather = c.op == Op::AllGather;
  std::string x = tensor(c, c.m, c.k, gather ? "[-, -]" : "[-, didx(\"x\")]");
  std::string w = tensor(c, c.k, c.n, gather ? "[-, didx(\"x\")]" : "[didx(\"x\"), -]");
  std::string y = tensor(c, c.m, c.n, gather ? "[-, didx(\"x\")]" : "[-, -], partial = [\"x\"]");
  return fmt::format(R"({}
func.func @matmul(%x: {x} {{fusion.name = "x"}}, %w: {w} {{fusion.name = "w"}}) -> ({y} {{fusion.name = "y"}}) {{
  %y = fusion.matmul %x, %w : {x}, {w} -> {y}
  return %y : {y}
}}
)",
                     mesh(ranks), fmt::arg("x", x), fmt::arg("w", w), fmt::arg("y", y));
}

std::string bench::communicationText(const Case &c, uint32_t ranks) {
  bool gather = c.op == Op::AllGather;
  int64_t columns = gather ? c.k : c.n;
  std::string from =
      tensor(c, c.m, columns, gather ? "[didx(\"x\"), -]" : "[-, -], partial = [\"x\"]");
  std::string to =
      tensor(c, c.m, columns, c.op == Op::ReduceScatter ? "[didx(\"x\"), -]" : "[-, -]");
  return fmt::format(R"({}
func.func @communication(%from: {f} {{fusion.name = "from"}}) -> ({t} {{fusion.name = "to"}}) {{
  %to = fusion.reshard %from {{schedule = #fusion.schedule<pipeline>}} : {f} -> {t}
  return %to : {t}
}}
)",
                     mesh(ranks), fmt::arg("f", from), fmt::arg("t", to));
}
