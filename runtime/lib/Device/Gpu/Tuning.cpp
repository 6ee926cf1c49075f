//===- Tuning.cpp - which algorithm multiplies ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../../Core/Encode.h"
#include "AlgorithmCache.h"
#include "GpuDevice.h"

#include "tandem/Runtime/Bootstrap.h"
#include "tandem/Runtime/HostOps.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <string>
#include <utility>
#include <vector>

namespace tandem::gpu {

namespace {

/// Random bits that are numbers of at most 2 in every type. An algorithm's speed depends on the
/// power it draws, and constant or short mantissas draw much less. The length divides no power of
/// 2, so the rows of a matrix differ.
const std::vector<uint16_t> &noise() {
  static const std::vector<uint16_t> words = [] {
    std::vector<uint16_t> made((1 << 19) + 7);
    uint64_t state = 0x9e3779b97f4a7c15ull;
    for (uint16_t &word : made) {
      // Marsaglia, Xorshift RNGs, 2003.
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      word = static_cast<uint16_t>((state >> 32 & 0x83ff) | 0x3c00);
    }
    return made;
  }();
  return words;
}

/// Memory and a stream for timing plans.
class Bench {
public:
  explicit Bench(Toolbox &tools) : tools(tools) {}
  ~Bench() {
    Driver &driver = tools.driver();
    for (EventHandle event : {from, to})
      if (event)
        driver.destroyEvent(event).ignore();
    if (stream)
      driver.destroyStream(stream).ignore();
  }

  Status open(const Candidate &candidate) {
    Driver &driver = tools.driver();
    if (!stream) {
      TANDEM_RETURN_IF_ERROR(driver.createStream(&stream, StreamPriority::Normal));
      TANDEM_RETURN_IF_ERROR(driver.createEvent(&from, true));
      TANDEM_RETURN_IF_ERROR(driver.createEvent(&to, true));
      TANDEM_ASSIGN_OR_RETURN(workspace, Scratch::make(tools.state, kWorkspaceBytes, true));
    }
    for (int k = 0; k < 4; ++k)
      if (memory[k].size() < candidate.bytes[k]) {
        TANDEM_ASSIGN_OR_RETURN(memory[k], Scratch::make(tools.state, candidate.bytes[k], true));
      }
    return Status();
  }

  /// Before timing; refills the memory that plans write.
  Status fill(const Candidate &candidate) {
    Driver &driver = tools.driver();
    const std::vector<uint16_t> &block = noise();
    for (int k = 0; k < 4; ++k) {
      auto *begin = static_cast<std::byte *>(memory[k].data());
      uint64_t bytes = candidate.bytes[k], done = std::min(bytes, block.size() * sizeof block[0]);
      if (bytes > 0)
        TANDEM_RETURN_IF_ERROR(driver.copy(begin, block.data(), done));
      for (uint64_t more = 0; done < bytes; done += more) {
        more = std::min(done, bytes - done);
        TANDEM_RETURN_IF_ERROR(driver.copyAsync(begin + done, begin, more, stream));
      }
    }
    return Status();
  }

  Status run(const Candidate &candidate) {
    return candidate.plan->run(stream, workspace.data(), memory[0].data(), memory[1].data(),
                               memory[2].data(), memory[3].data());
  }
  Status run(ProductPlan &plan, const void *a, const void *b, void *out) {
    return plan.run(stream, workspace.data(), a, b, out, nullptr);
  }

  StreamHandle native() const { return stream; }
  /// Operand k of a candidate: a, b, result or bias.
  void *data(int k) const { return memory[k].data(); }

  Status finish() {
    for (Backoff backoff;; backoff.pause()) {
      bool done = false;
      TANDEM_RETURN_IF_ERROR(tools.driver().queryStream(stream, &done));
      if (done)
        return Status();
    }
  }

