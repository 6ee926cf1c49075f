//===- Check.cpp - all proofs, one after the other ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Data.h"
#include "LocalPass.h"
#include "Order.h"

#include "tandem/Program/CollectiveRoute.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

namespace tandem::check {

using namespace replay;

std::string_view toString(Diagnosis diagnosis) {
  static constexpr std::string_view names[kNumDiagnoses] = {
      "deadlock",          "queue-deadlock",     "sm-deadlock",
      "unmatched-send",    "unmatched-recv",     "message-size",
      "message-type",      "group-mismatch",     "collective-mismatch",
      "signal-missing",    "signal-wrong-run",   "race",
      "not-joined",        "uninitialized-read", "lifetime",
      "result-incomplete", "wrong-result",       "copies-differ",
      "bits-differ",       "order-not-fixed",    "overwritten-early",
      "put-outside",       "serial-stream",      "redundant-sync",
      "copy-view",         "unread-data"};
  return names[static_cast<unsigned>(diagnosis)];
}

bool isLint(Diagnosis diagnosis) { return diagnosis >= Diagnosis::SerialStream; }

static bool isGpu(std::string_view target) {
  return target.substr(0, 4) == "cuda" || target.substr(0, 3) == "hip" ||
         target.substr(0, 4) == "rocm" || target.substr(0, 3) == "gpu";
}

unsigned defaultQueues(std::string_view target) {
  // The default of CUDA_DEVICE_MAX_CONNECTIONS.
  return isGpu(target) ? 8 : 0;
}

replay::SmLimits defaultSMs(std::string_view target) {
  replay::SmLimits limits;
  bool isAmd = target.substr(0, 3) == "hip";
  limits.total = isAmd ? 96 : isGpu(target) ? 132 : 0; // gfx1100; H100 and H200
  return limits;
}

bool Report::hasErrors() const { return numErrors() > 0; }

uint64_t Report::numErrors() const {
  uint64_t errors = 0;
  for (unsigned d = 0; d < kNumDiagnoses; ++d)
    errors += isLint(static_cast<Diagnosis>(d)) ? 0 : counts[d];
  return errors;
}

void Findings::merge(Findings &&other) {
  for (unsigned d = 0; d < kNumDiagnoses; ++d)
    other.counts[d] += counts[d];
  for (Finding &finding : other.list)
    if (counts[index(finding.diagnosis)]++ < limit)
      list.push_back(std::move(finding));
  std::copy_n(other.counts, kNumDiagnoses, counts);
}

namespace {

class Checker {
public:
  Checker(const World &world, const CheckOptions &options)
      : world(world), options(options), findings(options.maxFindings), footprints(world) {}

  Report run() {
    report.numRanks = world.numRanks();
    report.numCommands = world.commands.size();
    reportMismatches(world, findings);
    execution = checkProgress(world, options, findings);
    if (execution.finished) {
      checkQueues(world, options, findings, report.limits);
      checkResidency(world, options, findings, report.limits);
    }
    checkRanks();
    reportRaces();
    if (execution.finished)
      checkPeers();
    else
      report.limits.emplace_back("order between ranks: the program does not finish");
    checkOther();
    if (order && order->exhausted())
      report.limits.emplace_back("order between ranks: too many accesses need a search");
    checkOrderOfSums();
    compareData();
    for (unsigned d = 0; d < kNumDiagnoses; ++d)
      for (Finding &finding : findings.list)
        if (finding.diagnosis == static_cast<Diagnosis>(d))
          report.findings.push_back(std::move(finding));
    std::copy_n(findings.counts, kNumDiagnoses, report.counts);
    return std::move(report);
  }

private:
  /// Checks the ranks on several threads; findings are merged in rank order.
  void checkRanks() {
    unsigned threads = options.threads;
    if (threads == 0)
      threads = std::clamp(std::thread::hardware_concurrency(), 1u, 8u);
    threads = std::min(threads, world.numRanks() / 16 + 1);
    locals.resize(world.numRanks());
    std::vector<Findings> found(world.numRanks(), Findings(options.maxFindings));
    std::atomic<uint32_t> next{0};
    auto work = [&] {
      for (uint32_t r = next++; r < world.numRanks(); r = next++)
        locals[r] = checkRank(world, r, options, execution, footprints, found[r]);
    };
    std::vector<std::thread> pool;
    for (unsigned t = 1; t < threads; ++t)
      pool.emplace_back(work);
    work();
    for (std::thread &thread : pool)
      thread.join();
    for (uint32_t r = 0; r < world.numRanks(); ++r) {
      findings.merge(std::move(found[r]));
      report.numOverlaps += locals[r].numOverlaps;
    }
  }

