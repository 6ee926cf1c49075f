//===- SampleProgram.cpp - a valid program that has everything ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SampleProgram.h"

#include "tandem/Program/Program.h"

#include <gtest/gtest.h>

namespace tandem::test {

ProgramSpec sampleProgram() {
  constexpr DType f32 = DType::F32;
  ProgramSpec spec(2);
  spec.name = "sample";
  uint32_t x = spec.stacked("x", false, f32, {4, 8});
  uint32_t y = spec.stacked("y", true, f32, {4, 8});
  for (RankSpec &rank : spec.ranks) {
    uint32_t peer = 1 - rank.rank;
    uint32_t xb = rank.argument(x, 128), yb = rank.argument(y, 128);
    uint32_t ab = rank.arena(128), bb = rank.arena(256), cb = rank.arena(256), db = rank.arena(64);
    uint32_t sb = rank.symmetric(128);
    rank.view(xb, f32, {4, 8});             // x
    rank.view(yb, f32, {4, 8});             // y
    rank.view(ab, f32, {4, 8});             // a
    rank.view(bb, f32, {8, 8});             // b
    rank.view(db, f32, {8});                // bias
    rank.view(cb, f32, {4, 8}, {16, 1}, 0); // wide
    rank.view(sb, f32, {4, 8});             // sym
    rank.view(db, f32, {8});                // row
    rank.view(bb, f32, {2, 4, 8});          // stack
    rank.view(bb, f32, {4, 8}, 0);          // half
    uint16_t ch = rank.channel({0, 1}, 7);
    rank.slots = {2, 1};
    rank.kernels.push_back({"double",
                            sp::KernelFormat::expression,
                            "cpu",
                            encodeExpression(1, 1,
                                             {{sp::ExprOp::load, 0, 0, 0, 0},
                                              {sp::ExprOp::add, 0, 0, 0, 0},
                                              {sp::ExprOp::store, 1, 0, 0, 0}}),
                            {0, 0},
                            {{sp::KernelFormat::ptx, "sm_90", {'p', 't', 'x'}}}});
    rank.sync(1, 0);
    rank.copy(0, sample::a, sample::x);
    rank.add(sp::CommandKind::matmul, 0, {sample::y, sample::a, sample::b, sample::bias});
    rank.add(sp::CommandKind::accumulate, 0, {sample::y, sample::x});
    rank.add(sp::CommandKind::reduce, 0, {sample::row, sample::x}).value = 1;
    rank.collective(0, ch, CollectiveKind::AllGather, sample::stack, sample::x);
    rank.collective(0, ch, CollectiveKind::ReduceScatter, sample::a, sample::stack);
    rank.collective(0, ch, CollectiveKind::Broadcast, sample::a, sample::x).peer = 1;
    rank.group(1, ch, 2);
    rank.send(1, ch, sample::x, peer, 0);
    rank.recv(1, ch, sample::wide, peer, 0);
    rank.put(0, ch, sample::sym, sample::x, peer);
    rank.signal(0, ch, peer, 0, 2);
    rank.waitSignal(0, ch, 0, 2);
    rank.launch(0, 0, {sample::y, sample::sym});
  }
  return spec;
}

void expectRejected(const Reject &reject) {
  ProgramSpec spec = sampleProgram();
  reject.breakIt(spec, spec.ranks[1]);
  auto file = ProgramFile::fromMemory(spec.encode());
  Status status = file.status();
  if (file.ok()) {
    auto program = (*file)->rankProgram(1);
    status = program.status();
  }
  ASSERT_FALSE(status.ok()) << "expected an error with: " << reject.expected;
  EXPECT_EQ(status.code(), Code::InvalidProgram);
  EXPECT_NE(status.message().find(reject.expected), std::string::npos)
      << "expected: " << reject.expected << "\nfound:    " << status.message();
  // Every message names the file.
  EXPECT_EQ(status.message().rfind("memory: ", 0), 0u) << status.message();
}

std::string nameOf(const testing::TestParamInfo<Reject> &info) {
  std::string name = info.param.name;
  for (char &c : name)
    c = c == '-' ? '_' : c;
  return name;
}

} // namespace tandem::test
