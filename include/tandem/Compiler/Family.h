//===- Family.h - programs for a varying extent -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For embedders whose number of tokens changes from run to run: few programs serve every number up
// to a bound (docs/families.md). This header needs neither LLVM nor MLIR.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COMPILER_FAMILY_H
#define TANDEM_COMPILER_FAMILY_H

#include "tandem/Compiler/ModuleCompiler.h"

#include <map>
#include <mutex>

namespace tandem::compiler {

/// The extents that a family has programs for: multiples of `unit`, `perDoubling` of them between n
/// and 2n; and the bound. Example: unit 64 and 2 per doubling: 64, 128, 192, 256, 384, 512, 768,
/// ...
struct FamilySteps {
  /// The largest extent; at least 1.
  int64_t bound = 8192;
  /// Best a multiple of the number of devices that the extent is split over, so that the programs
  /// pad nothing themselves. At least 1.
  int64_t unit = 64;
  /// At least 1. A run computes at most 1 + 1 / perDoubling times what it must, beyond
  /// perDoubling * unit.
  unsigned perDoubling = 4;
  /// Not 0: multiples of this instead.
  int64_t step = 0;

  /// The bound of the program that runs `extent` (0 to bound): the least step that is not less.
  int64_t roundUp(int64_t extent) const;
  /// All sizes that roundUp() returns, ascending.
  std::vector<int64_t> list() const;
  /// What is wrong with the steps, or with an extent of them; empty: nothing.
  std::string check(int64_t extent) const;
};

/// A module's programs for a varying extent. Thread-safe.
class ProgramFamily {
public:
  /// `options`: extents that vary are `?` in the module, and not in `options.shapes` (or -1 there).
  /// `options.bound` is not read. The compiler outlives the family.
  ProgramFamily(ModuleCompiler &compiler, CompileOptions options, FamilySteps steps = {});

  /// The program for `extent`; it runs after Instance::setExtent(extent). Compiled at the first
  /// call for its step, cached by the compiler. An error if the extent is not from 0 to the bound.
  ///
  /// With a machine, the steps that are at least 4 times the one before them, and the bound, search
  /// all candidates. The steps between two of these choose among the candidates that the two have
  /// got, so a call may compile three programs. A step's program does not depend on earlier calls.
  std::shared_ptr<const CompileResult> program(int64_t extent);
  /// Compiles all programs on `threads` threads, so that program() only looks them up. Returns one
  /// that failed, else the last.
  std::shared_ptr<const CompileResult> compileAll(unsigned threads = 1);
  const FamilySteps &steps() const { return familySteps; }

private:
  CompileOptions optionsOf(int64_t size);
  /// Of the step between two that search, by what these have got.
  bool chooseAmong(int64_t below, int64_t above, CompileOptions &sized);

  ModuleCompiler &compiler;
  const CompileOptions options;
  const FamilySteps familySteps;
  std::mutex mutex; ///< guards `known`
  /// Options by step.
  std::map<int64_t, CompileOptions> known;
};

} // namespace tandem::compiler

#endif // TANDEM_COMPILER_FAMILY_H
