//===- Probes.cpp - what a calibration measures -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Probes.h"

#include "tandem/Replay/Machine.h"

#include <algorithm>
#include <fmt/format.h>
#include <initializer_list>
#include <regex>
#include <tuple>
#include <utility>

using namespace tandem;
using namespace tandem::bench;

static constexpr std::pair<Work, const char *> kWorks[] = {
    {Work::Matmul, "matmul"},
    {Work::Copy, "copy"},
    {Work::Reduce, "reduce"},
    {Work::Accumulate, "accumulate"},
    {Work::Hop, "hop"},
    {Work::Message, "message"},
    {Work::Put, "put"},
    {Work::Rows, "rows"},
    {Work::Signal, "signal"},
    {Work::AllGather, "all_gather"},
    {Work::ReduceScatter, "reduce_scatter"},
    {Work::AllReduce, "all_reduce"},
    {Work::Beside, "beside"},
    {Work::Behind, "behind"},
    {Work::Gated, "gated"},
    {Work::Exchange, "exchange"},
    {Work::ExchangeTwice, "exchange_twice"},
    {Work::ExchangeBlocks, "exchange_blocks"},
    {Work::ExchangeReduce, "exchange_reduce"}};

bool bench::isExchange(Work work) {
  return work == Work::Exchange || work == Work::ExchangeTwice || work == Work::ExchangeBlocks ||
         work == Work::ExchangeReduce;
}

std::string bench::toString(Work work) {
  for (auto [known, name] : kWorks)
    if (known == work)
      return name;
  return "";
}

/// Small enough that only launching counts.
static constexpr uint64_t kTiny = 256;
static constexpr int64_t kTinyExtent = 4;
static constexpr uint32_t kManyRepeats = 65, kFewRepeats = 5;

static bool hasBytes(Work work) {
  return work != Work::Matmul && work != Work::Gated && work != Work::Hop && work != Work::Signal;
}

static bool hasShape(Work work) {
  return work == Work::Matmul || work == Work::Gated || work == Work::Beside ||
         work == Work::Behind;
}

std::string Probe::name() const {
  std::string shape =
      hasShape(work) ? fmt::format(" {} {}x{}x{}", tandem::toString(dtype), m, n, k) : "";
  std::string size = hasBytes(work) ? fmt::format(" {}", bytes) : "";
  return fmt::format("{}{}{} x{}{}", toString(work), shape, size, repeats, alone ? " alone" : "");
}

std::optional<Probe> bench::parseProbe(const std::string &name) {
  static const std::regex form("([a-z_]+)(?: (f32|f16|bf16|f8E4M3FN) "
                               "([0-9]{1,9})x([0-9]{1,9})x([0-9]{1,9}))?(?: ([0-9]{1,15}))?"
                               " x([0-9]{1,4})( alone)?");
  constexpr size_t kLongest = 128; // a match takes stack for each character
  std::smatch parts;
  if (name.size() > kLongest || !std::regex_match(name, parts, form))
    return std::nullopt;
  Probe probe;
  for (auto [known, text] : kWorks)
    if (parts[1] == text)
      probe.work = known;
  for (DType type : {DType::F32, DType::F16, DType::BF16, DType::F8E4M3FN})
    if (parts[2] == std::string(tandem::toString(type)))
      probe.dtype = type;
  if (parts[2].matched) {
    probe.m = std::stoll(parts[3]);
    probe.n = std::stoll(parts[4]);
    probe.k = std::stoll(parts[5]);
  }
  if (parts[6].matched)
    probe.bytes = std::stoull(parts[6]);
  probe.repeats = static_cast<uint32_t>(std::stoul(parts[7]));
  probe.alone = parts[8].matched;
  // Says whether the name is of this kind of work, too.
  return probe.name() == name ? std::optional(probe) : std::nullopt;
}

Probe Probe::once() const {
  Probe probe = *this;
  probe.repeats = 1;
  return probe;
}

