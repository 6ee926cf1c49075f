//===- EditedFile.h - a stream program with one rank's lists replaced ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_CHECK_EDITEDFILE_H
#define TANDEM_TEST_CHECK_EDITEDFILE_H

#include "Support/ProgramSpec.h"
#include "tandem/Program/Container.h"
#include "tandem/Program/Program.h"
#include "tandem/Program/stream_program_generated.h"

#include <string>
#include <vector>

namespace tandem::test {

/// What a mutant changes of one rank.
struct RankLists {
  std::vector<CommandSpec> commands;
  std::vector<sp::View> views;
};

/// The lists of a rank as they stand in a verified program.
RankLists listsOf(const Program &program);

/// `file` (the bytes of a .tsp) with the lists of `rank` replaced; all else, also the reference,
/// stays.
std::string replaceLists(const std::string &file, uint32_t rank, const RankLists &lists);

} // namespace tandem::test

#endif // TANDEM_TEST_CHECK_EDITEDFILE_H
