//===- MakePrograms.cpp - stream programs for the tests of tandem-run *- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `make-programs FOLDER [SLOWER]` writes programs built by hand, so that launch, channel and tool
// are tested in a build without the compiler. SLOWER multiplies how late a rank is:
//
//   matmul-RANKS.tsp     all-gather of x by send and receive, then out = x * w, one rank's rows a
//                        matmul; with a reference
//   gather-RANKS.tsp     the same without matmul, i32; with a reference
//   wrong-3.tsp          as matmul, but rank 2 multiplies the wrong rows: verification must fail
//   long-3.tsp           passes a megabyte round many times: a run takes a second or two
//   partial-RANKS.tsp    copies a partial argument: its terms add up to the logical value
//   silent-2.tsp         as gather, but rank 1 never sends: a run must time out
//   push-RANKS.tsp       as gather, one-sided
//   wrong-push-2.tsp     as push, but rank 1 takes its own rows for rank 0's
//   large-2.tsp          copies 8 MiB by way of the arena; large-wrong-2 does not copy all,
//                        large-refused-2 has a channel as needs-all
//   long-3.tsp           many rounds of messages; long-push-2: of puts
//   points-2.tsp         places for faults between its commands; points-push-2: with puts
//   late-2.tsp           rank 0 waits seconds for a message; late-push-2: for a signal
//   crawl-2.tsp          as gather, slices of 24 MiB; crawl-push-2: as push
//   native-1.tsp         has a kernel with PTX
//   huge-2.tsp           copies a tensor of 256 GiB
//   vast-result-2.tsp    a result of 512 TiB, of which ranks hold 16 elements each
//   vast-input-2.tsp     an input of this size
//   needs-all-3.tsp      as gather, but its channel is to have everything: ucx has no collectives
//
//===----------------------------------------------------------------------===//

#include "Support/ProgramSpec.h"
#include "tandem/Runtime/Channel.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr int64_t kRows = 6, kInner = 10, kColumns = 4;

void add(ProgramSpec &spec, const char *name, bool isResult, DType dtype, const Shape &shape) {
  spec.arguments.push_back({name, isResult ? sp::ArgumentRole::result : sp::ArgumentRole::input,
                            static_cast<sp::DType>(dtype), shape, 0});
}

ShardSpec whole(const Shape &shape) { return {true, 0, shape, denseStrides(shape), shape}; }

/// Rows of x are sharded; every rank gets all of them.
ProgramSpec gather(uint32_t size, DType dtype, bool matmul, int64_t sliceRows = kRows) {
  int64_t rows = sliceRows * size;
  ProgramSpec spec(size);
  spec.name = matmul ? "matmul" : "gather";
  add(spec, "x", false, dtype, {rows, kInner});
  if (matmul)
    add(spec, "w", false, dtype, {kInner, kColumns});
  Shape outShape = {rows, matmul ? kColumns : kInner};
  add(spec, "out", true, dtype, outShape);
  unsigned bytes = sizeOf(dtype);
  uint32_t outArgument = matmul ? 2 : 1;
  for (uint32_t r = 0; r < size; ++r) {
    RankSpec &rank = spec.ranks[r];
    rank.shards = {
        {true, r * sliceRows * kInner, {sliceRows, kInner}, {kInner, 1}, {sliceRows, kInner}}};
    if (matmul)
      rank.shards.push_back(whole({kInner, kColumns}));
    rank.shards.push_back(whole(outShape));
    std::vector<uint32_t> group;
    for (uint32_t other = 0; other < size; ++other)
      group.push_back(other);
    uint64_t sliceBytes = sliceRows * kInner * bytes;
    uint32_t x = rank.argument(0, sliceBytes);
    uint32_t out = rank.argument(outArgument, product(outShape) * bytes);
    uint32_t w = matmul ? rank.argument(1, kInner * kColumns * bytes) : 0;
    uint32_t slots = rank.arena(sliceBytes * size);
    uint16_t channel = rank.channel(group, TwoSided);
    uint32_t own = rank.view(x, dtype, {sliceRows, kInner});
    auto slot = [&](uint32_t i) {
      return rank.view(slots, dtype, {sliceRows, kInner}, i * sliceBytes);
    };
    auto result = [&](uint32_t i) {
      return rank.view(out, dtype, {sliceRows, outShape[1]}, i * sliceRows * outShape[1] * bytes);
    };
    rank.copy(0, slot(r), own);
    rank.sync(1, 0);
    for (uint32_t distance = 1; distance < size; ++distance) {
      uint32_t to = (r + size - distance) % size, from = (r + distance) % size;
      rank.group(1, channel, 2);
      rank.recv(1, channel, slot(from), from, 0);
      rank.send(1, channel, own, to, 0);
    }
    rank.sync(0, 1);
    for (uint32_t i = 0; i < size; ++i) {
      if (matmul)
        rank.add(sp::CommandKind::matmul, 0,
                 {result(i), slot(i), rank.view(w, dtype, {kInner, kColumns})});
      else
        rank.copy(0, result(i), slot(i));
    }
  }
  RankSpec reference;
  reference.shards = {whole({rows, kInner})};
  if (matmul)
    reference.shards.push_back(whole({kInner, kColumns}));
  reference.shards.push_back(whole(outShape));
  uint32_t x = reference.view(reference.argument(0, rows * kInner * bytes), dtype, {rows, kInner});
  uint32_t out =
      reference.view(reference.argument(outArgument, product(outShape) * bytes), dtype, outShape);
  if (matmul)
    reference.add(sp::CommandKind::matmul, 0,
                  {out, x,
                   reference.view(reference.argument(1, kInner * kColumns * bytes), dtype,
                                  {kInner, kColumns})});
  else
    reference.copy(0, out, x);
  spec.reference = reference;
  return spec;
}

