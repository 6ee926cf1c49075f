//===- Mutants.h - stream programs broken in one place ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_CHECK_MUTANTS_H
#define TANDEM_TEST_CHECK_MUTANTS_H

#include "EditedFile.h"

#include <functional>

namespace tandem::test {

struct Mutant {
  std::string kind;   ///< "drop wait", "change peer of send", ...
  std::string detail; ///< which command
  RankLists lists;
};

/// Calls `body` with every mutant of one rank's lists.
void forEachMutant(const Program &program, const std::function<void(const Mutant &)> &body);

} // namespace tandem::test

#endif // TANDEM_TEST_CHECK_MUTANTS_H