bool Probe::isTiny() const {
  return hasShape(work) ? std::max({m, n, k}) <= kTinyExtent : !hasBytes(work) || bytes <= kTiny;
}

namespace {

constexpr uint64_t kibi = 1024, mebi = 1024 * kibi;
/// Of puts beside matmuls: larger ones are not measured alone. And of the matmuls.
constexpr uint64_t kLargestBeside = 64 * mebi;
constexpr size_t kMostBeside = 4, kMostUnaligned = 8;
constexpr int64_t kLineOf16Bits = machine::kCacheLine / 2;
constexpr double kLongestBeside = 400e-6, kShortestUnaligned = 30e-6;

// About what GPUs do, in bytes or operations a second: it decides how often something is repeated.
constexpr double kMemoryRate = 3e12, kLinkRate = 3e11, kBlockRate = 3e10;
double rateOf(DType dtype) { return dtype == DType::F32 ? 2e14 : isFp8(dtype) ? 1.2e15 : 6e14; }

/// Of a matmul, about.
double secondsOf(const Probe &p) {
  return 2 * double(p.m) * double(p.n) * double(p.k) / rateOf(p.dtype);
}

/// Whether a matmul needs less than half the rate of memory. Others would compete with the put for
/// it.
bool isComputeBound(const Probe &p) {
  double elements =
      double(p.m) * double(p.k) + double(p.n) * double(p.k) + double(p.m) * double(p.n);
  return elements * double(sizeOf(p.dtype)) < kMemoryRate / 2 * secondsOf(p);
}

/// A program of a millisecond shows a difference well, and a longer one warms the device.
uint32_t repeatsFor(double seconds, uint32_t least) {
  return static_cast<uint32_t>(std::clamp(1e-3 / seconds, double(least), 33.0));
}

class Probes {
public:
  Probes(uint32_t ranks, bool gpu) : ranks(ranks), gpu(gpu) {}

  void add(Work work, uint64_t bytes, bool alone) {
    bool local = work == Work::Copy || work == Work::Reduce || work == Work::Accumulate;
    double rate = local ? kMemoryRate : isExchange(work) ? kBlockRate : kLinkRate;
    probes.push_back({work, DType::F32, 0, 0, 0, bytes,
                      bytes <= kTiny ? kManyRepeats
                      : gpu          ? repeatsFor(double(bytes) / rate, 3)
                                     : kFewRepeats,
                      alone});
  }

  /// Rows as long as slices of columns have them: powers of two, and longer ones.
  void rows() {
    for (uint64_t row : {1024, 1536, 2048, 3072, 4096, 4608, 6144, 8192, 9216, 10240, 12288, 16384})
      probes.push_back({Work::Rows, DType::F32, 0, 0, 0, row, 9, false});
  }

  void matmul(DType dtype, int64_t m, int64_t n, int64_t k, bool alone) {
    double flops = 2 * double(m) * double(n) * double(k);
    uint32_t repeats = std::max({m, n, k}) <= kTinyExtent ? kManyRepeats
                       : gpu                              ? repeatsFor(flops / rateOf(dtype), 2)
                                                          : kFewRepeats;
    Probe probe{Work::Matmul, dtype, m, n, k, 0, repeats, alone};
    // A chunk of many tokens has as many rows as few tokens.
    if (std::none_of(probes.begin(), probes.end(),
                     [&](const Probe &other) { return other.name() == probe.name(); }))
      probes.push_back(probe);
  }

  /// A rank's matmul, in so many pieces of its rows.
  void matmul(const Case &c, int64_t pieces) {
    bool gather = c.op == Op::AllGather;
    int64_t m = c.m / pieces, n = gather ? c.n / ranks : c.n, k = gather ? c.k : c.k / ranks;
    if (std::min({m, n, k}) < 1)
      return;
    matmul(c.dtype, m, n, k, !gpu);
    if (!gpu && pieces == 1)
      matmul(c.dtype, m, n, k, false);
  }