  /// In a deterministic program, no library chooses the order of additions.
  void checkOrderOfSums() {
    for (const MatchedCollective &collective : world.collectives) {
      CommandId first = kNone;
      for (uint32_t m = 0; m < world.groups[collective.group].size() && first == kNone; ++m)
        first = world.members[collective.members + m];
      if (!world.isDeterministic || first == kNone)
        continue;
      const Command &command = world.commands[first];
      auto kind = static_cast<CollectiveKind>(command.op);
      const View *out = world.operand(world.ranks[world.rankOf(first)], command, 1);
      bool adds = program::isReduction(kind) &&
                  static_cast<ReduceOp>(command.reduceOp) == ReduceOp::Sum && out &&
                  isFloat(world.layoutOf(*out).dtype);
      if (!adds)
        continue;
      if (!findings.wants(Diagnosis::OrderNotFixed)) {
        findings.count(Diagnosis::OrderNotFixed);
        continue;
      }
      findings.add({Diagnosis::OrderNotFixed,
                    "the program is deterministic, but a library chooses the order in which this "
                    "collective adds floats",
                    {first},
                    {world.describe(first)}});
    }
  }

  /// Bits are compared with those of a program that runs, or not at all.
  void checkOther() {
    if (!options.sameBits)
      return;
    std::string reason = whatDiffers(world, *options.sameBits);
    if (reason.empty()) {
      CheckOptions alone = options;
      alone.sameBits = nullptr;
      alone.dataSteps = 0;
      if (Report other = check(*options.sameBits, alone); other.hasErrors())
        reason = "the other program has an error: " + other.findings.front().message;
    }
    if (reason.empty())
      return;
    report.limits.push_back("bits: " + reason);
    options.sameBits = nullptr;
  }

  /// Only without other errors: with a race, values may depend on timing.
  void compareData() {
    for (unsigned d = 0; d < kNumDiagnoses; ++d)
      if (findings.counts[d] && !isLint(static_cast<Diagnosis>(d)))
        return;
    if (!execution.finished)
      return;
    bool decided = false;
    report.data = checkData(world, options, findings, decided);
    report.hasSameBits = options.sameBits && report.data.rfind("checked", 0) == 0 &&
                         !findings.counts[static_cast<unsigned>(Diagnosis::BitsDiffer)];
    if (!decided && options.dataWanted)
      report.limits.push_back("data: " + report.data);
  }

  Order &orderOfAll() {
    if (!order)
      order.emplace(world);
    return *order;
  }

  void checkPeers() {
    bool oneSided = false;
    for (const Slot &slot : world.slots)
      oneSided |= !slot.waits.empty();
    for (const auto &puts : world.incoming)
      oneSided |= !puts.empty();
    if (oneSided)
      checkRemote(world, options, execution, locals, footprints, orderOfAll(), findings);
  }

  void reportRaces() {
    for (uint32_t r = 0; r < world.numRanks(); ++r)
      for (const OpenPair &pair : locals[r].open) {
        if (orderOfAll().before(pair.first, pair.second) || order->before(pair.second, pair.first))
          continue;
        if (!findings.wants(Diagnosis::Race)) {
          findings.count(Diagnosis::Race);
          continue;
        }
        const Overlaps &overlaps = *locals[r].overlaps;
        auto verb = [](bool writes) { return writes ? "writes" : "reads"; };
        findings.add({Diagnosis::Race,
                      fmt::format("rank {}: stream {} {} {}, unordered with stream {}, which {} it",
                                  r, world.commands[pair.second].stream, verb(pair.secondWrites),
                                  describeBytes(world, r, footprints, overlaps.places[pair.placeA],
                                                overlaps.places[pair.placeB]),
                                  world.commands[pair.first].stream, verb(pair.firstWrites)),
                      {pair.second, pair.first},
                      {world.describe(pair.second), world.describe(pair.first)}});
      }
  }

  const World &world;
  CheckOptions options;
  Findings findings;
  FootprintTable footprints;
  Execution execution;
  std::vector<LocalResult> locals;
  std::optional<Order> order; ///< created at first use
  Report report;
};

} // namespace

Report check(const World &world, const CheckOptions &options) {
  return Checker(world, options).run();
}

} // namespace tandem::check
