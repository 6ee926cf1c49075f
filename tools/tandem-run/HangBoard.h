//===- HangBoard.h - what each rank is doing, for others to see -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUN_HANGBOARD_H
#define TANDEM_RUN_HANGBOARD_H

#include "tandem-c/Context.h"
#include "tandem/Program/Status.h"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tandem::run {

/// A command of a rank, as tandem_commands_in_flight gives it.
struct NotedCommand {
  std::string program;
  uint64_t run = 0;
  uint32_t stream = 0, command = 0;
  bool isCertain = true;
  std::string description;
  uint64_t noted = 0; ///< ms from its first note to this one
};

/// What a rank has said last.
struct RankNote {
  uint32_t program = 0; ///< number on the command line
  std::vector<NotedCommand> commands;
  std::string error; ///< why it has failed; "" if it has not
};

/// Memory in which the ranks note what they do. A launcher, its ranks and the threads of one
/// process share it. So the notes of a rank remain when it is killed or stopped.
class HangBoard {
public:
  static Expected<std::unique_ptr<HangBoard>> create(uint32_t ranks);
  /// What the launcher has made, by its file descriptor.
  static Expected<std::unique_ptr<HangBoard>> open(int fd, uint32_t ranks);
  ~HangBoard();
  HangBoard(const HangBoard &) = delete;
  HangBoard &operator=(const HangBoard &) = delete;

  int fd() const { return file; }
  uint32_t ranks() const { return count; }
  /// By one thread of the rank at a time. What is too long is cut, and the last commands left out.
  void write(uint32_t rank, const RankNote &note);
  /// From the first failure on, the ranks note errors only: what they do then is its effect.
  void freeze();
  bool isFrozen() const;
  /// False if the rank has noted nothing. `age`: since when.
  bool read(uint32_t rank, RankNote &note, std::chrono::milliseconds &age) const;

private:
  struct Place;
  struct Head;
  mutable std::mutex mutex; ///< for threads of this process
  HangBoard(int file, uint32_t count, bool owned) : file(file), count(count), owned(owned) {}
  static Expected<std::unique_ptr<HangBoard>> map(int fd, uint32_t ranks, bool owned);

  int file;
  uint32_t count;
  bool owned;
  Head *head = nullptr; ///< the places follow
  Place *places = nullptr;
};

/// Notes what a rank does, several times a second, while it has a context.
class HangNotes {
public:
  HangNotes(HangBoard &board, uint32_t rank);
  ~HangNotes();
  HangNotes(const HangNotes &) = delete;
  HangNotes &operator=(const HangNotes &) = delete;

  /// The context that is in use; null: none any more. What the last one did remains.
  void follow(tandem_context *context);
  void begin(uint32_t program);
  void fail(const std::string &error);

private:
  void look();
  void list();

  HangBoard &board;
  const uint32_t rank;
  std::mutex mutex;
  std::condition_variable changed;
  tandem_context *context = nullptr;
  RankNote note;
  std::chrono::steady_clock::time_point last; ///< when `note.commands` were seen
  bool stopping = false, isFinal = false;
  std::thread thread;
};

} // namespace tandem::run

#endif // TANDEM_RUN_HANGBOARD_H
