//===- RejectCommandsTest.cpp - broken commands are refused ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SampleProgram.h"

#include "tandem/Program/Program.h"

#include <gtest/gtest.h>

namespace tandem::test {

namespace {

using P = ProgramSpec;
using R = RankSpec;
namespace s = sample;

std::vector<Reject> brokenCommands() {
  std::vector<Reject> all;
  auto add = [&](const char *name, const char *expected, std::function<void(P &, R &)> breakIt) {
    all.push_back({name, std::move(breakIt), expected});
  };
  // Fields of every command.
  add("kind", "rank 1: command 2 (? \"copy #2\"): field kind: unknown command 99",
      [](P &, R &r) { r.commands[s::copy].kind = static_cast<sp::CommandKind>(99); });
  add("name", "field name: 999 of", [](P &, R &r) { r.commands[s::copy].name = 999; });
  add("stream", "command 2 (copy \"copy #2\"): field stream: 2 of 2",
      [](P &, R &r) { r.commands[s::copy].stream = 2; });
  add("reserved", "field reserved: expected 0, found 5",
      [](P &, R &r) { r.commands[s::copy].reserved = 5; });
  add("reduce-op", "field reduce_op: unknown operation 3",
      [](P &, R &r) { r.commands[s::accumulate].reduceOp = static_cast<sp::ReduceOp>(3); });
  add("flags", "field flags: unexpected 0x4", [](P &, R &r) { r.commands[s::copy].flags = 4; });
  add("matmul-flags", "field flags: unexpected 0x8",
      [](P &, R &r) { r.commands[s::matmul].flags = 9; });
  add("signal-flags", "field flags: unexpected 0x4",
      [](P &, R &r) { r.commands[s::signal].flags = 12; });
  add("channel-of-copy", "field channel: expected none, found 0",
      [](P &, R &r) { r.commands[s::copy].channel = 0; });
  add("channel", "field channel: 1 of 1", [](P &, R &r) { r.commands[s::gather].channel = 1; });
  add("channel-none", "field channel: 65535 of 1",
      [](P &, R &r) { r.commands[s::put].channel = sp::kNoChannel; });
  add("channel-of-others", "this rank does not take part in channel 1", [](P &, R &r) {
    r.channels.push_back({"others", 7, {}, 0});
    r.commands[s::gather].channel = 1;
  });
  auto lacks = [&](const char *name, s::Command command, uint32_t left, const char *what) {
    add(name, what, [=](P &, R &r) {
      r.channels.push_back(r.channels[0]);
      r.channels[1].capabilities = left;
      r.commands[command].channel = 1;
    });
  };
  lacks("capability-collectives", s::gather, 3, "channel 1 lacks collectives");
  lacks("capability-group", s::group, 6, "channel 1 lacks two_sided");
  lacks("capability-put", s::put, 5, "channel 1 lacks one_sided");
  lacks("capability-signal", s::signal, 5, "channel 1 lacks one_sided");
  lacks("capability-wait-signal", s::waitSignal, 5, "channel 1 lacks one_sided");
  add("operand-missing", "operand 1: missing",
      [](P &, R &r) { r.commands[s::copy].operands[1] = sp::kNoView; });
  add("operand-extra", "operand 2: expected none, found view 0",
      [](P &, R &r) { r.commands[s::copy].operands[2] = 0; });
  add("operand-range", "operand 1: view 10 of 10",
      [](P &, R &r) { r.commands[s::copy].operands[1] = 10; });
  add("operand-of-record", "operand 0: expected none",
      [](P &, R &r) { r.commands[s::record].operands[0] = 1; });

  // Events.
  add("event", "command 0 (record \"record #0\"): field aux: event 1 of 1",
      [](P &, R &r) { r.commands[s::record].aux = 1; });
  add("event-not-recorded", "event 0 has not been recorded before",
      [](P &, R &r) { std::swap(r.commands[s::record], r.commands[s::wait]); });
  add("event-twice", "event 0 is recorded twice",
      [](P &, R &r) { r.commands[s::wait].kind = sp::CommandKind::record; });

  // Copies and their like.
  add("copy-dtype", "src: expected f32, found i32",
      [](P &, R &r) { r.layouts[s::x].dtype = sp::DType::i32; });
  add("copy-shape", "src: expected the shape of f32[4,8], found f32[2,8]",
      [](P &, R &r) { r.layouts[s::x].shape[0] = 2; });
  add("copy-rank", "src: expected the shape of", [](P &, R &r) {
    r.layouts[s::x].shape = {32};
    r.layouts[s::x].strides = {1};
  });
  add("copy-to-input", "dst: writes to the input argument \"x\"",
      [](P &, R &r) { r.commands[s::copy].operands[0] = s::x; });
  add("copy-repeated", "dst: f32[4,8]{0,1} writes elements more than once",
      [](P &, R &r) { r.layouts[s::a].strides = {0, 1}; });
  add("copy-overlap", "src: overlaps the output", [](P &, R &r) {
    r.commands[s::copy].operands[0] = s::half;
    r.commands[s::copy].operands[1] = r.view(3, DType::F32, {4, 8}, 64);
  });
  add("accumulate-dtype", "command 4 (accumulate \"accumulate #4\"): src: expected f32, found f16",
      [](P &, R &r) { r.commands[s::accumulate].operands[1] = r.view(0, DType::F16, {4, 8}); });
  add("accumulate-shape", "src: expected the shape of",
      [](P &, R &r) { r.commands[s::accumulate].operands[1] = s::b; });

  // Matmul.
  add("matmul-i32", "out: a matmul of i32",
      [](P &, R &r) { r.commands[s::matmul].operands[0] = r.view(1, DType::I32, {4, 8}); });
  add("matmul-dtype", "b: expected f32, found bf16",
      [](P &, R &r) { r.commands[s::matmul].operands[2] = r.view(3, DType::BF16, {8, 8}); });
  add("matmul-rank", "expected at least 2 dimensions",
      [](P &, R &r) { r.commands[s::matmul].operands[1] = s::bias; });
  add("matmul-k", "shapes do not fit: out f32[4,8], a f32[4,8], b f32[4,8]",
      [](P &, R &r) { r.commands[s::matmul].operands[2] = s::half; });
  add("matmul-transposed", "shapes do not fit: out f32[4,8], a f32[4,8] transposed",
      [](P &, R &r) { r.commands[s::matmul].flags = 1; });
  add("matmul-batch", "shapes do not fit",
      [](P &, R &r) { r.commands[s::matmul].operands[1] = r.view(2, DType::F32, {1, 4, 8}); });
  add("matmul-batch-extent", "shapes do not fit", [](P &, R &r) {
    r.commands[s::matmul].operands[0] = r.view(1, DType::F32, {2, 2, 8});
    r.commands[s::matmul].operands[1] = r.view(2, DType::F32, {3, 2, 4});
    r.commands[s::matmul].operands[2] = r.view(3, DType::F32, {4, 8});
  });
  add("matmul-bias", "bias: expected [8], found f32[4]",
      [](P &, R &r) { r.commands[s::matmul].operands[3] = r.view(3, DType::F32, {4}); });
  add("matmul-whole-bias-shape", "bias: expected the shape of f32[4,8], found f32[8,8]",
      [](P &, R &r) { r.commands[s::matmul].operands[3] = r.view(3, DType::F32, {8, 8}); });
  add("matmul-whole-bias-dtype", "bias: expected f32, found bf16",
      [](P &, R &r) { r.commands[s::matmul].operands[3] = r.view(3, DType::BF16, {4, 8}); });
  add("matmul-whole-bias-accumulate", "bias: expected no accumulate beside a bias of the output",
      [](P &, R &r) {
        r.commands[s::matmul].operands[3] = s::wide;
        r.commands[s::matmul].flags = 4;
      });
  add("matmul-alias", "a: overlaps the output",
      [](P &, R &r) { r.commands[s::matmul].operands[1] = s::y; });
  add("matmul-alias-b", "b: overlaps the output",
      [](P &, R &r) { r.commands[s::matmul].operands[0] = s::half; });
  add("matmul-alias-bias", "bias: overlaps the output",
      [](P &, R &r) { r.commands[s::matmul].operands[3] = r.view(1, DType::F32, {8}, 32); });
  auto fp8 = [](R &r, DType out, DType b, DType bias) {
    r.commands[s::matmul].operands[0] = r.view(1, out, {4, 4});
    r.commands[s::matmul].operands[1] = r.view(2, DType::F8E4M3FN, {4, 8});
    r.commands[s::matmul].operands[2] = r.view(3, b, {8, 4});
    r.commands[s::matmul].operands[3] = r.view(3, bias, {4}, 64);
  };
  add("matmul-fp8", "out: a matmul of f8E5M2",
      [=](P &, R &r) { fp8(r, DType::F8E5M2, DType::F8E5M2, DType::F8E5M2); });
  add("matmul-fp8-f64", "a: expected f64, found f8E4M3FN",
      [=](P &, R &r) { fp8(r, DType::F64, DType::F8E5M2, DType::F64); });
  add("matmul-fp8-b", "b: expected f8E4M3FN, found bf16",
      [=](P &, R &r) { fp8(r, DType::BF16, DType::BF16, DType::BF16); });
  add("matmul-fp8-bias", "bias: expected bf16, found f16",
      [=](P &, R &r) { fp8(r, DType::BF16, DType::F8E5M2, DType::F16); });
  add("accumulate-fp8", "field reduce_op: a reduction of f8E4M3FN", [](P &, R &r) {
    r.commands[s::accumulate].operands[0] = r.view(1, DType::F8E4M3FN, {4});
    r.commands[s::accumulate].operands[1] = r.view(2, DType::F8E4M3FN, {4});
  });

  // Reduce.
  add("reduce-no-dims", "field value: dimensions 0x0 of f32[4,8]",
      [](P &, R &r) { r.commands[s::reduce].value = 0; });
  add("reduce-dims", "field value: dimensions 0x4 of f32[4,8]",
      [](P &, R &r) { r.commands[s::reduce].value = 4; });
  add("reduce-shape", "dst: f32[8] is not f32[4,8] without dimensions 0x2",
      [](P &, R &r) { r.commands[s::reduce].value = 2; });
  add("reduce-dtype", "src: expected f32, found i32",
      [](P &, R &r) { r.commands[s::reduce].operands[1] = r.view(0, DType::I32, {4, 8}); });
  add("reduce-alias", "src: overlaps the output", [](P &, R &r) {
    r.commands[s::reduce].operands[0] = r.view(2, DType::F32, {8});
    r.commands[s::reduce].operands[1] = s::a;
  });

  // Collectives.
  add("collective-kind", "field op: unknown collective 8",
      [](P &, R &r) { r.commands[s::gather].op = 8; });
  add("collective-root", "field peer: root 2 of 2",
      [](P &, R &r) { r.commands[s::broadcast].peer = 2; });
  add("collective-out", "out: missing",
      [](P &, R &r) { r.commands[s::gather].operands[0] = sp::kNoView; });
  add("collective-in", "in: missing",
      [](P &, R &r) { r.commands[s::gather].operands[1] = sp::kNoView; });
  add("collective-root-in", "in: missing",
      [](P &, R &r) { r.commands[s::broadcast].operands[1] = sp::kNoView; });
  add("collective-slices", "out: expected 2 slices, found f32[8,8]",
      [](P &, R &r) { r.commands[s::gather].operands[0] = s::b; });
  add("collective-slices-in", "in: expected 2 slices, found f32[4,8]",
      [](P &, R &r) { r.commands[s::reduceScatter].operands[1] = s::x; });
  add("collective-shape", "shapes do not fit: out f32[2,4,8], in f32[8], group of 2",
      [](P &, R &r) { r.commands[s::gather].operands[1] = s::row; });
  add("collective-dtype", "in: expected f32, found f16",
      [](P &, R &r) { r.commands[s::gather].operands[1] = r.view(0, DType::F16, {4, 8}); });
  add("collective-to-input", "out: writes to the input argument",
      [](P &, R &r) { r.commands[s::broadcast].operands[0] = s::x; });
  add("collective-alias", "in: overlaps the output",
      [](P &, R &r) { r.commands[s::gather].operands[1] = s::half; });
  add("collective-alias-all-to-all", "in: overlaps the output", [](P &, R &r) {
    r.commands[s::gather].op = static_cast<uint8_t>(CollectiveKind::AllToAll);
    r.commands[s::gather].operands[1] = s::stack;
  });

  // Groups and messages.
  add("group-count", "field aux: 99 messages, only",
      [](P &, R &r) { r.commands[s::group].aux = 99; });
  add("group-long",
      "command 12 (put \"put #12\"): is inside the group of command 9, which has 1 more",
      [](P &, R &r) { r.commands[s::group].aux = 3; });
  add("group-short", "command 11 (recv \"recv #11\"): is outside a group",
      [](P &, R &r) { r.commands[s::group].aux = 1; });
  add("group-stream", "is on stream 0, its group (command 9) on 1",
      [](P &, R &r) { r.commands[s::send].stream = 0; });
  add("group-channel", "is on channel 1, its group (command 9) on 0", [](P &, R &r) {
    r.channels.push_back(r.channels[0]);
    r.commands[s::recv].channel = 1;
  });
  add("message-peer", "field peer: 2 of 2", [](P &, R &r) { r.commands[s::send].peer = 2; });
  add("message-tag", "field aux: tag 0 is used twice",
      [](P &, R &r) { r.commands[s::recv] = r.commands[s::send]; });
  add("message-to-input", "buffer: writes to the input argument",
      [](P &, R &r) { r.commands[s::recv].operands[0] = s::x; });
  add("message-overlap", "buffer: overlaps another message's", [](P &, R &r) {
    r.commands[s::send].operands[0] = s::a;
    r.commands[s::recv].operands[0] = s::a;
  });

  // One-sided.
  add("put-peer", "field peer: 2 of 2", [](P &, R &r) { r.commands[s::put].peer = 2; });
  add("put-space", "dst: expected symmetric memory",
      [](P &, R &r) { r.commands[s::put].operands[0] = s::a; });
  add("put-dtype", "src: expected f32, found i32",
      [](P &, R &r) { r.commands[s::put].operands[1] = r.view(0, DType::I32, {4, 8}); });
  add("put-shape", "src: expected the shape of",
      [](P &, R &r) { r.commands[s::put].operands[1] = s::row; });
  add("put-repeated", "dst: f32[4,8]{0,1} writes",
      [](P &, R &r) { r.commands[s::put].operands[0] = r.view(6, DType::F32, {4, 8}, {0, 1}, 0); });
  add("put-to-itself", "src: overlaps the output", [](P &, R &r) {
    r.commands[s::put].peer = 1;
    r.commands[s::put].operands[0] = r.view(6, DType::F32, {4}, 0);
    r.commands[s::put].operands[1] = r.view(6, DType::F32, {4}, 8);
  });
  add("signal-peer", "field peer: 9 of 2", [](P &, R &r) { r.commands[s::signal].peer = 9; });
  add("signal-slot", "field aux: signal slot 2 of 2",
      [](P &, R &r) { r.commands[s::signal].aux = 2; });
  add("signal-zero", "field value: expected 1 to 2, found 0",
      [](P &, R &r) { r.commands[s::signal].value = 0; });
  add("signal-value", "field value: expected 1 to 2, found 3",
      [](P &, R &r) { r.commands[s::signal].value = 3; });
  add("wait-slot", "field aux: signal slot 7 of 2",
      [](P &, R &r) { r.commands[s::waitSignal].aux = 7; });
  add("wait-value", "field value: expected 1 to 2, found 3",
      [](P &, R &r) { r.commands[s::waitSignal].value = 3; });

  // Launch.
  add("launch-kernel", "field aux: kernel 1 of 1",
      [](P &, R &r) { r.commands[s::launch].aux = 1; });
  add("launch-range", "operands: 3 from 0 of 2 launch_operands",
      [](P &, R &r) { r.commands[s::launch].operands[1] = 3; });
  add("launch-first", "operands: 2 from 4294967295 of 2",
      [](P &, R &r) { r.commands[s::launch].operands[0] = 0xffffffffu; });
  add("launch-count", "operands: kernel \"double\" has 2, found 1",
      [](P &, R &r) { r.commands[s::launch].operands[1] = 1; });
  add("launch-type", "operand 1: kernel \"double\" expects bf16, found f32",
      [](P &, R &r) { r.kernels[0].operandTypes = {0, 2}; });
  add("launch-int", "operand 1: the expression accesses it as i32, found f32", [](P &, R &r) {
    using Op = sp::ExprOp;
    r.kernels[0].code = encodeExpression(
        1, 1, {{Op::load, 0, 0, 0, 0, kI32}, {Op::convert, 0, 0, 0, 0}, {Op::store, 1, 0, 0, 0}});
    r.kernels[0].operandTypes.clear();
    r.kernels[0].native.clear();
  });
  add("launch-shape", "operand 1: expected the shape of",
      [](P &, R &r) { r.launchOperands[1] = s::row; });
  add("launch-to-input", "operand 0: writes to the input argument",
      [](P &, R &r) { r.launchOperands[0] = s::x; });
  auto native = [](R &r, uint32_t outputs) {
    r.kernels[0].format = sp::KernelFormat::ptx;
    r.kernels[0].outputs = outputs;
  };
  add("launch-native-to-input", "operand 1: writes to the input argument", [=](P &, R &r) {
    native(r, 2);
    r.launchOperands[1] = s::x;
  });
  add("launch-native-outputs", "operands: kernel \"double\" has 3, found 2", [=](P &, R &r) {
    native(r, 3);
    r.kernels[0].operandTypes.clear();
    r.kernels[0].native.clear();
  });
  // Calls of an external kernel with one parallel dimension: y[4, 8], then the symmetric [4, 8].
  auto call = [&](const char *name, const char *expected,
                  std::function<void(RankSpec &, KernelSpec &)> breakIt) {
    add(name, expected, [=](P &, R &r) {
      CommandSpec &command = r.commands[s::launch];
      command.kind = sp::CommandKind::call;
      KernelSpec &kernel = r.kernels[0];
      kernel.format = sp::KernelFormat::external;
      kernel.code.clear();
      kernel.native.clear();
      kernel.outputs = 1;
      kernel.operandTypes = {0, 0};
      kernel.dims = {{0, -1, 0, -1}};
      r.callPlaces = {{8, 16}};
      breakIt(r, kernel);
    });
  };
  add("launch-of-external", "field aux: kernel \"double\" is external", [](P &, R &r) {
    r.kernels[0] = {"double", sp::KernelFormat::external, "", {}, {0, 0}, {}, 1, {{0, -1, 0, -1}}};
  });
  call("call-of-expression", "field aux: kernel \"double\" is not external",
       [](RankSpec &, KernelSpec &k) { k.format = sp::KernelFormat::ptx; });
  call("call-kernel", "field aux: kernel 1 of 1",
       [](RankSpec &r, KernelSpec &) { r.commands[s::launch].aux = 1; });
  call("call-count", "operands: kernel \"double\" has 3, found 2",
       [](RankSpec &, KernelSpec &k) { k.operandTypes.push_back(0); });
  call("call-type", "operand 1: kernel \"double\" expects f16, found f32",
       [](RankSpec &, KernelSpec &k) { k.operandTypes[1] = 1; });
  call("call-to-input", "operand 0: writes to the input argument",
       [](RankSpec &r, KernelSpec &) { r.launchOperands[0] = s::x; });
  call("call-overlap", "operand 1: overlaps the output",
       [](RankSpec &r, KernelSpec &) { r.launchOperands[1] = r.launchOperands[0]; });
  call("call-dense", "operand 1: kernel \"double\" expects dense views, found f32[4,8]{8,16}",
       [](RankSpec &r, KernelSpec &) {
         uint32_t wide = r.arena(1024);
         r.launchOperands[1] = r.view(wide, DType::F32, {4, 8}, {8, 16}, 0);
       });
  call("call-dims-few", "operand 1: kernel \"double\" has dims of 3 dimensions, found more",
       [](RankSpec &, KernelSpec &k) { k.dims = {{0, -1, 0}}; });
  call("call-dims-many", "operands: kernel \"double\" has dims of 5 dimensions, found 4",
       [](RankSpec &, KernelSpec &k) { k.dims = {{0, -1, 0, -1, -1}}; });
  call("call-dims-order", "operand 0, dimension 0: expected parallel dimension 0, found 1",
       [](RankSpec &, KernelSpec &k) { k.dims = {{1, 0, 0, -1}}; });
  call("call-dims-lacking",
       "operand 1, dimension 1: 8 indices of parallel dimension 1, which the "
       "output lacks",
       [](RankSpec &, KernelSpec &k) { k.dims = {{0, -1, 0, 1}}; });
  call("call-dims-extent",
       "operand 1, dimension 1: 8 indices of parallel dimension 0, which the "
       "output has 4 of",
       [](RankSpec &, KernelSpec &k) { k.dims = {{0, -1, -1, 0}}; });
  call("call-varying", "kernel \"double\": varying parallel dimension 1 of 1",
       [](RankSpec &, KernelSpec &k) { k.varying = {1}; });
  call("call-places", "field value: 1 from 1 of 1 call_places",
       [](RankSpec &r, KernelSpec &) { r.commands[s::launch].value = 1; });
  call("call-offset", "parallel dimension 0: 4 indices from -1 on of 16",
       [](RankSpec &r, KernelSpec &) { r.callPlaces = {{-1, 16}}; });
  call("call-extent", "parallel dimension 0: 4 indices from 13 on of 16",
       [](RankSpec &r, KernelSpec &) { r.callPlaces = {{13, 16}}; });
  call("call-outputs-order", "operand 1, dimension 0: expected parallel dimension 0, found 1",
       [](RankSpec &, KernelSpec &k) {
         k.outputs = 2;
         k.dims = {{0, 1, 1, 0}};
       });
  call("call-outputs-lacking", "operand 1: expected 1 parallel dimensions, found 0",
       [](RankSpec &, KernelSpec &k) {
         k.outputs = 2;
         k.dims = {{0, -1, -1, -1}};
       });
  call("call-outputs-overlap", "operand 1: overlaps the output", [](RankSpec &r, KernelSpec &k) {
    k.outputs = 2;
    r.launchOperands[1] = r.launchOperands[0];
  });
  call("call-outputs-input", "operand 1: writes to the input argument",
       [](RankSpec &r, KernelSpec &k) {
         k.outputs = 2;
         r.launchOperands[1] = s::x;
       });
  call("external-outputs", "kernels[0] (\"double\"): outputs: 3 of 2 operands",
       [](RankSpec &, KernelSpec &k) { k.outputs = 3; });
  call("external-no-outputs", "kernels[0] (\"double\"): outputs: 0 of 2 operands",
       [](RankSpec &, KernelSpec &k) { k.outputs = 0; });
  call("external-effects", "kernels[0] (\"double\"): effects: found 3",
       [](RankSpec &, KernelSpec &k) { k.effects = static_cast<sp::KernelEffects>(3); });
  call("external-dims", "kernels[0] (\"double\"): no dims",
       [](RankSpec &, KernelSpec &k) { k.dims.reset(); });
  call("external-dims-negative",
       "kernels[0] (\"double\"): dims[1]: expected -1 or a parallel dimension, found -2",
       [](RankSpec &, KernelSpec &k) { k.dims = {{0, -2, 0, -1}}; });
  call("external-flops", "kernels[0] (\"double\"): flops, bytes: found -1, -1",
       [](RankSpec &, KernelSpec &k) { k.flops = -1; });

  add("launch-overlap", "operand 1: overlaps the output", [](P &, R &r) {
    r.launchOperands[0] = s::half;
    r.launchOperands[1] = r.view(3, DType::F32, {4, 8}, 64);
  });
  return all;
}

class RejectCommands : public testing::TestWithParam<Reject> {};
TEST_P(RejectCommands, SaysWhere) { expectRejected(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, RejectCommands, testing::ValuesIn(brokenCommands()), nameOf);

TEST(AcceptCommands, Sample) {
  auto file = ProgramFile::fromMemory(sampleProgram().encode());
  ASSERT_TRUE(file.ok()) << file.status().message();
  for (uint32_t r = 0; r < 2; ++r) {
    auto program = (*file)->rankProgram(r);
    ASSERT_TRUE(program.ok()) << program.status().message();
    EXPECT_EQ((*program)->rank(), r);
    EXPECT_EQ((*program)->arguments().size(), 2u);
  }
}

/// What looks like the rejected, but is allowed.
TEST(AcceptCommands, InPlace) {
  P spec = sampleProgram();
  for (R &r : spec.ranks) {
    // The own slice of the gathered buffer, the whole of the broadcast, a copy onto itself,
    // interleaved columns.
    r.commands[s::gather].operands[1] = r.view(3, DType::F32, {4, 8}, r.rank * 128);
    r.commands[s::reduceScatter].operands[0] = r.view(3, DType::F32, {4, 8}, r.rank * 128);
    r.commands[s::broadcast].operands[1] = s::a;
    r.commands[s::accumulate].operands[1] = s::y;
    r.commands[s::copy].operands[0] = r.view(4, DType::F32, {4, 8}, {16, 1}, 0);
    r.commands[s::copy].operands[1] = r.view(4, DType::F32, {4, 8}, {16, 1}, 32);
    r.launchOperands[1] = s::y;
  }
  auto file = ProgramFile::fromMemory(spec.encode());
  ASSERT_TRUE(file.ok()) << file.status().message();
  auto program = (*file)->rankProgram(1);
  EXPECT_TRUE(program.ok()) << program.status().message();
}

} // namespace
} // namespace tandem::test