  /// Some matmuls of 16 bits that were added, with a little more of N, of K, or of both, so that
  /// the rows of factors begin at multiples of 16, 32 and 64 bytes instead of lines. Quick ones and
  /// slow ones.
  void unaligned() {
    std::vector<Probe> aligned;
    for (const Probe &probe : probes)
      if (probe.work == Work::Matmul && !probe.isTiny() && sizeOf(probe.dtype) == 2 &&
          (probe.n | probe.k) % kLineOf16Bits == 0 && secondsOf(probe) >= kShortestUnaligned &&
          secondsOf(probe) <= kLongestBeside)
        aligned.push_back(probe);
    std::sort(aligned.begin(), aligned.end(), [](const Probe &a, const Probe &b) {
      double first = secondsOf(a), second = secondsOf(b);
      return first != second ? first < second : a.name() < b.name();
    });
    size_t count = std::min(aligned.size(), kMostUnaligned);
    for (size_t i = 0; i < count; ++i) {
      const Probe &p = aligned[i * aligned.size() / count];
      for (int64_t more : {8, 16, 32}) {
        matmul(p.dtype, p.m, p.n + more, p.k, p.alone);
        matmul(p.dtype, p.m, p.n, p.k + more, p.alone);
        matmul(p.dtype, p.m, p.n + more, p.k + more, p.alone);
      }
    }
  }

  /// Matmuls that were added beside a put that takes about half as long, and one that takes twice
  /// as long: the longest ones, beside which a hop to the put's stream and back is little.
  void beside() {
    std::vector<const Probe *> longest;
    for (const Probe &probe : probes)
      if (probe.work == Work::Matmul && !probe.isTiny() && secondsOf(probe) <= kLongestBeside &&
          isComputeBound(probe))
        longest.push_back(&probe);
    std::sort(longest.begin(), longest.end(), [](const Probe *a, const Probe *b) {
      double first = secondsOf(*a), second = secondsOf(*b);
      return first != second ? first > second : a < b;
    });
    longest.resize(std::min(longest.size(), kMostBeside));
    std::vector<Probe> made;
    for (const Probe *matmul : longest)
      for (double part : {.5, 2.}) {
        double seconds = secondsOf(*matmul);
        auto bytes =
            std::min(static_cast<uint64_t>(part * seconds * kLinkRate) / 64 * 64, kLargestBeside);
        Probe probe = *matmul;
        probe.work = Work::Beside;
        probe.bytes = bytes;
        probe.repeats = repeatsFor(std::max(1., part) * seconds, 2);
        if (bytes > 0)
          made.push_back(probe);
      }
    probes.insert(probes.end(), made.begin(), made.end());
  }

  /// Puts of sizes that are probed alone, behind matmuls that are, of at most half their time: so
  /// the end of the put is the end of all.
  void behind(std::initializer_list<uint64_t> sizes) {
    for (uint64_t bytes : sizes) {
      double put = double(bytes) / kLinkRate;
      const Probe *longest = nullptr;
      for (const Probe &probe : probes)
        if (probe.work == Work::Matmul && !probe.isTiny() && secondsOf(probe) < put / 2 &&
            (!longest || secondsOf(probe) > secondsOf(*longest)))
          longest = &probe;
      if (longest)
        probes.push_back(
            {Work::Behind, longest->dtype, longest->m, longest->n, longest->k, bytes, 2, false});
    }
  }

  /// Matmuls that were added and that gated kernels compute (docs/gated.md); a shape in one type.
  void gated() {
    std::vector<Probe> made;
    for (const Probe &matmul : probes) {
      if (matmul.work != Work::Matmul || matmul.isTiny() || matmul.dtype == DType::F32 ||
          isFp8(matmul.dtype) || matmul.n % 8 != 0 || matmul.k % 8 != 0)
        continue;
      Probe probe = matmul;
      probe.work = Work::Gated;
      auto sameShape = [&](const Probe &other) {
        return std::tie(other.m, other.n, other.k) == std::tie(probe.m, probe.n, probe.k);
      };
      if (std::none_of(made.begin(), made.end(), sameShape))
        made.push_back(probe);
    }
    probes.insert(probes.end(), made.begin(), made.end());
  }

