//===- DataTrace.h - where a value comes from ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CHECK_DATATRACE_H
#define TANDEM_CHECK_DATATRACE_H

#include "CheckImpl.h"

#include <optional>

namespace tandem::check {

/// An element in the memory of a rank.
struct DataPlace {
  uint32_t rank = 0;
  replay::Space space = replay::Space::Arena;
  uint32_t argument = 0;
  uint64_t address = 0; ///< bytes
};

/// Row-major number of the element of a view at `offset` elements from its first one; the strides
/// must be nested.
std::optional<uint64_t> elementOf(const Layout &layout, uint64_t offset);

/// How a value came to its place at the end of a run.
struct Trace {
  /// Its last writer; where that only moved it, the last writer of where it stood before, ... Of a
  /// message both ends, the receive first. The last one computed it, unless `end` says more.
  std::vector<CommandId> commands;
  /// "[3,0] of input "x"", "memory that nobody has written"; empty: a command computed it.
  std::string end;
};
/// `executed`: commands in the order in which they ran, of messages the receives.
Trace traceBack(const World &world, const std::vector<CommandId> &executed, DataPlace place);

/// The notes of a finding about an element: how it came to its place.
std::vector<std::string> traceNotes(const World &world, const Trace &trace,
                                    const std::string &element);

/// Row-major index of an element: "[2,0,17]".
std::string elementText(const std::vector<int64_t> &shape, uint64_t element);

} // namespace tandem::check

#endif // TANDEM_CHECK_DATATRACE_H
