//===- GraphTest.cpp - capture and replay, and what may go wrong with them ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"

#include "tandem-c/Runtime.h"

#include "tandem/Runtime/Channel.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <gtest/gtest.h>
#include <mutex>
#include <thread>

using namespace tandem;
using namespace tandem::test;

namespace {

/// Holds its stream until it is let go.
class Gate final : public HostOperation {
public:
  Status execute(const Frame &) override {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return isOpen; });
    return Status();
  }
  void open() {
    std::lock_guard<std::mutex> lock(mutex);
    isOpen = true;
    changed.notify_all();
  }

private:
  std::mutex mutex;
  std::condition_variable changed;
  bool isOpen = false;
};

Operand operandOf(uint32_t slot) {
  int64_t shape[] = {16};
  return {slot, Layout::dense(DType::F32, shape, 1)};
}

TEST(GpuGraph, AQueuedLaunchKeepsItsGraph) {
  auto device = fakeDevice();
  ASSERT_TRUE(device);
  auto stream = device->createStream(StreamPriority::Normal),
       captured = device->createStream(StreamPriority::Normal);
  ASSERT_TRUE(stream.ok() && captured.ok());
  auto from = device->allocate(64, MemoryKind::Plain), to = device->allocate(64, MemoryKind::Plain);
  ASSERT_TRUE(from.ok() && to.ok());
  float ones[16], found[16] = {};
  std::fill_n(ones, 16, 1.0f);
  ASSERT_TRUE(device->upload((*from)->data(), ones, sizeof ones).ok());
  auto copy = device->prepareCopy(operandOf(0), operandOf(1));
  ASSERT_TRUE(copy.ok());
  void *pointers[] = {(*to)->data(), (*from)->data()};
  Frame frame;
  frame.pointers = pointers;
  auto graph = device->capture({captured->get()}, nullptr,
                               [&] { return (*copy)->enqueue(**captured, frame); });
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  Gate gate;
  ASSERT_TRUE((*stream)->enqueueHost(gate, frame).ok());
  ASSERT_TRUE((*graph)->launch(**stream, frame).ok());
  graph->reset(); // as an abort on another thread does, while the launch waits for its turn
  gate.open();
  Status ended = (*stream)->synchronize();
  EXPECT_TRUE(ended.ok()) << ended.message();
  ASSERT_TRUE(device->download(found, (*to)->data(), sizeof found).ok());
  EXPECT_EQ(found[15], 1.0f);
}

/// Every rank puts its input to the next one and copies what has arrived. `exclusive`: the signals
/// are known to be their ranks' alone.
ProgramSpec ring(uint32_t ranks, bool exclusive = false, uint32_t stream = 0) {
  ProgramSpec spec(ranks);
  uint32_t in = spec.stacked("in", false, DType::F32, {16});
  uint32_t out = spec.stacked("out", true, DType::F32, {16});
  std::vector<uint32_t> everybody;
  for (uint32_t r = 0; r < ranks; ++r)
    everybody.push_back(r);
  for (uint32_t r = 0; r < ranks; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint32_t from = rank.view(rank.argument(in, 64), DType::F32, {16});
    uint32_t to = rank.view(rank.argument(out, 64), DType::F32, {16});
    uint32_t space = rank.view(rank.symmetric(64), DType::F32, {16});
    uint16_t channel = rank.channel(everybody, OneSided);
    rank.slots = {1, 1};
    if (stream)
      rank.sync(stream, 0);
    rank.put(stream, channel, space, from, (r + 1) % ranks);
    rank.signal(stream, channel, (r + 1) % ranks, 0, 1, exclusive);
    rank.waitSignal(stream, channel, 0, 1);
    rank.copy(stream, to, space);
    rank.signal(stream, channel, (r + ranks - 1) % ranks, 1, 1, exclusive);
    rank.waitSignal(stream, channel, 1, 1);
    if (stream)
      rank.sync(0, stream);
  }
  return spec;
}

