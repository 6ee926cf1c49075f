//===- HangReportTest.cpp - flight recorders and dumps ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// docs/operations.md, "Hang reports".
//
//===----------------------------------------------------------------------===//

#include "tandem-c/Runtime.h"

#include "Support/ProgramSpec.h"
#include "tandem/Runtime/Channel.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <thread>
#include <unistd.h>

using namespace tandem;
using namespace tandem::test;
using nlohmann::json;
using testing::HasSubstr;
namespace fs = std::filesystem;

namespace {

/// Rank 0 copies, then receives from rank 1, which copies before it sends.
std::string program() {
  ProgramSpec spec(2);
  spec.name = "f";
  for (uint32_t r = 0; r < 2; ++r) {
    RankSpec &rank = spec.ranks[r];
    uint32_t x = rank.view(rank.arena(64), DType::F32, {16});
    uint32_t y = rank.view(rank.arena(64), DType::F32, {16});
    uint16_t channel = rank.channel({0, 1}, TwoSided);
    rank.copy(0, y, x);
    rank.group(0, channel, 1);
    if (r == 1)
      rank.send(0, channel, y, 0, 0);
    else
      rank.recv(0, channel, y, 1, 0);
  }
  return spec.encode();
}

json readJson(const fs::path &path) {
  std::ifstream file(path);
  return json::parse(file, nullptr, false);
}

void append(void *user, const char *text, size_t size) {
  static_cast<std::string *>(user)->append(text, size);
}

class HangReport : public testing::Test {
public:
  void SetUp() override {
    std::string name = testing::TempDir() + "tandem-hang-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder = name;
    prefix = (folder / "hang").string();
    ASSERT_EQ(tandem_local_world_create(2, 20000, &world), TANDEM_OK);
  }
  void TearDown() override {
    tandem_local_world_destroy(world);
    fs::remove_all(folder);
  }