  void matmulsOfSizes() {
    const int64_t shapes[][3] = {{64, 256, 256},  {256, 256, 256},  {256, 512, 512},
                                 {512, 512, 512}, {512, 1024, 512}, {512, 1024, 1024}};
    for (DType dtype : {DType::F32, DType::F16, DType::BF16})
      for (auto [m, n, k] : shapes)
        matmul(dtype, m, n, k, true);
    for (auto [m, n, k] : shapes)
      matmul(DType::F32, m, n, k, false);
  }

  void matmulsOfLayers() {
    auto cases = parseCases("", "8192", "bf16,f16");
    for (const Case &c : *cases) {
      // An all-reduce has the matmuls of a reduce-scatter; f16 is for the small layers.
      if (c.op == Op::AllReduce || (c.dtype == DType::F16 && std::min(c.n, c.k) > 4096))
        continue;
      matmul(c, 1);
      matmul(c, ranks);
    }
    for (int64_t m : {1024, 8192})
      matmul(DType::F32, m, 4096, 4096, false);
  }

  uint32_t ranks;
  bool gpu;
  std::vector<Probe> probes;
};

} // namespace

std::vector<Probe> bench::probesFor(uint32_t ranks, bool gpu, const std::vector<Case> &cases) {
  Probes p(ranks, gpu);
  // The runtime's own costs; one rank alone, where ranks share cores.
  p.matmul(DType::F32, kTinyExtent, kTinyExtent, kTinyExtent, !gpu);
  for (Work work : {Work::Copy, Work::Accumulate})
    p.add(work, kTiny, !gpu);
  p.add(Work::Hop, 0, !gpu);
  for (Work work : {Work::Put, Work::Message, Work::AllGather, Work::AllReduce})
    p.add(work, kTiny, false);
  p.add(Work::Signal, 0, false);
  if (gpu) {
    for (Work work : {Work::Exchange, Work::ExchangeTwice, Work::ExchangeBlocks})
      p.add(work, kTiny, false);
    for (Work work : {Work::Exchange, Work::ExchangeReduce})
      p.add(work, mebi, false);
  }
  for (int64_t pieces : {int64_t(1), int64_t(ranks), 2 * int64_t(ranks), 4 * int64_t(ranks)})
    for (const Case &c : cases)
      p.matmul(c, pieces);
  std::vector<uint64_t> sizes = {4 * kibi, 64 * kibi, mebi, 8 * mebi};
  if (gpu)
    sizes = {4 * kibi, 64 * kibi, mebi, 4 * mebi, 16 * mebi, 32 * mebi, 64 * mebi};
  for (Work work : {Work::Put, Work::AllGather})
    for (uint64_t bytes : sizes)
      p.add(work, bytes, false);
  for (uint64_t bytes : sizes)
    if (gpu && bytes >= mebi)
      p.add(Work::ReduceScatter, bytes, false);
  for (uint64_t bytes : sizes)
    if (gpu && bytes >= 64 * kibi)
      p.add(Work::AllReduce, bytes, false);
  if (gpu) {
    p.rows();
    p.beside();
  }
  for (uint64_t bytes : sizes)
    p.add(Work::Message, bytes, false);
  sizes = {64 * kibi, mebi, 16 * mebi};
  if (gpu)
    sizes = {64 * kibi, mebi, 8 * mebi, 64 * mebi, 256 * mebi};
  for (uint64_t bytes : sizes) {
    for (Work work : {Work::Copy, Work::Reduce, Work::Accumulate})
      p.add(work, bytes, !gpu);
    if (!gpu)
      p.add(Work::Accumulate, bytes, false);
  }
  // Last, as they take longest: where time is up, the base has such numbers.
  if (cases.empty())
    gpu ? p.matmulsOfLayers() : p.matmulsOfSizes();
  if (gpu) {
    p.gated();
    p.behind({16 * mebi, 32 * mebi, 64 * mebi});
    p.unaligned(); // last, so that no other probe is made of these
  }
  return p.probes;
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

Pieces matmulPieces(const Probe &p, const char *left, const char *right) {
  bool eight = isFp8(p.dtype); // b is stored along K, as GPUs read it
  std::string a = memory(p.dtype, fmt::format("{}x{}", p.m, p.k));
  std::string b =
      memory(p.dtype, eight ? fmt::format("{}x{}", p.n, p.k) : fmt::format("{}x{}", p.k, p.n));
  std::string c = memory(eight ? DType::BF16 : p.dtype, fmt::format("{}x{}", p.m, p.n));
  return {fmt::format("{}: {}, {}: {}, %c: {} {{hostir.result}}", left, a, right, b, c), "",
          fmt::format("hostir.matmul {}, {} to %c on %main {}: {}, {} to {}", left, right,
                      eight ? "{transpose_b} " : "", a, b, c),
          ""};
}

Pieces exchangePieces(const Probe &p, uint64_t count) {
  bool reduces = p.work == Work::ExchangeReduce;
  uint64_t sent = reduces ? kTiny / 4 : count;
  std::string one = memory(DType::F32, std::to_string(sent));
  std::string shared = memory(DType::F32, std::to_string(sent), ", #hostir.symmetric");
  std::string sum = memory(DType::F32, std::to_string(count));
  std::string terms = memory(DType::F32, fmt::format("2x{}", count));
  std::string body;
  for (uint32_t i = 0, times = p.work == Work::ExchangeTwice ? 2 : 1; i < times; ++i)
    body += fmt::format("      hostir.put %a to %slot at %right via %ch on %main : {} to {}\n"
                        "      hostir.signal %c{} = %value at %right via %ch on %main\n"
                        "      hostir.wait_signal %c{} >= %value via %ch on %main\n",
                        one, shared, i, i);
  if (reduces)
    body +=
        fmt::format("      hostir.reduce sum %b to %c dims [0] on %main : {} to {}\n", terms, sum);
  Pieces pieces;
  pieces.arguments = fmt::format("%a: {},{} %c: {} {{hostir.result}}", one,
                                 reduces ? fmt::format(" %b: {},", terms) : "", sum);
  pieces.before = fmt::format("%slot = hostir.alloc on %main {{offset = 0 : i64}} : {}", shared);
  pieces.each = fmt::format("%value = arith.addi %i, %c1 : index\n"
                            "    hostir.fused_exchange on %main blocks {} {{\n{}    }}",
                            p.work == Work::ExchangeBlocks ? kExchangeBlocks : 1, body);
  // What has come last from the left-hand rank has been awaited.
  pieces.after = fmt::format("hostir.dealloc %slot on %main : {}", shared);
  pieces.can = "one_sided";
  pieces.symmetric = (sent * 4 + 63) / 64 * 64;
  return pieces;
}

Pieces piecesOf(const Probe &p, uint32_t ranks) {
  if (p.work == Work::Matmul)
    return matmulPieces(p, "%a", "%b");
  if (p.work == Work::Gated) {
    Pieces pieces = matmulPieces(p, "%a", "%b");
    pieces.each =
        fmt::format("hostir.gated_matmul on %main leaving 0 {{\n      {}\n    }}", pieces.each);
    return pieces;
  }
  uint64_t count = std::max<uint64_t>(1, p.bytes / 4);
  if (isExchange(p.work))
    return exchangePieces(p, count);
  std::string one = memory(DType::F32, std::to_string(count));
  std::string two = memory(DType::F32, fmt::format("2x{}", count));
  std::string all = memory(DType::F32, fmt::format("{}x{}", ranks, count));
  std::string shared = memory(DType::F32, std::to_string(count), ", #hostir.symmetric");
  std::string plain = fmt::format("%a: {}, %c: {} {{hostir.result}}", one, one);
  const char *inRing = "hostir.signal %c0 = %c1 at %right via %ch on %main\n"
                       "  hostir.wait_signal %c0 >= %c1 via %ch on %main\n"
                       "  hostir.signal %c1 = %c1 at %left via %ch on %main\n"
                       "  hostir.wait_signal %c1 >= %c1 via %ch on %main\n"
                       "  hostir.dealloc %slot on %main : {}";
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
            fmt::format("hostir.accumulate sum %a into %c on %main : {0} to {0}\n"
                        "    hostir.sync %worker after %main\n"
                        "    hostir.accumulate sum %a into %c on %worker : {0} to {0}\n"
                        "    hostir.sync %main after %worker",
                        one),
            ""};
  case Work::Signal:
    return {plain, "",
            "%value = arith.addi %i, %c1 : index\n"
            "    hostir.signal %c0 = %value at %right via %ch on %main\n"
            "    hostir.wait_signal %c0 >= %value via %ch on %main",
            "", "one_sided"};
  case Work::Message:
    return {plain, "",
            fmt::format("hostir.group via %ch on %main {{\n      hostir.recv %c from %left : {}\n"
                        "      hostir.send %a to %right : {}\n    }}",
                        one, one),
            "", "two_sided"};
  case Work::Put:
  case Work::Beside:
  case Work::Behind: {
    std::string put =
        fmt::format("hostir.put %a to %slot at %right via %ch on {{}} : {} to {}", one, shared);
    Pieces pieces = {plain, "", fmt::format(fmt::runtime(put), "%main"), ""};
    if (hasShape(p.work)) {
      pieces = matmulPieces(p, "%x", "%y");
      pieces.arguments = fmt::format("%a: {}, {}", one, pieces.arguments);
      std::string first = p.work == Work::Behind ? pieces.each + "\n    " : "";
      pieces.each = fmt::format("{}hostir.sync %worker after %main\n    {}\n    {}\n"
                                "    hostir.sync %main after %worker",
                                first, fmt::format(fmt::runtime(put), "%worker"), pieces.each);
    }
    pieces.before = fmt::format("%slot = hostir.alloc on %main {{offset = 0 : i64}} : {}", shared);
    pieces.after = fmt::format(fmt::runtime(inRing), shared);
    pieces.can = "one_sided";
    pieces.symmetric = (count * 4 + 63) / 64 * 64;
    return pieces;
  }
  case Work::Rows: {
    uint64_t rows = kRowsBytes / p.bytes, columns = p.bytes / 4;
    std::string source = memory(DType::F32, fmt::format("{}x{}", rows, columns));
    std::string slot =
        memory(DType::F32, fmt::format("{}x{}", rows, 2 * columns), ", #hostir.symmetric");
    std::string view = fmt::format("memref<{}x{}xf32, strided<[{}, 1]>, #hostir.symmetric>", rows,
                                   columns, 2 * columns);
    Pieces pieces;
    pieces.arguments = fmt::format("%a: {}, %c: {} {{hostir.result}}", source, source);
    pieces.before =
        fmt::format("%slot = hostir.alloc on %main {{offset = 0 : i64}} : {0}\n"
                    "  %view = memref.subview %slot[0, 0] [{1}, {2}] [1, 1] : {0} to {3}",
                    slot, rows, columns, view);
    pieces.each =
        fmt::format("hostir.put %a to %view at %right via %ch on %main : {} to {}", source, view);
    pieces.after = fmt::format(fmt::runtime(inRing), slot);
    pieces.can = "one_sided";
    pieces.symmetric = (2 * rows * p.bytes + 63) / 64 * 64;
    return pieces;
  }
  case Work::AllReduce:
    return {
        plain, "",
        fmt::format("hostir.collective all_reduce %a to %c via %ch on %main : {} to {}", one, one),
        "", "collectives"};
  case Work::ReduceScatter:
    return {fmt::format("%a: {}, %c: {} {{hostir.result}}", all, one), "",
            fmt::format("hostir.collective reduce_scatter %a to %c via %ch on %main : {} to {}",
                        all, one),
            "", "collectives"};
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
  return fmt::format(R"(#tp = #tandem.mesh<"tp", ["x" = {ranks}]>
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
