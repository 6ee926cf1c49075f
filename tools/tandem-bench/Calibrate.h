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
  /// `hostRanks`: those of `ranks` that share this host's `cores`.
  Calibration(uint32_t ranks, bool gpu, uint32_t hostRanks, unsigned cores)
      : ranks(ranks), hostRanks(hostRanks), cores(cores), gpu(gpu) {}

  /// Measurements are those of probes, known by their names; others are no matter.
  void note(const std::vector<Measurement> &measurements);

  /// One repeat of a probe; none where not measured, or less than the noise.
  std::optional<double> seconds(const Probe &probe, Mode mode) const;
  /// The whole run divided by the repeats, which is no less than one repeat takes; none where not
  /// measured.
  std::optional<double> mostSeconds(const Probe &probe, Mode mode) const;

  /// The base file's text with the numbers that were measured, of source "calibrated", whose text
  /// is `how`; `name` is the machine's. An error if the result is no machine.
  Expected<std::string> apply(const std::string &base, const std::string &name,
                              const std::string &how);
  /// What was replaced and what was kept, a line each, after apply().
  const std::vector<std::string> &log() const { return lines; }

private:
  using Json = nlohmann::ordered_json;

  /// What a program took, round by round, and until it was enqueued.
  struct Figure {
    std::vector<double> seconds, host;
  };

  const Figure *figure(const Probe &probe, Mode mode) const;
  /// By the difference of rounds.
  std::optional<double> difference(const Probe &probe, Mode mode,
                                   std::vector<double> Figure::*of) const;
  /// Where there are graphs, from them: the host does not get in the way there.
  std::optional<double> seconds(const Probe &probe) const;
  std::optional<double> hostSeconds(const Probe &probe, Mode mode) const;
  /// The probe of which only launching counts, one that nobody has measured if need be.
  Probe tiny(Work work) const;
  /// The others of a kind, by size.
  std::vector<Probe> all(Work work, bool alone) const;
  /// The matmul of a probe that has one beside something, alone.
  std::optional<double> matmulSeconds(const Probe &of) const;
  /// A put of so many bytes, between those that were measured; none beyond.
  std::optional<double> putSeconds(double bytes) const;
  /// The fixed time of a run, as medians over programs of one command: a number, or a curve by the
  /// time of the command.
  void applyRun(Json &launch, Mode mode, const std::string &path);
  /// By puts that wait for the start of the run, and by puts that wait for a matmul.
  std::optional<double> engineStartSeconds(const Json &launch, Mode mode) const;
  std::optional<double> engineChangeSeconds(const Json &launch);

  void set(Json &object, const char *field, std::optional<double> value, double unit,
           const char *unitName, const std::string &path);
  /// Points [bytes, value]; `value` of a size gives none where it was not measured.
  void setCurve(Json &object, const char *field,
                const std::vector<std::pair<double, double>> &points, double unit,
                const char *unitName, const std::string &path);
  /// Of a matmul with rows that do not begin at lines of a GPU's cache: one with rows that do, and
  /// less than a line of fewer columns of N and K, if it was probed.
  std::optional<Probe> alignedCounterpart(const Probe &of) const;
  /// `unaligned` of a machine file: medians over pairs of probes. Null if it was not measured.
  Json unalignedMatmuls(DType dtype) const;
  void applyMatmuls(Json &device);
  void applyGated(Json &device);
  void applyMemory(Json &device);
  void applyContention(Json &device);
  void applyInterference(Json &device);
  void applyLaunching(Json &launch, Mode mode);
  void applyMessages(Json &file);
  void applyRows(Json &file);
  std::optional<double> applyStartups(Json &transport, const std::vector<Probe> &sizes,
                                      const std::string &path);
  void applyExchange(Json &file);
  void applyCollectives(Json &file);
  /// By a tiny all-gather and a tiny all-reduce, which has more steps; nullopt where they do not
  /// tell.
  std::optional<double> stepSeconds() const;

  uint32_t ranks, hostRanks;
  unsigned cores;
  bool gpu;
  bool noGatedKernels = false;    ///< the device has no kernels for gated matmuls
  bool noExchangeKernels = false; ///< nor for fused exchanges
  std::vector<Probe> probes;      ///< of more than one repeat
  std::map<std::pair<std::string, Mode>, Figure> figures;
  std::vector<std::string> lines;
};

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

#endif // TANDEM_BENCH_CALIBRATE_H