ProgramSpec wrong() {
  ProgramSpec spec = gather(3, DType::F32, true);
  spec.name = "wrong";
  // Rank 2 multiplies the rows of slot 0 in place of every other slot's.
  uint32_t first = sp::kNoView;
  for (CommandSpec &command : spec.ranks[2].commands)
    if (command.kind == sp::CommandKind::matmul) {
      first = std::min(first, command.operands[1]);
      command.operands[1] = first;
    }
  return spec;
}

ProgramSpec silent() {
  ProgramSpec spec = gather(2, DType::I32, false);
  spec.name = "silent";
  for (CommandSpec &command : spec.ranks[1].commands)
    if (command.kind == sp::CommandKind::group)
      command.aux = 1;
  auto &commands = spec.ranks[1].commands;
  for (size_t i = 0; i < commands.size(); ++i)
    if (commands[i].kind == sp::CommandKind::send)
      commands.erase(commands.begin() + static_cast<long>(i--));
  return spec;
}

/// Slices are put into symmetric memory of all others, with a signal each.
ProgramSpec push(uint32_t size, bool wrong, int64_t sliceRows = kRows) {
  ProgramSpec spec = gather(size, DType::I32, false, sliceRows);
  spec.name = wrong ? "wrong_push" : "push";
  for (uint32_t r = 0; r < size; ++r) {
    RankSpec &rank = spec.ranks[r];
    std::vector<uint32_t> group = rank.channels[0].group;
    rank.commands.clear();
    rank.channels.clear();
    rank.numEvents = 0;
    rank.slots.assign(size, 1);
    uint64_t sliceBytes = sliceRows * kInner * sizeOf(DType::I32);
    uint32_t symmetric = rank.symmetric(sliceBytes * size);
    auto slice = [&](uint32_t buffer, uint32_t i) {
      return rank.view(buffer, DType::I32, {sliceRows, kInner}, i * sliceBytes);
    };
    // Buffers 0 and 1 are the arguments.
    uint32_t own = slice(0, 0);
    uint16_t channel = rank.channel(group, OneSided);
    for (uint32_t distance = 1; distance < size; ++distance) {
      uint32_t to = (r + distance) % size;
      rank.put(0, channel, slice(symmetric, r), own, to);
      rank.signal(0, channel, to, r, 1);
    }
    rank.copy(0, slice(1, r), own);
    for (uint32_t distance = 1; distance < size; ++distance) {
      uint32_t from = (r + size - distance) % size;
      rank.waitSignal(0, channel, from, 1);
      rank.copy(0, slice(1, from), wrong && r == 1 ? own : slice(symmetric, from));
    }
  }
  return spec;
}

ProgramSpec needsAll() {
  ProgramSpec spec = gather(3, DType::I32, false);
  spec.name = "needs_all";
  for (RankSpec &rank : spec.ranks)
    rank.channels[0].capabilities = TwoSided | OneSided | Collectives;
  return spec;
}

