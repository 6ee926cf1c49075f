//===- Clock.cpp - one clock for all ranks ----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Clock.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

using namespace tandem;
using namespace tandem::run;

int64_t run::nanoseconds() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

/// Hosts that are one have this in common, and their monotonic clock.
static std::string bootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

Expected<int64_t> run::clockOffset(Bootstrap &bootstrap) {
  TANDEM_ASSIGN_OR_RETURN(auto hosts, allGatherStrings(bootstrap, bootId()));
  bool oneHost = std::all_of(hosts.begin(), hosts.end(), [&](const std::string &host) {
    return !host.empty() && host == hosts[0];
  });
  if (oneHost)
    return 0;
  // Every round gives a bound on both sides: rank 0's time was sent before it was read here, and
  // this rank's before it was read there.
  constexpr int rounds = 16;
  std::vector<int64_t> sent(bootstrap.worldSize()), read(bootstrap.worldSize());
  int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < rounds; ++i) {
    int64_t mine = nanoseconds();
    TANDEM_RETURN_IF_ERROR(bootstrap.allGather(&mine, sizeof mine, sent.data()));
    int64_t arrived = nanoseconds();
    TANDEM_RETURN_IF_ERROR(bootstrap.allGather(&arrived, sizeof arrived, read.data()));
    most = std::min(most, arrived - sent[0]);
    least = std::max(least, mine - read[0]);
  }
  return bootstrap.rank() == 0 || least == std::numeric_limits<int64_t>::min()
             ? 0
             : least + (most - least) / 2;
}
