//===- Data.cpp - comparison with the unsharded reference -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Data.h"

#include "tandem/Program/BuiltinKernels.h"
#include "tandem/Program/stream_program_generated.h"

#include <algorithm>
#include <set>

namespace tandem::check {

using namespace replay;

double dataSteps(const World &world) {
  std::vector<double> elements;
  for (const Layout &layout : world.layouts)
    elements.push_back(static_cast<double>(layout.numElements()));
  double steps = 0;
  for (const Rank &rank : world.ranks) {
    steps += static_cast<double>(rank.arenaBytes + rank.symmetricBytes) / 4;
    for (uint64_t bytes : rank.argumentBytes)
      steps += static_cast<double>(bytes) / 2;
    for (CommandId i = rank.begin; i < rank.end; ++i) {
      const Command &command = world.commands[i];
      for (uint32_t k = 0; k < command.numOperands; ++k)
        if (const View *view = world.operand(rank, command, k))
          steps += elements[view->layout];
      if (command.kind == Kind::Matmul) {
        const View &out = *world.operand(rank, command, 0), &a = *world.operand(rank, command, 1);
        const Layout &factor = world.layoutOf(a);
        bool transposed = command.flags & static_cast<uint8_t>(sp::CommandFlags::transpose_a);
        steps += elements[out.layout] *
                 static_cast<double>(factor.shape[factor.rank - (transposed ? 2u : 1u)]);
      } else if (command.kind == Kind::Call) {
        // Elements are found by their indices.
        for (uint32_t k = 0; k < command.numOperands; ++k)
          steps += kElementSteps * elements[world.operand(rank, command, k)->layout];
        // A product with the matrix of each group.
        if (world.kernels[rank.kernels[command.aux]].name == program::kGroupedMatmul) {
          const Layout &x = world.layoutOf(*world.operand(rank, command, 1));
          steps += elements[world.operand(rank, command, 0)->layout] *
                   static_cast<double>(x.shape[x.rank - 1u]) *
                   static_cast<double>(world.layoutOf(*world.operand(rank, command, 2)).shape[0]);
        }
      } else if (command.kind == Kind::Launch) {
        const Kernel &kernel = world.kernels[rank.kernels[command.aux]];
        if (const View *out = world.operand(rank, command, 0))
          steps += elements[out->layout] * static_cast<double>(kernel.code.size());
      }
    }
  }
  return steps;
}

/// A launched kernel that is not expression code, or null.
static const Kernel *nativeKernel(const World &world) {
  for (const Rank &rank : world.ranks)
    for (CommandId i = rank.begin; i < rank.end; ++i)
      if (world.commands[i].kind == Kind::Launch) {
        const Kernel &kernel = world.kernels[rank.kernels[world.commands[i].aux]];
        if (!kernel.isExpression)
          return &kernel;
      }
  return nullptr;
}

/// Whether several ranks hold the same element (and term) of a result.
static bool hasCopies(const World &world) {
  for (uint32_t a = 0; a < world.arguments.size(); ++a) {
    const Argument &info = world.arguments[a];
    if (!info.isResult)
      continue;
    Layout whole =
        Layout::dense(info.dtype, info.shape.data(), static_cast<unsigned>(info.shape.size()));
    uint64_t held = 0;
    for (const Rank &rank : world.ranks)
      held += rank.argumentBytes[a];
    if (held > whole.numBytes() * info.terms)
      return true;
  }
  return false;
}

/// An operand missing from a maximum shows only where it is the largest: try several orders.
static constexpr unsigned kMaxOrders = 24;

/// Whether any kernel or reduction compares values.
static bool hasOrder(const World &world) {
  return std::any_of(world.kernels.begin(), world.kernels.end(), usesOrder) ||
         std::any_of(world.commands.begin(), world.commands.end(), [](const Command &command) {
           return command.reduceOp != static_cast<uint8_t>(ReduceOp::Sum);
         });
}

/// Checks what the evaluation relies on and the reader does not verify. Empty if it holds.
static std::string whatIsWrong(const World &world) {
  const World &reference = *world.reference;
  bool isFine = reference.mismatches.empty();
  isFine &= reference.arguments.size() == world.arguments.size();
  return isFine ? "" : "the unsharded reference is not a program of one rank";
}

/// Why results of two programs cannot be compared; empty if they can.
std::string whatDiffers(const World &world, const World &other) {
  bool same = world.arguments.size() == other.arguments.size();
  for (size_t a = 0; same && a < world.arguments.size(); ++a) {
    const Argument &mine = world.arguments[a], &theirs = other.arguments[a];
    same = mine.name == theirs.name && mine.isResult == theirs.isResult &&
           mine.dtype == theirs.dtype && mine.shape == theirs.shape && mine.terms == theirs.terms;
  }
  if (!same)
    return "the other program has other arguments";
  return other.reference ? whatIsWrong(other) : "";
}

namespace {

/// The largest and smallest number of kept indices per dimension.
constexpr uint64_t kMost = 128, kFewest = 4;
/// The largest number of kept indices of one extent while others have kFewest.
constexpr uint64_t kMostOfOne = 4096;
/// Least cost of a command in steps.
constexpr double kCommandSteps = 500;

uint64_t countWrong(const Findings &findings) {
  uint64_t wrong = 0;
  for (Diagnosis d : {Diagnosis::WrongResult, Diagnosis::CopiesDiffer, Diagnosis::BitsDiffer})
    wrong += findings.counts[static_cast<unsigned>(d)];
  return wrong;
}

/// Evaluates a large program at some indices, at one density after the other.
class Sampler {
public:
  /// `other`: see CheckOptions::sameBits.
  Sampler(const World &world, const World *other, bool copies, double budget, Findings &findings)
      : world(world), other(other), copies(copies), left(budget), findings(findings),
        each(std::max(dataSteps(world) / std::max(dataSteps(*world.reference), 1.0), 1.0)),
        seen(world.commands.size()) {}