  /// Milliseconds of each of `runs` runs.
  Expected<float> time(const Candidate &candidate, int runs) {
    Driver &driver = tools.driver();
    TANDEM_RETURN_IF_ERROR(driver.record(from, stream));
    for (int i = 0; i < runs; ++i)
      TANDEM_RETURN_IF_ERROR(run(candidate));
    TANDEM_RETURN_IF_ERROR(driver.record(to, stream));
    TANDEM_RETURN_IF_ERROR(finish());
    float milliseconds = 0;
    TANDEM_RETURN_IF_ERROR(driver.elapsed(from, to, &milliseconds));
    return milliseconds / static_cast<float>(runs);
  }

private:
  Toolbox &tools;
  StreamHandle stream = nullptr;
  EventHandle from = nullptr, to = nullptr;
  Scratch workspace, memory[4];
};

/// Milliseconds of a turn, long enough for the GPU to reach its working clock; and the most runs of
/// a turn.
constexpr float kTurn = 1;
constexpr int kMostRuns = 16;
constexpr size_t kTurns = 5;

/// The fastest; the library's own choice unless another is clearly faster.
Expected<unsigned> measure(Bench &bench, const Candidate &candidate) {
  unsigned count = candidate.plan->candidates();
  TANDEM_RETURN_IF_ERROR(bench.open(candidate));
  TANDEM_RETURN_IF_ERROR(bench.fill(candidate));
  // Drops candidates that fail on this GPU. The first run loads the kernels.
  std::vector<unsigned> running;
  std::vector<float> once(count);
  for (unsigned c = 0; c < count; ++c) {
    candidate.plan->select(c);
    auto first = bench.time(candidate, 1), second = bench.time(candidate, 1);
    if (!first || !second)
      continue;
    running.push_back(c);
    once[c] = *second;
  }
  candidate.plan->select(0);
  if (running.empty())
    return 0u;
  // Interleave the candidates: clock and temperature change meanwhile. Do not use the least time:
  // it was measured before the power was capped.
  float least = once[running.front()];
  for (unsigned c : running)
    least = std::min(least, once[c]);
  running.erase(std::remove_if(running.begin(), running.end(),
                               [&](unsigned c) { return once[c] > 1.25f * least; }),
                running.end());
  int runs = least > 0 ? static_cast<int>(kTurn / least) : kMostRuns;
  runs = std::clamp(runs, 1, kMostRuns);
  std::vector<std::vector<float>> times(count);
  for (size_t turn = 0; turn < kTurns; ++turn)
    for (unsigned c : running) {
      candidate.plan->select(c);
      TANDEM_ASSIGN_OR_RETURN(float time, bench.time(candidate, runs));
      times[c].push_back(time);
    }
  auto median = [&](unsigned c) {
    auto middle = times[c].begin() + kTurns / 2;
    std::nth_element(times[c].begin(), middle, times[c].end());
    return *middle;
  };
  unsigned chosen = running.front();
  float best = median(chosen) * (chosen == 0 ? 0.99f : 1);
  for (unsigned c : running)
    if (float time = median(c); time < best) {
      chosen = c;
      best = time;
    }
  candidate.plan->select(0);
  return chosen;
}

} // namespace

Expected<unsigned> fastest(Toolbox &tools, const Candidate &candidate) {
  Bench bench(tools);
  return measure(bench, candidate);
}

Status warmUp(Toolbox &tools, const Candidate &candidate) {
  Bench bench(tools);
  TANDEM_RETURN_IF_ERROR(bench.open(candidate));
  TANDEM_RETURN_IF_ERROR(bench.run(candidate));
  return bench.finish();
}

//===----------------------------------------------------------------------===//
// Products in the order of K
//===----------------------------------------------------------------------===//

namespace {

/// Rows and columns of the two blocks of a result that are compared with the canonical product: the
/// first and the last ones.
constexpr int64_t kBlock = 32;

/// A product of m rows and n columns with the types, K and transpositions of `product`, dense.
Product sizedLike(const Product &product, int64_t m, int64_t n) {
  Product c;
  c.dtype = product.dtype;
  c.bType = product.bType;
  c.outType = product.outType;
  c.transposeA = product.transposeA;
  c.transposeB = product.transposeB;
  c.m = m;
  c.n = n;
  c.k = product.k;
  c.lda = alignedRow(c.transposeA ? m : c.k, c.dtype);
  c.ldb = alignedRow(c.transposeB ? c.k : n, c.dtype);
  c.ldo = alignedRow(n, c.outType);
  c.ordered = true;
  return c;
}

/// A matrix of `rows` x `columns` with `stride` elements from row to row.
Layout matrix(DType type, int64_t rows, int64_t columns, int64_t stride) {
  Layout layout = Layout::dense(type, {rows, columns});
  layout.strides[0] = stride;
  return layout;
}

/// Numbers whose products cancel, so that the result is nothing but the rounding of the sums, which
/// every order of addition leaves other bits of: terms k and k + K / 2 are the same number, in `b`
/// with another sign. A last term of odd K is 0.
class Cancelling {
public:
  explicit Cancelling(const Product &product) : product(product) {}

