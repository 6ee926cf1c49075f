//===- Options.h - the command line of tandem-run ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUN_OPTIONS_H
#define TANDEM_RUN_OPTIONS_H

#include "tandem/Program/Status.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace tandem::run {

struct Options {
  std::vector<std::string> programs; ///< .tsp; at least one
  uint32_t ranks = 0;                ///< 0: not given
  std::string device = "cpu";
  std::string channel = "ucx";
  std::string link; ///< "2GB/s,20us"; "": not shaped
  bool noGraph = false;
  bool threads = false; ///< ranks are threads of one process; always with channel local
  std::chrono::milliseconds timeout{60000};

  /// Of the dimensions that vary, one after another; empty: their bound.
  std::vector<int64_t> extents;
  bool verify = false, requireProof = false, noNative = false;
  uint32_t repeat = 1, warmup = 0;
  uint64_t seed = 0;
  std::vector<std::string> kernels; ///< shared libraries

  std::string json, dumpNpy, trace, hangReport;
  /// What --help or --version prints, and nothing is run; else "".
  std::string text;

  /// Lines say of which program they are, and there is a total.
  bool several() const { return programs.size() > 1; }
};

/// The folder of a program's tensors: `dumpNpy`, and with several one in it that is called as the
/// file, without folder and extension.
std::string dumpFolder(const Options &options, const std::string &program);

Expected<Options> parseOptions(const std::vector<std::string> &arguments);

} // namespace tandem::run

#endif // TANDEM_RUN_OPTIONS_H
