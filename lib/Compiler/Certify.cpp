//===- Certify.cpp - proofs and predictions of compiled programs -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Compiler/Certify.h"

#include "tandem/Program/Container.h"
#include "tandem/Program/Files.h"
#include "tandem/Program/Program.h"
#include "tandem/Program/stream_program_generated.h"
#include "tandem/Replay/Check.h"
#include "tandem/Replay/Machine.h"
#include "tandem/Replay/Simulate.h"
#include "tandem/Replay/Timeline.h"
#include "tandem/Replay/World.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <tuple>
#include <xxhash.h>

namespace tandem::compiler {

namespace {

/// Multiply-adds and elements (1 to 2 ns each) for the comparison of results, without `certify`.
constexpr uint64_t kQuickSteps = 3'000'000;

/// `sameBits`: the program whose bits a deterministic one has; null if there is none.
Status prove(const replay::World &world, const replay::World *sameBits, const CompileOptions &how,
             Certificate &certificate) {
  check::CheckOptions options;
  if (!how.certify)
    options.dataSteps = kQuickSteps;
  options.queues = check::defaultQueues(world.target);
  options.sms = check::defaultSMs(world.target);
  if (world.isDeterministic)
    options.sameBits = sameBits;
  check::Report report = check::check(world, options);
  if (report.hasErrors())
    return Status(Code::InvalidProgram, toText(world, report));
  certificate.queues = options.queues;
  certificate.bufferedSends = options.bufferedSends;
  certificate.limits = report.limits;
  bool isOpen = std::any_of(report.limits.begin(), report.limits.end(),
                            [](const std::string &limit) { return limit.rfind("SMs: ", 0) == 0; });
  certificate.sms = isOpen ? 0 : options.sms.total;
  if (world.isDeterministic && !sameBits && !how.baseline)
    certificate.limits.emplace_back("bits: there is no program to compare with");
  certificate.data = report.data;
  bool isCompared = report.data.rfind("checked", 0) == 0;
  for (unsigned number = 0; number < check::kNumDiagnoses; ++number) {
    auto diagnosis = static_cast<check::Diagnosis>(number);
    bool isData =
        diagnosis == check::Diagnosis::WrongResult || diagnosis == check::Diagnosis::CopiesDiffer;
    if (check::isLint(diagnosis) || (isData && !isCompared) ||
        (diagnosis == check::Diagnosis::QueueDeadlock && options.queues == 0) ||
        (diagnosis == check::Diagnosis::SmDeadlock && certificate.sms == 0) ||
        (diagnosis == check::Diagnosis::BitsDiffer && !report.hasSameBits) ||
        (diagnosis == check::Diagnosis::OrderNotFixed && !world.isDeterministic))
      continue;
    certificate.properties.emplace_back(toString(diagnosis));
  }
  return Status();
}

/// The hash of a .tsp file's content; 0 if it is empty.
uint64_t hashOfProgram(std::string_view bytes) {
  sp::Header header{};
  if (bytes.size() >= sizeof header)
    std::memcpy(&header, bytes.data(), sizeof header);
  return header.indexHash;
}

/// What this process has proven. Thread-safe.
class Proofs {
public:
  /// Hashes of the program and of that with whose bits it is compared; CompileOptions::certify and
  /// baseline.
  using Key = std::tuple<uint64_t, uint64_t, bool, bool>;

