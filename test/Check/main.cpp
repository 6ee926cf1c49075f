//===- main.cpp - check-mutants: what the checker finds in broken programs ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Mutants.h"

#include "tandem/Replay/Check.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr const char *kUsage = R"(usage: check-mutants [options] program.tsp...

Breaks each program in one place in many ways, and counts what the reader refuses, what the checker
finds, what only its lint warns of, and what is let through.

  --sample=N        mutants per program, chosen at random (default: all)
  --seed=S          of the choice (default 1)
  --kind=TEXT       only mutations whose names contain this ("signal")
  --data=STEPS      the checker's budget for data
  --warned          what only lint warns of is let through, too
  --survivors=DIR   writes what is let through there, and a line per file to DIR/survivors.txt
  --list            prints what is let through

exit status: 0, or 2 for bad arguments or if a program is not correct to begin with
)";

struct Outcome {
  uint64_t refused = 0, caught = 0, warned = 0, survived = 0;
};

struct Campaign {
  size_t sample = ~size_t(0);
  uint64_t seed = 1, dataSteps = 0;
  std::string survivors;
  std::string onlyKind;
  bool list = false, warned = false;
  std::map<std::string, Outcome> byKind;
  Outcome total;
  unsigned written = 0;

  int run(const std::string &path);
  void judge(const std::string &path, const std::string &file, uint32_t rank, const Mutant &mutant);
  void letThrough(const std::string &path, const std::string &bytes, const Mutant &mutant);
  /// Mutants of a rank that are asked for at all.
  void forEach(const Program &program, const std::function<void(const Mutant &)> &body) const {
    forEachMutant(program, [&](const Mutant &mutant) {
      if (mutant.kind.find(onlyKind) != mutant.kind.npos)
        body(mutant);
    });
  }

  check::Report original; ///< of the program that is being broken
};

/// Reads, checks; false if it is refused.
bool checkBytes(const std::string &bytes, uint64_t dataSteps, check::Report &report,
                std::string &why) {
  auto file = ProgramFile::fromMemory(bytes);
  Status status = file.status();
  if (file) {
    auto world = replay::World::load(**file);
    status = world.status();
    if (world) {
      check::CheckOptions options;
      options.lint = true;
      if (dataSteps)
        options.dataSteps = dataSteps;
      report = check::check(**world, options);
      why = toText(**world, report);
      return true;
    }
  }
  why = status.message();
  return false;
}

void Campaign::judge(const std::string &path, const std::string &file, uint32_t rank,
                     const Mutant &mutant) {
  std::string bytes = replaceLists(file, rank, mutant.lists), why;
  check::Report report;
  Outcome &kind = byKind[mutant.kind];
  if (!checkBytes(bytes, dataSteps, report, why)) {
    ++kind.refused;
    ++total.refused;
    return;
  }
  if (report.hasErrors()) {
    ++kind.caught;
    ++total.caught;
    return;
  }
  for (unsigned d = 0; d < check::kNumDiagnoses; ++d)
    if (report.counts[d] > original.counts[d]) {
      ++kind.warned;
      ++total.warned;
      if (warned)
        letThrough(path, bytes, mutant);
      return;
    }
  ++kind.survived;
  ++total.survived;
  letThrough(path, bytes, mutant);
}

void Campaign::letThrough(const std::string &path, const std::string &bytes, const Mutant &mutant) {
  std::string line = fmt::format("{}: {}, {}", path, mutant.kind, mutant.detail);
  if (list)
    fmt::print("  {}\n", line);
  if (survivors.empty())
    return;
  std::string name = fmt::format("{}/mutant{}.tsp", survivors, written++);
  std::ofstream(name, std::ios::binary) << bytes;
  std::ofstream(survivors + "/survivors.txt", std::ios::app) << name << '\t' << line << '\n';
}

int Campaign::run(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream buffer;
  buffer << in.rdbuf();
  std::string file = buffer.str(), why;
  if (!in || !checkBytes(file, dataSteps, original, why) || original.hasErrors()) {
    fmt::print(stderr, "check-mutants: {}: not correct to begin with\n{}\n", path, why);
    return 2;
  }
  auto opened = ProgramFile::fromMemory(file);
  // First count, then take some of them.
  std::vector<std::pair<uint32_t, size_t>> places;
  std::vector<std::shared_ptr<const Program>> ranks;
  for (uint32_t r = 0; r < (*opened)->numRanks(); ++r) {
    ranks.push_back(*(*opened)->rankProgram(r));
    size_t n = 0;
    forEach(*ranks[r], [&](const Mutant &) { places.emplace_back(r, n++); });
  }
  std::mt19937_64 random(seed);
  std::shuffle(places.begin(), places.end(), random);
  places.resize(std::min(places.size(), sample));
  std::vector<std::vector<bool>> chosen(ranks.size());
  for (auto [r, n] : places) {
    if (chosen[r].size() <= n)
      chosen[r].resize(n + 1);
    chosen[r][n] = true;
  }
  for (uint32_t r = 0; r < ranks.size(); ++r) {
    size_t n = 0;
    forEach(*ranks[r], [&](const Mutant &mutant) {
      if (n < chosen[r].size() && chosen[r][n])
        judge(path, file, r, mutant);
      ++n;
    });
  }
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  Campaign campaign;
  std::vector<std::string> paths;
  for (int i = 1; i < argc; ++i) {
    std::string arg = argv[i];
    auto value = [&](const char *flag) {
      std::string prefix = std::string(flag) + "=";
      return arg.rfind(prefix, 0) == 0 ? arg.substr(prefix.size()) : std::string();
    };
    if (arg == "--help") {
      fmt::print("{}", kUsage);
      return 0;
    }
    if (std::string text = value("--sample"); !text.empty())
      campaign.sample = std::strtoull(text.c_str(), nullptr, 10);
    else if (std::string text = value("--seed"); !text.empty())
      campaign.seed = std::strtoull(text.c_str(), nullptr, 10);
    else if (std::string text = value("--survivors"); !text.empty())
      campaign.survivors = text;
    else if (std::string text = value("--data"); !text.empty())
      campaign.dataSteps = std::strtoull(text.c_str(), nullptr, 10);
    else if (std::string text = value("--kind"); !text.empty())
      campaign.onlyKind = text;
    else if (arg == "--warned")
      campaign.warned = true;
    else if (arg == "--list")
      campaign.list = true;
    else if (arg[0] == '-')
      return fmt::print(stderr, "{}", kUsage), 2;
    else
      paths.push_back(arg);
  }
  if (paths.empty())
    return fmt::print(stderr, "{}", kUsage), 2;
  for (const std::string &path : paths)
    if (int code = campaign.run(path))
      return code;
  campaign.byKind["all"] = campaign.total;
  fmt::print("{:<32} {:>8} {:>8} {:>8} {:>8}\n", "mutation", "refused", "caught", "warned",
             "survived");
  for (const auto &[kind, outcome] : campaign.byKind)
    fmt::print("{:<32} {:>8} {:>8} {:>8} {:>8}\n", kind, outcome.refused, outcome.caught,
               outcome.warned, outcome.survived);
  return 0;
}
