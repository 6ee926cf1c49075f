//===- HostMachine.cpp - runs host programs of all ranks in a test -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostMachine.h"

#include "gtest/gtest.h"
#include <cmath>
#include <set>

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;
using namespace tandem::hostir::test;

RankMemory test::makeMemory(ProgramOp program) {
  RankMemory memory;
  memory.emplace_back(program.getArenaBytes().value_or(0) / 4, NAN);
  for (Type type : program.getArgumentTypes())
    memory.emplace_back(cast<MemRefType>(type).getNumElements(), NAN);
  return memory;
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

static float combine(ReduceKind kind, float a, float b) {
  switch (kind) {
  case ReduceKind::Sum:
    return a + b;
  case ReduceKind::Max:
    return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b);
  case ReduceKind::Min:
    return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b);
  }
  return NAN;
}

static void execute(const Command &command, RankMemory &memory) {
  if (command.kind == Command::Matmul) {
    const View &a = command.views[0], &b = command.views[1], &c = command.views[2];
    for (int64_t m = 0; m < c.shape[0]; ++m)
      for (int64_t n = 0; n < c.shape[1]; ++n) {
        float sum = 0;
        for (int64_t k = 0; k < a.shape[1]; ++k)
          sum += memory[a.space][a.offset + m * a.strides[0] + k * a.strides[1]] *
                 memory[b.space][b.offset + k * b.strides[0] + n * b.strides[1]];
        memory[c.space][c.offset + m * c.strides[0] + n * c.strides[1]] = sum;
      }
    return;
  }
  const View &source = command.views[0], &target = command.views[1];
  std::vector<int64_t> from = source.indices(), to = target.indices();
  std::vector<float> &out = memory[target.space];
  const std::vector<float> &in = memory[source.space];
  switch (command.kind) {
  case Command::Copy:
    for (size_t i = 0; i < to.size(); ++i)
      out.at(to[i]) = in.at(from[i]);
    return;
  case Command::Accumulate:
    for (size_t i = 0; i < to.size(); ++i)
      out.at(to[i]) =
          combine(cast<AccumulateOp>(command.op).getKind(), out.at(to[i]), in.at(from[i]));
    return;
  case Command::Reduce: // over the first dimension, the only one that passes build
    ASSERT_TRUE(llvm::equal(cast<ReduceOp>(command.op).getDims(), ArrayRef<int64_t>{0}));
    for (size_t i = 0; i < from.size(); ++i) {
      float &value = out.at(to[i % to.size()]);
      value = i < to.size() ? in.at(from[i])
                            : combine(cast<ReduceOp>(command.op).getKind(), value, in.at(from[i]));
    }
    return;
  default:
    FAIL() << "not a local command";
  }
}

//===----------------------------------------------------------------------===//
// All ranks at once
//===----------------------------------------------------------------------===//

namespace {
/// A stream's queue: numbers of commands. A sync is a record on one stream and a wait on the other.
struct Item {
  enum Kind { Run, Record, Wait } kind;
  size_t command;
  bool started = false; // a group that has posted its messages
};

struct Rank {
  std::vector<std::vector<Item>> streams;
  std::vector<size_t> next;
  std::vector<bool> recorded;
};

using Key = std::tuple<std::string, int64_t, int64_t>; // channel, from, to

/// Where the k-th message of a pair is in its life. Numbers are given in issue order.
struct Mail {
  std::vector<float> data;
  bool isSent = false;
};

class Machine {
public:
  Machine(const std::vector<RankProgram> &programs, std::vector<RankMemory> &memories,
          std::mt19937 &random)
      : programs(programs), memories(memories), random(random) {
    for (size_t r = 0; r < programs.size(); ++r)
      enqueue(r);
  }

  bool run() {
    while (true) {
      std::vector<std::pair<size_t, size_t>> ready;
      bool isDone = true;
      for (size_t r = 0; r < ranks.size(); ++r)
        for (size_t s = 0; s < ranks[r].streams.size(); ++s) {
          if (ranks[r].next[s] == ranks[r].streams[s].size())
            continue;
          isDone = false;
          if (canProgress(r, ranks[r].streams[s][ranks[r].next[s]]))
            ready.emplace_back(r, s);
        }
      if (isDone || ready.empty())
        return isDone;
      auto [r, s] = ready[random() % ready.size()];
      if (progress(r, ranks[r].streams[s][ranks[r].next[s]]))
        ++ranks[r].next[s];
    }
  }

private:
  void enqueue(size_t r) {
    Rank &rank = ranks.emplace_back();
    rank.streams.resize(programs[r].numStreams);
    rank.next.resize(programs[r].numStreams);
    rank.recorded.resize(programs[r].commands.size());
    for (size_t i = 0; i < programs[r].commands.size(); ++i) {
      const Command &command = programs[r].commands[i];
      if (command.kind == Command::Sync) {
        rank.streams[command.signaler].push_back({Item::Record, i});
        rank.streams[command.stream].push_back({Item::Wait, i});
        continue;
      }
      rank.streams[command.stream].push_back({Item::Run, i});
      for (const Message &message : command.messages) {
        auto self = static_cast<int64_t>(r);
        Key key = message.isSend ? Key{message.channel, self, message.peer}
                                 : Key{message.channel, message.peer, self};
        numbers[&message] = counts[{key, message.isSend}]++;
      }
    }
  }

