//===- Probes.cpp - what a calibration measures -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Probes.h"

#include <algorithm>
#include <fmt/format.h>

using namespace tandem;
using namespace tandem::bench;

std::string bench::toString(Work work) {
  static constexpr const char *names[] = {"matmul", "copy",    "reduce", "accumulate",
                                          "hop",    "message", "put",    "all_gather"};
  return names[static_cast<size_t>(work)];
}

std::string Probe::name() const {
  std::string size = work == Work::Matmul
                         ? fmt::format(" {} {}x{}x{}", tandem::toString(dtype), m, n, k)
                         : fmt::format(" {}", bytes);
  return fmt::format("{}{} x{}{}", toString(work), work == Work::Hop ? "" : size, repeats,
                     alone ? " alone" : "");
}

Probe Probe::once() const {
  Probe probe = *this;
  probe.repeats = 1;
  return probe;
}

namespace {

/// Small enough that only launching counts.
constexpr uint64_t kTiny = 256;
constexpr uint32_t kManyRepeats = 65, kFewRepeats = 5;

void addMatmuls(uint32_t ranks, bool gpu, std::vector<Probe> &probes) {
  auto add = [&](DType dtype, int64_t m, int64_t n, int64_t k, bool alone) {
    Probe probe{Work::Matmul, dtype, m, n, k, 0, kFewRepeats, alone};
    // A chunk of many tokens has as many rows as few tokens.
    if (std::none_of(probes.begin(), probes.end(),
                     [&](const Probe &other) { return other.name() == probe.name(); }))
      probes.push_back(probe);
  };
  if (!gpu) {
    const int64_t shapes[][3] = {{64, 256, 256},  {256, 256, 256},  {256, 512, 512},
                                 {512, 512, 512}, {512, 1024, 512}, {512, 1024, 1024}};
    for (DType dtype : {DType::F32, DType::F16, DType::BF16})
      for (auto [m, n, k] : shapes)
        add(dtype, m, n, k, true);
    for (auto [m, n, k] : shapes)
      add(DType::F32, m, n, k, false);
    return;
  }
  auto cases = parseCases("", "8192", "bf16,f16");
  for (const Case &c : *cases) {
    bool gather = c.op == Op::AllGather;
    // An all-reduce has the matmuls of a reduce-scatter; f16 is for the small layers.
    if (c.op == Op::AllReduce || (c.dtype == DType::F16 && std::min(c.n, c.k) > 4096))
      continue;
    add(c.dtype, c.m, gather ? c.n / ranks : c.n, gather ? c.k : c.k / ranks, false);
    // A chunk of one owner's rows.
    add(c.dtype, c.m / ranks, gather ? c.n / ranks : c.n, gather ? c.k : c.k / ranks, false);
  }
  for (int64_t m : {1024, 8192})
    add(DType::F32, m, 4096, 4096, false);
}

} // namespace

std::vector<Probe> bench::probesFor(uint32_t ranks, bool gpu) {
  std::vector<Probe> probes;
  auto add = [&](Work work, uint64_t bytes, uint32_t repeats, bool alone) {
    probes.push_back({work, DType::F32, 0, 0, 0, bytes, repeats, alone});
  };
  constexpr uint64_t kibi = 1024, mebi = 1024 * kibi;
  // The runtime's own costs; one rank alone, where ranks share cores.
  probes.push_back({Work::Matmul, DType::F32, 4, 4, 4, 0, kManyRepeats, !gpu});
  for (Work work : {Work::Copy, Work::Accumulate, Work::Hop})
    add(work, kTiny, kManyRepeats, !gpu);
  add(Work::Message, kTiny, kManyRepeats, false);
  add(Work::AllGather, kTiny, kManyRepeats, false);
  for (uint64_t bytes : {64 * kibi, mebi, 16 * mebi, 256 * mebi}) {
    if (bytes > 16 * mebi && !gpu)
      continue;
    for (Work work : {Work::Copy, Work::Reduce, Work::Accumulate})
      add(work, bytes, kFewRepeats, !gpu);
    if (!gpu)
      add(Work::Accumulate, bytes, kFewRepeats, false);
  }
  for (uint64_t bytes : {4 * kibi, 64 * kibi, mebi, 8 * mebi, 64 * mebi, 256 * mebi}) {
    if (bytes > 8 * mebi && !gpu)
      continue;
    add(Work::Message, bytes, kFewRepeats, false);
    add(Work::Put, bytes, kFewRepeats, false);
    if (bytes <= 64 * mebi)
      add(Work::AllGather, bytes, kFewRepeats, false);
  }
  // Last, as they take longest: where time is up, the base has such numbers.
  addMatmuls(ranks, gpu, probes);
  return probes;
}