  /// Of `count` rows (of b: columns); the matrix is stored with K along its rows unless
  /// `transpose`d.
  std::vector<std::byte> make(int64_t count, int64_t stride, bool alongRows, bool isB) const {
    int64_t k = product.k, half = k / 2;
    std::vector<std::byte> bytes(static_cast<size_t>((alongRows ? count : k) * stride) *
                                 sizeOf(product.dtype));
    uint64_t state = isB ? 0xbf58476d1ce4e5b9ull : 0x9e3779b97f4a7c15ull;
    std::vector<float> line(static_cast<size_t>(k));
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t t = 0; t < half; ++t) {
        // Marsaglia, Xorshift RNGs, 2003.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        float size = 1 + static_cast<float>(state >> 41) / 8388608.0f;
        float value = std::ldexp(state & 1 ? size : -size, static_cast<int>(state >> 1 & 7) - 4);
        line[static_cast<size_t>(t)] = value;
        line[static_cast<size_t>(t + half)] = isB ? -value : value;
      }
      std::byte *first =
          bytes.data() + static_cast<size_t>(alongRows ? i * stride : i) * sizeOf(product.dtype);
      storeFromF32(product.dtype, line.data(), first, alongRows ? 1 : stride, k);
    }
    return bytes;
  }

private:
  const Product &product;
};

/// The canonical algorithm of a product, as a plan's first: what the library suggests for a large
/// product of these types, K and transpositions. On H200 it runs any M and N, with the same bits
/// (CudaLocal.Matmul.ordered-* of the conformance tests).
Expected<std::unique_ptr<ProductPlan>> planCanonical(Blas &blas, const Product &product) {
  constexpr int64_t kLarge = 4096;
  return blas.plan(sizedLike(product, kLarge, kLarge), 1);
}

/// Algorithms for operands with aligned rows must not run others.
bool hasAlignedRows(const Product &product) {
  int64_t strides = product.lda | product.ldb | product.strideA | product.strideB;
  int64_t out = product.ldo | product.strideOut;
  return product.alignment >= kRowBytes && strides * sizeOf(product.dtype) % kRowBytes == 0 &&
         out * sizeOf(product.outType) % kRowBytes == 0;
}

/// Compares algorithms of a product with the canonical one.
class Comparison {
public:
  Comparison(Toolbox &tools, Bench &bench, const Product &product, const Candidate &candidate)
      : tools(tools), bench(bench), product(product), candidate(candidate),
        rows(std::min(product.m, kBlock)), columns(std::min(product.n, kBlock)),
        small(sizedLike(product, rows, columns)) {}

