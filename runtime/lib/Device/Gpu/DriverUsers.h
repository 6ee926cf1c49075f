//===- DriverUsers.h - who uses a GPU, and what waits to be freed -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_DRIVERUSERS_H
#define TANDEM_LIB_DEVICE_GPU_DRIVERUSERS_H

#include "Driver.h"

#include <functional>
#include <mutex>
#include <vector>

namespace tandem::gpu {

/// The drivers of this process that use a GPU, and what they will free when one is left: see
/// Driver::release(). Any thread.
class DriverUsers {
public:
  /// Of one GPU. Lives as long as the process.
  static DriverUsers &of(const Vendor &vendor, int device);

  void join();
  void leave();
  Status release(std::function<Status()> body);
  /// The status of the last one.
  Status releasePending();
  void neverRelease();

private:
  std::mutex mutex; ///< guards the fields below
  unsigned count = 0;
  bool keepsAll = false;
  std::vector<std::function<Status()>> pending;
};

} // namespace tandem::gpu

#endif // TANDEM_LIB_DEVICE_GPU_DRIVERUSERS_H