ProgramSpec large(bool wrong, bool refused) {
  constexpr uint32_t size = 2;
  constexpr int64_t elements = 1 << 21;
  constexpr uint64_t bytes = elements * sizeof(int32_t);
  ProgramSpec spec(size);
  spec.name = "large";
  add(spec, "x", false, DType::I32, {elements});
  add(spec, "out", true, DType::I32, {elements});
  auto fill = [&](RankSpec &rank, int64_t copied) {
    rank.shards = {whole({elements}), whole({elements})};
    uint32_t x = rank.argument(0, bytes), out = rank.argument(1, bytes);
    uint32_t between = rank.view(rank.arena(bytes), DType::I32, {elements});
    rank.copy(0, between, rank.view(x, DType::I32, {elements}));
    rank.copy(0, rank.view(out, DType::I32, {elements}), between);
    if (copied < elements) // from another place
      rank.copy(0, rank.view(out, DType::I32, {copied}, bytes / 2),
                rank.view(x, DType::I32, {copied}));
  };
  for (RankSpec &rank : spec.ranks) {
    fill(rank, wrong ? 1024 : elements);
    rank.channel({0, 1}, refused ? TwoSided | OneSided | Collectives : TwoSided);
  }
  spec.reference.emplace();
  fill(*spec.reference, elements);
  return spec;
}

ProgramSpec longRun() {
  constexpr uint32_t size = 3, rounds = 1500;
  constexpr int64_t elements = 1 << 18;
  ProgramSpec spec(size);
  spec.name = "long";
  spec.stacked("x", false, DType::F32, {elements});
  spec.stacked("out", true, DType::F32, {elements});
  for (uint32_t r = 0; r < size; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint32_t x = rank.view(rank.argument(0, elements * 4), DType::F32, {elements});
    uint32_t out = rank.view(rank.argument(1, elements * 4), DType::F32, {elements});
    uint16_t channel = rank.channel({0, 1, 2}, TwoSided);
    rank.copy(0, out, x);
    for (uint32_t round = 0; round < rounds; ++round) {
      rank.group(0, channel, 2);
      rank.recv(0, channel, out, (r + 1) % size, round);
      rank.send(0, channel, x, (r + 2) % size, round);
    }
  }
  return spec;
}

/// Rank 0 waits for rank 1, which copies before it sends. Tests end a run after a second, so it
/// must take longer on every machine: 8 MB takes 0.1 to 1 ms, 15000 times that 1.5 s or more.
ProgramSpec late(bool oneSided, double slower) {
  constexpr int64_t elements = 1 << 21;
  constexpr uint64_t bytes = elements * 4;
  ProgramSpec spec(2);
  spec.name = oneSided ? "late_push" : "late";
  spec.stacked("x", false, DType::F32, {elements});
  spec.stacked("out", true, DType::F32, {elements});
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint32_t x = rank.view(rank.argument(0, bytes), DType::F32, {elements});
    uint32_t out = rank.view(rank.argument(1, bytes), DType::F32, {elements});
    uint32_t few = rank.view(oneSided ? rank.symmetric(64) : rank.arena(64), DType::F32, {16});
    uint32_t first = rank.view(0, DType::F32, {16});
    uint16_t channel = rank.channel({0, 1}, oneSided ? OneSided : TwoSided);
    for (int i = 0; i < (r == 1 ? 15000 * slower : 1); ++i)
      rank.copy(0, out, x);
    if (oneSided) {
      rank.slots = {1};
      if (r == 1)
        rank.put(0, channel, few, first, 0);
      if (r == 1)
        rank.signal(0, channel, 0, 0, 1);
      else
        rank.waitSignal(0, channel, 0, 1);
      continue;
    }
    rank.group(0, channel, 1);
    if (r == 1)
      rank.send(0, channel, first, 0, 0);
    else
      rank.recv(0, channel, few, 1, 0);
  }
  return spec;
}

