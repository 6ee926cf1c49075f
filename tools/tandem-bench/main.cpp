//===- main.cpp - tandem-bench ----------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Calibrate.h"
#include "Compile.h"
#include "Files.h"
#include "Ranks.h"
#include "Report.h"
#include "Suite.h"
#include "ToolMain.h"
#include "tandem/Replay/Simulate.h"
#include "tandem/Replay/Tuned.h"
#include "tandem/Runtime/Bootstrap.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <new>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

using namespace tandem;
using namespace tandem::bench;
using namespace tandem::run;

namespace {

/// Exit statuses.
constexpr int kWrong = 1; ///< a rank failed, or a result is wrong
constexpr int kUsageError = 2;
constexpr int kSlower = 3; ///< --fail-if-slower
constexpr int kTimeUp = 4; ///< --total-time: rows are left

Expected<std::unique_ptr<Suite>> openSuite(const Options &options, uint32_t ranks) {
  if (options.folder.empty())
    return compileSuite(options, ranks);
  return readSuite(options.folder);
}

Expected<machine::Machine> loadMachine(const Options &options, uint32_t ranks) {
  TANDEM_ASSIGN_OR_RETURN(machine::Machine machine,
                          machine::Machine::load(machine::pathOf(options.machine)));
  TANDEM_RETURN_IF_ERROR(machine.checkRanks(ranks).withPrefix("--machine: "));
  return machine;
}

void predict(Entry &entry, const machine::Machine &machine) {
  if (!entry.seconds || entry.measurement.mode == Mode::Traced)
    return;
  auto world = replay::World::load(*entry.measurement.file);
  if (!world) {
    entry.unpredicted = world.status().message();
    return;
  }
  simulate::Options how;
  how.noGraph = entry.measurement.mode == Mode::Direct;
  auto result = simulate::simulate(**world, machine, how);
  if (result)
    entry.predicted = result->seconds;
  else
    entry.unpredicted = result.status().message();
}

/// The probes themselves, simulated on the new machine.
std::string foretold(Figures &figures, const machine::Machine &machine) {
  std::vector<double> errors;
  figures.predicted.assign(figures.measurements.size(), 0);
  for (size_t i = 0; i < figures.measurements.size(); ++i) {
    const Measurement &measurement = figures.measurements[i];
    if (measurement.seconds.empty() || !measurement.file)
      continue;
    Entry entry;
    entry.measurement = measurement;
    entry.seconds = quantilesOf(measurement.seconds);
    predict(entry, machine);
    figures.predicted[i] = entry.predicted.value_or(0);
    if (auto error = entry.predictionError())
      errors.push_back(std::abs(*error));
  }
  if (errors.empty())
    return "no probe could be measured";
  Quantiles q = quantilesOf(errors);
  return fmt::format("{} probes simulated on it: median error {:.1f} %, p90 {:.1f} %",
                     errors.size(), q.median * 100, q.p90 * 100);
}

/// Writes the machine file, what it was made of, and says how well it foretells that.
Status writeMachine(const Options &options, Figures &figures) {
  bool gpu = isGpuTarget(figures.target);
  std::string base = machine::pathOf(!options.machine.empty() ? options.machine
                                     : gpu                    ? "h200x8"
                                                              : "cpu2");
  TANDEM_ASSIGN_OR_RETURN(std::string text, readFile(base));
  TANDEM_RETURN_IF_ERROR(machine::Machine::parse(text, base).status());
  Calibration calibration(figures.ranks, gpu, figures.hostRanks, figures.cores);
  roundTimes(figures);
  calibration.note(figures.measurements);
  std::string name = std::filesystem::path(options.calibrate).stem().string();
  std::string how = fmt::format("tandem-bench {}; {} cores, the rest as in {}", figures.command,
                                figures.cores, base);
  TANDEM_ASSIGN_OR_RETURN(std::string made, calibration.apply(text, name, how));
  TANDEM_RETURN_IF_ERROR(writeFile(options.calibrate, made));
  for (const std::string &line : calibration.log())
    run::print("{}\n", line);
  TANDEM_ASSIGN_OR_RETURN(machine::Machine machine,
                          machine::Machine::parse(made, options.calibrate));
  std::string said = foretold(figures, machine);
  if (!options.json.empty())
    TANDEM_RETURN_IF_ERROR(writeFile(options.json, figuresJson(figures)));
  run::print("{}: {}\n", options.calibrate, said);
  return Status();
}

/// A recording has no programs: they are compiled anew, for predictions.
void compileAgain(Figures &figures) {
  for (Measurement &m : figures.measurements) {
    auto probe = parseProbe(m.name);
    if (!probe || m.seconds.empty())
      continue;
    Variant variant = compileVariant(Role::Probe, m.name, probeText(*probe, figures.ranks),
                                     figures.target, "", figures.ranks);
    if (!variant.refused.empty())
      continue;
    if (auto file = ProgramFile::fromMemory(variant.bytes))
      m.file = std::move(*file);
  }
}

/// Of each loop, the candidate with the least median, in the mode that an embedder gets: a graph,
/// if that was measured. The predicted best stays unless another one gains a hundredth.
std::vector<machine::TunedChoices::Loop> quickest(const std::string &program,
                                                  const std::vector<Measurement> &measurements,
                                                  const std::vector<Mode> &modes) {
  constexpr double kLeastGain = 0.01;
  bool hasGraph = std::find(modes.begin(), modes.end(), Mode::Graph) != modes.end();
  std::vector<machine::TunedChoices::Loop> loops;
  for (const Measurement &measurement : measurements) {
    if (measurement.mode != (hasGraph ? Mode::Graph : modes.front()) ||
        measurement.seconds.empty() || !measurement.failure.empty())
      continue;
    size_t space = measurement.name.find(' ');
    std::string signature = measurement.name.substr(0, space);
    std::string what = measurement.name.substr(space + 1);
    double seconds = quantilesOf(measurement.seconds).median;
    if (loops.empty() || loops.back().signature != signature) {
      loops.push_back({signature, what, program, seconds, seconds});
      continue;
    }
    machine::TunedChoices::Loop &best = loops.back();
    double least = best.seconds == best.plain ? (1 - kLeastGain) * best.plain : best.seconds;
    if (seconds < least) {
      best.what = what;
      best.seconds = seconds;
    }
  }
  return loops;
}

/// What rank 0 has to do beside its part.
class Bench {
public:
  Bench(const Options &options, Bootstrap &bootstrap, tandem_local_world *world)
      : options(options), bootstrap(bootstrap), root(bootstrap.rank() == 0),
        runner(options, bootstrap, world) {}

