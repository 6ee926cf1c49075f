//===- Family.cpp - programs for a varying extent ---------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Compiler/Family.h"

#include <algorithm>
#include <atomic>
#include <thread>

namespace tandem::compiler {

static int64_t ceilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0); }

int64_t FamilySteps::roundUp(int64_t extent) const {
  int64_t size = step;
  if (size <= 0) {
    // From n to 2n there are perDoubling sizes, so they differ by 2^k units.
    int64_t units = ceilDiv(extent, unit), step = 1;
    while (units > step * 2 * perDoubling)
      step *= 2;
    size = step * unit;
  }
  // At least one step; the last one may be shorter.
  int64_t count = std::max<int64_t>(ceilDiv(extent, size), 1);
  return count > bound / size ? bound : count * size;
}

std::string FamilySteps::check(int64_t extent) const {
  if (bound < 1 || unit < 1 || perDoubling < 1 || step < 0)
    return "expected a bound, unit and number of steps of at least 1, found " +
           std::to_string(bound) + ", " + std::to_string(unit) + " and " +
           std::to_string(perDoubling);
  if (extent < 0 || extent > bound)
    return "expected an extent of 0 to " + std::to_string(bound) + ", found " +
           std::to_string(extent);
  return "";
}

ProgramFamily::ProgramFamily(ModuleCompiler &compiler, CompileOptions options, FamilySteps steps)
    : compiler(compiler), options(std::move(options)), familySteps(steps) {}

static std::shared_ptr<const CompileResult> failure(std::string message) {
  CompileResult result;
  result.diagnostics.push_back({Severity::Error, std::move(message), "", 0, 0, {}});
  return std::make_shared<const CompileResult>(std::move(result));
}

std::vector<int64_t> FamilySteps::list() const {
  std::vector<int64_t> sizes;
  for (int64_t extent = 0; extent <= bound; extent = sizes.back() + 1)
    sizes.push_back(roundUp(extent));
  return sizes;
}

/// The steps that search all candidates differ by this factor. Which candidate is fastest
/// changes seldom with the number of tokens.
constexpr int64_t kSearchedApart = 4;

/// The nearest steps that search, not above and not below `size`, which is a step.
static std::pair<int64_t, int64_t> findSearched(const std::vector<int64_t> &sizes, int64_t size) {
  int64_t below = sizes.front();
  for (int64_t other : sizes) {
    bool searches = other == sizes.back() || other / kSearchedApart >= below;
    if (searches && other >= size)
      return {other == size ? size : below, other};
    if (searches)
      below = other;
  }
  return {size, size};
}

bool ProgramFamily::chooseAmong(int64_t below, int64_t above, CompileOptions &sized) {
  std::shared_ptr<const CompileResult> ends[] = {compiler.compile(optionsOf(below)),
                                                 compiler.compile(optionsOf(above))};
  if (!*ends[0] || !*ends[1])
    return false;
  size_t loops = ends[0]->loops.size();
  if (ends[1]->loops.size() != loops)
    return true;
  sized.among.resize(loops);
  for (const auto &end : ends)
    for (size_t i = 0; i < loops; ++i) {
      std::vector<std::string> &candidates = sized.among[i];
      if (std::find(candidates.begin(), candidates.end(), end->loops[i].what) == candidates.end())
        candidates.push_back(end->loops[i].what);
    }
  return true;
}

CompileOptions ProgramFamily::optionsOf(int64_t size) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (auto found = known.find(size); found != known.end())
      return found->second;
  }
  CompileOptions sized = options;
  sized.bound = size;
  auto [below, above] = findSearched(familySteps.list(), size);
  // Without the programs around it, this one searches too, and reports its own errors.
  if (!options.machine.empty() && !options.baseline && below != size &&
      !chooseAmong(below, above, sized))
    return sized;
  std::lock_guard<std::mutex> lock(mutex);
  return known.try_emplace(size, std::move(sized)).first->second;
}

std::shared_ptr<const CompileResult> ProgramFamily::program(int64_t extent) {
  if (std::string wrong = familySteps.check(extent); !wrong.empty())
    return failure(std::move(wrong));
  return compiler.compile(optionsOf(familySteps.roundUp(extent)));
}

std::shared_ptr<const CompileResult> ProgramFamily::compileAll(unsigned threads) {
  std::vector<int64_t> sizes;
  if (familySteps.check(0).empty())
    sizes = familySteps.list();
  std::vector<std::shared_ptr<const CompileResult>> results(sizes.size());
  // The large ones, which take longer, first.
  std::atomic<size_t> left{sizes.size()};
  auto work = [&] {
    for (size_t i = left--; i > 0 && i <= sizes.size(); i = left--)
      results[i - 1] = program(sizes[i - 1]);
  };
  std::vector<std::thread> pool;
  for (unsigned t = 1; t < threads; ++t)
    pool.emplace_back(work);
  work();
  for (std::thread &thread : pool)
    thread.join();
  for (const auto &result : results)
    if (!*result)
      return result;
  return results.empty() ? program(0) : results.back();
}

} // namespace tandem::compiler