/// Two ranks exchange two messages; `oneSided`: one put. Between the commands are calls of
/// fault_point (test/Kernels), named "RANK POINT".
ProgramSpec points(bool oneSided) {
  constexpr int64_t elements = 1 << 12;
  ProgramSpec spec(2);
  spec.name = oneSided ? "points_push" : "points";
  spec.stacked("x", false, DType::F32, {elements});
  spec.stacked("out", true, DType::F32, {elements});
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint32_t x = rank.view(rank.argument(0, elements * 4), DType::F32, {elements});
    uint32_t out = rank.view(rank.argument(1, elements * 4), DType::F32, {elements});
    uint32_t in = rank.view(oneSided ? rank.symmetric(elements * 4) : rank.arena(elements * 4),
                            DType::F32, {elements});
    uint32_t few = rank.view(0, DType::F32, {1}),
             nothing = rank.view(rank.arena(64), DType::F32, {1});
    uint16_t channel = rank.channel({0, 1}, oneSided ? OneSided : TwoSided);
    auto point = [&](const std::string &name) {
      KernelSpec kernel{"fault_point", sp::KernelFormat::external, "", {}, {0, 0}, {}, 1, {{0, 0}}};
      kernel.config = std::to_string(r) + " " + name;
      rank.kernels.push_back(kernel);
      rank.call(0, static_cast<uint32_t>(rank.kernels.size() - 1), {nothing, few}, {{0, 1}});
    };
    point("start");
    if (oneSided) {
      rank.slots = {1};
      rank.put(0, channel, in, x, 1 - r);
      point("put");
      rank.signal(0, channel, 1 - r, 0, 1);
      point("signalled");
      rank.waitSignal(0, channel, 0, 1);
    } else {
      for (uint32_t tag : {0, 1}) {
        rank.group(0, channel, 2);
        rank.send(0, channel, x, 1 - r, tag);
        rank.recv(0, channel, in, 1 - r, tag);
        if (tag == 0)
          point("between");
      }
    }
    rank.copy(0, out, in);
    point("end");
  }
  return spec;
}

/// y = -x by a kernel that also has PTX.
ProgramSpec native() {
  ProgramSpec spec(1);
  spec.name = "native";
  uint32_t x = spec.stacked("x", false, DType::F32, {64});
  uint32_t y = spec.stacked("y", true, DType::F32, {64});
  RankSpec &rank = spec.ranks[0];
  uint32_t from = rank.view(rank.argument(x, 256), DType::F32, {64});
  uint32_t to = rank.view(rank.argument(y, 256), DType::F32, {64});
  KernelSpec kernel;
  kernel.code = encodeExpression(1, 1,
                                 {{sp::ExprOp::load, 0, 0, 0, 0.f},
                                  {sp::ExprOp::neg, 0, 0, 0, 0.f},
                                  {sp::ExprOp::store, 1, 0, 0, 0.f}});
  kernel.operandTypes.assign(2, static_cast<uint8_t>(sp::DType::f32));
  kernel.outputs = 1;
  const std::string text = "// PTX";
  kernel.native.push_back({sp::KernelFormat::ptx, "sm_90", {text.begin(), text.end()}});
  rank.kernels.push_back(kernel);
  rank.launch(0, 0, {to, from});
  return spec;
}

/// As longRun, one-sided, between two.
ProgramSpec longPush() {
  constexpr uint32_t rounds = 20000;
  constexpr int64_t elements = 1 << 12;
  ProgramSpec spec(2);
  spec.name = "long_push";
  spec.stacked("x", false, DType::F32, {elements});
  spec.stacked("out", true, DType::F32, {elements});
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint32_t x = rank.view(rank.argument(0, elements * 4), DType::F32, {elements});
    uint32_t out = rank.view(rank.argument(1, elements * 4), DType::F32, {elements});
    uint32_t space = rank.view(rank.symmetric(elements * 4), DType::F32, {elements});
    uint16_t channel = rank.channel({0, 1}, OneSided);
    rank.slots = {rounds};
    for (uint32_t round = 1; round <= rounds; ++round) {
      rank.put(0, channel, space, x, 1 - r);
      rank.signal(0, channel, 1 - r, 0, round);
      rank.waitSignal(0, channel, 0, round);
    }
    rank.copy(0, out, space);
  }
  return spec;
}

/// Every rank holds one term of x; out stays partial.
ProgramSpec partial(uint32_t size, DType dtype) {
  const Shape shape = {5, 3};
  ProgramSpec spec(size);
  spec.name = "partial";
  for (bool result : {false, true}) {
    add(spec, result ? "out" : "x", result, dtype, shape);
    spec.arguments.back().partialTerms = size;
  }
  uint64_t bytes = product(shape) * sizeOf(dtype);
  auto fill = [&](RankSpec &rank) {
    rank.shards = {whole(shape), whole(shape)};
    uint32_t x = rank.view(rank.argument(0, bytes), dtype, shape);
    rank.copy(0, rank.view(rank.argument(1, bytes), dtype, shape), x);
  };
  for (RankSpec &rank : spec.ranks) {
    fill(rank);
    for (ShardSpec &shard : rank.shards)
      shard.term = rank.rank;
  }
  spec.reference.emplace();
  fill(*spec.reference);
  return spec;
}