  Status run() {
    TANDEM_RETURN_IF_ERROR(onRoot([&] { return open(); }));
    TANDEM_RETURN_IF_ERROR(runner.start());
    if (!options.tune.empty())
      TANDEM_RETURN_IF_ERROR(onRoot([&] { return openTuned(); }));
    for (size_t index = 0;; ++index) {
      TANDEM_ASSIGN_OR_RETURN(std::string packed, nextRow(index));
      if (packed.empty())
        return Status();
      TANDEM_ASSIGN_OR_RETURN(Row row, unpackRow(packed));
      // Links need no measuring where their rate was given.
      if (row.kind == RowKind::Links && options.linkRate > 0)
        continue;
      TANDEM_ASSIGN_OR_RETURN(std::vector<Measurement> measurements, runner.run(row));
      if (root)
        note(row, std::move(measurements));
    }
  }

  /// After run(), on rank 0: writes the machine file, and says how well it foretells what it was
  /// made of.
  Status writeMachine() {
    figures.left = report.left;
    return ::writeMachine(options, figures);
  }

  /// After run(), on rank 0.
  Status writeTuned() const { return writeFile(options.tune, tuned.text()); }

  Report report;
  /// Whether run() has ended for what was given: a file or a folder.
  bool unusable = false;

private:
  /// Does something on rank 0; if it fails, all ranks end.
  template <typename Body> Status onRoot(Body body) {
    Status mine = root ? body() : Status();
    TANDEM_ASSIGN_OR_RETURN(auto all, allGatherStrings(bootstrap, mine.message()));
    return all[0].empty() ? Status() : refuse(mine);
  }

  /// On all ranks; rank 0 says why.
  Status refuse(const Status &problem) {
    unusable = true;
    return root ? problem : Status(Code::Aborted, "");
  }

