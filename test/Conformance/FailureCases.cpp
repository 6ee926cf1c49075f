//===- FailureCases.cpp - ranks that leave, stall or disagree ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OneRank.h"

#include "tandem/Runtime/Channel.h"

namespace tandem::test {

namespace {

/// All wait for a message of the last rank, on a worker stream that the main stream waits for.
Scenario messages(uint32_t ranks) {
  Scenario scenario(ranks);
  scenario.resize(1);
  scenario.runs = 1;
  scenario.timeout = std::chrono::milliseconds(700);
  for (uint32_t r = 0; r < ranks; ++r) {
    RankSpec &rank = scenario.spec.ranks[r];
    uint32_t view = rank.view(rank.arena(64 * ranks), DType::F32, {8}, r * 64u);
    uint16_t ch = rank.channel(everybody(ranks), TwoSided);
    rank.sync(1, 0);
    if (r + 1 < ranks) {
      rank.group(1, ch, 1);
      rank.recv(1, ch, view, ranks - 1, 0);
    } else {
      rank.group(1, ch, ranks - 1);
      for (uint32_t peer = 0; peer + 1 < ranks; ++peer)
        rank.send(1, ch, view, peer, 0);
    }
    rank.sync(0, 1);
  }
  scenario.failsWith = {"command 2 (group: recv from rank " + std::to_string(ranks - 1)};
  return scenario;
}

Scenario signals(uint32_t ranks) {
  Scenario scenario(ranks);
  scenario.resize(1);
  scenario.runs = 1;
  scenario.timeout = std::chrono::milliseconds(700);
  for (uint32_t r = 0; r < ranks; ++r) {
    RankSpec &rank = scenario.spec.ranks[r];
    uint16_t ch = rank.channel(everybody(ranks), OneSided);
    rank.slots = {1};
    if (r + 1 == ranks)
      for (uint32_t peer = 0; peer + 1 < ranks; ++peer)
        rank.signal(0, ch, peer, 0, 1);
    else
      rank.waitSignal(0, ch, 0, 1);
  }
  scenario.failsWith = {"command 0 (wait_signal slot 0 value 1"};
  return scenario;
}

/// Both wait for the other. The one that gives up first has a signal behind its wait: it must not
/// raise it, or the other's run ends well on data that nobody has sent.
Scenario eachOther(bool exclusive) {
  Scenario scenario(2);
  scenario.resize(1);
  scenario.runs = 1;
  scenario.timeout = std::chrono::milliseconds(700);
  scenario.patience = {1, 3};
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = scenario.spec.ranks[r];
    uint16_t ch = rank.channel({0, 1}, OneSided);
    rank.slots = {1, 1};
    uint32_t dst = rank.view(rank.symmetric(64), DType::F32, {16});
    rank.waitSignal(0, ch, r, 1);
    rank.put(0, ch, dst, rank.view(rank.arena(64), DType::F32, {16}), 1 - r);
    rank.signal(0, ch, 1 - r, 1 - r, 1, exclusive);
  }
  scenario.failsWith = {"(wait_signal slot"};
  return scenario;
}

Scenario collectives(uint32_t ranks) {
  Scenario scenario(ranks);
  scenario.resize(1);
  scenario.runs = 1;
  scenario.timeout = std::chrono::milliseconds(700);
  for (RankSpec &rank : scenario.spec.ranks) {
    uint16_t ch = rank.channel(everybody(ranks), Collectives);
    uint32_t view = rank.view(rank.arena(32), DType::F32, {8});
    rank.collective(0, ch, CollectiveKind::AllReduce, view, view);
  }
  scenario.failsWith = {"command 0 (collective all_reduce"};
  return scenario;
}

/// Rank 0 sends one element more than rank 1 expects.
Scenario sizes() {
  Scenario scenario = messages(2);
  scenario.spec.ranks[1].layouts[0].shape = {9};
  scenario.mayPass = {1};
  scenario.failsWith = {"command 2 (group"};
  return scenario;
}

/// A put beyond the peer's symmetric memory, which is smaller there: refused when prepared, by all
/// ranks.
Scenario smallPeer() {
  Scenario scenario(2);
  scenario.resize(1);
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = scenario.spec.ranks[r];
    uint16_t ch = rank.channel({0, 1}, OneSided);
    uint32_t dst = rank.view(rank.symmetric(r == 0 ? 256 : 64), DType::F32, {r == 0 ? 64 : 16});
    if (r == 0)
      rank.put(0, ch, dst, rank.view(rank.arena(256), DType::F32, {64}), 1);
  }
  scenario.failsWith = {"command 0 (put to rank 1"};
  return scenario;
}

/// Rank 0 gives up well before the others do: what it then no longer waits for, and hands on, must
/// not be a result to them.
Scenario earlyOne(uint32_t ranks) {
  Scenario scenario = collectives(ranks);
  scenario.patience.assign(ranks, 2);
  scenario.patience[0] = 1;
  return scenario;
}

Scenario with(Scenario scenario, bool leaves) {
  auto last = static_cast<uint32_t>(scenario.spec.ranks.size() - 1);
  (leaves ? scenario.leavers : scenario.stallers).push_back(last);
  return scenario;
}

} // namespace

void addFailureCases(Cases &cases) {
  for (bool leaves : {true, false}) {
    std::string how = leaves ? "leaves" : "stalls";
    cases.push_back({"Failure.rank-" + how + ".recv", {2, 4}, TwoSided, [=](uint32_t p) {
                       return with(messages(p), leaves);
                     }});
    cases.push_back({"Failure.rank-" + how + ".wait-signal", {2, 3}, OneSided, [=](uint32_t p) {
                       return with(signals(p), leaves);
                     }});
    cases.push_back({"Failure.rank-" + how + ".collective", {2, 4}, Collectives, [=](uint32_t p) {
                       return with(collectives(p), leaves);
                     }});
  }
  cases.push_back({"Failure.early-one.collective", {3, 4}, Collectives, [](uint32_t p) {
                     return with(earlyOne(p), false);
                   }});
  cases.push_back({"Failure.sizes-differ", {2}, TwoSided, [](uint32_t) { return sizes(); }});
  for (bool exclusive : {false, true})
    cases.push_back({exclusive ? "Failure.each-other.exclusive" : "Failure.each-other",
                     {2},
                     OneSided,
                     [=](uint32_t) { return eachOther(exclusive); }});
  cases.push_back({"Failure.peer-too-small", {2}, OneSided, [](uint32_t) { return smallPeer(); }});
}

} // namespace tandem::test
