//===- Dump.cpp - what a rank does, as JSON ---------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FlightRecorder.h"

#include "tandem/Program/Files.h"
#include "tandem/Replay/Waits.h"

#include <nlohmann/json.hpp>
#include <unistd.h>

using namespace tandem;
using namespace tandem::capi;
using nlohmann::json;

void DumpPrograms::add(uint64_t id, const std::shared_ptr<const ProgramFile> &file) {
  std::lock_guard<std::mutex> lock(mutex);
  for (auto entry = entries.begin(); entry != entries.end();)
    entry = entry->second.file.expired() ? entries.erase(entry) : std::next(entry);
  entries.emplace(id, Entry{file, nullptr});
}

Expected<std::shared_ptr<const replay::World>> DumpPrograms::find(uint64_t id) {
  std::shared_ptr<const ProgramFile> file;
  {
    std::lock_guard<std::mutex> lock(mutex);
    auto found = entries.find(id);
    if (found != entries.end())
      file = found->second.file.lock();
    if (!file)
      return Status(Code::Unsupported, "the program was destroyed");
    if (found->second.world)
      return found->second.world;
  }
  // Takes long for many ranks: without the lock, for which a thread that prepares would wait.
  TANDEM_ASSIGN_OR_RETURN(auto world, replay::World::load(*file));
  std::lock_guard<std::mutex> lock(mutex);
  if (auto found = entries.find(id); found != entries.end())
    found->second.world = world;
  return world;
}

/// The commands before `id` on its stream.
static json finishedBefore(const replay::World &world, uint32_t rank, replay::CommandId id) {
  constexpr size_t kMost = 3;
  json list = json::array();
  for (replay::CommandId c = id; c-- > world.ranks[rank].begin && list.size() < kMost;)
    if (world.commands[c].stream == world.commands[id].stream &&
        !replay::isMessage(world.commands[c].kind))
      list.push_back({{"command", world.indexOf(c)}, {"description", world.describe(c)}});
  return list;
}

static void addWaits(json &out, const replay::World &world, uint32_t rank, uint32_t command) {
  replay::CommandId id = world.ranks[rank].begin + command;
  for (replay::CommandId other : check::awaitedBy(world, id)) {
    // Streams are in groups, not in their messages.
    bool isMessage = replay::isMessage(world.commands[other].kind);
    out["waits_for"].push_back(
        {{"rank", world.rankOf(other)},
         {"stream", world.commands[other].stream},
         {"command", world.indexOf(isMessage ? world.commands[other].next : other)},
         {"description", world.describe(other)}});
  }
  if (std::string missing = check::missingFor(world, id); !missing.empty())
    out["missing"] = missing;
  out["finished"] = finishedBefore(world, rank, id);
}

std::string capi::dumpContext(ContextState &context, const Snapshot &snapshot, const char *reason) {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  json out = {{"rank", *context.rank},
              {"world_size", context.context->worldSize()},
              {"host", host},
              {"pid", ::getpid()},
              {"device", context.context->device().name()},
              {"reason", reason},
              {"time", std::chrono::duration<double>(now).count()},
              {"error", snapshot.failure.ok() ? json() : json(snapshot.failure.message())},
              {"late", snapshot.late},
              {"in_flight", json::array()},
              {"channels", json::array()},
              {"calls", json::array()},
              {"others", json::array()}};
  for (const CommandInFlight &found : snapshot.commands) {
    bool isCommand = found.command != CommandInFlight::kNone;
    json command = {{"program", found.program},
                    {"id", fmt::format("{:016x}", found.id)},
                    {"run", found.run},
                    {"stream", found.stream},
                    {"command", isCommand ? json(found.command) : json()},
                    {"description", found.text},
                    {"location", found.location},
                    {"certain", found.isCertain},
                    {"for_ms", found.waited.count()},
                    {"waits_for", json::array()},
                    {"finished", json::array()}};
    if (isCommand) {
      auto world = context.programs->find(found.id);
      if (world)
        addWaits(command, **world, *context.rank, found.command);
      else
        out["not_analysed"] = world.status().message();
    }
    out["in_flight"].push_back(std::move(command));
  }
  for (const Snapshot::Channel &channel : snapshot.channels)
    out["channels"].push_back({{"program", channel.program},
                               {"name", channel.name},
                               {"transport", channel.transport},
                               {"ranks", channel.ranks},
                               {"progress", channel.progress}});
  for (const auto &[number, call] : snapshot.calls)
    out["calls"].push_back({{"number", number}, {"call", call}});
  for (const Snapshot::Rank &other : snapshot.others)
    out["others"].push_back({{"rank", other.rank}, {"calls", other.calls}});
  return out.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

extern "C" {

tandem_code tandem_context_dump(tandem_context *context, const char *path,
                                void (*write)(void *user, const char *json, size_t size),
                                void *user) {
  return guardedBy(context, [&]() -> Status {
    ContextState &state = *context->state;
    std::string text = dumpContext(state, state.context->snapshot(), "call");
    if (write)
      callback(state, "write", 0, [&] {
        write(user, text.data(), text.size());
        return 0;
      });
    return path ? writeFile(path, text) : Status();
  });
}

} // extern "C"
