//===- HostMachine.h - runs host programs of all ranks in a test -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A second opinion on what a program means, for tests of passes: it evaluates the text for one rank
// after the other, with the rank known, and then runs the commands of all ranks in a random order
// that streams, syncs and messages allow. Elements are f32 or i32; i32 are held as floats, so
// values must stay small. Malformed programs end the test.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_DIALECT_HOSTIR_HOSTMACHINE_H
#define TANDEM_TEST_UNIT_DIALECT_HOSTIR_HOSTMACHINE_H

#include "tandem/Dialect/HostIR/IR/HostIROps.h"
#include <map>
#include <random>
#include <string>
#include <vector>

namespace tandem::hostir::test {

/// Elements of memory: index `offset` + sum(index * stride) of a space. Space 0 is the arena, 1 + i
/// argument i.
struct View {
  int space = 0;
  int64_t offset = 0;
  std::vector<int64_t> shape, strides;
  int instance = -1; // of an alloc, or -1

  int64_t numElements() const;
  /// Memory indices of the elements in row-major order.
  std::vector<int64_t> indices() const;
};

struct Message {
  bool isSend;
  View view;
  int64_t peer; // world rank
  std::string channel;
};

struct Command {
  enum Kind { Copy, Accumulate, Reduce, Group, Matmul, Sync } kind;
  Operation *op;
  int stream = 0;
  int signaler = -1;       // Sync
  std::vector<View> views; // sources, then the target
  std::vector<Message> messages;
};

/// One evaluation of an alloc.
struct Instance {
  Operation *alloc;
  int64_t begin, end; // bytes in the arena
  size_t issued;      // number of commands issued before it
  int stream;
};

/// What one rank runs, in issue order.
struct RankProgram {
  std::vector<Command> commands;
  std::vector<Instance> instances;
  int numStreams = 1;
};

/// Evaluates the program for a rank. Allocs must have been planned.
RankProgram flatten(ProgramOp program, int64_t rank);

/// Memory of one rank: [0] is the arena, [1 + i] argument i.
using RankMemory = std::vector<std::vector<float>>;

/// Memory as the arguments need it; the arena holds not-a-number everywhere.
RankMemory makeMemory(ProgramOp program);

/// Runs all ranks in an order drawn from `random`; false if they stop before they are done (a
/// deadlock).
bool runAll(const std::vector<RankProgram> &programs, std::vector<RankMemory> &memories,
            std::mt19937 &random);

/// Pairs of instances that share memory though neither is surely over when the other begins, as
/// text; empty: none. Also names accesses of memory outside the arena.
std::string findConflicts(const RankProgram &program, int64_t arenaBytes);

} // namespace tandem::hostir::test

#endif // TANDEM_TEST_UNIT_DIALECT_HOSTIR_HOSTMACHINE_H
