//===- Programs.h - small correct programs, to be broken ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_CHECK_PROGRAMS_H
#define TANDEM_TEST_UNIT_CHECK_PROGRAMS_H

#include "Support/ProgramSpec.h"
#include "tandem/Replay/Check.h"

#include <gtest/gtest.h>
#include <set>
#include <string>

namespace tandem::check {

/// The finding of programs that compute something else.
inline const std::set<std::string> kWrong = {"wrong-result"};
/// The flag of commands that add to what is there.
inline constexpr auto kAdd = static_cast<uint8_t>(sp::CommandFlags::accumulate);

/// On a GPU of so many SMs.
inline CheckOptions onGpu(unsigned total = 132) {
  CheckOptions options;
  options.sms.total = total;
  return options;
}

using test::CommandSpec;
using test::ProgramSpec;
using test::RankSpec;
using Kind = sp::CommandKind;

/// Four f32, what most messages hold.
inline constexpr uint64_t kBytes = 16;

/// Argument 0 "x", [4], input; argument 1 "y", [numRanks or `rows`, 4], result. View names below.
struct Basic : ProgramSpec {
  explicit Basic(uint32_t ranks, int64_t rows = 0);
  /// x whole; row i of y; y whole.
  std::vector<uint32_t> x, y;
  std::vector<std::vector<uint32_t>> row;
};

/// Own slice copied on stream 1; on stream 2, group{send x, recv row} with each other rank.
ProgramSpec exchange(uint32_t ranks);
/// Stream 1: all_gather into the arena, copied to y; then all_reduce (sum) of y in place.
ProgramSpec gathered(uint32_t ranks);
/// Stream 1 puts x into slot `rank` of every peer's symmetric memory and signals; stream 2 waits
/// for each and copies to y.
ProgramSpec push(uint32_t ranks);
/// Rank 0 sends two chunks through one place of rank 1, which gives it back with a signal. y has
/// two rows; rank 0 copies x into both.
ProgramSpec credited();
/// One rank. Stream 1 copies x to one of two arena buffers, stream 2 from there to a row of y, four
/// times; both wait for each other.
ProgramSpec doubleBuffered();

/// The n-th command of a kind in a rank's list.
size_t nth(const ProgramSpec &spec, uint32_t rank, Kind kind, size_t n);
CommandSpec &command(ProgramSpec &spec, uint32_t rank, Kind kind, size_t n);
/// Removes it; a message leaves its group smaller.
void drop(ProgramSpec &spec, uint32_t rank, Kind kind, size_t n);
/// Removes the n-th wait, so that what it would order is not.
inline void dropWait(ProgramSpec &spec, uint32_t rank, size_t n) {
  drop(spec, rank, Kind::wait, n);
}
/// Exchanges two commands' places in the list.
void swapCommands(ProgramSpec &spec, uint32_t rank, size_t a, size_t b);

/// Loads and checks; the text of an error of the reader instead of a report fails the test.
Report run(const ProgramSpec &spec, const CheckOptions &options = {}, std::string *text = nullptr);

/// The diagnoses that are found, as names.
std::set<std::string> diagnoses(const Report &report);

/// Expects these diagnoses and no others.
void expectOnly(const ProgramSpec &spec, const std::set<std::string> &names,
                const CheckOptions &options = {});
inline void expectClean(const ProgramSpec &spec, const CheckOptions &options = {}) {
  expectOnly(spec, {}, options);
}

} // namespace tandem::check

#endif // TANDEM_TEST_UNIT_CHECK_PROGRAMS_H
