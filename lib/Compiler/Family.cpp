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
    // From n to 2n there are perDoubling sizes, so they are 2^k units apart.
    int64_t units = ceilDiv(extent, unit), apart = 1;
    while (units > apart * 2 * perDoubling)
      apart *= 2;
    size = apart * unit;
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

std::shared_ptr<const CompileResult> ProgramFamily::program(int64_t extent) {
  if (std::string wrong = familySteps.check(extent); !wrong.empty())
    return failure(std::move(wrong));
  CompileOptions sized = options;
  sized.bound = familySteps.roundUp(extent);
  return compiler.compile(sized);
}

std::shared_ptr<const CompileResult> ProgramFamily::compileAll(unsigned threads) {
  std::vector<int64_t> sizes;
  if (familySteps.check(0).empty())
    for (int64_t extent = 0; extent <= familySteps.bound; extent = sizes.back() + 1)
      sizes.push_back(familySteps.roundUp(extent));
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
