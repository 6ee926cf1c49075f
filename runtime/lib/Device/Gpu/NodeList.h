//===- NodeList.h - what the nodes of a graph were captured from ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A captured run is a list of *issues*, the calls that its operations made, in the order of the
// calls. Each has its nodes in the graph. To move the graph to other addresses, the operations make
// their calls once more. They are compared with the list, and only the nodes of calls that differ
// are changed, in the executable.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_NODELIST_H
#define TANDEM_LIB_DEVICE_GPU_NODELIST_H

#include "ChannelInterface.h"

#include <set>

namespace tandem::gpu {

/// A call of an operation, and its nodes.
struct Issue {
  enum Kind : uint8_t { Launch, Copy, Rows, Library } kind = Launch;
  FunctionHandle function = nullptr; ///< of a launch
  Grid grid;
  std::vector<std::byte> arguments;    ///< of a launch: the bytes of all arguments
  std::vector<const void *> addresses; ///< of a copy: dst, src; of a library's work
  uint64_t bytes = 0, rows = 1;        ///< of copies
  uint64_t dstPitch = 0, srcPitch = 0; ///< of copies of rows
  std::vector<NodeHandle> nodes;       ///< one, but of a library's work any number
};

class NodeList {
public:
  /// Issues that are copies of rows, and are to be launches: the vendor cannot change the addresses
  /// of such copies (cuGraphExecMemcpyNodeSetParams). By number.
  std::set<size_t> rowsAsLaunch;

  /// Calls `body`, which issues work to streams that are being captured, and lists it.
  Status record(const Kernels &kernels, const std::function<Status()> &body);
  /// Whether patch() may succeed: everything that was recorded is understood.
  bool complete() const { return isComplete && !issues.empty(); }
  /// Calls `body`, which makes the recorded calls at other addresses, and changes the nodes of the
  /// calls that differ in `executable`. Nothing is issued. False if a node cannot be changed: then
  /// the executable is unusable until it is updated from a new capture, and rowsAsLaunch has what
  /// the new capture should do otherwise.
  Expected<bool> patch(const Kernels &kernels, ExecutableHandle executable,
                       const std::function<Status()> &body);
  /// Takes over what was recorded in `now`, a capture that the executable of this list was updated
  /// to. The nodes stay those of the graph that the executable was made of.
  void update(NodeList &&now);

private:
  friend class Recorder;
  friend class Patcher;
  std::vector<Issue> issues;
  bool isComplete = false;
};

} // namespace tandem::gpu

#endif // TANDEM_LIB_DEVICE_GPU_NODELIST_H