  tandem_context_options options(uint32_t rank) {
    tandem_context_options options{};
    options.struct_size = sizeof options;
    options.channels = "local";
    options.local_world = world;
    options.local_world_rank = rank;
    options.flight_recorder = prefix.c_str();
    return options;
  }
  fs::path fileOf(uint32_t rank) const { return prefix + ".rank" + std::to_string(rank); }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto &entry : fs::directory_iterator(folder))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
  /// At most a minute.
  static bool comes(const std::function<bool()> &happens) {
    for (int i = 0; i < 6000 && !happens(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return happens();
  }

  /// Two ranks prepare the program. `body`: with each rank's context and instance, in its thread.
  void run(const std::function<void(uint32_t, tandem_context *, tandem_instance *)> &body,
           const std::function<void(tandem_context_options &)> &change = {}) {
    std::string bytes = program();
    auto rank = [&](uint32_t r) {
      tandem_context_options given = options(r);
      if (change)
        change(given);
      tandem_context *context = nullptr;
      tandem_program *loaded = nullptr;
      tandem_instance *instance = nullptr;
      ASSERT_EQ(tandem_context_create(&given, &context), TANDEM_OK) << tandem_last_error(context);
      ASSERT_EQ(tandem_program_load_memory(context, bytes.data(), bytes.size(), &loaded),
                TANDEM_OK);
      ASSERT_EQ(tandem_prepare(context, loaded, &instance), TANDEM_OK)
          << tandem_last_error(context);
      tandem_program_destroy(loaded);
      body(r, context, instance);
      tandem_instance_destroy(instance);
      tandem_context_destroy(context);
    };
    std::thread other([&] { rank(1); });
    rank(0);
    other.join();
  }

  fs::path folder;
  std::string prefix;
  tandem_local_world *world = nullptr;
};

TEST_F(HangReport, ARunThatWaits) {
  std::atomic<bool> isSeen{false};
  run([&](uint32_t rank, tandem_context *context, tandem_instance *instance) {
    if (rank == 1) {
      EXPECT_TRUE(comes([&] { return isSeen.load(); }));
      EXPECT_EQ(tandem_run(instance), TANDEM_OK) << tandem_last_error(context);
      return;
    }
    ASSERT_EQ(tandem_enqueue(instance, nullptr), TANDEM_OK);
    // The recorder sees it without a request.
    EXPECT_TRUE(comes([&] {
      json file = readJson(fileOf(0));
      return file.is_object() && !file["in_flight"].empty() &&
             file["in_flight"][0]["command"] == 1 && file["in_flight"][0]["for_ms"] >= 100;
    }));
    std::string text;
    ASSERT_EQ(tandem_context_dump(context, (folder / "call").c_str(), append, &text), TANDEM_OK);
    json dump = json::parse(text);
    EXPECT_EQ(dump, readJson(folder / "call"));
    for (const json &file : {dump, readJson(fileOf(0))}) {
      EXPECT_EQ(file["rank"], 0);
      EXPECT_EQ(file["world_size"], 2);
      EXPECT_EQ(file["pid"], ::getpid());
      EXPECT_EQ(file["error"], nullptr);
      ASSERT_EQ(file["in_flight"].size(), 1u);
      const json &command = file["in_flight"][0];
      EXPECT_EQ(command["program"], "f");
      EXPECT_EQ(command["run"], 0);
      EXPECT_THAT(command["description"], HasSubstr("command 1 (group: recv from rank 1"));
      ASSERT_EQ(command["waits_for"].size(), 1u);
      EXPECT_EQ(command["waits_for"][0]["rank"], 1);
      EXPECT_EQ(command["waits_for"][0]["command"], 1);
      EXPECT_THAT(command["waits_for"][0]["description"], HasSubstr("(send "));
      ASSERT_EQ(command["finished"].size(), 1u);
      EXPECT_THAT(command["finished"][0]["description"], HasSubstr("command 0 (copy "));
      ASSERT_EQ(file["channels"].size(), 1u);
      EXPECT_EQ(file["channels"][0]["transport"], "local");
      EXPECT_EQ(file["channels"][0]["ranks"], json({0, 1}));
      EXPECT_THAT(file["calls"].back()["call"], HasSubstr("run @f"));
      ASSERT_EQ(file["others"].size(), 1u);
      EXPECT_EQ(file["others"][0]["rank"], 1);
      EXPECT_EQ(file["others"][0]["calls"], file["calls"].back()["number"].get<int>() - 1);
    }
    EXPECT_EQ(dump["reason"], "call");
    std::string report;
    ASSERT_EQ(tandem_hang_report(prefix.c_str(), 0, nullptr, append, &report), TANDEM_OK);
    json all = json::parse(report);
    EXPECT_EQ(all["held_up_by"], json::array({1})) << all["summary"];
    EXPECT_EQ(all["ranks"][0]["file"]["in_flight"][0]["waits_for"][0]["state"], "no run");
    isSeen = true;
    EXPECT_EQ(tandem_wait(instance), TANDEM_OK) << tandem_last_error(context);
  });
  EXPECT_EQ(files(), std::vector<std::string>{"call"}); // nothing has failed
}

TEST_F(HangReport, ARunThatFails) {
  std::atomic<bool> hasFailed{false};
  run(
      [&](uint32_t rank, tandem_context *, tandem_instance *instance) {
        if (rank == 1) {
          EXPECT_TRUE(comes([&] { return hasFailed.load(); }));
          return;
        }
        EXPECT_EQ(tandem_run(instance), TANDEM_TIMEOUT);
        // The call that failed has written it.
        json file = readJson(fileOf(0));
        EXPECT_EQ(file["reason"], "failure");
        EXPECT_THAT(file["error"], HasSubstr("rank 0: no end after 300 ms"));
        ASSERT_EQ(file["in_flight"].size(), 1u);
        EXPECT_EQ(file["in_flight"][0]["waits_for"][0]["rank"], 1);
        EXPECT_GE(file["in_flight"][0]["for_ms"], 300);
        hasFailed = true;
      },
      [](tandem_context_options &options) { options.timeout_ms = 300; });
  EXPECT_THAT(files(), testing::Contains("hang.rank0"));
  EXPECT_EQ(readJson(fileOf(0))["reason"], "failure");
}

/// How often the process's own handler was called.
volatile std::sig_atomic_t numHandled = 0;

TEST_F(HangReport, ASignal) {
  struct sigaction before{}, own{};
  own.sa_handler = [](int) { numHandled = numHandled + 1; };
  ASSERT_EQ(::sigaction(SIGUSR2, &own, &before), 0);
  run(
      [&](uint32_t rank, tandem_context *, tandem_instance *) {
        if (rank == 0)
          ::kill(::getpid(), SIGUSR2);
        EXPECT_TRUE(comes([&] {
          json file = readJson(fileOf(rank));
          return file.is_object() && file["reason"] == "signal";
        }));
      },
      [](tandem_context_options &options) { options.flight_recorder_signal = SIGUSR2; });
  EXPECT_EQ(numHandled, 1);
  EXPECT_EQ(files(),
            (std::vector<std::string>{"hang.rank0", "hang.rank1"})); // somebody wanted them
  ::sigaction(SIGUSR2, &before, nullptr);
}

TEST_F(HangReport, TheEnvironment) {
  tandem_context_options given{};
  given.struct_size = sizeof given;
  tandem_context *first = nullptr, *second = nullptr;
  ::setenv("TANDEM_FLIGHT_RECORDER", prefix.c_str(), 1);
  EXPECT_EQ(tandem_context_create(&given, &first), TANDEM_OK) << tandem_last_error(first);
  EXPECT_EQ(tandem_context_create(&given, &second), TANDEM_OK) << tandem_last_error(second);
  EXPECT_EQ(files(), (std::vector<std::string>{"hang.rank0", "hang.rank0.2"}));
  tandem_context_destroy(first);
  EXPECT_EQ(files(), std::vector<std::string>{"hang.rank0.2"});
  tandem_context_destroy(second);
  ::setenv("TANDEM_FLIGHT_RECORDER_SIGNAL", "SIGUSR", 1);
  EXPECT_EQ(tandem_context_create(&given, &first), TANDEM_INVALID_ARGUMENT);
  EXPECT_THAT(tandem_last_error(first),
              HasSubstr("expected USR1, USR2 or a number, found \"SIGUSR\""));
  tandem_context_destroy(first);
  ::unsetenv("TANDEM_FLIGHT_RECORDER_SIGNAL");
  ::unsetenv("TANDEM_FLIGHT_RECORDER");
  EXPECT_EQ(files(), std::vector<std::string>{});
}

TEST_F(HangReport, WhatCannotBe) {
  tandem_context *context = nullptr;
  tandem_context_options given = options(0);
  std::string nowhere = prefix + "/nowhere/hang";
  given.flight_recorder = nowhere.c_str();
  EXPECT_EQ(tandem_context_create(&given, &context), TANDEM_IO);
  EXPECT_THAT(tandem_last_error(context),
              HasSubstr("the flight recorder: cannot write \"" + nowhere));
  tandem_context_destroy(context);
  given = options(1);
  for (uint64_t signal : {uint64_t(SIGKILL), uint64_t(1000), ~uint64_t(0)}) {
    given.flight_recorder_signal = signal;
    EXPECT_EQ(tandem_context_create(&given, &context), TANDEM_INVALID_ARGUMENT) << signal;
    EXPECT_THAT(tandem_last_error(context), HasSubstr("flight_recorder_signal"));
    tandem_context_destroy(context);
  }
  std::string report;
  EXPECT_EQ(tandem_hang_report(nowhere.c_str(), 0, nullptr, append, &report), TANDEM_IO);
  EXPECT_EQ(tandem_hang_report(prefix.c_str(), 2, nullptr, append, &report), TANDEM_IO);
}

/// Rank 0 waits for rank 1's send, for so long; both are in their first command.
json reportOfWait(const std::string &prefix, int64_t forMs, const char *error,
                  const char *const *states = nullptr) {
  for (uint32_t r = 0; r < 2; ++r) {
    json command = {{"program", "f"},
                    {"id", "1"},
                    {"run", 0},
                    {"stream", 0},
                    {"command", 0},
                    {"certain", true},
                    {"for_ms", forMs},
                    {"description", "first"},
                    {"waits_for", json::array()}};
    if (r == 0)
      command["waits_for"] = {
          {{"rank", 1}, {"stream", 0}, {"command", 1}, {"description", "send"}}};
    std::ofstream(prefix + ".rank" + std::to_string(r)) << json(
        {{"world_size", 2}, {"error", error ? json(error) : json()}, {"in_flight", {command}}});
  }
  std::string report;
  EXPECT_EQ(tandem_hang_report(prefix.c_str(), 0, states, append, &report), TANDEM_OK);
  return json::parse(report);
}

TEST_F(HangReport, OnlyASettledWaitHasACause) {
  EXPECT_EQ(reportOfWait(prefix, 99, nullptr)["held_up_by"], json::array());
  EXPECT_EQ(reportOfWait(prefix, 100, nullptr)["held_up_by"], json::array({1}));
  EXPECT_EQ(reportOfWait(prefix, 0, "why")["held_up_by"],
            json::array({1})); // after a failure nothing moves
}

TEST_F(HangReport, ProcessesThatWereEnded) {
  const char *states[] = {"stopped", nullptr};
  json report = reportOfWait(prefix, 100, nullptr, states);
  EXPECT_EQ(report["held_up_by"], json::array({0}));
  EXPECT_EQ(report["ranks"][0]["process"], "stopped");
  EXPECT_EQ(report["ranks"][1]["process"], nullptr);
  EXPECT_EQ(report["ranks"][0]["file"]["in_flight"][0]["waits_for"][0]["state"], "not begun");
}

TEST_F(HangReport, FilesOfOthers) {
  reportOfWait(prefix, 100, nullptr);
  for (const char *text : {"", "{", "[1]", "{\"in_flight\": 1, \"error\": 2, \"world_size\": 2}",
                           "{\"in_flight\": [{}], \"error\": null, \"world_size\": 2}"}) {
    std::ofstream(fileOf(1)) << text;
    std::string report;
    ASSERT_EQ(tandem_hang_report(prefix.c_str(), 2, nullptr, append, &report), TANDEM_OK);
    EXPECT_EQ(json::parse(report)["ranks"][1]["file"], nullptr) << text;
  }
}

} // namespace
