//===- SharedArena.h - memory of runs that follow each other ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CORE_SHAREDARENA_H
#define TANDEM_LIB_CORE_SHAREDARENA_H

#include "tandem/Runtime/Device.h"

#include <memory>
#include <mutex>
#include <vector>

namespace tandem::core {

/// The arena of the instances of a context, as large as the largest of them needs. Their runs
/// follow each other in the order in which they are enqueued, on whatever streams. Any thread.
class SharedArena {
public:
  /// An instance.
  class User {
  public:
    virtual ~User();
    /// To use this memory from its next run on, or to keep what it has. Must not wait for runs.
    virtual void moveArena(const std::shared_ptr<Memory> &to) = 0;
  };

  /// Adds a user that needs `bytes`. If there are fewer, allocates memory and moves all users to
  /// it.
  Expected<std::shared_ptr<Memory>> join(Device &device, User &user, uint64_t bytes);
  /// The user is not moved any more; its runs may be in flight.
  void detach(const User &user);
  /// Also forgets the user's runs, which have ended.
  void leave(const User &user);

  /// Makes the next work of `main`, a run, wait for the last run. The caller keeps `followed` until
  /// its run has ended.
  Status follow(Stream &main, std::shared_ptr<Event> &followed);
  /// Whether the last run is that of another user.
  bool isBehindOthers(const User &user);
  /// A run of `user` was enqueued on `main`. Both live until the user's next run or leave(). `end`
  /// is recorded when the run has been enqueued.
  void note(const User &user, const Stream &main, std::shared_ptr<Event> end);

private:
  struct Run {
    const User *user = nullptr;
    const Stream *main = nullptr;
    std::shared_ptr<Event> end;
  };

  std::mutex mutex; ///< guards the fields below
  std::shared_ptr<Memory> memory;
  std::vector<User *> users;
  Run last;
};

} // namespace tandem::core

#endif // TANDEM_LIB_CORE_SHAREDARENA_H
