//===- Figures.h - what probes took, as a file ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_BENCH_FIGURES_H
#define TANDEM_BENCH_FIGURES_H

#include "Runner.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::bench {

/// All that a machine file is made of, so that it can be made again without the machine.
struct Figures {
  uint32_t ranks = 0;
  std::string target;
  uint32_t hostRanks = 0; ///< those that share this host's cores
  unsigned cores = 0;     ///< of this host
  std::string command;    ///< the arguments of the tandem-bench that measured
  std::vector<Measurement> measurements;
  std::vector<double> predicted; ///< by measurement, s; 0: none. Empty: nothing was predicted
  std::vector<std::string> left; ///< probes that there was no time for
};

/// To whole nanoseconds, which are the clock's and those of the file: whatever is made of the
/// figures is the same to the last digit when it is made of the file.
void roundTimes(Figures &figures);
/// Keys: see docs/benchmarking.md.
std::string figuresJson(const Figures &figures);
/// Errors name the file and the field. There are no programs in it.
Expected<Figures> readFigures(const std::string &path);

} // namespace tandem::bench

#endif // TANDEM_BENCH_FIGURES_H