/// Five runs of ring() on what is bound, each with other values; whether results are the
/// neighbour's.
Status runRingOn(const std::vector<std::unique_ptr<Memory>> &memory, Context &context,
                 Instance &instance) {
  uint32_t previous = (context.rank() + context.worldSize() - 1) % context.worldSize();
  for (int run = 0; run < 5; ++run) {
    float values[16], found[16] = {};
    std::fill_n(values, 16, static_cast<float>(100 * run + static_cast<int>(context.rank())));
    TANDEM_RETURN_IF_ERROR(context.device().upload(memory[0]->data(), values, sizeof values));
    TANDEM_RETURN_IF_ERROR(instance.run());
    TANDEM_RETURN_IF_ERROR(context.device().download(found, memory[1]->data(), sizeof found));
    if (found[7] != static_cast<float>(100 * run + static_cast<int>(previous)))
      return Status(Code::Internal,
                    "run " + std::to_string(run) + ": found " + std::to_string(found[7]));
  }
  return Status();
}

Status runRing(Context &context, Instance &instance) {
  TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
  return runRingOn(memory, context, instance);
}

void expectAllOk(const std::vector<Status> &ranks) {
  for (size_t r = 0; r < ranks.size(); ++r)
    EXPECT_TRUE(ranks[r].ok()) << "rank " << r << ": " << ranks[r].message();
}

TEST(GpuGraph, RunsAreReplayed) {
  int64_t before = fakeNumber("graph-launches");
  expectAllOk(runRanks(ring(2), "peer", runRing));
  EXPECT_EQ(fakeNumber("graph-launches") - before, 10);
}

/// A run in a stream of the caller, whose handle is `native`.
tandem_code runOnCallers(void *native, tandem_context *context, tandem_instance *instance) {
  // [docs: wrap]
  tandem_stream *stream = nullptr;
  tandem_code code =
      tandem_stream_wrap(context, native, &stream); // a cudaStream_t; once for all runs
  tandem_run_options run = {};
  run.struct_size = sizeof run;
  run.stream = stream;
  if (code == TANDEM_OK)
    code = tandem_enqueue(instance, &run); // after the earlier work of the stream
  // An event that is recorded on the stream now tells when the run's buffers are free.
  tandem_stream_destroy(stream); // the run goes on
  // [docs: end]
  return code;
}

/// y = x, by the C API.
ProgramSpec copyOf16() {
  ProgramSpec spec(1);
  uint32_t x = spec.stacked("x", false, DType::F32, {16});
  uint32_t y = spec.stacked("y", true, DType::F32, {16});
  RankSpec &rank = spec.ranks[0];
  uint32_t from = rank.view(rank.argument(x, 64), DType::F32, {16});
  rank.copy(0, rank.view(rank.argument(y, 64), DType::F32, {16}), from);
  return spec;
}

void runByC(const tandem_context_options &options, bool onCallers = false) {
  std::string file = copyOf16().encode();
  tandem_context *context = nullptr;
  tandem_program *program = nullptr;
  tandem_instance *instance = nullptr;
  ASSERT_EQ(tandem_context_create(&options, &context), TANDEM_OK) << tandem_last_error(context);
  ASSERT_EQ(tandem_program_load_memory(context, file.data(), file.size(), &program), TANDEM_OK);
  ASSERT_EQ(tandem_prepare(context, program, &instance), TANDEM_OK) << tandem_last_error(context);
  tandem_memory *memory[2] = {};
  int64_t shape = 16;
  for (uint32_t i = 0; i < 2; ++i) {
    ASSERT_EQ(tandem_memory_create(context, 64, &memory[i]), TANDEM_OK);
    ASSERT_EQ(tandem_bind(instance, i, tandem_memory_data(memory[i]), 64, TANDEM_F32, 1, &shape),
              TANDEM_OK);
  }
  std::vector<float> given(16, 3), found(16);
  EXPECT_EQ(tandem_memory_write(memory[0], 0, given.data(), 64), TANDEM_OK);
  EXPECT_EQ(onCallers ? runOnCallers(nullptr, context, instance) : tandem_run(instance), TANDEM_OK)
      << tandem_last_error(context);
  EXPECT_EQ(tandem_wait(instance), TANDEM_OK) << tandem_last_error(context);
  EXPECT_EQ(tandem_memory_read(memory[1], 0, found.data(), 64), TANDEM_OK);
  EXPECT_EQ(found, given);
  tandem_instance_destroy(instance);
  for (tandem_memory *one : memory)
    tandem_memory_destroy(one);
  tandem_program_destroy(program);
  tandem_context_destroy(context);
}

TEST(GpuGraph, CallersOfAnOlderCApiHaveGraphs) {
  // Nothing behind the size is looked at.
  tandem_context_options options;
  std::memset(&options, 0xff, sizeof options);
  std::memset(&options, 0, offsetof(tandem_context_options, no_graphs));
  options.struct_size = offsetof(tandem_context_options, no_graphs);
  options.device = "cuda:0";
  int64_t before = fakeNumber("graph-launches");
  runByC(options);
  EXPECT_EQ(fakeNumber("graph-launches") - before, 1);
}