  Status open() {
    report.ranks = bootstrap.worldSize();
    for (const std::string *path :
         {&options.json, &options.csv, &options.svg, &options.calibrate, &options.tune})
      if (!path->empty())
        TANDEM_RETURN_IF_ERROR(checkWritable(*path));
    TANDEM_ASSIGN_OR_RETURN(suite, openSuite(options, report.ranks));
    report.target = suite->target();
    if (suite->isTuning() != !options.tune.empty())
      return Status(Code::InvalidArgument,
                    fmt::format("\"{}\" was staged {} --tune", options.folder,
                                options.tune.empty() ? "with" : "without"));
    if (suite->isProbes() != options.probes)
      return Status(Code::InvalidArgument,
                    fmt::format("\"{}\" was staged {} --probes: {} --calibrate", options.folder,
                                options.probes ? "without" : "with",
                                options.probes ? "not for" : "use it with"));
    figures = {report.ranks,
               report.target,
               runner.hostRanks(),
               std::thread::hardware_concurrency(),
               options.commandLine,
               {},
               {},
               {}};
    report.linkSource = "nothing was measured";
    if (options.linkRate > 0) {
      report.linkRate = options.linkRate;
      report.linkSource = "--link-rate";
    }
    if (!options.machine.empty()) {
      TANDEM_ASSIGN_OR_RETURN(machine::Machine loaded, loadMachine(options, report.ranks));
      machine = std::move(loaded);
    }
    return Status();
  }

  /// "+" and the row; "-": rank 0 has failed; "": there are no more.
  Expected<std::string> nextRow(size_t index) {
    std::string mine;
    Status problem;
    bool late = options.totalTime.count() > 0 &&
                std::chrono::steady_clock::now() > begin + options.totalTime;
    for (size_t i = index; root && late && i < suite->numRows(); ++i)
      if (std::string label = suite->label(i); !label.empty())
        report.left.push_back(std::move(label));
    if (root && index < suite->numRows() && !late) {
      auto row = suite->row(index);
      problem = row.status();
      mine = row ? "+" + packRow(*row) : "-";
    }
    TANDEM_ASSIGN_OR_RETURN(auto all, allGatherStrings(bootstrap, mine));
    if (all[0] == "-")
      return refuse(problem);
    return all[0].empty() ? all[0] : all[0].substr(1);
  }

  void note(const Row &row, std::vector<Measurement> measurements) {
    if (row.kind == RowKind::Tuning)
      return noteTuning(row, measurements);
    if (row.kind == RowKind::Links) {
      noteLinks(measurements);
    } else if (row.kind == RowKind::Probe) {
      for (Measurement &measurement : measurements)
        figures.measurements.push_back(std::move(measurement));
      // However this ends, what was measured is there; an error is said at the end.
      if (!options.json.empty())
        writeFile(options.json, figuresJson(figures)).ignore();
    } else {
      RowReport made = makeRow(row.shape, report.ranks, report.linkRate, std::move(measurements));
      if (machine)
        for (Entry &entry : made.entries)
          predict(entry);
      if (report.rows.empty())
        run::print("{}", tableHead(options, report));
      run::print("{}", tableRow(made));
      std::fflush(stdout);
      report.rows.push_back(std::move(made));
      // However this ends, what was measured is there; an error is said at the end.
      writeFiles(options, report).ignore();
    }
  }

  /// Stores the quickest candidate of each loop. After each row the file is whole.
  void noteTuning(const Row &row, const std::vector<Measurement> &measurements) {
    for (const Variant &variant : row.variants)
      if (!variant.refused.empty())
        run::print("{}: {}: refused: {}\n", row.label, variant.name, variant.refused);
    for (machine::TunedChoices::Loop &loop : quickest(row.label, measurements, options.modes)) {
      run::print("{}: loop {}: {:.1f} us with {}, {:.1f} us with the predicted best\n", row.label,
                 loop.signature, loop.seconds * 1e6, loop.what, loop.plain * 1e6);
      std::fflush(stdout);
      tuned.set(std::move(loop));
    }
    writeFile(options.tune, tuned.text()).ignore(); // an error is said at the end
  }

  /// Earlier choices in the file stay, if they were measured on such a machine.
  Status openTuned() {
    std::string machine = fmt::format("{} x {}", report.ranks, runner.description());
    if (auto text = readFile(options.tune)) {
      auto known = machine::TunedChoices::parse(*text);
      if (!known)
        return known.status().withPrefix(options.tune + ": ");
      for (const auto &[theirs, mine] :
           {std::pair(known->machine, machine), std::pair(known->target, report.target)})
        if (theirs != mine)
          return Status(Code::InvalidArgument,
                        fmt::format("{}: was measured on \"{}\", this is \"{}\"; name another file",
                                    options.tune, theirs, mine));
      tuned = std::move(*known);
    }
    tuned.machine = machine;
    tuned.target = report.target;
    return Status();
  }

