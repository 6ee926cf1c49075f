//===- Programs.cpp - small correct programs, to be broken ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Programs.h"

#include <algorithm>
#include <cstdio>
#include <map>

namespace tandem::check {

Basic::Basic(uint32_t ranks, int64_t rows) : ProgramSpec(ranks) {
  if (rows == 0)
    rows = ranks;
  stacked("x", false, DType::F32, {4});
  stacked("y", true, DType::F32, {rows, 4});
  for (RankSpec &rank : this->ranks) {
    uint32_t bufferX = rank.argument(0, kBytes);
    uint32_t bufferY = rank.argument(1, kBytes * static_cast<uint64_t>(rows));
    x.push_back(rank.view(bufferX, DType::F32, {4}));
    y.push_back(rank.view(bufferY, DType::F32, {rows, 4}));
    row.emplace_back();
    for (int64_t i = 0; i < rows; ++i)
      row.back().push_back(rank.view(bufferY, DType::F32, {4}, kBytes * static_cast<uint64_t>(i)));
  }
}

static std::vector<uint32_t> everyone(uint32_t ranks) {
  std::vector<uint32_t> group;
  for (uint32_t r = 0; r < ranks; ++r)
    group.push_back(r);
  return group;
}

ProgramSpec exchange(uint32_t ranks) {
  Basic spec(ranks);
  for (uint32_t r = 0; r < ranks; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint16_t channel = rank.channel(everyone(ranks));
    rank.sync(1, 0);
    rank.sync(2, 0);
    rank.copy(1, spec.row[r][r], spec.x[r]);
    for (uint32_t i = 1; i < ranks; ++i) {
      uint32_t to = (r + ranks - i) % ranks, from = (r + i) % ranks;
      rank.group(2, channel, 2);
      rank.send(2, channel, spec.x[r], to, 0);
      rank.recv(2, channel, spec.row[r][from], from, 0);
    }
    rank.sync(0, 1);
    rank.sync(0, 2);
  }
  return spec;
}

ProgramSpec gathered(uint32_t ranks) {
  Basic spec(ranks);
  for (uint32_t r = 0; r < ranks; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint16_t channel = rank.channel(everyone(ranks));
    uint32_t staging = rank.view(rank.arena(kBytes * ranks), DType::F32, {ranks, 4});
    rank.sync(1, 0);
    rank.collective(1, channel, CollectiveKind::AllGather, staging, spec.x[r]);
    rank.copy(1, spec.y[r], staging);
    rank.collective(1, channel, CollectiveKind::AllReduce, spec.y[r], spec.y[r]);
    rank.sync(0, 1);
  }
  return spec;
}

ProgramSpec push(uint32_t ranks) {
  Basic spec(ranks);
  for (uint32_t r = 0; r < ranks; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint16_t channel = rank.channel(everyone(ranks));
    uint32_t buffer = rank.symmetric(kBytes * ranks);
    std::vector<uint32_t> slot;
    for (uint32_t i = 0; i < ranks; ++i)
      slot.push_back(rank.view(buffer, DType::F32, {4}, kBytes * i));
    rank.slots.assign(ranks, 1);
    rank.sync(1, 0);
    rank.sync(2, 0);
    for (uint32_t i = 1; i < ranks; ++i) {
      uint32_t to = (r + i) % ranks;
      rank.put(1, channel, slot[r], spec.x[r], to);
      rank.signal(1, channel, to, r, 1);
    }
    rank.copy(2, spec.row[r][r], spec.x[r]);
    for (uint32_t i = 1; i < ranks; ++i) {
      uint32_t from = (r + ranks - i) % ranks;
      rank.waitSignal(2, channel, from, 1);
      rank.copy(2, spec.row[r][from], slot[from]);
    }
    rank.sync(0, 1);
    rank.sync(0, 2);
  }
  return spec;
}

ProgramSpec credited() {
  Basic spec(2, 2);
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint16_t channel = rank.channel({0, 1});
    uint32_t place = rank.view(rank.symmetric(kBytes), DType::F32, {4});
    rank.slots = {2, 1};
    if (r == 0) {
      rank.put(0, channel, place, spec.x[0], 1);
      rank.signal(0, channel, 1, 0, 1);
      rank.copy(0, spec.row[0][0], spec.x[0]);
      rank.waitSignal(0, channel, 1, 1);
      rank.put(0, channel, place, spec.x[0], 1);
      rank.signal(0, channel, 1, 0, 2);
      rank.copy(0, spec.row[0][1], spec.x[0]);
    } else {
      rank.waitSignal(0, channel, 0, 1);
      rank.copy(0, spec.row[1][0], place);
      rank.signal(0, channel, 0, 1, 1);
      rank.waitSignal(0, channel, 0, 2);
      rank.copy(0, spec.row[1][1], place);
    }
  }
  return spec;
}