TEST(GpuGraph, TheCApiTurnsThemOff) {
  tandem_context_options options{};
  options.struct_size = sizeof options;
  options.device = "cuda:0";
  options.no_graphs = 1;
  int64_t before = fakeNumber("graph-launches");
  runByC(options);
  EXPECT_EQ(fakeNumber("graph-launches"), before);
}

TEST(GpuStreams, ARunIsInTheCallers) {
  tandem_context_options options{};
  options.struct_size = sizeof options;
  options.device = "cuda:0";
  runByC(options, /*onCallers=*/true);
}

TEST(GpuStreams, TheCApiWrapsTheCallers) {
  tandem_context_options options{};
  options.struct_size = sizeof options;
  options.device = "cuda:0";
  tandem_context *context = nullptr;
  ASSERT_EQ(tandem_context_create(&options, &context), TANDEM_OK) << tandem_last_error(context);
  tandem_stream *legacy = nullptr, *foreign = nullptr;
  EXPECT_EQ(tandem_stream_wrap(context, nullptr, &legacy), TANDEM_OK) << tandem_last_error(context);
  EXPECT_EQ(tandem_stream_synchronize(legacy), TANDEM_OK);
  auto other = fakeDevice(1);
  auto stream = other->createStream(StreamPriority::Normal);
  ASSERT_TRUE(stream.ok());
  EXPECT_EQ(tandem_stream_wrap(context, (*stream)->native(), &foreign), TANDEM_INVALID_ARGUMENT);
  EXPECT_STREQ(tandem_last_error(context),
               "the stream belongs to another GPU or CUDA context than cuda:0");
  tandem_context_destroy(context); // the stream keeps it
  EXPECT_EQ(tandem_stream_synchronize(legacy), TANDEM_OK);
  tandem_stream_destroy(legacy);
}

TEST(GpuGraph, TheCApiLogs) {
  Knob knob("no-capture-on", 1);
  std::string said;
  tandem_context_options options{};
  options.struct_size = sizeof options;
  options.device = "cuda:0";
  options.log = [](void *user, tandem_log_level level, const char *message) {
    *static_cast<std::string *>(user) += std::to_string(level) + " " + message;
  };
  options.log_user = &said;
  runByC(options);
  EXPECT_NE(said.find("runs without a graph: rank 0"), std::string::npos) << said;
  EXPECT_EQ(said.substr(0, 3), "0 @") << said;
}

TEST(GpuGraph, ALogThatThrowsIsAnError) {
  Knob knob("no-capture-on", 1);
  tandem_context_options options{};
  options.struct_size = sizeof options;
  options.device = "cuda:0";
  options.log = [](void *, tandem_log_level, const char *) { throw 42; };
  tandem_context *context = nullptr;
  tandem_program *program = nullptr;
  tandem_instance *instance = nullptr;
  std::string file = copyOf16().encode();
  ASSERT_EQ(tandem_context_create(&options, &context), TANDEM_OK) << tandem_last_error(context);
  ASSERT_EQ(tandem_program_load_memory(context, file.data(), file.size(), &program), TANDEM_OK);
  EXPECT_EQ(tandem_prepare(context, program, &instance), TANDEM_INTERNAL);
  EXPECT_STREQ(tandem_last_error(context),
               "tandem_context_options.log has thrown an object that is no std::exception");
  EXPECT_EQ(instance, nullptr);
  tandem_program_destroy(program);
  tandem_context_destroy(context);
}

TEST(GpuGraph, WhereOneRankCannotCaptureNobodyDoes) {
  Knob knob("no-capture-on", 2);
  int64_t before = fakeNumber("graph-launches");
  expectAllOk(runRanks(ring(2), "peer", runRing));
  EXPECT_EQ(fakeNumber("graph-launches"), before);
}

