//===- Tuning.cpp - which algorithm multiplies ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AlgorithmCache.h"
#include "GpuDevice.h"

#include "tandem/Runtime/Launch.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <sstream>

namespace tandem::gpu {

namespace {

/// Memory and a stream to try plans on.
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
      TANDEM_ASSIGN_OR_RETURN(workspace, Scratch::make(tools.state, kWorkspaceBytes));
    }
    for (int k = 0; k < 4; ++k)
      if (memory[k].size() < candidate.bytes[k]) {
        TANDEM_ASSIGN_OR_RETURN(memory[k], Scratch::make(tools.state, candidate.bytes[k]));
        // Small numbers that are not zero: on zeros a matmul draws less power and runs faster.
        TANDEM_RETURN_IF_ERROR(driver.fill(memory[k].data(), 0x3c, candidate.bytes[k]));
      }
    return Status();
  }

  Status run(const Candidate &candidate) {
    return candidate.plan->run(stream, workspace.data(), memory[0].data(), memory[1].data(),
                               memory[2].data(), memory[3].data());
  }

  Status finish() {
    for (Backoff backoff;; backoff.pause()) {
      bool done = false;
      TANDEM_RETURN_IF_ERROR(tools.driver().queryStream(stream, &done));
      if (done)
        return Status();
    }
  }

  /// Milliseconds of one run.
  Expected<float> time(const Candidate &candidate) {
    Driver &driver = tools.driver();
    TANDEM_RETURN_IF_ERROR(driver.record(from, stream));
    TANDEM_RETURN_IF_ERROR(run(candidate));
    TANDEM_RETURN_IF_ERROR(driver.record(to, stream));
    TANDEM_RETURN_IF_ERROR(finish());
    float milliseconds = 0;
    TANDEM_RETURN_IF_ERROR(driver.elapsed(from, to, &milliseconds));
    return milliseconds;
  }

private:
  Toolbox &tools;
  StreamHandle stream = nullptr;
  EventHandle from = nullptr, to = nullptr;
  Scratch workspace, memory[4];
};

/// The fastest; the library's own choice unless another is clearly faster.
Expected<unsigned> measure(Bench &bench, const Candidate &candidate) {
  unsigned count = candidate.plan->candidates();
  std::vector<float> best(count, 1e30f);
  TANDEM_RETURN_IF_ERROR(bench.open(candidate));
  // In turns: clocks and temperature change while this runs.
  for (int round = 0; round < 5; ++round)
    for (unsigned c = 0; c < count; ++c) {
      candidate.plan->select(c);
      auto time = bench.time(candidate);
      if (time)
        best[c] = round == 0 ? 1e29f : std::min(best[c], *time); // the first loads its kernels
    }
  candidate.plan->select(0);
  unsigned chosen = 0;
  for (unsigned c = 1; c < count; ++c)
    if (best[c] < 0.97f * best[chosen])
      chosen = c;
  return chosen;
}

} // namespace

Status warmUp(Toolbox &tools, const Candidate &candidate) {
  Bench bench(tools);
  TANDEM_RETURN_IF_ERROR(bench.open(candidate));
  TANDEM_RETURN_IF_ERROR(bench.run(candidate));
  return bench.finish();
}

void selectAlgorithm(ProductPlan &plan, const std::string &algorithm) {
  for (unsigned c = 0; c < plan.candidates(); ++c)
    if (plan.algorithm(c) == algorithm)
      return plan.select(c);
  fmt::print(stderr, "tandem: this rank's matrix library lacks an algorithm that another rank has "
                     "chosen: results may differ in their last bits\n");
}