  /// Computes what the candidates are compared with.
  Status prepare(Blas &blas, const ProductPlan &canonical) {
    TANDEM_ASSIGN_OR_RETURN(auto plan, blas.plan(small, 1));
    plan->select(plan->add(canonical));
    TANDEM_RETURN_IF_ERROR(bench.open(candidate));
    TANDEM_RETURN_IF_ERROR(bench.fill(candidate));
    TANDEM_RETURN_IF_ERROR(bench.finish());
    Cancelling numbers(product);
    auto bytes = numbers.make(rows, small.lda, !small.transposeA, /*isB=*/false);
    TANDEM_ASSIGN_OR_RETURN(Scratch a, upload(bytes));
    bytes = numbers.make(columns, small.ldb, small.transposeB, /*isB=*/true);
    TANDEM_ASSIGN_OR_RETURN(Scratch b, upload(bytes));
    TANDEM_ASSIGN_OR_RETURN(
        Scratch out,
        Scratch::make(tools.state, static_cast<uint64_t>(rows * small.ldo) * sizeOf(small.outType),
                      true));
    TANDEM_RETURN_IF_ERROR(bench.run(*plan, a.data(), b.data(), out.data()));
    TANDEM_RETURN_IF_ERROR(read(out.data(), small.ldo, 0, 0, expected));
    // The same numbers make the first and the last rows, and columns.
    for (bool last : {false, true}) {
      TANDEM_RETURN_IF_ERROR(place(a, small.lda, 0, product.lda, product.transposeA, rows,
                                   last ? product.m - rows : 0));
      TANDEM_RETURN_IF_ERROR(place(b, small.ldb, 1, product.ldb, !product.transposeB, columns,
                                   last ? product.n - columns : 0));
    }
    return Status();
  }

  /// Whether the selected algorithm gives the canonical bits.
  Expected<bool> agrees() {
    // What is added to the product (the old result, the bias) is 0.
    for (int k : {2, 3})
      TANDEM_RETURN_IF_ERROR(tools.driver().fill(bench.data(k), 0, candidate.bytes[k]));
    TANDEM_RETURN_IF_ERROR(bench.run(candidate));
    std::vector<std::byte> found;
    for (bool last : {false, true}) {
      // If the blocks overlap, the last one has overwritten a part of the first.
      if (!last && (product.m < 2 * rows || product.n < 2 * columns) &&
          (product.m != rows || product.n != columns))
        continue;
      TANDEM_RETURN_IF_ERROR(read(bench.data(2), product.ldo, last ? product.m - rows : 0,
                                  last ? product.n - columns : 0, found));
      if (found != expected)
        return false;
    }
    return true;
  }

private:
  Expected<Scratch> upload(const std::vector<std::byte> &bytes) {
    TANDEM_ASSIGN_OR_RETURN(Scratch memory, Scratch::make(tools.state, bytes.size(), true));
    TANDEM_RETURN_IF_ERROR(tools.driver().copy(memory.data(), bytes.data(), bytes.size()));
    return memory;
  }

  Status copy(void *to, const Layout &toLayout, const void *from, const Layout &fromLayout) {
    TANDEM_ASSIGN_OR_RETURN(CopyPlan plan, CopyPlan::make(*tools.kernels, toLayout, fromLayout));
    TANDEM_RETURN_IF_ERROR(plan.run(*tools.kernels, bench.native(), to, from));
    return bench.finish();
  }

  /// Copies `count` rows of a (columns of b) into operand `which` of the candidate, from `first`
  /// on. `across`: they are columns of what is stored.
  Status place(const Scratch &from, int64_t fromStride, int which, int64_t stride, bool across,
               int64_t count, int64_t first) {
    DType type = product.dtype;
    auto layout = [&](int64_t rowStride) {
      return across ? matrix(type, product.k, count, rowStride)
                    : matrix(type, count, product.k, rowStride);
    };
    auto *to = static_cast<std::byte *>(bench.data(which)) +
               static_cast<size_t>(across ? first : first * stride) * sizeOf(type);
    return copy(to, layout(stride), from.data(), layout(fromStride));
  }