TEST(GpuStreams, MessagesGoFirstAndCopiesLast) {
  ProgramSpec spec = ring(2, /*exclusive=*/false, /*stream=*/3);
  for (RankSpec &rank : spec.ranks) {
    uint32_t a = rank.view(rank.arena(64), DType::F32, {16});
    uint32_t b = rank.view(rank.arena(64), DType::F32, {16});
    rank.sync(1, 0);
    rank.copy(1, a, b);
    rank.sync(2, 1);
    rank.add(sp::CommandKind::accumulate, 2, {a, b});
    rank.sync(0, 2);
  }
  for (const char *graphs : {"0", "1"}) {
    Variable mode("TANDEM_GRAPH", graphs);
    int64_t high = fakeNumber("high-streams"), low = fakeNumber("low-streams");
    expectAllOk(runRanks(spec, "peer", runRing));
    // Of two ranks; as many more are for captures, and one of each rank for the barrier in them.
    bool captures = graphs[0] == '1';
    EXPECT_EQ(fakeNumber("low-streams") - low, captures ? 4 : 2);
    EXPECT_EQ(fakeNumber("high-streams") - high, captures ? 6 : 2);
  }
}

TEST(GpuChannel, RanksThatShareAGpuWaitInKernels) {
  Variable mode("TANDEM_GRAPH", "0");
  int64_t before = fakeNumber("launches.signal_wait");
  expectAllOk(runRanks(ring(2), "peer", runRing));
  EXPECT_EQ(fakeNumber("launches.signal_wait"), before);
  expectAllOk(runRanks(ring(3), "peer", runRing));
  // Two waits in each of five runs, of the two ranks that have the first GPU.
  EXPECT_EQ(fakeNumber("launches.signal_wait") - before, 20);
}

TEST(GpuChannel, AllHearOfARankThatCannotMakeOne) {
  Knob knob("no-small-host-memory-on", 2);
  std::vector<Status> ended = runRanks(ring(3), "peer", runRing);
  for (size_t r = 0; r < ended.size(); ++r) {
    EXPECT_NE(ended[r].message().find("channel c0 \"ch\""), std::string::npos)
        << "rank " << r << ": " << ended[r].message();
    EXPECT_NE(ended[r].message().find("cuMemHostAlloc"), std::string::npos)
        << "rank " << r << ": " << ended[r].message();
  }
}

TEST(GpuGraph, RanksThatShareAGpuHaveNone) {
  int64_t before = fakeNumber("graph-launches");
  takeLog();
  testing::internal::CaptureStderr();
  expectAllOk(runRanks(ring(3), "peer", runRing));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  std::string said = takeLog();
  EXPECT_EQ(fakeNumber("graph-launches"), before);
  EXPECT_NE(said.find("runs without a graph: rank 0: command 2 (wait_signal slot 0 value 1 "
                      "\"wait_signal #2\"): "
                      "ranks of one process share this GPU"),
            std::string::npos)
      << said;
}

TEST(GpuGraph, WithoutStreamMemoryOperations) {
  Knob knob("no-values", 1);
  int64_t before = fakeNumber("graph-launches");
  expectAllOk(runRanks(ring(2), "peer", runRing));
  EXPECT_EQ(fakeNumber("graph-launches") - before, 10);
}

TEST(GpuGraph, ASignalBehindAPutIsACopy) {
  for (bool exclusive : {false, true}) {
    int64_t raised = fakeNumber("launches.signal_raise"), words = fakeNumber("launches.run_words");
    expectAllOk(runRanks(ring(2, exclusive), "peer", runRing));
    // In each of six captures (two are a trial, and the first of a pair only finds out what reads
    // the run's number) of two ranks: one signal behind a put, one behind a copy.
    EXPECT_EQ(fakeNumber("launches.signal_raise") - raised, exclusive ? 12 : 24);
    // In the second of each pair.
    EXPECT_EQ(fakeNumber("launches.run_words") - words, 6);
  }
  Variable mode("TANDEM_GRAPH", "0");
  int64_t raised = fakeNumber("launches.signal_raise"), words = fakeNumber("launches.run_words");
  expectAllOk(runRanks(ring(2, true), "peer", runRing));
  EXPECT_EQ(fakeNumber("launches.signal_raise") - raised, 20);
  EXPECT_EQ(fakeNumber("launches.run_words"), words);
}

