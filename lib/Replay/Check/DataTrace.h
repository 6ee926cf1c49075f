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

/// Row-major index of the element of a view at `offset` elements from the first; strides must be
/// nested.
std::optional<uint64_t> elementOf(const Layout &layout, uint64_t offset);

/// Elements from a view's first one to the one with a row-major number.
uint64_t offsetOf(const Layout &layout, uint64_t element);

/// The history of a value at the end of a run.
struct Trace {
  /// Its last writer; if that only moved it, the last writer of its source, and so on. Of a message
  /// both ends, the receive first. The last command computed it, unless `end` is set.
  std::vector<CommandId> commands;
  /// "[3,0] of input "x"", "unwritten memory"; empty: a command computed it.
  std::string end;
};
/// `executed`: commands in execution order; receives for messages.
Trace traceBack(const World &world, const std::vector<CommandId> &executed, DataPlace place);

/// The notes of a finding about an element: its history.
std::vector<std::string> traceNotes(const World &world, const Trace &trace,
                                    const std::string &element);

/// "[2,0,17]" for a row-major index.
std::string elementText(const std::vector<int64_t> &shape, uint64_t element);

} // namespace tandem::check

#endif // TANDEM_CHECK_DATATRACE_H
