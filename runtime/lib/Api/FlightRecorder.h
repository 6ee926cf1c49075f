//===- FlightRecorder.h - what a rank does, as a file -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// docs/operations.md, "Hang reports".
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_API_FLIGHTRECORDER_H
#define TANDEM_LIB_API_FLIGHTRECORDER_H

#include "Handles.h"

#include "tandem/Replay/World.h"

#include <condition_variable>
#include <thread>

namespace tandem::capi {

/// The programs of all ranks that a context's programs belong to, for what commands wait for. Any
/// thread.
class DumpPrograms {
public:
  /// `id`: Program::id().
  void add(uint64_t id, const std::shared_ptr<const ProgramFile> &file);
  /// An error if the file is gone, or does not have all ranks.
  Expected<std::shared_ptr<const replay::World>> find(uint64_t id);

private:
  struct Entry {
    std::weak_ptr<const ProgramFile> file;
    std::shared_ptr<const replay::World> world; ///< once it was needed
  };
  std::mutex mutex;
  std::map<uint64_t, Entry> entries;
};

/// The JSON text of tandem_context_dump. `reason`: why it is written.
std::string dumpContext(ContextState &context, const Snapshot &snapshot, const char *reason);

/// Keeps a rank's file up to date, from a thread of its own.
class FlightRecorder {
public:
  /// Writes the file once. `signal`: 0: that of the environment. The context outlives stop().
  static Expected<std::unique_ptr<FlightRecorder>>
  create(ContextState &context, const std::string &prefix, uint64_t signal);
  /// After the context's end. Removes the file, unless the context has failed or a signal wanted
  /// it.
  ~FlightRecorder();
  /// Before the context's end: writes no more.
  void stop();
  /// Writes the file if something has changed since, or if `isRequested`; for the last time if the
  /// context has failed. Any thread.
  Status update(bool isRequested);

private:
  FlightRecorder(ContextState &context, std::string path);

  ContextState &context;
  std::string path;             ///< no other recorder of this process has it
  std::recursive_mutex writing; ///< guards the fields below; callbacks of the caller may lead here
  bool isUpdating = false, hasFailed = false, keeps = false;
  std::string written;                  ///< the commands in the file
  std::chrono::milliseconds waited{-1}; ///< the longest wait in the file

  std::mutex mutex; ///< guards `stopping`
  std::condition_variable changed;
  bool stopping = false;
  std::thread thread;
};

} // namespace tandem::capi

#endif // TANDEM_LIB_API_FLIGHTRECORDER_H