  /// A block of a result.
  Status read(void *from, int64_t stride, int64_t row, int64_t column, std::vector<std::byte> &to) {
    DType type = product.outType;
    to.resize(static_cast<size_t>(rows * columns) * sizeOf(type));
    TANDEM_ASSIGN_OR_RETURN(Scratch dense, Scratch::make(tools.state, to.size(), true));
    TANDEM_RETURN_IF_ERROR(bench.finish());
    auto *first =
        static_cast<std::byte *>(from) + static_cast<size_t>(row * stride + column) * sizeOf(type);
    TANDEM_RETURN_IF_ERROR(copy(dense.data(), matrix(type, rows, columns, columns), first,
                                matrix(type, rows, columns, stride)));
    return tools.driver().copy(to.data(), dense.data(), to.size());
  }

  Toolbox &tools;
  Bench &bench;
  const Product &product;
  const Candidate &candidate;
  const int64_t rows, columns;
  const Product small;
  std::vector<std::byte> expected;
};

} // namespace

Status keepOrdered(Toolbox &tools, Blas &blas, const Product &product, const Candidate &candidate) {
  ProductPlan &plan = *candidate.plan;
  TANDEM_ASSIGN_OR_RETURN(auto canonical, planCanonical(blas, product));
  if (hasAlignedRows(product))
    plan.add(*canonical);
  std::vector<std::string> names;
  {
    std::lock_guard<std::mutex> lock(tools.mutex);
    if (auto known = tools.orderedAlgorithms.find(candidate.key);
        known != tools.orderedAlgorithms.end())
      names = known->second;
  }
  std::vector<unsigned> kept;
  if (!names.empty()) {
    for (unsigned c = 0; c < plan.candidates(); ++c)
      if (std::find(names.begin(), names.end(), plan.algorithm(c)) != names.end())
        kept.push_back(c);
  } else {
    Bench bench(tools);
    Comparison comparison(tools, bench, product, candidate);
    TANDEM_RETURN_IF_ERROR(comparison.prepare(blas, *canonical));
    for (unsigned c = 0; c < plan.candidates(); ++c) {
      plan.select(c);
      // An algorithm that fails on this GPU is no choice either.
      if (auto agrees = comparison.agrees(); agrees && *agrees) {
        kept.push_back(c);
        names.push_back(plan.algorithm(c));
      }
    }
  }
  if (kept.empty())
    return Status(Code::Unsupported,
                  fmt::format("none of the {} algorithms that {} suggests adds in the order of K, "
                              "as a deterministic program needs",
                              plan.candidates(), blas.version()));
  plan.keep(kept);
  std::lock_guard<std::mutex> lock(tools.mutex);
  tools.orderedAlgorithms.emplace(candidate.key, std::move(names));
  return Status();
}

void selectAlgorithm(ProductPlan &plan, const std::string &algorithm, const Log &log) {
  for (unsigned c = 0; c < plan.candidates(); ++c)
    if (plan.algorithm(c) == algorithm)
      return plan.select(c);
  log(LogLevel::Warning, "this rank's matrix library lacks the algorithm that another rank chose: "
                         "results may differ in their last bits");
}