  Mail &mailOf(size_t r, const Message &message) {
    auto self = static_cast<int64_t>(r);
    Key key = message.isSend ? Key{message.channel, self, message.peer}
                             : Key{message.channel, message.peer, self};
    return mails[{key, numbers[&message]}];
  }

  bool canProgress(size_t r, const Item &item) {
    if (item.kind == Item::Wait)
      return ranks[r].recorded[item.command];
    const Command &command = programs[r].commands[item.command];
    if (item.kind == Item::Record || command.kind != Command::Group || !item.started)
      return true;
    return llvm::all_of(command.messages,
                        [&](const Message &m) { return m.isSend || mailOf(r, m).isSent; });
  }

  // True if the item is over.
  bool progress(size_t r, Item &item) {
    const Command &command = programs[r].commands[item.command];
    if (item.kind == Item::Record)
      ranks[r].recorded[item.command] = true;
    if (item.kind != Item::Run)
      return true;
    if (command.kind != Command::Group) {
      execute(command, memories[r]);
      return true;
    }
    if (!item.started) {
      item.started = true;
      for (const Message &message : command.messages)
        if (message.isSend) {
          Mail &mail = mailOf(r, message);
          for (int64_t i : message.view.indices())
            mail.data.push_back(memories[r][message.view.space].at(i));
          mail.isSent = true;
        }
      return false;
    }
    for (const Message &message : command.messages) {
      if (message.isSend)
        continue;
      Mail &mail = mailOf(r, message);
      std::vector<int64_t> to = message.view.indices();
      EXPECT_EQ(to.size(), mail.data.size()) << "sizes of a send and its receive";
      for (size_t i = 0; i < std::min(to.size(), mail.data.size()); ++i)
        memories[r][message.view.space].at(to[i]) = mail.data[i];
      EXPECT_TRUE(received.insert(&message).second);
      mails.erase({message.isSend ? Key{} : Key{message.channel, message.peer, (int64_t)r},
                   numbers[&message]});
    }
    return true;
  }

public:
  /// Sends that nobody has received.
  size_t numUnreceived() const { return mails.size(); }

private:
  const std::vector<RankProgram> &programs;
  std::vector<RankMemory> &memories;
  std::mt19937 &random;
  std::vector<Rank> ranks;
  std::map<std::pair<Key, bool>, size_t> counts;
  std::map<const Message *, size_t> numbers;
  std::map<std::pair<Key, size_t>, Mail> mails;
  std::set<const Message *> received;
};
} // namespace

bool test::runAll(const std::vector<RankProgram> &programs, std::vector<RankMemory> &memories,
                  std::mt19937 &random) {
  Machine machine(programs, memories, random);
  bool isDone = machine.run();
  EXPECT_EQ(machine.numUnreceived(), 0u) << "sends without a receive";
  return isDone;
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

// One clock per command, as textbooks have it: clock[s] is the number of commands of stream s that
// happen before or are this one.
static std::vector<std::vector<size_t>> clocksOf(const RankProgram &program) {
  std::vector<std::vector<size_t>> streams(program.numStreams,
                                           std::vector<size_t>(program.numStreams, 0));
  std::vector<std::vector<size_t>> clocks;
  for (const Command &command : program.commands) {
    std::vector<size_t> &clock = streams[command.stream];
    if (command.kind == Command::Sync)
      for (size_t s = 0; s < clock.size(); ++s)
        clock[s] = std::max(clock[s], streams[command.signaler][s]);
    else
      ++clock[command.stream];
    clocks.push_back(clock);
  }
  return clocks;
}

std::string test::findConflicts(const RankProgram &program, int64_t arenaBytes) {
  std::vector<std::vector<size_t>> clocks = clocksOf(program);
  std::vector<std::vector<size_t>> accesses(program.instances.size());
  for (size_t i = 0; i < program.commands.size(); ++i) {
    for (const View &view : program.commands[i].views)
      if (view.instance >= 0)
        accesses[view.instance].push_back(i);
    for (const Message &message : program.commands[i].messages)
      if (message.view.instance >= 0)
        accesses[message.view.instance].push_back(i);
  }
  auto happensBefore = [&](size_t a, size_t b) {
    int stream = program.commands[a].stream;
    return a != b && clocks[a][stream] <= clocks[b][stream];
  };
  auto isOver = [&](size_t a, size_t b) {
    return llvm::all_of(accesses[a], [&](size_t x) {
      return llvm::all_of(accesses[b], [&](size_t y) { return happensBefore(x, y); });
    });
  };
  std::string text;
  llvm::raw_string_ostream os(text);
  for (size_t a = 0; a < program.instances.size(); ++a) {
    const Instance &x = program.instances[a];
    if (x.end > arenaBytes)
      os << "bytes " << x.begin << " to " << x.end << " of " << arenaBytes << "\n";
    for (size_t b = a + 1; b < program.instances.size(); ++b) {
      const Instance &y = program.instances[b];
      bool overlap = x.begin < y.end && y.begin < x.end;
      if (overlap && !isOver(a, b) && !isOver(b, a))
        os << *x.alloc << " and " << *y.alloc << " meet at " << x.begin << " and " << y.begin
           << "\n";
    }
  }
  return text;
}
