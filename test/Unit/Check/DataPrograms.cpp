//===- DataPrograms.cpp - small programs that have a reference ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DataPrograms.h"

namespace tandem::check {

using sp::ExprOp;

DataSpec::DataSpec(uint32_t ranks) : ProgramSpec(ranks) { reference.emplace(); }

uint32_t DataSpec::add(const std::string &name, bool isResult, const Shape &shape, DType dtype) {
  arguments.push_back({name, isResult ? sp::ArgumentRole::result : sp::ArgumentRole::input,
                       static_cast<sp::DType>(dtype), shape});
  for (RankSpec &rank : ranks)
    rank.shards.push_back({true, 0, shape, test::denseStrides(shape), shape});
  reference->shards.push_back({true, 0, shape, test::denseStrides(shape), shape});
  return static_cast<uint32_t>(arguments.size() - 1);
}

uint32_t DataSpec::whole(const std::string &name, bool isResult, const Shape &shape, DType dtype) {
  return add(name, isResult, shape, dtype);
}

uint32_t DataSpec::split(const std::string &name, bool isResult, const Shape &shape, unsigned dim,
                         DType dtype) {
  uint32_t argument = add(name, isResult, shape, dtype);
  for (RankSpec &rank : ranks) {
    test::ShardSpec &shard = rank.shards[argument];
    shard.shape[dim] /= static_cast<int64_t>(ranks.size());
    shard.offset = rank.rank * shard.shape[dim] * shard.strides[dim];
    shard.local = shard.shape;
  }
  return argument;
}

uint32_t DataSpec::partial(const std::string &name, bool isResult, const Shape &shape,
                           sp::ReduceOp op) {
  uint32_t argument = add(name, isResult, shape, DType::F32);
  arguments[argument].partialTerms = static_cast<uint32_t>(ranks.size());
  arguments[argument].partialOp = op;
  for (RankSpec &rank : ranks)
    rank.shards[argument].term = rank.rank;
  return argument;
}

uint32_t DataSpec::bufferOf(RankSpec &rank, uint32_t argument) {
  uint64_t size = sizeOf(static_cast<DType>(arguments[argument].dtype));
  return rank.argument(argument,
                       static_cast<uint64_t>(test::product(rank.shards[argument].local)) * size);
}

uint32_t DataSpec::view(RankSpec &rank, uint32_t argument) {
  return rank.view(bufferOf(rank, argument), static_cast<DType>(arguments[argument].dtype),
                   rank.shards[argument].local);
}

uint32_t DataSpec::view(RankSpec &rank, uint32_t argument, int64_t row, int64_t rows) {
  Shape shape = rank.shards[argument].local;
  shape[0] = rows;
  auto dtype = static_cast<DType>(arguments[argument].dtype);
  auto rowBytes = static_cast<uint64_t>(test::product(shape) / rows) * sizeOf(dtype);
  return rank.view(bufferOf(rank, argument), dtype, shape, static_cast<uint64_t>(row) * rowBytes);
}

uint32_t DataSpec::temporary(RankSpec &rank, const Shape &shape, DType dtype) {
  return rank.view(rank.arena(static_cast<uint64_t>(test::product(shape)) * sizeOf(dtype)), dtype,
                   shape);
}

uint16_t DataSpec::everyone(RankSpec &rank) const {
  std::vector<uint32_t> group;
  for (const RankSpec &member : ranks)
    group.push_back(member.rank);
  return rank.channel(group);
}

CommandSpec &matmul(RankSpec &rank, uint32_t out, uint32_t a, uint32_t b, uint8_t flags,
                    uint32_t bias) {
  CommandSpec &command = rank.add(Kind::matmul, 0, {out, a, b, bias});
  command.flags = flags;
  return command;
}

CommandSpec &accumulate(RankSpec &rank, uint32_t dst, uint32_t src, sp::ReduceOp op) {
  CommandSpec &command = rank.add(Kind::accumulate, 0, {dst, src});
  command.reduceOp = op;
  return command;
}

CommandSpec &reduce(RankSpec &rank, uint32_t dst, uint32_t src, uint64_t dims, sp::ReduceOp op) {
  CommandSpec &command = rank.add(Kind::reduce, 0, {dst, src});
  command.value = dims;
  command.reduceOp = op;
  return command;
}

void exchangeMessages(RankSpec &rank, uint16_t channel, uint32_t from, uint32_t source, uint32_t to,
                      uint32_t view, uint32_t tag) {
  rank.group(0, channel, 2);
  rank.recv(0, channel, view, from, tag);
  rank.send(0, channel, source, to, tag);
}

uint32_t kernel(RankSpec &rank, uint32_t inputs, uint32_t outputs,
                const std::vector<test::Instr> &code) {
  test::KernelSpec spec;
  spec.name = "kernel " + std::to_string(rank.kernels.size());
  spec.code = test::encodeExpression(inputs, outputs, code);
  rank.kernels.push_back(spec);
  return static_cast<uint32_t>(rank.kernels.size() - 1);
}

test::Instr instr(ExprOp op, uint32_t a, uint32_t b, uint32_t c, double imm) {
  return {op, a, b, c, imm};
}
test::Instr integers(ExprOp op, uint32_t a, uint32_t b, uint32_t c, double imm) {
  return {op, a, b, c, imm, test::kI32};
}

DataSpec gatherMatmul(uint32_t ranks) {
  DataSpec spec(ranks);
  uint32_t x = spec.split("x", false, {ranks, 4}, 0);
  uint32_t w = spec.whole("w", false, {4, 4}), y = spec.whole("y", true, {ranks, 4});
  matmul(*spec.reference, spec.view(*spec.reference, y), spec.view(*spec.reference, x),
         spec.view(*spec.reference, w));
  for (RankSpec &rank : spec.ranks) {
    uint32_t gathered = DataSpec::temporary(rank, {ranks, 1, 4});
    uint32_t buffer = rank.views[gathered].buffer();
    rank.collective(0, spec.everyone(rank), CollectiveKind::AllGather, gathered,
                    spec.view(rank, x));
    for (uint32_t i = 0; i < ranks; ++i)
      matmul(rank, spec.view(rank, y, i), rank.view(buffer, DType::F32, {1, 4}, kBytes * i),
             spec.view(rank, w));
  }
  return spec;
}

DataSpec splitContraction(uint32_t ranks) {
  DataSpec spec(ranks);
  uint32_t x = spec.split("x", false, {4, 2 * ranks}, 1);
  uint32_t w = spec.split("w", false, {2 * ranks, 4}, 0), y = spec.whole("y", true, {4, 4});
  matmul(*spec.reference, spec.view(*spec.reference, y), spec.view(*spec.reference, x),
         spec.view(*spec.reference, w));
  for (RankSpec &rank : spec.ranks) {
    uint16_t channel = spec.everyone(rank);
    uint32_t own = DataSpec::temporary(rank, {4, 4}), sum = spec.view(rank, y);
    std::vector<uint32_t> terms(ranks, own);
    matmul(rank, own, spec.view(rank, x), spec.view(rank, w));
    for (uint32_t i = 1; i < ranks; ++i) {
      uint32_t to = (rank.rank + 1) % ranks, from = (rank.rank + ranks - 1) % ranks;
      uint32_t next = DataSpec::temporary(rank, {4, 4});
      exchangeMessages(rank, channel, from, own, to, next, i);
      terms[(rank.rank + ranks - i) % ranks] = next;
      own = next;
    }
    rank.copy(0, sum, terms[0]);
    for (uint32_t i = 1; i < ranks; ++i)
      accumulate(rank, sum, terms[i]);
  }
  return spec;
}

DataSpec kernels(uint32_t ranks) {
  DataSpec spec(ranks);
  uint32_t x = spec.split("x", false, {2 * ranks, 4}, 0), b = spec.whole("b", false, {4});
  uint32_t y = spec.split("y", true, {2 * ranks}, 0);
  auto bias = [&](RankSpec &rank, int64_t rows) {
    uint32_t buffer = rank.views[spec.view(rank, b)].buffer();
    return rank.view(buffer, DType::F32, {rows, 4}, Shape{0, 1}, 0);
  };
  RankSpec &reference = *spec.reference;
  int64_t rows = 2 * int64_t(ranks);
  uint32_t doubled = DataSpec::temporary(reference, {rows, 4});
  uint32_t shifted = DataSpec::temporary(reference, {rows, 4});
  uint32_t twice = kernel(
      reference, 1, 1, {instr(ExprOp::load), instr(ExprOp::add, 0, 0), instr(ExprOp::store, 1, 0)});
  uint32_t plus = kernel(reference, 2, 1,
                         {instr(ExprOp::load), instr(ExprOp::load, 1), instr(ExprOp::add, 0, 1),
                          instr(ExprOp::store, 2, 0)});
  reference.launch(0, twice, {doubled, spec.view(reference, x)});
  reference.launch(0, plus, {shifted, doubled, bias(reference, rows)});
  reduce(reference, spec.view(reference, y), shifted, 2, sp::ReduceOp::max);
  for (RankSpec &rank : spec.ranks) {
    uint32_t fused =
        kernel(rank, 2, 1,
               {instr(ExprOp::load), instr(ExprOp::load, 1), instr(ExprOp::constant, 0, 0, 0, 2),
                instr(ExprOp::fma, 0, 2, 1), instr(ExprOp::store, 3, 0)});
    uint32_t made = DataSpec::temporary(rank, {2, 4});
    rank.launch(0, fused, {made, spec.view(rank, x), bias(rank, 2)});
    reduce(rank, spec.view(rank, y), made, 2, sp::ReduceOp::max);
  }
  return spec;
}

DataSpec partials(uint32_t ranks, sp::ReduceOp op) {
  DataSpec spec(ranks);
  uint32_t x = spec.partial("x", false, {4}, op), y = spec.partial("y", true, {4}, op);
  spec.reference->copy(0, spec.view(*spec.reference, y), spec.view(*spec.reference, x));
  for (RankSpec &rank : spec.ranks) // its term is the next rank's
    exchangeMessages(rank, spec.everyone(rank), (rank.rank + 1) % ranks, spec.view(rank, x),
                     (rank.rank + ranks - 1) % ranks, spec.view(rank, y));
  return spec;
}

DataSpec gatherMesh() {
  DataSpec spec(4);
  uint32_t x = spec.whole("x", false, {4, 4}), y = spec.whole("y", true, {4, 4});
  spec.reference->copy(0, spec.view(*spec.reference, y), spec.view(*spec.reference, x));
  for (RankSpec &rank : spec.ranks) {
    uint32_t row = rank.rank / 2, column = rank.rank % 2;
    rank.shards[x] = {true, row * 8 + column * 2, {2, 2}, {4, 1}, {2, 2}};
    uint32_t rows = DataSpec::temporary(rank, {2, 2, 2}),
             all = DataSpec::temporary(rank, {2, 4, 2});
    uint16_t along = rank.channel({column, column + 2}, 7, "x");
    uint16_t across = rank.channel({row * 2, row * 2 + 1}, 7, "y");
    rank.collective(0, along, CollectiveKind::AllGather, rows, spec.view(rank, x));
    rank.collective(0, across, CollectiveKind::AllGather, all,
                    rank.view(rank.views[rows].buffer(), DType::F32, {4, 2}));
    uint32_t result = rank.views[spec.view(rank, y)].buffer();
    rank.copy(0, rank.view(result, DType::F32, {2, 4, 2}, Shape{2, 4, 1}, 0), all);
  }
  return spec;
}

} // namespace tandem::check