namespace {

/// One rank's decisions: of each the algorithm, the device and the key.
using Decisions = std::vector<std::string>;

Expected<Decisions> decide(Toolbox &tools, const std::map<std::string, const Candidate *> &mine,
                           const std::string &cachePath) {
  AlgorithmCache cache;
  if (!cachePath.empty() && !mine.empty())
    cache = AlgorithmCache::read(cachePath, *tools.log);
  Decisions decided;
  Bench bench(tools);
  for (const auto &[key, candidate] : mine) {
    TANDEM_ASSIGN_OR_RETURN(Blas * blas, tools.matrixLibrary());
    const DeviceInfo &info = tools.driver().info();
    std::string device = fmt::format("{} {} {}", info.model, info.target, blas->version());
    const std::string *known = cache.find(device, key);
    bool usable = false;
    for (unsigned c = 0; known && c < candidate->plan->candidates(); ++c)
      usable = usable || candidate->plan->algorithm(c) == *known;
    std::string algorithm = usable ? *known : "";
    if (!usable) {
      TANDEM_ASSIGN_OR_RETURN(unsigned choice, measure(bench, *candidate));
      algorithm = candidate->plan->algorithm(choice);
    }
    decided.insert(decided.end(), {algorithm, device, key});
  }
  return decided;
}

/// Calls body(algorithm, device, key) for each decision of the ranks.
template <typename Body> void forEachDecision(const std::vector<std::string> &ranks, Body &&body) {
  for (const std::string &said : ranks) {
    Decisions decisions;
    if (core::decode(said, std::tie(decisions)))
      for (size_t i = 0; i + 2 < decisions.size(); i += 3)
        body(decisions[i], decisions[i + 1], decisions[i + 2]);
  }
}

/// A file that cannot be written does not stop the run.
void writeDown(const std::string &path, const std::vector<std::string> &decisions, const Log &log) {
  AlgorithmCache cache = AlgorithmCache::read(path, log);
  bool news = false;
  forEachDecision(decisions, [&](auto &algorithm, auto &device, auto &key) {
    news = cache.add(device, key, algorithm) || news;
  });
  Status status = news ? cache.write(path) : Status();
  if (!status.ok())
    log(LogLevel::Warning, status.message());
}

} // namespace

Status agreeOnAlgorithms(Toolbox &tools, Bootstrap &bootstrap) {
  std::vector<Candidate> candidates;
  {
    std::lock_guard<std::mutex> lock(tools.mutex);
    candidates.swap(tools.candidates);
  }
  const char *off = std::getenv("TANDEM_TUNE"), *path = std::getenv("TANDEM_ALGORITHMS");
  std::string cachePath = path ? path : "";
  bool tune = !off || *off != '0';
  // Small products keep the library's choice, which depends only on the problem.
  constexpr uint64_t kSmall = uint64_t(1) << 20;
  std::map<std::string, const Candidate *> mine;
  for (const Candidate &candidate : candidates)
    if (tune && candidate.plan->candidates() > 1 &&
        candidate.bytes[0] + candidate.bytes[1] + candidate.bytes[2] > kSmall)
      mine.emplace(candidate.key, &candidate);
  std::vector<std::string> keys;
  for (const auto &[key, candidate] : mine)
    keys.push_back(key);
  TANDEM_ASSIGN_OR_RETURN(auto all, allGatherStrings(bootstrap, core::encode(std::tie(keys))));
  tools.driver().releasePending(); // all ranks are here

  // The first rank that has a problem decides.
  for (uint32_t r = 0; r < bootstrap.rank(); ++r)
    if (core::decode(all[r], std::tie(keys)))
      for (const std::string &key : keys)
        mine.erase(key);
  auto decided = decide(tools, mine, cachePath);
  Decisions own = decided ? *decided : Decisions();
  TANDEM_ASSIGN_OR_RETURN(auto decisions, allGatherStrings(bootstrap, core::encode(std::tie(own))));
  if (!cachePath.empty() && bootstrap.rank() == 0)
    writeDown(cachePath, decisions, *tools.log);
  std::map<std::string, std::string> choices;
  forEachDecision(decisions,
                  [&](auto &algorithm, auto &, auto &key) { choices.emplace(key, algorithm); });
  for (const Candidate &candidate : candidates)
    if (auto found = choices.find(candidate.key); found != choices.end()) {
      selectAlgorithm(*candidate.plan, found->second, *tools.log);
      TANDEM_RETURN_IF_ERROR(warmUp(tools, candidate));
    }
  std::lock_guard<std::mutex> lock(tools.mutex);
  tools.choices.insert(choices.begin(), choices.end());
  return decided.status();
}

} // namespace tandem::gpu
