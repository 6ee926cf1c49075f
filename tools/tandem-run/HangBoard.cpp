//===- HangBoard.cpp - what each rank is doing, for others to see ---------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HangBoard.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace tandem;
using namespace tandem::run;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::chrono::milliseconds kInterval{50};
/// Bounds one rank's note: so many commands, with so much text each.
constexpr size_t kMostCommands = 48, kMostText = 200, kMostError = 4096;

int64_t milliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch())
      .count();
}

} // namespace

/// Written by one rank, read by the launcher: the number of writes is odd during one.
struct HangBoard::Place {
  std::atomic<uint64_t> writes;
  std::atomic<int64_t> time;
  std::atomic<uint32_t> size;
  char text[32 * 1024];
};

struct HangBoard::Head {
  alignas(64) std::atomic<uint64_t> frozen;
};

static_assert(std::atomic<uint64_t>::is_always_lock_free, "shared by processes");

Expected<std::unique_ptr<HangBoard>> HangBoard::map(int fd, uint32_t ranks, bool owned) {
  std::unique_ptr<HangBoard> self(new HangBoard(fd, ranks, owned));
  void *memory = ::mmap(nullptr, sizeof(Head) + ranks * sizeof(Place), PROT_READ | PROT_WRITE,
                        MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED)
    return Status(Code::Io, fmt::format("--hang-report: mmap: {}", std::strerror(errno)));
  self->head = static_cast<Head *>(memory); // all zero at first
  self->places = reinterpret_cast<Place *>(self->head + 1);
  return self;
}

Expected<std::unique_ptr<HangBoard>> HangBoard::create(uint32_t ranks) {
  int fd = ::memfd_create("hang", 0);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(sizeof(Head) + ranks * sizeof(Place))) != 0) {
    int error = errno;
    if (fd >= 0)
      ::close(fd);
    return Status(Code::Io, fmt::format("--hang-report: memfd: {}", std::strerror(error)));
  }
  return map(fd, ranks, true);
}

Expected<std::unique_ptr<HangBoard>> HangBoard::open(int fd, uint32_t ranks) {
  struct stat info{};
  if (::fstat(fd, &info) ||
      static_cast<uint64_t>(info.st_size) < sizeof(Head) + ranks * sizeof(Place))
    return Status(Code::InvalidArgument,
                  fmt::format("--hang-report: file descriptor {} holds no notes", fd));
  return map(fd, ranks, false);
}

HangBoard::~HangBoard() {
  if (head)
    ::munmap(head, sizeof(Head) + count * sizeof(Place));
  if (owned)
    ::close(file);
}

void HangBoard::freeze() { head->frozen = 1; }
bool HangBoard::isFrozen() const { return head->frozen != 0; }

void HangBoard::write(uint32_t rank, const RankNote &note) {
  using nlohmann::json;
  json commands = json::array();
  for (size_t i = 0; i < std::min(note.commands.size(), kMostCommands); ++i) {
    const NotedCommand &c = note.commands[i];
    commands.push_back({c.program.substr(0, kMostText), c.run, c.stream, c.command, c.isCertain,
                        c.description.substr(0, kMostText), c.noted});
  }
  json all = {{"program", note.program},
              {"commands", std::move(commands)},
              {"error", note.error.substr(0, kMostError)}};
  auto dump = [&] { return all.dump(-1, ' ', false, json::error_handler_t::replace); };
  std::string text = dump();
  // Escapes make it longer: up to 6 characters for one.
  static_assert(6 * kMostError + 1024 < sizeof Place::text, "fits without commands");
  for (; text.size() > sizeof Place::text; text = dump())
    all["commands"].erase(all["commands"].size() - 1);
  std::lock_guard<std::mutex> lock(mutex);
  Place &place = places[rank];
  ++place.writes;
  std::memcpy(place.text, text.data(), text.size());
  place.size = static_cast<uint32_t>(text.size());
  place.time = milliseconds();
  ++place.writes;
}

/// What a rank wrote; false if it has other fields, because the rank has overwritten its memory.
static bool parse(const std::string &text, RankNote &note) {
  try {
    const auto all = nlohmann::json::parse(text);
    note = {};
    note.program = all.at("program");
    note.error = all.at("error");
    for (const auto &c : all.at("commands"))
      note.commands.push_back({c.at(0), c.at(1), c.at(2), c.at(3), c.at(4), c.at(5), c.at(6)});
    return true;
  } catch (const nlohmann::json::exception &) {
    return false;
  }
}

bool HangBoard::read(uint32_t rank, RankNote &note, std::chrono::milliseconds &age) const {
  std::lock_guard<std::mutex> lock(mutex);
  const Place &place = places[rank];
  for (int tries = 0; tries < 1000; ++tries) {
    uint64_t before = place.writes;
    if (before == 0)
      return false;
    std::string text(place.text, std::min<size_t>(place.size, sizeof place.text));
    age = std::chrono::milliseconds(std::max<int64_t>(0, milliseconds() - place.time));
    if (before % 2 || place.writes != before) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      continue;
    }
    return parse(text, note);
  }
  return false; // it was stopped while it wrote
}

HangNotes::HangNotes(HangBoard &board, uint32_t rank)
    : board(board), rank(rank), thread([this] {
        std::unique_lock<std::mutex> lock(mutex);
        while (!stopping) {
          look();
          changed.wait_for(lock, kInterval, [&] { return stopping; });
        }
      }) {}

HangNotes::~HangNotes() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
    changed.notify_all();
  }
  thread.join();
}

/// With the lock.
void HangNotes::look() {
  bool wasFrozen = board.isFrozen();
  if (!isFinal && context)
    list();
  isFinal = isFinal || wasFrozen;
  if (context && tandem_context_health(context) != TANDEM_OK)
    board.freeze();
  board.write(rank, note);
}

/// With the lock.
void HangNotes::list() {
  auto now = Clock::now();
  auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(now - last).count();
  std::vector<NotedCommand> found;
  auto each = [](void *user, const tandem_command_in_flight *c) {
    static_cast<std::vector<NotedCommand> *>(user)->push_back(
        {c->program, c->run, c->stream, c->command, c->is_certain != 0, c->text, 0});
  };
  if (tandem_commands_in_flight(context, each, &found) != TANDEM_OK)
    return;
  for (NotedCommand &c : found) {
    auto same =
        std::find_if(note.commands.begin(), note.commands.end(), [&](const NotedCommand &old) {
          return old.stream == c.stream && old.command == c.command && old.run == c.run &&
                 old.program == c.program;
        });
    c.noted = same == note.commands.end() ? 0 : same->noted + static_cast<uint64_t>(passed);
  }
  note.commands = std::move(found);
  last = now;
}

void HangNotes::follow(tandem_context *now) {
  std::lock_guard<std::mutex> lock(mutex);
  look();
  context = now;
}

void HangNotes::begin(uint32_t program) {
  std::lock_guard<std::mutex> lock(mutex);
  note.program = program;
  note.commands.clear();
}

void HangNotes::fail(const std::string &error) {
  std::lock_guard<std::mutex> lock(mutex);
  note.error = error;
  look();
}