  /// What one ring takes, without what a run does; the quickest way.
  void noteLinks(const std::vector<Measurement> &measurements) {
    report.linkSource = "no ring could run";
    Calibration rings(report.ranks, isGpuTarget(report.target), runner.hostRanks(), 0);
    rings.note(measurements);
    for (const Measurement &m : measurements) {
      auto probe = parseProbe(m.name);
      if (!probe)
        continue;
      // On a busy machine a ring may be shorter than the noise. A whole run bounds it.
      auto alone = rings.seconds(*probe, m.mode), seconds = alone;
      if (!seconds)
        seconds = rings.mostSeconds(*probe, m.mode);
      double rate = seconds ? double(suite->linkBytes()) / *seconds : 0;
      if (rate <= report.linkRate.value_or(0))
        continue;
      report.linkRate = rate;
      report.linkSource =
          fmt::format("measured: a ring of {} B, by {}, {}{}", suite->linkBytes(),
                      toString(probe->work), toString(m.mode), alone ? "" : ", launching included");
    }
  }

  void predict(Entry &entry) { ::predict(entry, *machine); }

  const Options &options;
  Bootstrap &bootstrap;
  bool root;
  const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  std::unique_ptr<Suite> suite; ///< rank 0
  std::optional<machine::Machine> machine;
  Figures figures; ///< of probes
  machine::TunedChoices tuned;
  Runner runner;
};

/// Reports of rank 0, also of a run that failed on the way.
int writeReports(const Options &options, const Report &report) {
  run::print("{}", tableEnd(options, report));
  std::fflush(stdout);
  int status =
      report.failure.empty() && report.wrong().empty() && !report.ranNothing() ? 0 : kWrong;
  Status written = writeFiles(options, report);
  if (!written.ok()) {
    run::print(stderr, "tandem-bench: {}\n", written.message());
    status = kWrong;
  }
  if (status == 0 && !report.left.empty())
    return kTimeUp;
  if (status == 0 && options.failIfSlower >= 0 &&
      !(report.slower(options.failIfSlower).empty() && report.unjudged().empty()))
    return kSlower;
  return status;
}

/// Whether there is such a machine, if one was named, and it has room for so many ranks.
Status checkMachine(const Options &options, uint32_t ranks) {
  return options.machine.empty() ? Status() : loadMachine(options, ranks).status();
}

/// Checks what can be checked before ranks are started: files, folder, number of ranks.
Expected<uint32_t> checkSuite(const Options &options, uint32_t ranks) {
  if (options.folder.empty()) {
    if (!ranks)
      return Status(Code::InvalidArgument, "expected -n N, or ranks of mpirun, srun or torchrun");
  } else {
    TANDEM_ASSIGN_OR_RETURN(auto suite, readSuite(options.folder));
    if (ranks && ranks != suite->ranks())
      return Status(Code::InvalidArgument,
                    fmt::format("the programs of \"{}\" are for {} ranks, -n asks for {}",
                                options.folder, suite->ranks(), ranks));
    ranks = suite->ranks();
  }
  TANDEM_RETURN_IF_ERROR(checkMachine(options, ranks));
  return ranks;
}

/// Makes a machine file of --probe-figures. The exit status.
int calibrateAgain(const Options &options) {
  auto figures = readFigures(options.probeFigures);
  Status status = figures.status();
  if (status.ok() && hasCompiler())
    compileAgain(*figures);
  if (status.ok())
    status = writeMachine(options, *figures);
  if (!status.ok())
    run::print(stderr, "tandem-bench: {}\n", status.message());
  return status.ok() ? 0 : kUsageError;
}

/// Collective. Rank 0 prints and writes the reports. The exit status.
int runBench(const Options &options, Bootstrap &bootstrap, tandem_local_world *world) {
  bool root = bootstrap.rank() == 0;
  Bench bench(options, bootstrap, world);
  Status status;
  try {
    status = bench.run();
  } catch (const std::bad_alloc &) {
    status = Status(Code::OutOfMemory, "this host has too little memory for these shapes");
  } catch (const std::system_error &) {
    status = caughtException();
  }
  if (!status.ok()) {
    // What rank 0 could not begin with is said once, by rank 0.
    std::string message = status.message();
    if (!message.empty())
      message = rankMessage(bootstrap.rank(), message);
    if (root)
      bench.report.failure = message;
    else if (!message.empty())
      run::print(stderr, "tandem-bench: {}\n", message);
  }
  int failed = bench.unusable ? kUsageError : kWrong;
  if (!root)
    return status.ok() ? 0 : failed;
  const Report &report = bench.report;
  if (options.probes || !options.tune.empty()) {
    for (const std::string &line : report.left)
      run::print("not measured, time was up: {}\n", line);
    if (status.ok())
      status = options.probes ? bench.writeMachine() : bench.writeTuned();
    if (!status.ok())
      run::print(stderr, "tandem-bench: {}\n", status.message());
    return !status.ok() ? failed : report.left.empty() ? 0 : kTimeUp;
  }
  if (bench.unusable && report.rows.empty()) {
    run::print(stderr, "tandem-bench: {}\n", status.message());
    return kUsageError;
  }
  int code = writeReports(options, report);
  return bench.unusable ? kUsageError : code;
}

int fail(const Status &status) {
  run::print(stderr, "tandem-bench: {}\n", status.message());
  return kUsageError;
}

/// Each instance tunes its matmuls anew unless what was chosen is written down: a product that is
/// in several programs is to be computed by one algorithm, and tuned once. A file of the caller's,
/// if there is one; else one that goes with this. Ranks that are started here use it, too.
class AlgorithmFile {
public:
  explicit AlgorithmFile(const Options &options) {
    std::error_code none;
    std::filesystem::path folder = std::filesystem::temp_directory_path(none);
    if (options.device != "cuda" || std::getenv(kName) || none)
      return;
    path = folder / fmt::format("tandem-bench-{}.algorithms", getpid());
    std::filesystem::remove(path, none);
    setenv(kName, path.c_str(), 1);
  }
  ~AlgorithmFile() {
    std::error_code ignored;
    if (!path.empty())
      std::filesystem::remove(path, ignored);
  }
  AlgorithmFile(const AlgorithmFile &) = delete;
  AlgorithmFile &operator=(const AlgorithmFile &) = delete;

private:
  static constexpr const char *kName = "TANDEM_ALGORITHMS";
  std::filesystem::path path;
};

int stage(const Options &options) {
  if (Status machine = checkMachine(options, options.ranks); !machine.ok())
    return fail(machine);
  auto suite = compileSuite(options, options.ranks);
  auto written = writeSuite(*suite, options.stage);
  if (!written)
    return fail(written.status());
  run::print("{}\n", *written);
  return 0;
}

int start(const Options &options, const std::vector<std::string> &arguments) {
  auto ranks = checkSuite(options, options.ranks);
  if (!ranks)
    return fail(ranks.status());
  if (options.threads) {
    auto code = run::runThreadRanks(*ranks, options.timeout,
                                    [&](Bootstrap &bootstrap, tandem_local_world *world) {
                                      return runBench(options, bootstrap, world);
                                    });
    return code ? *code : fail(code.status());
  }
  auto exits =
      run::spawnSelf("tandem-bench", *ranks, arguments, options.prefix, options.timeout, false);
  return exits ? exitCodeOf(*exits) : fail(exits.status());
}

} // namespace

static int benchMain(int argc, char **argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  auto options = parseOptions(arguments);
  if (!options)
    return fail(options.status());
  if (!options->text.empty()) {
    run::print("{}", options->text);
    return 0;
  }
  if (!options->stage.empty())
    return stage(*options);
  if (!options->probeFigures.empty())
    return calibrateAgain(*options);
  AlgorithmFile algorithms(*options);
  auto environment = readBootstrapEnvironment();
  if (!environment)
    return fail(environment.status());
  auto starts = run::startsRanks(*environment, options->ranks, options->threads, options->channel);
  if (!starts)
    return fail(starts.status());
  if (*starts)
    return start(*options, arguments);
  auto ranks = checkSuite(*options, environment->worldSize);
  if (!ranks)
    return fail(ranks.status());
  auto bootstrap = run::joinRanks(*environment, options->timeout);
  if (!bootstrap)
    return fail(bootstrap.status());
  return runBench(*options, **bootstrap, nullptr);
}

int main(int argc, char **argv) {
  return run::runTool("tandem-bench", kUsageError, [&] { return benchMain(argc, argv); });
}
