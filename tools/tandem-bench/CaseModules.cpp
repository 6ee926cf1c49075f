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

std::string tensor(DType type, int64_t rows, int64_t columns, const std::string &axes) {
  return fmt::format("tensor<{}x{}x{}, #fusion.axes<#tp, {}>>", rows, columns,
                     tandem::toString(type), axes);
}

/// [K, N]. cuBLASLt reads 8-bit factors along K, so these are stored as [N, K].
std::string weight(const Case &c, const std::string &k, const std::string &n) {
  return isFp8(c.dtype) ? tensor(c.dtype, c.n, c.k, fmt::format("[{}, {}]", n, k))
                        : tensor(c.dtype, c.k, c.n, fmt::format("[{}, {}]", k, n));
}

/// Attributes of the product of x and weight().
std::string braces(const Case &c, std::string others = "") {
  if (isFp8(c.dtype))
    others += others.empty() ? "transpose_b" : ", transpose_b";
  return others.empty() ? "" : fmt::format(" {{{}}}", others);
}

const char *product(const Case &c) { return isFp8(c.dtype) ? "%p" : "%y"; }

/// What makes the result of a product of 8-bit factors; nothing for others. The product has the
/// type of the result, so that sums travel in it and the last launch can be an epilogue.
struct Scaling {
  std::string arguments; ///< the scales, behind x and w
  std::string before;    ///< ops before the product
  std::string ops;       ///< from %p to %y
};