  enum Outcome : uint8_t { TooLarge, Mismatch, Done };
  /// Done: `findings` holds the errors. Mismatch: the reference's operands keep different indices.
  Outcome attempt(const Density &density) {
    DataRun reference(*world.reference, {true, false, 0}, density, left / each);
    reference.run();
    left -= reference.steps();
    last = reference.steps();
    if (reference.unknowns())
      return Mismatch;
    if (reference.failed())
      return TooLarge;
    for (bool rounded : {false, true}) {
      if (rounded && (!(copies || other) || !isRight()))
        break;
      DataRun run(world, {false, rounded, 0}, density, left);
      run.run();
      left -= run.steps();
      last += run.steps();
      if (run.failed())
        return TooLarge;
      (rounded ? compareCopies : compareResults)(world, run, reference, findings);
      if (rounded && other && isRight()) {
        DataRun theirs(*other, {false, true, 0}, density, left);
        theirs.run();
        left -= theirs.steps();
        last += theirs.steps();
        if (theirs.failed())
          return TooLarge;
        compareBits(world, run, *other, theirs, reference, findings);
      }
      for (size_t i = 0; i < seen.size(); ++i)
        seen[i] = std::max(seen[i], run.seen()[i]);
    }
    return Done;
  }

  /// Increases the density of all dimensions; returns the first outcome and the final density.
  Outcome attemptAll(uint64_t &most) {
    most = kFewest;
    Outcome outcome = attempt({most});
    // Doubling the indices of each dimension can quadruple the elements.
    while (outcome == Done && isRight() && most < kMost && last * 8 < left) {
      if (attempt({most * 2}) != Done)
        break;
      most *= 2;
    }
    return outcome;
  }

  /// Commands that a low density misses may be reached with many indices of one dimension (rows),
  /// or of one extent (a contracted dimension belongs to two inputs).
  void attemptDense() {
    std::set<uint64_t> extents;
    for (uint32_t a = 0; a < world.arguments.size(); ++a)
      for (uint32_t d = 0; d < world.arguments[a].shape.size() && isRight(); ++d) {
        auto extent = static_cast<uint64_t>(world.arguments[a].shape[d]);
        if (world.arguments[a].isResult || extent <= kFewest)
          continue;
        extents.insert(extent);
        attemptMany({kFewest, 0, 0, a, d});
      }
    for (uint64_t extent : extents)
      if (isRight())
        attemptMany({kFewest, extent, 0});
  }

