//===- Calibrate.h - a machine file from measurements -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_BENCH_CALIBRATE_H
#define TANDEM_BENCH_CALIBRATE_H

#include "Probes.h"
#include "Runner.h"

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem::bench {

/// Makes numbers of a machine file from what probes took. What could not be measured (a probe was
/// refused, or took less than the noise) stays as the base file has it.
class Calibration {
public:
  /// `hostRanks`: those of `ranks` that share this host's cores.
  Calibration(uint32_t ranks, bool gpu, uint32_t hostRanks)
      : ranks(ranks), hostRanks(hostRanks), gpu(gpu) {}

  void note(const std::vector<Measurement> &measurements);

  /// The base file's text with the numbers that were measured, of source "calibrated", whose text
  /// is `how`; `name` is the machine's. An error if the result is no machine.
  Expected<std::string> apply(const std::string &base, const std::string &name,
                              const std::string &how);
  /// What was replaced and what was kept, a line each, after apply().
  const std::vector<std::string> &log() const { return lines; }

private:
  using Json = nlohmann::ordered_json;

  /// Seconds of one repeat, on the device or until it was enqueued; none where not measured.
  std::optional<double> seconds(const Probe &probe, Mode mode = Mode::Direct) const;
  std::optional<double> hostSeconds(const Probe &probe, Mode mode) const;
  const Probe *find(Work work, bool largest) const;
  std::vector<Probe> all(Work work, bool alone) const;

  void set(Json &object, const char *field, std::optional<double> value, double unit,
           const char *unitName, const std::string &path);
  /// Points [bytes, value]; `value` of a size gives none where it was not measured.
  void setCurve(Json &object, const char *field,
                const std::vector<std::pair<double, double>> &points, double unit,
                const char *unitName, const std::string &path);
  void applyMatmuls(Json &device);
  void applyMemory(Json &device);
  void applyContention(Json &device);
  void applyLaunching(Json &launch, Mode mode);
  void applyMessages(Json &file);
  void applyCollectives(Json &file);

  uint32_t ranks, hostRanks;
  bool gpu;
  std::vector<Probe> probes = probesFor(ranks, gpu);
  /// By name and mode: p10 of the rounds, and of the time until all was enqueued.
  std::map<std::pair<std::string, Mode>, std::pair<double, double>> figures;
  std::vector<std::string> lines;
};

} // namespace tandem::bench

#endif // TANDEM_BENCH_CALIBRATE_H