namespace {

struct Pieces {
  std::string arguments; ///< of the program, behind the inputs
  std::string before, each, after;
  const char *can = nullptr; ///< of the channel; null: none
  uint64_t symmetric = 0;
};

std::string memory(DType dtype, const std::string &extents, const char *space = "") {
  return fmt::format("memref<{}x{}{}>", extents, tandem::toString(dtype), space);
}

Pieces matmulPieces(const Probe &p) {
  std::string a = memory(p.dtype, fmt::format("{}x{}", p.m, p.k));
  std::string b = memory(p.dtype, fmt::format("{}x{}", p.k, p.n));
  std::string c = memory(p.dtype, fmt::format("{}x{}", p.m, p.n));
  return {fmt::format("%a: {}, %b: {}, %c: {} {{hostir.result}}", a, b, c), "",
          fmt::format("hostir.matmul %a, %b to %c on %main : {}, {} to {}", a, b, c), ""};
}

Pieces piecesOf(const Probe &p, uint32_t ranks) {
  if (p.work == Work::Matmul)
    return matmulPieces(p);
  uint64_t count = std::max<uint64_t>(1, p.bytes / 4);
  std::string one = memory(DType::F32, std::to_string(count));
  std::string two = memory(DType::F32, fmt::format("2x{}", count));
  std::string all = memory(DType::F32, fmt::format("{}x{}", ranks, count));
  std::string shared = memory(DType::F32, std::to_string(count), ", #hostir.symmetric");
  std::string plain = fmt::format("%a: {}, %c: {} {{hostir.result}}", one, one);
  switch (p.work) {
  case Work::Copy:
    return {plain, "", fmt::format("hostir.copy %a to %c on %main : {} to {}", one, one), ""};
  case Work::Accumulate:
    return {plain, fmt::format("hostir.copy %a to %c on %main : {} to {}", one, one),
            fmt::format("hostir.accumulate sum %a into %c on %main : {} to {}", one, one), ""};
  case Work::Reduce:
    return {fmt::format("%a: {}, %c: {} {{hostir.result}}", two, one), "",
            fmt::format("hostir.reduce sum %a to %c dims [0] on %main : {} to {}", two, one), ""};
  case Work::Hop:
    return {plain, fmt::format("hostir.copy %a to %c on %main : {} to {}", one, one),
            "hostir.sync %worker after %main\n    hostir.sync %main after %worker", ""};
  case Work::Message:
    return {plain, "",
            fmt::format("hostir.group via %ch on %main {{\n      hostir.recv %c from %left : {}\n"
                        "      hostir.send %a to %right : {}\n    }}",
                        one, one),
            "", "two_sided"};
  case Work::Put:
    return {
        plain,
        fmt::format("%slot = hostir.alloc on %main {{offset = 0 : i64}} : {}", shared),
        fmt::format("hostir.put %a to %slot at %right via %ch on %main : {} to {}", one, shared),
        fmt::format("hostir.signal %c0 = %c1 at %right via %ch on %main\n"
                    "  hostir.wait_signal %c0 >= %c1 via %ch on %main\n"
                    "  hostir.signal %c1 = %c1 at %left via %ch on %main\n"
                    "  hostir.wait_signal %c1 >= %c1 via %ch on %main\n"
                    "  hostir.dealloc %slot on %main : {}",
                    shared),
        "one_sided",
        (count * 4 + 63) / 64 * 64};
  default:
    return {
        fmt::format("%a: {}, %c: {} {{hostir.result}}", one, all), "",
        fmt::format("hostir.collective all_gather %a to %c via %ch on %main : {} to {}", one, all),
        "", "collectives"};
  }
}

} // namespace

std::string bench::probeText(const Probe &probe, uint32_t ranks) {
  Pieces p = piecesOf(probe, ranks);
  std::string channel =
      p.can ? fmt::format("  %ch = hostir.channel \"ch\" over #tp [\"x\"] can [{}]\n", p.can) : "";
  std::string body = fmt::format("  {}\n  scf.for %i = %c0 to %repeats step %c1 {{\n    {}\n  }}\n"
                                 "  {}\n",
                                 p.before, p.each, p.after);
  if (probe.alone)
    body = fmt::format("  %alone = arith.cmpi eq, %me, %c0 : index\n  scf.if %alone {{\n{}  }}\n",
                       body);
  return fmt::format(R"(#tp = #fusion.mesh<"tp", ["x" = {ranks}]>
hostir.program @probe({arguments}) attributes {{symmetric_bytes = {symmetric} : i64}} {{
  %main = hostir.main_stream
  %me = hostir.device_index #tp, "x"
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %repeats = arith.constant {repeats} : index
  %before = arith.constant {before} : index
  %p = arith.constant {ranks} : index
  %r = arith.addi %me, %c1 : index
  %right = arith.remui %r, %p : index
  %l = arith.addi %me, %before : index
  %left = arith.remui %l, %p : index
  %worker = hostir.worker_stream %c0
{channel}{body}}}
)",
                     fmt::arg("ranks", ranks), fmt::arg("arguments", p.arguments),
                     fmt::arg("symmetric", p.symmetric), fmt::arg("repeats", probe.repeats),
                     fmt::arg("before", ranks - 1), fmt::arg("channel", channel),
                     fmt::arg("body", body));
}