/// `axes`: of %p and %y, [rows, columns]; `rows`, `columns`: of the scales. `gathers`: the scales
/// of all rows at once, by a collective.
Scaling scaling(const Case &c, const std::string &axes, const char *rows, const char *columns,
                bool gathers = false) {
  if (!isFp8(c.dtype))
    return {};
  std::string f = tensor(DType::F32, c.m, c.n, axes);
  std::string y = tensor(c.resultType(), c.m, c.n, axes), one, other;
  if (c.rowScales) {
    one = fmt::format("tensor<{}xf32, #fusion.axes<#tp, [{}]>>", c.m, rows);
    other = fmt::format("tensor<{}xf32, #fusion.axes<#tp, [{}]>>", c.n, columns);
  } else {
    one = other = "tensor<f32, #fusion.axes<#tp, []>>";
  }
  Scaling made;
  made.arguments = fmt::format(
      ", %sx: {} {{fusion.name = \"sx\"}}, %sw: {} {{fusion.name = \"sw\"}}", one, other);
  std::string all = gathers ? fmt::format("tensor<{}xf32, #fusion.axes<#tp, [-]>>", c.m) : one;
  if (c.rowScales && gathers)
    made.before = fmt::format(
        "  %g = fusion.reshard %sx {{schedule = #fusion.schedule<pipeline>}} : {} -> {}\n", one,
        all);
  if (c.rowScales)
    made.before += fmt::format("  %r = fusion.broadcast {} dims [0] : {} -> {f}\n"
                               "  %c = fusion.broadcast %sw dims [1] : {} -> {f}\n",
                               gathers ? "%g" : "%sx", all, other, fmt::arg("f", f));
  else
    made.before = fmt::format("  %s = arith.mulf %sx, %sw : {}\n"
                              "  %r = fusion.broadcast %s dims [] : {} -> {}\n",
                              one, one, f);
  made.ops =
      fmt::format("  %e = arith.extf %p : {} to {}\n  %er = arith.mulf %e, %r : {}\n", y, f, f);
  if (c.rowScales)
    made.ops += fmt::format("  %erc = arith.mulf %er, %c : {}\n", f);
  made.ops +=
      fmt::format("  %y = arith.truncf {} : {} to {}\n", c.rowScales ? "%erc" : "%er", f, y);
  return made;
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
  std::string x = tensor(c.dtype, c.m, c.k, "[didx(\"x\"), -]");
  std::string w = weight(c, "-", "didx(\"x\")");
  std::string axes = fmt::format("[{}, didx(\"x\")]", slices(schedule, "serial(\"x\")"));
  std::string y = tensor(c.resultType(), c.m, c.n, axes);
  std::string wanted = schedule.name == "auto"
                           ? ""
                           : fmt::format("fusion.gather = \"before\", fusion.schedule = {}",
                                         attribute(schedule, ranks, false));
  Scaling behind = scaling(c, axes, "didx(\"x\")", "didx(\"x\")", schedule.name != "auto");
  return fmt::format(R"({}
func.func @bench(%x: {x} {{fusion.name = "x"}}, %w: {w} {{fusion.name = "w"}}{}) -> ({y} {{fusion.name = "y"}}) {}{{
{}  {} = fusion.matmul %x, %w{} : {x}, {w} -> {y}
{}  return %y : {y}
}}
)",
                     mesh(ranks), behind.arguments, attributes(schedule), behind.before, product(c),
                     braces(c, wanted), behind.ops, fmt::arg("x", x), fmt::arg("w", w),
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
  DType type = c.resultType();
  std::string axes = fmt::format("[{}, -]", rows);
  std::string x = tensor(c.dtype, c.m, c.k, "[-, didx(\"x\")]");
  std::string w = weight(c, "didx(\"x\")", "-");
  std::string p = tensor(type, c.m, c.n, fmt::format("[{}, -], partial = [\"x\"]", terms));
  std::string y = tensor(type, c.m, c.n, axes);
  Scaling behind = scaling(c, axes, scatter ? "didx(\"x\")" : "-", "-");
  std::string body =
      schedule.name == "auto"
          ? fmt::format("  {} = fusion.matmul %x, %w{} : {}, {} -> {}\n", product(c), braces(c), x,
                        w, y)
          : fmt::format("  %t = fusion.matmul %x, %w{} : {}, {} -> {}\n"
                        "  {} = fusion.reshard %t {{schedule = {}}} : {} -> {}\n",
                        braces(c), x, w, p, product(c), attribute(schedule, ranks, true), p, y);
  return fmt::format(R"({}
func.func @bench(%x: {} {{fusion.name = "x"}}, %w: {} {{fusion.name = "w"}}{}) -> ({y} {{fusion.name = "y"}}) {}{{
{}{}{}  return %y : {y}
}}
)",
                     mesh(ranks), x, w, behind.arguments, attributes(schedule), behind.before, body,
                     behind.ops, fmt::arg("y", y));
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
  std::string split = "didx(\"x\")";
  std::string x = tensor(c.dtype, c.m, c.k, gather ? "[-, -]" : "[-, didx(\"x\")]");
  std::string w = gather ? weight(c, "-", split) : weight(c, split, "-");
  std::string y =
      tensor(c.resultType(), c.m, c.n, gather ? "[-, didx(\"x\")]" : "[-, -], partial = [\"x\"]");
  return fmt::format(R"({}
func.func @matmul(%x: {x} {{fusion.name = "x"}}, %w: {w} {{fusion.name = "w"}}) -> ({y} {{fusion.name = "y"}}) {{
  %y = fusion.matmul %x, %w{} : {x}, {w} -> {y}
  return %y : {y}
}}
)",
                     mesh(ranks), braces(c), fmt::arg("x", x), fmt::arg("w", w), fmt::arg("y", y));
}

std::string bench::communicationText(const Case &c, uint32_t ranks) {
  bool gather = c.op == Op::AllGather;
  int64_t columns = gather ? c.k : c.n;
  DType type = gather ? c.dtype : c.resultType();
  std::string from =
      tensor(type, c.m, columns, gather ? "[didx(\"x\"), -]" : "[-, -], partial = [\"x\"]");
  std::string to =
      tensor(type, c.m, columns, c.op == Op::ReduceScatter ? "[didx(\"x\"), -]" : "[-, -]");
  return fmt::format(R"({}
func.func @communication(%from: {f} {{fusion.name = "from"}}) -> ({t} {{fusion.name = "to"}}) {{
  %to = fusion.reshard %from {{schedule = #fusion.schedule<pipeline>}} : {f} -> {t}
  return %to : {t}
}}
)",
                     mesh(ranks), fmt::arg("f", from), fmt::arg("t", to));
}
