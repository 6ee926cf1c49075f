//===- StreamCases.cpp - streams and events ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OneRank.h"

namespace tandem::test {

namespace {

/// Streams hand a value on, one after the other: each adds the input to the arena.
Scenario chain(uint16_t streams, unsigned rounds) {
  OneRank one;
  Tensor x = dense(DType::I32, {64});
  uint32_t xv = one.input(x, 1);
  Tensor out = dense(DType::I32, {64});
  uint32_t ov = one.output(out, false);
  RankSpec &rank = one.rank();
  uint32_t sum = rank.view(rank.arena(256), DType::I32, {64});
  rank.copy(0, sum, xv);
  uint16_t last = 0;
  for (unsigned round = 0; round < rounds; ++round)
    for (uint16_t s = 1; s < streams; ++s) {
      rank.sync(s, last);
      rank.add(sp::CommandKind::accumulate, s, {sum, xv});
      last = s;
    }
  rank.sync(0, last);
  rank.copy(0, ov, sum);
  for (size_t i = 0; i < 64; ++i)
    out.values[i] = x.values[i] * (1 + rounds * (streams - 1));
  Scenario scenario = one.finish(out);
  scenario.runs = 5;
  return scenario;
}

/// The main stream forks; each worker fills its part; all join.
Scenario fork(uint16_t streams, bool pipelined) {
  OneRank one;
  Tensor x = dense(DType::F32, {1000});
  uint32_t xv = one.input(x, 1);
  Tensor out = dense(DType::F32, {streams, 1000});
  one.output(out, false);
  RankSpec &rank = one.rank();
  auto buffer = static_cast<uint32_t>(rank.buffers.size() - 1);
  uint32_t start = rank.record(0);
  for (uint16_t s = 1; s <= streams; ++s) {
    rank.wait(s, start);
    rank.copy(s, rank.view(buffer, DType::F32, {1000}, (s - 1) * 4000u), xv);
  }
  for (uint16_t s = 1; s <= streams; ++s)
    rank.sync(0, s);
  for (int64_t s = 0; s < streams; ++s)
    for (int64_t i = 0; i < 1000; ++i)
      out.at({s, i}) = x.at({i});
  Scenario scenario = one.finish(out);
  scenario.runs = 10;
  scenario.pipelined = pipelined;
  return scenario;
}

/// A stream waits for an event that its own earlier work recorded, and twice for the same.
Scenario sameStream() {
  OneRank one;
  Tensor x = dense(DType::F32, {8});
  uint32_t xv = one.input(x, 1);
  Tensor out = dense(DType::F32, {8});
  uint32_t ov = one.output(out, false);
  RankSpec &rank = one.rank();
  uint32_t event = rank.record(0);
  rank.wait(0, event);
  rank.wait(0, event);
  rank.copy(0, ov, xv);
  rank.record(0); // nobody waits
  out.values = x.values;
  return one.finish(out);
}

} // namespace

void addStreamCases(Cases &cases) {
  cases.push_back({"Streams.chain", {1}, 0, [](uint32_t) { return chain(5, 20); }});
  cases.push_back({"Streams.fork", {1}, 0, [](uint32_t) { return fork(6, false); }});
  cases.push_back({"Streams.fork-pipelined", {1}, 0, [](uint32_t) { return fork(6, true); }});
  cases.push_back({"Streams.by-turns", {1}, 0, [](uint32_t) {
                     Scenario scenario = chain(3, 8);
                     scenario.byTurns = true;
                     return scenario;
                   }});
  cases.push_back({"Streams.same", {1}, 0, [](uint32_t) { return sameStream(); }});
  cases.push_back({"Streams.nothing", {1, 3}, 0, [](uint32_t ranks) {
                     Scenario scenario(ranks);
                     scenario.resize(1);
                     return scenario;
                   }});
}

} // namespace tandem::test