  uint64_t count(DataRun::Seen what) const {
    return static_cast<uint64_t>(std::count(seen.begin(), seen.end(), what));
  }

private:
  /// Increases the density of one dimension or extent until all commands are reached.
  void attemptMany(Density density) {
    density.mostOfDense = 4 * kFewest;
    do {
      density.mostOfDense *= 4;
      if (count(DataRun::Blind) == 0 || left <= 0 || attempt(density) != Done)
        return;
    } while (isRight() && last * 16 < left && density.mostOfDense < kMostOfOne);
  }

  bool isRight() const { return countWrong(findings) == 0; }

  const World &world;
  const World *const other;
  const bool copies; ///< several ranks hold the same element of a result
  double left;       ///< of the budget
  double last = 0;   ///< cost of the last attempt
  Findings &findings;
  const double each; ///< cost of the ranks relative to the reference
  std::vector<uint8_t> seen;
};

} // namespace

/// For programs whose evaluation takes more `steps` than the budget.
static std::string checkSample(const World &world, const CheckOptions &options, bool copies,
                               double steps, Findings &findings, bool &decided) {
  std::string large = fmt::format("not checked: {:.3g} steps", steps);
  auto budget = static_cast<double>(options.dataSteps);
  if (static_cast<double>(world.commands.size()) * kCommandSteps > budget)
    return large;
  for (const World *w : {&world, world.reference.get()})
    for (const Rank &rank : w->ranks)
      for (const Shard &shard : rank.shards)
        if (shard.shape.size() > kMaxRank)
          return large + "; its indices cannot be sampled";
  Sampler sampler(world, options.sameBits, copies, budget / kElementSteps, findings);
  uint64_t most = 0;
  Sampler::Outcome outcome = sampler.attemptAll(most);
  if (outcome != Sampler::Done)
    return outcome == Sampler::TooLarge ? large : large + "; its indices cannot be sampled";
  sampler.attemptDense();
  uint64_t blind = sampler.count(DataRun::Blind);
  decided = blind == 0;
  return fmt::format(
      "sampled at {} or more indices of each dimension{} (all indices: {:.3g} steps)", most,
      blind ? fmt::format(", which {} of {} commands that compute or move data do not read", blind,
                          blind + sampler.count(DataRun::Touched))
            : "",
      steps);
}

std::string checkData(const World &world, const CheckOptions &options, Findings &findings,
                      bool &decided) {
  decided = false;
  if (!world.reference)
    return "not checked: the program has no unsharded reference";
  std::string wrong = whatIsWrong(world);
  if (!wrong.empty())
    return "not checked: " + wrong;
  bool copies = hasCopies(world);
  const World *other = options.sameBits;
  double steps = dataSteps(world) * (copies || other ? 2 : 1) + dataSteps(*world.reference) +
                 (other ? dataSteps(*other) : 0);
  for (const World *w : {&world, world.reference.get(), other})
    if (!w)
      continue;
    else if (const Kernel *kernel = nativeKernel(*w))
      return fmt::format("not checked: kernel \"{}\" has no expression code", kernel->name);
  if (steps > static_cast<double>(options.dataSteps))
    return checkSample(world, options, copies, steps, findings, decided);
  unsigned orders = 1;
  if (hasOrder(world) || hasOrder(*world.reference))
    orders = static_cast<unsigned>(
        std::clamp(static_cast<double>(options.dataSteps) / steps, 1.0, double(kMaxOrders)));
  for (unsigned way = 0; way < orders && countWrong(findings) == 0; ++way) {
    DataRun reference(*world.reference, {true, false, way}), run(world, {false, false, way});
    reference.run();
    run.run();
    compareResults(world, run, reference, findings);
    if (!(copies || other) || countWrong(findings) != 0 || way + 1 < orders)
      continue;
    DataRun rounded(world, {false, true, 0});
    rounded.run();
    compareCopies(world, rounded, reference, findings);
    if (!other || countWrong(findings) != 0)
      continue;
    DataRun theirs(*other, {false, true, 0});
    theirs.run();
    compareBits(world, rounded, *other, theirs, reference, findings);
  }
  decided = true;
  return fmt::format("checked, {:.3g} steps", steps);
}

} // namespace tandem::check