/// Rank 0 puts and signals `count` slots of rank 1, each with another largest value.
ProgramSpec manySignals(uint32_t count) {
  ProgramSpec spec(2);
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint32_t from = rank.view(rank.arena(64), DType::F32, {16});
    uint32_t space = rank.view(rank.symmetric(64), DType::F32, {16});
    uint16_t channel = rank.channel({0, 1}, OneSided);
    rank.slots.assign(count + 1, 1);
    for (uint32_t slot = 0; slot < count; ++slot) {
      rank.slots[slot] = slot + 1;
      if (r == 0) {
        rank.put(0, channel, space, from, 1);
        rank.signal(0, channel, 1, slot, slot + 1, true);
      } else {
        rank.waitSignal(0, channel, slot, slot + 1);
      }
    }
    if (r == 0)
      rank.waitSignal(0, channel, count, 1);
    else
      rank.signal(0, channel, 0, count, 1, true);
  }
  return spec;
}

TEST(GpuGraph, SignalsWithoutAWordAreKernels) {
  int64_t raised = fakeNumber("launches.signal_raise");
  expectAllOk(runRanks(manySignals(11), "peer", [](Context &, Instance &instance) -> Status {
    for (int run = 0; run < 6; ++run)
      TANDEM_RETURN_IF_ERROR(instance.run());
    return Status();
  }));
  // A graph has eight words; rank 1's is behind no put. Six captures.
  EXPECT_EQ(fakeNumber("launches.signal_raise") - raised, 6 * (3 + 1));
}

/// Each waits for the other's signal, which stands behind a put: nobody may raise it.
ProgramSpec eachOther() {
  ProgramSpec spec(2);
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint32_t from = rank.view(rank.arena(64), DType::F32, {16});
    uint32_t space = rank.view(rank.symmetric(64), DType::F32, {16});
    uint16_t channel = rank.channel({0, 1}, OneSided);
    rank.slots = {1, 1};
    rank.waitSignal(0, channel, r, 1);
    rank.put(0, channel, space, from, 1 - r);
    rank.signal(0, channel, 1 - r, 1 - r, 1, true);
  }
  return spec;
}

TEST(GpuGraph, AnAbortClearsSignalsBeforeItLetsGoOfWaits) {
  Knob knob("late-copies", 100); // between saying so and clearing
  std::vector<Status> ended =
      runRanks(eachOther(), "peer",
               [](Context &context, Instance &instance) {
                 if (context.rank() == 1) // still waits when the other gives up
                   std::this_thread::sleep_for(std::chrono::milliseconds(400));
                 return instance.run();
               },
               {std::chrono::milliseconds(500)});
  for (const Status &status : ended)
    EXPECT_NE(status.message().find("wait_signal slot"), std::string::npos) << status.message();
}

using Milliseconds = std::chrono::duration<double, std::milli>;

/// Runs whatever ends in an error; how long that took.
Milliseconds timeToFail(const ProgramSpec &spec, const Part &part, const char *reason) {
  auto start = std::chrono::steady_clock::now();
  for (const Status &status : runRanks(spec, "peer", part, {std::chrono::milliseconds(300)}))
    EXPECT_NE(status.message().find(reason), std::string::npos) << status.message();
  return std::chrono::steady_clock::now() - start;
}

/// A graph is made, or made anew, while a run hangs: the driver would wait for that, past any
/// abort.
TEST(GpuGraph, ARunThatHangsEndsInTimeThoughAnotherIsBehindIt) {
  auto took = timeToFail(
      eachOther(),
      [](Context &, Instance &instance) -> Status {
        for (int run = 0; run < 2; ++run)
          TANDEM_RETURN_IF_ERROR(instance.enqueue(nullptr));
        return instance.wait();
      },
      "wait_signal slot");
  EXPECT_LT(took, std::chrono::seconds(5));
}

/// Two runs of ring(), a third to which rank 1 does not come, and one on other memory behind it.
Status runUntilOneLeaves(Context &context, Instance &instance) {
  TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
  for (int run = 0; run < 2; ++run)
    TANDEM_RETURN_IF_ERROR(instance.run());
  if (context.rank() == 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    return Status(Code::Aborted, "wait_signal slot");
  }
  TANDEM_RETURN_IF_ERROR(instance.enqueue(nullptr));
  TANDEM_ASSIGN_OR_RETURN(auto other, bindAll(context, instance));
  Status status = instance.enqueue(nullptr);
  Status ended = instance.wait();
  return status.ok() ? ended : status;
}

