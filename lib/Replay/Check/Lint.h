//===- Lint.h - legal but slow code -----------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CHECK_LINT_H
#define TANDEM_CHECK_LINT_H

#include "Footprints.h"

#include <map>
#include <set>

namespace tandem::check {

/// Observes the pass over one rank.
class Lint {
public:
  Lint(const World &world, uint32_t rank, const FootprintTable &footprints,
       std::shared_ptr<const Overlaps> graph, Findings &findings);

  /// A wait for work that has already ended.
  void redundantWait(CommandId wait);
  /// A command that takes time; `afterPrevious`: the previously issued one has ended.
  void work(CommandId command, bool afterPrevious);
  /// An access to a place of `graph`. One call per command, also if it reads and writes.
  void access(CommandId command, uint32_t place, bool reads, bool writes);
  void inputRead(const replay::View &view);
  /// `source`: a place, or kNone for an input, which is never written.
  void copy(CommandId command, uint32_t target, uint32_t source, bool sameLayout);
  void finish();

private:
  struct Copy {
    CommandId command;
    uint32_t target, source;
  };

  void add(Diagnosis diagnosis, CommandId command, std::string message);
  /// Removes a place's bytes from `unread`; reports them if they are overwritten.
  void forget(uint32_t place, CommandId writer);
  void unreadData(uint64_t begin, uint64_t end, CommandId writer);
  void checkInputs();
  bool couldBeView(const Copy &copy) const;

  const World &world;
  const uint32_t rank;
  const FootprintTable &footprints;
  std::shared_ptr<const Overlaps> graph;
  Findings &findings;
  std::vector<uint32_t> writes;     ///< per place: number of writes
  std::vector<CommandId> lastWrite; ///< per place
  std::vector<Copy> copies;
  struct Written {
    uint64_t end;
    CommandId by;
  };
  std::map<uint64_t, Written> unread; ///< arena intervals by begin: written, not yet read
  std::set<CommandId> reported;
  std::set<Place> inputs; ///< the read parts of the inputs
  CommandId firstWork = kNone;
  bool communicates = false, computes = false, overlaps = false;
};

} // namespace tandem::check

#endif // TANDEM_CHECK_LINT_H