/// Copies 256 GiB.
ProgramSpec huge() {
  ProgramSpec spec(2);
  spec.name = "huge";
  int64_t elements = int64_t(1) << 36;
  add(spec, "x", false, DType::F32, {elements});
  add(spec, "out", true, DType::F32, {elements});
  for (RankSpec &rank : spec.ranks) {
    rank.shards = {whole({elements}), whole({elements})};
    uint64_t bytes = uint64_t(elements) * 4;
    uint32_t x = rank.view(rank.argument(0, bytes), DType::F32, {elements});
    rank.copy(0, rank.view(rank.argument(1, bytes), DType::F32, {elements}), x);
  }
  return spec;
}

/// Ranks need memory for few elements; only the logical input or result is larger than any address
/// space.
ProgramSpec vast(bool result) {
  constexpr int64_t elements = 16, all = int64_t(1) << 46;
  constexpr uint64_t bytes = elements * 8;
  ProgramSpec spec(2);
  spec.name = result ? "vast_result" : "vast_input";
  Shape shapes[2] = {{result ? 2 * elements : all}, {result ? all : 2 * elements}};
  add(spec, "x", false, DType::F64, shapes[0]);
  add(spec, "out", true, DType::F64, shapes[1]);
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    ShardSpec shard{true, r * elements, {elements}, {1}, {elements}};
    rank.shards = {shard, shard};
    uint32_t x = rank.view(rank.argument(0, bytes), DType::F64, {elements});
    rank.copy(0, rank.view(rank.argument(1, bytes), DType::F64, {elements}), x);
  }
  RankSpec reference;
  reference.shards = {whole(shapes[0]), whole(shapes[1])};
  uint32_t x = reference.argument(0, uint64_t(shapes[0][0]) * 8);
  uint32_t out = reference.argument(1, uint64_t(shapes[1][0]) * 8);
  reference.copy(0, reference.view(out, DType::F64, {2 * elements}),
                 reference.view(x, DType::F64, {2 * elements}));
  spec.reference = reference;
  return spec;
}

bool write(const std::string &folder, const std::string &name, const ProgramSpec &spec) {
  std::string bytes = spec.encode();
  std::ofstream file(folder + "/" + name + ".tsp", std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  return bool(file);
}

} // namespace

int main(int argc, char **argv) {
  double slower = argc == 3 ? std::strtod(argv[2], nullptr) : 1;
  if (argc < 2 || argc > 3 || !(slower >= 1)) {
    std::fprintf(stderr, "usage: make-programs FOLDER [SLOWER]\n");
    return 2;
  }
  std::string folder = argv[1];
  bool good = true;
  for (uint32_t size : {1u, 2u, 3u, 4u}) {
    good &= write(folder, "matmul-" + std::to_string(size), gather(size, DType::F32, true));
    good &= write(folder, "gather-" + std::to_string(size), gather(size, DType::I32, false));
  }
  for (DType dtype : {DType::F16, DType::BF16})
    good &= write(folder, "matmul-" + std::string(toString(dtype)) + "-4", gather(4, dtype, true));
  good &= write(folder, "wrong-3", wrong());
  good &= write(folder, "silent-2", silent());
  for (uint32_t size : {2u, 3u})
    good &= write(folder, "push-" + std::to_string(size), push(size, false));
  good &= write(folder, "wrong-push-2", push(2, true));
  good &= write(folder, "needs-all-3", needsAll());
  good &= write(folder, "large-2", large(false, false));
  good &= write(folder, "large-wrong-2", large(true, false));
  good &= write(folder, "large-refused-2", large(false, true));
  good &= write(folder, "long-3", longRun());
  constexpr int64_t kCrawl = (24 << 20) / (kInner * 4);
  good &= write(folder, "crawl-2", gather(2, DType::I32, false, kCrawl));
  good &= write(folder, "crawl-push-2", push(2, false, kCrawl));
  good &= write(folder, "native-1", native());
  good &= write(folder, "long-push-2", longPush());
  good &= write(folder, "late-2", late(false, slower));
  good &= write(folder, "late-push-2", late(true, slower));
  good &= write(folder, "points-2", points(false));
  good &= write(folder, "points-push-2", points(true));
  good &= write(folder, "partial-3", partial(3, DType::BF16));
  good &= write(folder, "partial-4", partial(4, DType::F32));
  good &= write(folder, "huge-2", huge());
  good &= write(folder, "vast-result-2", vast(true));
  good &= write(folder, "vast-input-2", vast(false));
  if (!good)
    std::fprintf(stderr, "make-programs: cannot write to %s\n", argv[1]);
  return good ? 0 : 1;
}
