//===- Options.h - the command line of tandem-bench -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_BENCH_OPTIONS_H
#define TANDEM_BENCH_OPTIONS_H

#include "Shapes.h"
#include "tandem/Program/Status.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::bench {

/// Traced: with the times of all commands, which are launched one by one.
enum class Mode : uint8_t { Direct, Graph, Traced };
/// "direct", "graph", "traced".
std::string toString(Mode mode);

inline constexpr Mode kModes[] = {Mode::Direct, Mode::Graph, Mode::Traced};
/// Null: no mode has the name.
std::optional<Mode> modeNamed(std::string_view name);

struct Options {
  std::string folder; ///< of programs that --stage has written; "": they are compiled here

  // What is measured; only without a folder.
  std::string shapes, tokens = "1024,2048,8192", dtypes = "bf16";
  std::string scheduleList = "auto,pipeline,exchange,push,push:streams=2,push:merge=double";
  std::vector<Case> cases;
  std::vector<Schedule> schedules;
  std::string target;        ///< "": what the channels can do
  std::string machine;       ///< the compiler chooses by it, the simulator predicts with it
  std::string stage;         ///< only compile, into this folder
  std::string calibrate;     ///< a machine file to be written
  bool probes = false;       ///< what that takes is compiled, not shapes
  bool probesShapes = false; ///< the matmuls of `cases` are probed, not those of known layers
  std::string probeFigures;  ///< the machine file is made of this recording
  std::string tune;          ///< a file of measured choices to be written
  std::vector<std::string> programs; ///< .mlir files to tune, instead of `cases`

  uint32_t ranks = 0;
  std::string device = "cpu", channel = "ucx";
  bool threads = false, prefix = false;
  std::chrono::milliseconds timeout{60000};

  // How.
  std::string modeList; ///< "": what the device has
  std::vector<Mode> modes;
  uint32_t iterations = 30, warmup = 4, sets = 2, batch = 1;
  double gapMs = 0;
  std::chrono::milliseconds rowTime{20000};
  std::chrono::milliseconds totalTime{0}; ///< 0: as long as it takes
  std::string verify = "auto";
  uint64_t seed = 0;
  double linkRate = 0; ///< bytes/s; 0: measured
  uint64_t linkBytes = uint64_t(64) << 20;

  std::string json, csv, svg;
  double failIfSlower = -1; ///< percent; -1: not asked
  /// What --help or --version prints, and nothing is measured; else "".
  std::string text;
  std::string commandLine; ///< all arguments
};

Expected<Options> parseOptions(const std::vector<std::string> &arguments);

} // namespace tandem::bench

#endif // TANDEM_BENCH_OPTIONS_H