  /// Never destroyed: a thread may compile while the process exits.
  static Proofs &get() {
    static auto *proofs = new Proofs;
    return *proofs;
  }
  /// Whether it is known. Fills what `prove` fills.
  bool find(const Key &key, Certificate &to) {
    std::lock_guard<std::mutex> lock(mutex);
    auto found = known.find(key);
    if (found == known.end())
      return false;
    const Certificate &from = found->second;
    to.properties = from.properties;
    to.limits = from.limits;
    to.data = from.data;
    to.queues = from.queues;
    to.bufferedSends = from.bufferedSends;
    to.sms = from.sms;
    return true;
  }
  void add(const Key &key, const Certificate &certificate) {
    std::lock_guard<std::mutex> lock(mutex);
    if (known.size() >= kMost)
      known.clear();
    Certificate &kept = known[key] = certificate;
    kept.loops.clear();
  }

private:
  static constexpr size_t kMost = 4096; ///< some KB each
  std::mutex mutex;
  std::map<Key, Certificate> known;
};

/// The communication of the loop's reshards, found by their locations.
void measureLoop(const timeline::Timeline &run, uint32_t rank, Certificate::Loop &loop) {
  std::vector<timeline::Span> spans;
  for (const timeline::Span &span : run.ranks[rank]) {
    if (span.name == timeline::kNone)
      continue;
    const std::string &location = run.names[span.name].location;
    bool isOwn = !location.empty() && std::find(loop.locations.begin(), loop.locations.end(),
                                                location) != loop.locations.end();
    if (isOwn || span.category == timeline::Category::Compute)
      spans.push_back(span);
  }
  timeline::Shares shares = timeline::sharesOf(spans);
  loop.communication = shares.communication;
  loop.exposed = shares.exposed;
}

/// Simulated times of whole programs, the fastest first.
Expected<std::vector<Certificate::Candidate>> predictAlternatives(const CompileResult &result,
                                                                  const machine::Machine &machine) {
  std::vector<Certificate::Candidate> times;
  for (const auto &[what, bytes] : result.alternatives) {
    TANDEM_ASSIGN_OR_RETURN(auto file, ProgramFile::fromMemory(bytes));
    TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<const replay::World> world, replay::World::load(*file));
    Expected<simulate::Result> run = simulate::simulate(*world, machine);
    if (run && run->outOfReach == replay::kNone)
      times.push_back({what, run->seconds});
  }
  std::sort(times.begin(), times.end(), [](const auto &a, const auto &b) {
    return a.seconds != b.seconds ? a.seconds < b.seconds : a.what < b.what;
  });
  return times;
}

Status predict(const replay::World &world, const replay::World *baseline,
               const CompileResult &result, const std::string &name, Certificate &certificate) {
  std::string path = machine::pathOf(name);
  TANDEM_ASSIGN_OR_RETURN(machine::Machine machine, machine::Machine::load(path));
  TANDEM_ASSIGN_OR_RETURN(auto files, machine::readMachine(path));
  std::string bytes;
  for (const machine::MachineFile &file : files)
    bytes += file.text;
  Expected<simulate::Result> simulated = simulate::simulate(world, machine);
  // A program that the machine cannot run has no time there.
  if (!simulated || simulated->outOfReach != replay::kNone)
    return Status();
  const simulate::Result &run = *simulated;
  certificate.machine = machine.name;
  certificate.machineHash = XXH3_64bits(bytes.data(), bytes.size());
  certificate.seconds = run.seconds;
  if (Expected<simulate::Result> plain =
          baseline ? simulate::simulate(*baseline, machine) : Status(Code::Unsupported, "");
      plain && plain->outOfReach == replay::kNone)
    certificate.baselineSeconds = plain->seconds;
  TANDEM_ASSIGN_OR_RETURN(certificate.alternatives, predictAlternatives(result, machine));
  timeline::Timeline timeline =
      simulate::makeTimeline(world, run, certificate.machine, run.slowestRank + 1);
  for (Certificate::Loop &loop : certificate.loops)
    measureLoop(timeline, run.slowestRank, loop);
  return Status();
}

} // namespace

Expected<Certificate> certify(const CompileResult &result, const CompileOptions &options,
                              std::string_view program) {
  Certificate certificate;
  certificate.producer = version();
  certificate.loops = result.loops;
  if (options.rank || !options.check)
    certificate.limits = {options.rank ? "not checked: one rank alone"
                                       : "not checked: compiled without the check"};
  bool proves = !options.rank && options.check,
       predicts = !options.rank && options.certify && !options.machine.empty();
  const std::string &other = result.onOneDevice.empty() ? result.baseline : result.onOneDevice;
  Proofs::Key key{hashOfProgram(program), hashOfProgram(other), options.certify, options.baseline};
  bool isKnown = proves && Proofs::get().find(key, certificate);
  if (!predicts && (isKnown || !proves))
    return certificate;
  ProgramLimits limits;
  // No device holds a reference that the program does not carry.
  if (program.data() != result.output.data())
    limits.maxArenaBytes = uint64_t(1) << 54;
  TANDEM_ASSIGN_OR_RETURN(auto file, ProgramFile::fromMemory(program, limits));
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<const replay::World> world, replay::World::load(*file));
  auto load = [](const std::string &bytes) -> Expected<std::shared_ptr<const replay::World>> {
    if (bytes.empty())
      return std::shared_ptr<const replay::World>();
    TANDEM_ASSIGN_OR_RETURN(auto plain, ProgramFile::fromMemory(bytes));
    return replay::World::load(*plain);
  };
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<const replay::World> baseline, load(result.baseline));
  if (proves && !isKnown) {
    TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<const replay::World> alone, load(result.onOneDevice));
    bool isTree = file->index().deterministic() == sp::Determinism::tp;
    const replay::World *sameBits = isTree ? alone.get() : baseline.get();
    TANDEM_RETURN_IF_ERROR(prove(*world, sameBits, options, certificate));
    Proofs::get().add(key, certificate);
  }
  if (predicts)
    TANDEM_RETURN_IF_ERROR(predict(*world, baseline.get(), result, options.machine, certificate));
  return certificate;
}

} // namespace tandem::compiler
