//===- RejectTablesTest.cpp - broken tables are refused ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SampleProgram.h"

#include <gtest/gtest.h>

namespace tandem::test {

namespace {

using P = ProgramSpec;
using R = RankSpec;

sp::Buffer buffer(const sp::Buffer &b, uint64_t offset, uint64_t size) {
  return {b.space(), b.argument(), offset, size, b.name()};
}

std::vector<Reject> brokenTables() {
  std::vector<Reject> all;
  auto add = [&](const char *name, const char *expected, std::function<void(P &, R &)> breakIt) {
    all.push_back({name, std::move(breakIt), expected});
  };
  // The index.
  add("argument-role", "arguments[0] (\"x\"): unknown role 7",
      [](P &p, R &) { p.arguments[0].role = static_cast<sp::ArgumentRole>(7); });
  add("argument-dtype", "arguments[0] (\"x\"): unknown dtype 11",
      [](P &p, R &) { p.arguments[0].dtype = static_cast<sp::DType>(11); });
  add("argument-extent", "extent -4 of dimension 1 is negative",
      [](P &p, R &) { p.arguments[0].shape[1] = -4; });
  add("argument-size", "the number of elements overflows",
      [](P &p, R &) { p.arguments[0].shape = {int64_t(1) << 40, int64_t(1) << 40}; });
  add("argument-bytes", "the number of bytes overflows",
      [](P &p, R &) { p.arguments[0].shape = {int64_t(1) << 62}; });
  add("argument-rank", "shape: expected at most 16 dimensions, found 17",
      [](P &p, R &) { p.arguments[0].shape.assign(17, 1); });
  add("name-controls", "index: name: expected no control characters, found \"a\\x0ab\"",
      [](P &p, R &) { p.name = "a\nb"; });
  add("argument-controls", "index: arguments: expected no control characters, found \"\\x1b[2J\"",
      [](P &p, R &) { p.arguments[0].name = "\x1b[2J"; });
  add("argument-order", "arguments[1] (\"y\"): an input after a result", [](P &p, R &) {
    p.arguments[0].role = sp::ArgumentRole::result;
    p.arguments[1].role = sp::ArgumentRole::input;
  });

  // Counts and sizes.
  add("rank", "rank 1: field rank: expected 1, found 0", [](P &, R &r) { r.rank = 0; });
  add("no-streams", "field num_streams: expected 1 to 256, found 0",
      [](P &, R &r) { r.numStreams = 0; });
  add("many-streams", "field num_streams: expected 1 to 256, found 100000",
      [](P &, R &r) { r.numStreams = 100000; });
  add("many-events", "field num_events", [](P &, R &r) { r.numEvents = 0xffffffffu; });
  add("signal-limit", "signal_slots[1]: expected at most 4294967296",
      [](P &, R &r) { r.slots[1] = ~uint64_t(0); });
  add("arena-size", "field arena_bytes: 18446744073709551615 is over the limit",
      [](P &, R &r) { r.arenaBytes = ~uint64_t(0); });
  add("symmetric-size", "field symmetric_bytes: arena and two buffers of 1152921504606846976 bytes",
      [](P &, R &r) { r.symmetricBytes = uint64_t(1) << 60; });
  add("symmetric-alignment", "field symmetric_bytes: 129 is not a multiple of 64",
      [](P &, R &r) { r.symmetricBytes = 129; });

  // Shards.
  add("shard-count", "field shards: expected one per argument (2), found 1",
      [](P &, R &r) { r.shards.pop_back(); });
  add("shard-term", "shards[0] (argument \"x\"): term: expected less than 1, found 1",
      [](P &, R &r) { r.shards[0].term = 1; });
  add("shard-ranks", "shards[0] (argument \"x\"): shape and strides: expected equal ranks",
      [](P &, R &r) { r.shards[0].strides.pop_back(); });
  add("shard-elements", "shards[0] (argument \"x\"): shape has 16 elements, local_shape 32",
      [](P &, R &r) { r.shards[0].shape[1] = 4; });
  add("shard-cut", "shards[0] (argument \"x\"): shape has 96 elements, local_shape 32",
      [](P &, R &r) {
        r.shards[0].shape = {2, 2, 3, 8};
        r.shards[0].strides = {8, 8, 8, 1};
      });
  add("shard-cut-end", "offset 33 and strides reach outside the 64 elements", [](P &, R &r) {
    r.shards[0].shape = {2, 3, 8};
    r.shards[0].strides = {24, 8, 1};
    r.shards[0].offset = 33;
  });
  add("shard-extent", "local_shape: extent -1 of dimension 0 is negative",
      [](P &, R &r) { r.shards[0].local[0] = -1; });
  add("shard-local-rank", "local_shape: expected at most 16 dimensions, found 17",
      [](P &, R &r) { r.shards[0].local.assign(17, 1); });
  add("shard-stride", "strides: stride -8 of dimension 0 is negative",
      [](P &, R &r) { r.shards[0].strides[0] = -8; });
  add("shard-offset", "offset -1 and strides reach outside",
      [](P &, R &r) { r.shards[0].offset = -1; });
  add("shard-end", "offset 33 and strides reach outside the 64 elements",
      [](P &, R &r) { r.shards[0].offset = 33; });
  add("shard-vast", "offset 0 and strides reach outside the 64 elements", [](P &, R &r) {
    r.shards[0].shape = {9007199254741002, 8};
    r.shards[0].strides = {8, 1};
    r.shards[0].offset = 0;
  });
  add("shard-overflow", "strides: the offset of the last element overflows",
      [](P &, R &r) { r.shards[0].strides[0] = int64_t(1) << 62; });

  // Buffers.
  add("buffer-space", "buffers[2]: unknown space 5",
      [](P &, R &r) { r.buffers[2] = sp::Buffer(static_cast<sp::Space>(5), 0, 0, 64, 0); });
  add("buffer-name", "buffers[2]: name 999 of",
      [](P &, R &r) { r.buffers[2] = sp::Buffer(sp::Space::arena, 0, 0, 64, 999); });
  add("buffer-argument", "buffers[0]: argument 2 of 2",
      [](P &, R &r) { r.buffers[0] = sp::Buffer(sp::Space::argument, 2, 0, 128, 0); });
  add("buffer-absent", "buffers[0]: argument \"x\" is not present on this rank",
      [](P &, R &r) { r.shards[0].present = false; });
  add("buffer-argument-offset", "buffers[0]: offset: expected 0 for an argument, found 64",
      [](P &, R &r) { r.buffers[0] = buffer(r.buffers[0], 64, 64); });
  add("buffer-argument-size",
      "buffers[0]: size: expected the 128 bytes of argument \"x\", found 256",
      [](P &, R &r) { r.buffers[0] = buffer(r.buffers[0], 0, 256); });
  add("buffer-alignment", "buffers[3]: offset 132 is not a multiple of 64",
      [](P &, R &r) { r.buffers[3] = buffer(r.buffers[3], 132, 64); });
  add("buffer-end", "buffers[3]: 1024 bytes at 128 do not lie inside the 704 bytes",
      [](P &, R &r) { r.buffers[3] = buffer(r.buffers[3], 128, 1024); });
  add("buffer-wrap", "do not lie inside",
      [](P &, R &r) { r.buffers[3] = buffer(r.buffers[3], ~uint64_t(0) - 63, 128); });
  add("buffer-symmetric-end", "buffers[6]: 192 bytes at 0 do not lie inside the 128 bytes",
      [](P &, R &r) { r.buffers[6] = buffer(r.buffers[6], 0, 192); });

  // Layouts and views.
  add("layout-dtype", "layouts[3]: unknown dtype 99",
      [](P &, R &r) { r.layouts[3].dtype = static_cast<sp::DType>(99); });
  add("layout-strides", "layouts[3]: shape has 2 dimensions, strides 1",
      [](P &, R &r) { r.layouts[3].strides.pop_back(); });
  add("layout-rank", "layouts[3]: expected at most 16 dimensions, found 17", [](P &, R &r) {
    r.layouts[3].shape.assign(17, 1);
    r.layouts[3].strides.assign(17, 1);
  });
  add("layout-extent", "layouts[3]: extent -1 of dimension 0",
      [](P &, R &r) { r.layouts[3].shape[0] = -1; });
  add("layout-stride", "layouts[3]: stride -1 of dimension 1",
      [](P &, R &r) { r.layouts[3].strides[1] = -1; });
  add("layout-size", "layouts[3]: the number of elements overflows",
      [](P &, R &r) { r.layouts[3].shape.assign(2, int64_t(1) << 40); });
  add("layout-reach", "layouts[3]: the offset of the last element overflows",
      [](P &, R &r) { r.layouts[3].strides[0] = int64_t(1) << 61; });
  add("view-buffer", "views[2]: buffer 7 of 7", [](P &, R &r) { r.views[2] = sp::View(7, 2, 0); });
  add("view-layout", "views[2]: layout 10 of 10",
      [](P &, R &r) { r.views[2] = sp::View(2, 10, 0); });
  add("view-alignment", "views[2]: offset 2 is not a multiple of the 4 bytes of f32",
      [](P &, R &r) { r.views[2] = sp::View(2, 2, 2); });
  add("view-end", "views[2]: f32[4,8] at offset 4 does not lie inside the 128 bytes",
      [](P &, R &r) { r.views[2] = sp::View(2, 2, 4); });
  add("view-offset", "does not lie inside the 128 bytes",
      [](P &, R &r) { r.views[2] = sp::View(2, 2, ~uint64_t(3)); });
  add("view-repeats",
      "views[2]: f32[2199023255552,8]{0,1} has 70368744177664 bytes of elements, over",
      [](P &, R &r) {
        r.layouts[2].shape[0] = int64_t(1) << 41;
        r.layouts[2].strides[0] = 0;
      });
  add("launch-operand", "launch_operands[1]: view 10 of 10",
      [](P &, R &r) { r.launchOperands[1] = 10; });

  // Channels.
  add("channel-capabilities", "channels[0]: unknown capabilities 0x8f",
      [](P &, R &r) { r.channels[0].capabilities = 0x8f; });
  add("channel-link", "channels[0]: link_class: expected \"node\" or \"network\", found \"pcie\"",
      [](P &, R &r) { r.channels[0].linkClass = "pcie"; });
  add("channel-member", "channels[0]: group: rank 2 of 2",
      [](P &, R &r) { r.channels[0].group[0] = 2; });
  add("channel-twice", "channels[0]: group: rank 1 is listed twice",
      [](P &, R &r) { r.channels[0].group[0] = 1; });
  add("channel-self", "channels[0]: self: group[0] is not this rank",
      [](P &, R &r) { r.channels[0].self = 0; });
  add("channel-self-range", "channels[0]: self: group[5]",
      [](P &, R &r) { r.channels[0].self = 5; });
  add("channel-count", "field channels: expected at most 4096, found 5000",
      [](P &, R &r) { r.channels.resize(5000, r.channels[0]); });

  // Kernels.
  using Op = sp::ExprOp;
  auto code = [&](const char *name, const char *expected, uint32_t inputs, uint32_t outputs,
                  std::vector<Instr> instrs) {
    add(name, expected,
        [=](P &, R &r) { r.kernels[0].code = encodeExpression(inputs, outputs, instrs); });
  };
  add("kernel-format", "kernels[0] (\"double\"): unknown format 9",
      [](P &, R &r) { r.kernels[0].format = static_cast<sp::KernelFormat>(9); });
  add("kernel-garbage", "expression: not a valid FlatBuffer",
      [](P &, R &r) { r.kernels[0].code.assign(40, 0xee); });
  add("kernel-empty", "kernels[0] (\"double\"): expression: not a valid FlatBuffer",
      [](P &, R &r) { r.kernels[0].code.clear(); });
  code("expr-no-output", "expected at least one output", 1, 0, {{Op::load, 0, 0, 0, 0}});
  code("expr-operands", "expected at least one output and at most 64 operands", 64, 1, {});
  code("expr-input", "instruction 0: input 1 of 1", 1, 1, {{Op::load, 1, 0, 0, 0}});
  code("expr-output", "instruction 1: output 1 of 1", 1, 1,
       {{Op::load, 0, 0, 0, 0}, {Op::store, 0, 1, 0, 0}});
  code("expr-twice", "instruction 2: output 0 is stored twice", 1, 1,
       {{Op::load, 0, 0, 0, 0}, {Op::store, 0, 0, 0, 0}, {Op::store, 0, 0, 0, 0}});
  code("expr-never", "an output is never stored", 1, 2,
       {{Op::load, 0, 0, 0, 0}, {Op::store, 0, 0, 0, 0}});
  code("expr-undefined", "instruction 1: register 1 is not defined before its use", 1, 1,
       {{Op::load, 0, 0, 0, 0}, {Op::add, 0, 1, 0, 0}, {Op::store, 1, 0, 0, 0}});
  code("expr-store-register", "instruction 2: register 1 is not defined", 1, 1,
       {{Op::load, 0, 0, 0, 0}, {Op::store, 0, 0, 0, 0}, {Op::neg, 1, 0, 0, 0}});
  code("expr-third", "instruction 1: register 7 is not defined", 1, 1,
       {{Op::load, 0, 0, 0, 0}, {Op::fma, 0, 0, 7, 0}, {Op::store, 1, 0, 0, 0}});
  code("expr-op", "instruction 0: unknown operation 200", 1, 1,
       {{static_cast<Op>(200), 0, 0, 0, 0}});
  code("expr-long", "expected at most 4096 instructions, found 5000", 1, 1,
       std::vector<Instr>(5000, Instr(Op::load)));
  code("expr-int-operand", "instruction 1: register 0: expected i32, found f32", 1, 1,
       {{Op::load, 0, 0, 0, 0}, {Op::add, 0, 0, 0, 0, kI32}, {Op::store, 1, 0, 0, 0, kI32}});
  code("expr-float-operand", "instruction 1: register 0: expected f32, found i32", 1, 1,
       {{Op::load, 0, 0, 0, 0, kI32}, {Op::add, 0, 0, 0, 0}, {Op::store, 1, 0, 0, 0}});
  code("expr-condition", "instruction 1: register 0: expected i32, found f32", 1, 1,
       {{Op::load, 0, 0, 0, 0}, {Op::select, 0, 0, 0, 0}, {Op::store, 1, 0, 0, 0}});
  code("expr-truth", "instruction 2: register 1: expected f32, found i32", 1, 1,
       {{Op::load, 0, 0, 0, 0}, {Op::cmp_lt, 0, 0, 0, 0}, {Op::store, 1, 0, 0, 0}});
  code("expr-type", "instruction 0: unknown type 9", 1, 1,
       {{Op::load, 0, 0, 0, 0, static_cast<sp::RegisterType>(9)}});
  code("expr-no-such-type", "instruction 1: exp has no type i32", 1, 1,
       {{Op::load, 0, 0, 0, 0, kI32}, {Op::exp, 0, 0, 0, 0, kI32}});
  code("expr-convert", "instruction 1: convert from f32 to f32", 1, 1,
       {{Op::load, 0, 0, 0, 0}, {Op::convert, 0, 0, 0, 0}});
  code("expr-unsigned", "instruction 1: convert_unsigned from f32 to f64", 1, 1,
       {{Op::load, 0, 0, 0, 0}, {Op::convert_unsigned, 0, 0, 0, 0, kF64}});
  code("expr-bitcast", "instruction 1: bitcast from f32 to i64", 1, 1,
       {{Op::load, 0, 0, 0, 0}, {Op::bitcast, 0, 0, 0, 0, kI64}});
  code("expr-two-types", "instruction 1: input 0 is accessed as f32 and as i32", 1, 1,
       {{Op::load, 0, 0, 0, 0}, {Op::load, 0, 0, 0, 0, kI32}});
  code("expr-store-type", "instruction 1: register 0: expected i32, found f32", 1, 1,
       {{Op::load, 0, 0, 0, 0}, {Op::store, 0, 0, 0, 0, kI32}});
  code("expr-int-input", "instruction 0: input 3 of 1", 1, 1, {{Op::load, 3, 0, 0, 0, kI32}});
  code("expr-int-output", "instruction 1: output 2 of 1", 1, 1,
       {{Op::load, 0, 0, 0, 0, kI32}, {Op::store, 0, 2, 0, 0, kI32}});
  add("kernel-types-count", "kernels[0] (\"double\"): operand_types: expected 2, found 3",
      [](P &, R &r) { r.kernels[0].operandTypes = {0, 0, 0}; });
  add("kernel-types-unknown", "operand_types[1]: unknown dtype 77",
      [](P &, R &r) { r.kernels[0].operandTypes = {0, 77}; });
  add("kernel-types-int", "operand_types[1]: the expression accesses it as i32, found f32",
      [](P &, R &r) {
        r.kernels[0].code = encodeExpression(
            1, 1,
            {{Op::load, 0, 0, 0, 0, kI32}, {Op::convert, 0, 0, 0, 0}, {Op::store, 1, 0, 0, 0}});
        r.kernels[0].operandTypes = {0, 0};
      });
  auto native = [&](const char *name, const char *expected, NativeCodeSpec code,
                    std::vector<uint8_t> types) {
    add(name, expected, [=](P &, R &r) {
      r.kernels[0].operandTypes = types;
      r.kernels[0].native = {{sp::KernelFormat::ptx, "sm_80", {1}}, code};
    });
  };
  native("native-format", "native[1]: unknown format 7",
         {static_cast<sp::KernelFormat>(7), "sm_90", {1}}, {0, 0});
  native("native-expression", "native[1]: expected native code, found an expression",
         {sp::KernelFormat::expression, "cpu", {1}}, {0, 0});
  native("native-empty", "native[1]: no code", {sp::KernelFormat::ptx, "sm_90", {}}, {0, 0});
  native("native-types", "native[0]: the kernel has no operand_types",
         {sp::KernelFormat::ptx, "sm_90", {1}}, {});
  add("kernel-outputs", "kernels[0] (\"double\"): outputs: the expression has 1, found 2",
      [](P &, R &r) { r.kernels[0].outputs = 2; });
  add("kernel-outputs-native", "kernels[0] (\"double\"): outputs: 0 of 2 operands", [](P &, R &r) {
    r.kernels[0].format = sp::KernelFormat::ptx;
    r.kernels[0].operandTypes = {0, 0};
  });
  add("kernel-outputs-many", "kernels[0] (\"double\"): outputs: 3 of 2 operands", [](P &, R &r) {
    r.kernels[0].format = sp::KernelFormat::ptx;
    r.kernels[0].operandTypes = {0, 0};
    r.kernels[0].outputs = 3;
  });
  return all;
}

class RejectTables : public testing::TestWithParam<Reject> {};
TEST_P(RejectTables, SaysWhere) { expectRejected(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, RejectTables, testing::ValuesIn(brokenTables()), nameOf);

} // namespace
} // namespace tandem::test