TEST(GpuGraph, OneThatCannotBeUpdatedIsMadeAnewInTime) {
  for (int64_t refused : {0, 1}) {
    Knob knob("no-update", refused);
    auto took = timeToFail(ring(2), runUntilOneLeaves, "wait_signal slot");
    EXPECT_LT(took, std::chrono::seconds(5));
    expectAllOk(runRanks(ring(2), "peer", [](Context &context, Instance &instance) -> Status {
      std::vector<std::vector<std::unique_ptr<Memory>>> all; // at addresses of their own
      for (int binding = 0; binding < 3; ++binding) {
        TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
        all.push_back(std::move(memory));
        TANDEM_RETURN_IF_ERROR(runRingOn(all.back(), context, instance));
      }
      return Status();
    }));
  }
}

/// Rank 2 frees its memory while rank 0, on the same GPU, waits for it: the driver would wait for
/// rank 0's run, and what ends that would wait for the driver.
TEST(GpuChannel, ARankThatLeavesFreesNothingWhileAnotherWaits) {
  auto took = timeToFail(
      ring(3),
      [](Context &context, Instance &instance) -> Status {
        TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
        TANDEM_RETURN_IF_ERROR(instance.run());
        if (context.rank() != 2)
          return instance.run();
        std::this_thread::sleep_for(std::chrono::milliseconds(100)); // the other one waits
        return Status(Code::Aborted, "wait_signal slot");
      },
      "wait_signal slot");
  EXPECT_LT(took, std::chrono::seconds(5));
}

/// What is enqueued without end does not put off the end of what hangs.
TEST(GpuGraph, RunsBeforeOneThatHangsGiveItNoTime) {
  auto took = timeToFail(
      ring(2),
      [](Context &context, Instance &instance) -> Status {
        TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
        for (int run = 0; run < 30; ++run)
          TANDEM_RETURN_IF_ERROR(instance.enqueue(nullptr));
        if (context.rank() == 0) {
          TANDEM_RETURN_IF_ERROR(instance.enqueue(nullptr));
        } else {
          TANDEM_RETURN_IF_ERROR(instance.wait());
          std::this_thread::sleep_for(std::chrono::milliseconds(2500));
          return Status(Code::Aborted, "wait_signal slot");
        }
        return instance.wait();
      },
      "wait_signal slot");
  EXPECT_LT(took, std::chrono::seconds(6));
}

/// Begins with a signal and ends with a put.
TEST(GpuGraph, ASignalIsBehindNoPutOfTheRunBefore) {
  ProgramSpec spec(2);
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint32_t from = rank.view(rank.arena(64), DType::F32, {16});
    uint32_t space = rank.view(rank.symmetric(64), DType::F32, {16});
    uint16_t channel = rank.channel({0, 1}, OneSided);
    rank.slots = {1};
    rank.signal(0, channel, 1 - r, 0, 1, true);
    rank.waitSignal(0, channel, 0, 1);
    rank.put(0, channel, space, from, 1 - r);
  }
  int64_t raised = fakeNumber("launches.signal_raise");
  expectAllOk(runRanks(spec, "peer",
                       [](Context &, Instance &instance) -> Status {
                         for (int run = 0; run < 3; ++run)
                           TANDEM_RETURN_IF_ERROR(instance.run());
                         return Status();
                       },
                       {std::chrono::seconds(5)}));
  EXPECT_EQ(fakeNumber("launches.signal_raise") - raised, 12); // six captures of two ranks
}

/// The GPU counts replays itself, and is told of runs that were none.
TEST(GpuGraph, RunsBetweenReplaysAreCounted) {
  int64_t before = fakeNumber("graph-launches");
  expectAllOk(runRanks(ring(2, true), "peer", [](Context &context, Instance &instance) -> Status {
    TANDEM_ASSIGN_OR_RETURN(auto memory, bindAll(context, instance));
    TANDEM_RETURN_IF_ERROR(runRingOn(memory, context, instance));
    for (bool traced : {true, false, true, true, false}) {
      // One rank only: two that miss a run would agree on a wrong number.
      TANDEM_RETURN_IF_ERROR(instance.trace(traced && context.rank() == 1));
      TANDEM_RETURN_IF_ERROR(instance.run());
    }
    TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<Stream> other,
                            context.device().createStream(StreamPriority::Normal));
    for (const auto &main : {other, std::shared_ptr<Stream>(), other})
      TANDEM_RETURN_IF_ERROR(instance.enqueue(main));
    TANDEM_RETURN_IF_ERROR(instance.wait());
    return runRingOn(memory, context, instance);
  }));
  EXPECT_EQ(fakeNumber("graph-launches") - before, (5 + 5 + 3 + 5) + (5 + 2 + 3 + 5));
}

} // namespace
