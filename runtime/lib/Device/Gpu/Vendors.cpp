//===- Vendors.cpp - the vendors of this build, and what their drivers share ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DriverUsers.h"

#include <map>
#include <string_view>
#include <utility>

namespace tandem::gpu {

const std::vector<const Vendor *> &vendors() {
  static const std::vector<const Vendor *> all{
#if TANDEM_HAVE_CUDA
      &kCuda,
#endif
#if TANDEM_HAVE_HIP
      &kHip,
#endif
  };
  return all;
}

const Vendor *vendorOf(std::string_view name) {
  for (const Vendor *vendor : vendors())
    if (name.substr(0, name.find(':')) == vendor->device)
      return vendor;
  return nullptr;
}

DriverUsers &DriverUsers::of(const Vendor &vendor, int device) {
  static std::mutex mutex;
  // Never destroyed: drivers of static lifetime may outlive it. Its elements stay where they are.
  static auto *users = new std::map<std::pair<const Vendor *, int>, DriverUsers>;
  std::lock_guard<std::mutex> lock(mutex);
  return (*users)[{&vendor, device}];
}

void DriverUsers::join() {
  std::lock_guard<std::mutex> lock(mutex);
  ++count;
}

void DriverUsers::leave() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    // The driver that is left may have work that waits: what it releases releases this, too.
    if (--count > 0)
      return;
    keepsAll = false;
  }
  releasePending().ignore();
}

Status DriverUsers::release(std::function<Status()> body) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (keepsAll)
      return Status();
    pending.push_back(std::move(body));
    if (count > 1)
      return Status();
  }
  return releasePending();
}

Status DriverUsers::releasePending() {
  std::vector<std::function<Status()>> ready;
  {
    std::lock_guard<std::mutex> lock(mutex);
    ready.swap(pending);
  }
  Status last;
  for (const std::function<Status()> &each : ready) {
    last.ignore();
    last = each();
  }
  return last;
}

void DriverUsers::neverRelease() {
  std::lock_guard<std::mutex> lock(mutex);
  keepsAll = true;
  pending.clear();
}

} // namespace tandem::gpu