namespace {

/// What one rank has decided: lines "ALGORITHM<tab>DEVICE<tab>KEY".
Expected<std::string> decide(Toolbox &tools, const std::map<std::string, const Candidate *> &mine,
                             const std::string &cachePath) {
  AlgorithmCache cache;
  if (!cachePath.empty() && !mine.empty())
    cache = AlgorithmCache::read(cachePath);
  std::string decided;
  Bench bench(tools);
  for (const auto &[key, candidate] : mine) {
    TANDEM_ASSIGN_OR_RETURN(Blas * blas, tools.matrixLibrary());
    const DeviceInfo &info = tools.driver().info();
    std::string device = fmt::format("{} sm_{} {}", info.model, info.architecture, blas->version());
    const std::string *known = cache.find(device, key);
    bool usable = false;
    for (unsigned c = 0; known && c < candidate->plan->candidates(); ++c)
      usable = usable || candidate->plan->algorithm(c) == *known;
    std::string algorithm = usable ? *known : "";
    if (!usable) {
      TANDEM_ASSIGN_OR_RETURN(unsigned choice, measure(bench, *candidate));
      algorithm = candidate->plan->algorithm(choice);
    }
    decided += fmt::format("{}\t{}\t{}\n", algorithm, device, key);
  }
  return decided;
}

/// Not being able to write it down is no reason not to run.
void writeDown(const std::string &path, const std::vector<std::string> &decisions) {
  AlgorithmCache cache = AlgorithmCache::read(path);
  bool news = false;
  for (const std::string &lines : decisions) {
    std::istringstream in(lines);
    for (std::string algorithm, device, key; std::getline(in, algorithm, '\t') &&
                                             std::getline(in, device, '\t') &&
                                             std::getline(in, key);)
      news = cache.add(device, key, algorithm) || news;
  }
  Status status = news ? cache.write(path) : Status();
  if (!status.ok())
    fmt::print(stderr, "tandem: {}\n", status.message());
}

} // namespace

Status agreeOnAlgorithms(Toolbox &tools, Launch &launch) {
  std::vector<Candidate> candidates;
  {
    std::lock_guard<std::mutex> lock(tools.mutex);
    candidates.swap(tools.candidates);
  }
  const char *off = std::getenv("TANDEM_TUNE"), *path = std::getenv("TANDEM_ALGORITHMS");
  std::string cachePath = path ? path : "";
  bool tune = !off || *off != '0';
  // Products too small to differ keep the library's choice, which depends on the problem alone.
  constexpr uint64_t kSmall = uint64_t(1) << 20;
  std::map<std::string, const Candidate *> mine;
  for (const Candidate &candidate : candidates)
    if (tune && candidate.plan->candidates() > 1 &&
        candidate.bytes[0] + candidate.bytes[1] + candidate.bytes[2] > kSmall)
      mine.emplace(candidate.key, &candidate);
  std::string text;
  for (const auto &[key, candidate] : mine)
    text += key + "\n";
  TANDEM_ASSIGN_OR_RETURN(auto all, allGatherStrings(launch, text));

  // The first rank that has a problem decides.
  for (uint32_t r = 0; r < launch.rank(); ++r) {
    std::istringstream in(all[r]);
    for (std::string key; std::getline(in, key);)
      mine.erase(key);
  }
  auto decided = decide(tools, mine, cachePath);
  TANDEM_ASSIGN_OR_RETURN(auto decisions, allGatherStrings(launch, decided ? *decided : ""));
  if (!cachePath.empty() && launch.rank() == 0)
    writeDown(cachePath, decisions);
  std::map<std::string, std::string> choices;
  for (const std::string &lines : decisions) {
    std::istringstream in(lines);
    for (std::string algorithm, device, key; std::getline(in, algorithm, '\t') &&
                                             std::getline(in, device, '\t') &&
                                             std::getline(in, key);)
      choices.emplace(key, algorithm);
  }
  for (const Candidate &candidate : candidates)
    if (auto found = choices.find(candidate.key); found != choices.end()) {
      selectAlgorithm(*candidate.plan, found->second);
      TANDEM_RETURN_IF_ERROR(warmUp(tools, candidate));
    }
  std::lock_guard<std::mutex> lock(tools.mutex);
  tools.choices.insert(choices.begin(), choices.end());
  return decided.status();
}

} // namespace tandem::gpu