ProgramSpec doubleBuffered() {
  Basic spec(1, 4);
  RankSpec &rank = spec.ranks[0];
  uint32_t buffer[2];
  for (uint32_t &view : buffer)
    view = rank.view(rank.arena(kBytes), DType::F32, {4});
  rank.sync(1, 0);
  rank.sync(2, 0);
  uint32_t freed[2] = {0, 0};
  for (uint32_t i = 0; i < 4; ++i) {
    if (i >= 2)
      rank.wait(1, freed[i % 2]);
    rank.copy(1, buffer[i % 2], spec.x[0]);
    rank.sync(2, 1);
    rank.copy(2, spec.row[0][i], buffer[i % 2]);
    freed[i % 2] = rank.record(2);
  }
  rank.sync(0, 2);
  return spec;
}

size_t nth(const ProgramSpec &spec, uint32_t rank, Kind kind, size_t n) {
  const std::vector<CommandSpec> &commands = spec.ranks[rank].commands;
  for (size_t i = 0; i < commands.size(); ++i)
    if (commands[i].kind == kind && n-- == 0)
      return i;
  ADD_FAILURE() << "no such command";
  return 0;
}

CommandSpec &command(ProgramSpec &spec, uint32_t rank, Kind kind, size_t n) {
  return spec.ranks[rank].commands[nth(spec, rank, kind, n)];
}

void drop(ProgramSpec &spec, uint32_t rank, Kind kind, size_t n) {
  std::vector<CommandSpec> &commands = spec.ranks[rank].commands;
  size_t at = nth(spec, rank, kind, n);
  if (kind == Kind::send || kind == Kind::recv) {
    size_t head = at;
    while (commands[head].kind != Kind::group)
      --head;
    --commands[head].aux;
  }
  commands.erase(commands.begin() + static_cast<ptrdiff_t>(at));
}

void swapCommands(ProgramSpec &spec, uint32_t rank, size_t a, size_t b) {
  std::swap(spec.ranks[rank].commands[a], spec.ranks[rank].commands[b]);
}

Report run(const ProgramSpec &spec, const CheckOptions &options, std::string *text) {
  auto file = ProgramFile::fromMemory(spec.encode());
  if (!file) {
    ADD_FAILURE() << file.status().message();
    return {};
  }
  auto world = replay::World::load(**file);
  if (!world) {
    ADD_FAILURE() << world.status().message();
    return {};
  }
  Report report = check(**world, options);
  if (text)
    *text = toText(**world, report);
  return report;
}

namespace {

/// What the tests break: per diagnosis, the tests in which it came, and no other error.
class Catalogue : public testing::Environment {
public:
  void add(const std::set<std::string> &names) {
    found.insert(names.begin(), names.end());
    const testing::TestInfo *test = testing::UnitTest::GetInstance()->current_test_info();
    if (names.size() != 1 || !test)
      return;
    std::string name = std::string(test->test_suite_name()) + "." + test->name();
    if (causes.emplace(name, *names.begin()).second)
      ++counts[*names.begin()];
  }

  void TearDown() override {
    const testing::UnitTest &all = *testing::UnitTest::GetInstance();
    if (all.test_to_run_count() != all.total_test_count())
      return;
    for (const auto &[name, diagnosis] : causes)
      std::printf("broken: %-45s %s\n", name.c_str(), diagnosis.c_str());
    unsigned errors = 0;
    for (unsigned d = 0; d < kNumDiagnoses; ++d) {
      auto diagnosis = static_cast<Diagnosis>(d);
      unsigned count = counts[std::string(toString(diagnosis))];
      EXPECT_TRUE(found.count(std::string(toString(diagnosis)))) << toString(diagnosis);
      errors += isLint(diagnosis) ? 0 : count;
    }
    std::printf("%u tests break a program in one way, which is an error\n", errors);
    EXPECT_GE(errors, 60u);
  }

private:
  std::map<std::string, std::string> causes; ///< the first diagnosis of each test
  std::map<std::string, unsigned> counts;    ///< tests, by diagnosis
  std::set<std::string> found;               ///< diagnoses, also those that came with others
};

auto *const catalogue = static_cast<Catalogue *>(testing::AddGlobalTestEnvironment(new Catalogue));

} // namespace

std::set<std::string> diagnoses(const Report &report) {
  std::set<std::string> names;
  for (unsigned d = 0; d < kNumDiagnoses; ++d)
    if (report.counts[d])
      names.emplace(toString(static_cast<Diagnosis>(d)));
  catalogue->add(names);
  return names;
}

void expectOnly(const ProgramSpec &spec, const std::set<std::string> &names,
                const CheckOptions &options) {
  std::string text;
  Report report = run(spec, options, &text);
  EXPECT_EQ(diagnoses(report), names) << text;
  if (names.empty()) {
    EXPECT_TRUE(report.limits.empty()) << text;
    EXPECT_EQ(report.data.substr(0, 4) != "not ", spec.reference.has_value()) << text;
  }
}

} // namespace tandem::check
