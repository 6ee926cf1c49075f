//===- SharedArena.cpp - memory of runs that follow each other ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SharedArena.h"

#include <algorithm>

namespace tandem::core {

SharedArena::User::~User() = default;

Expected<std::shared_ptr<Memory>> SharedArena::join(Device &device, User &user, uint64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex);
  if (!memory || memory->size() < bytes) {
    TANDEM_ASSIGN_OR_RETURN(memory, device.allocate(bytes, MemoryKind::Plain));
    for (User *other : users)
      other->moveArena(memory);
  }
  users.push_back(&user);
  return memory;
}

void SharedArena::detach(const User &user) {
  std::lock_guard<std::mutex> lock(mutex);
  users.erase(std::remove(users.begin(), users.end(), &user), users.end());
  if (users.empty())
    memory.reset();
}

void SharedArena::leave(const User &user) {
  detach(user);
  std::lock_guard<std::mutex> lock(mutex);
  if (last.user == &user)
    last = Run();
}

Status SharedArena::follow(Stream &main, std::shared_ptr<Event> &followed) {
  std::lock_guard<std::mutex> lock(mutex);
  if (!last.end || last.main == &main || last.end->reached())
    return Status();
  followed = last.end;
  return main.wait(*followed, kNoMarker);
}

bool SharedArena::isBehindOthers(const User &user) {
  std::lock_guard<std::mutex> lock(mutex);
  return last.user && last.user != &user;
}

void SharedArena::note(const User &user, const Stream &main, std::shared_ptr<Event> end) {
  std::lock_guard<std::mutex> lock(mutex);
  last = {&user, &main, std::move(end)};
}

} // namespace tandem::core
