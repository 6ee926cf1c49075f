//===- NodeList.cpp - what the nodes of a graph were captured from ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NodeList.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace tandem::gpu {

namespace {

/// Redirects the calls of this thread while it lives.
class Intercepting {
public:
  explicit Intercepting(Interceptor *to) : before(Driver::intercept(to)) {}
  ~Intercepting() { Driver::intercept(before); }
  Intercepting(const Intercepting &) = delete;
  Intercepting &operator=(const Intercepting &) = delete;

private:
  Interceptor *before;
};

Expected<std::vector<std::byte>> bytesOf(Driver &driver, FunctionHandle function,
                                         void **arguments) {
  TANDEM_ASSIGN_OR_RETURN(const std::vector<uint32_t> *sizes, driver.argumentSizes(function));
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < sizes->size(); ++i) {
    const auto *from = static_cast<const std::byte *>(arguments[i]);
    bytes.insert(bytes.end(), from, from + (*sizes)[i]);
  }
  return bytes;
}

/// Calls `body(function, units, arguments)` with the launch that copies rows.
template <typename Body>
Status withRowsKernel(const Kernels &kernels, void *dst, uint64_t dstPitch, const void *src,
                      uint64_t srcPitch, uint64_t width, uint64_t rows, Body &&body) {
  uint64_t all = 16 | reinterpret_cast<uintptr_t>(dst) | reinterpret_cast<uintptr_t>(src) |
                 dstPitch | srcPitch | width;
  uint64_t unit = all & (~all + 1);
  Nest nest;
  nest.inner = width / unit;
  nest.total = nest.inner * rows;
  nest.outer = 1;
  nest.extents[0] = rows;
  nest.strides[0][0] = static_cast<int64_t>(dstPitch / unit);
  nest.strides[1][0] = static_cast<int64_t>(srcPitch / unit);
  nest.innerStrides[0] = nest.innerStrides[1] = 1;
  TANDEM_ASSIGN_OR_RETURN(
      FunctionHandle function,
      kernels.get(fmt::format("copy_{}_{}", unit * 8, nest.total < (uint64_t(1) << 31) ? 32 : 64)));
  void *arguments[] = {argument(nest), argument(dst), argument(src)};
  return body(function, nest.total, arguments);
}

} // namespace

//===----------------------------------------------------------------------===//
// Recording
//===----------------------------------------------------------------------===//

/// Issues each call, and finds its nodes by the change of the stream's place in the capture.
class Recorder final : public Interceptor {
public:
  Recorder(NodeList &list, const Kernels &kernels) : list(list), kernels(kernels) {}

  Status launch(FunctionHandle function, const Grid &grid, StreamHandle stream,
                void **arguments) override {
    Issue issue;
    issue.kind = Issue::Launch;
    issue.function = function;
    issue.grid = grid;
    if (auto bytes = bytesOf(driver(), function, arguments))
      issue.arguments = std::move(*bytes);
    else
      list.isComplete = false;
    return note(std::move(issue), stream,
                [&] { return driver().issueLaunch(function, grid, stream, arguments); });
  }
  Status copy(void *dst, const void *src, uint64_t bytes, StreamHandle stream) override {
    Issue issue;
    issue.kind = Issue::Copy;
    issue.addresses = {dst, src};
    issue.bytes = bytes;
    return note(std::move(issue), stream,
                [&] { return driver().issueCopy(dst, src, bytes, stream); });
  }
  Status copyRows(void *dst, uint64_t dstPitch, const void *src, uint64_t srcPitch, uint64_t width,
                  uint64_t rows, StreamHandle stream) override {
    if (list.rowsAsLaunch.count(list.issues.size()))
      return withRowsKernel(kernels, dst, dstPitch, src, srcPitch, width, rows,
                            [&](FunctionHandle function, uint64_t units, void **arguments) {
                              return kernels.launch(function, units, stream, arguments);
                            });
    Issue issue;
    issue.kind = Issue::Rows;
    issue.addresses = {dst, src};
    issue.bytes = width;
    issue.rows = rows;
    issue.dstPitch = dstPitch;
    issue.srcPitch = srcPitch;
    return note(std::move(issue), stream, [&] {
      return driver().issueCopyRows(dst, dstPitch, src, srcPitch, width, rows, stream);
    });
  }
  Status library(StreamHandle stream, const std::vector<const void *> &addresses,
                 const std::function<Status()> &body) override {
    Issue issue;
    issue.kind = Issue::Library;
    issue.addresses = addresses;
    return note(std::move(issue), stream, body);
  }

  Driver &driver() const { return kernels.driver; }

private:
  template <typename Body> Status note(Issue &&issue, StreamHandle stream, Body &&body) {
    std::vector<NodeHandle> before;
    TANDEM_RETURN_IF_ERROR(driver().frontier(stream, before));
    {
      Intercepting none(nullptr);
      TANDEM_RETURN_IF_ERROR(body());
    }
    list.isComplete = findNodes(driver(), stream, before, issue.nodes) &&
                      (issue.kind == Issue::Library || issue.nodes.size() == 1) && list.isComplete;
    list.issues.push_back(std::move(issue));
    return Status();
  }

public:
  /// The chain of nodes that a stream of a capture has got since its place was `before`; false if
  /// it is not a chain.
  static bool findNodes(Driver &driver, StreamHandle stream, std::vector<NodeHandle> &before,
                        std::vector<NodeHandle> &nodes) {
    nodes.clear();
    std::vector<NodeHandle> at;
    if (!driver.frontier(stream, at).ok())
      return false;
    auto isBefore = [&](NodeHandle node) {
      return std::find(before.begin(), before.end(), node) != before.end();
    };
    while (!std::all_of(at.begin(), at.end(), isBefore)) {
      if (at.size() != 1)
        return false;
      NodeHandle node = at[0];
      nodes.push_back(node);
      if (!driver.dependencies(node, at).ok())
        return false;
    }
    std::reverse(nodes.begin(), nodes.end());
    return true;
  }

private:
  NodeList &list;
  const Kernels &kernels;
};

Status NodeList::record(const Kernels &kernels, const std::function<Status()> &body) {
  issues.clear();
  isComplete = true;
  Recorder recorder(*this, kernels);
  Intercepting all(&recorder);
  return body();
}

//===----------------------------------------------------------------------===//
// Patching
//===----------------------------------------------------------------------===//

/// Compares each call with the list. Work of libraries is captured for its arguments.
class Patcher final : public Interceptor {
public:
  Patcher(NodeList &list, const Kernels &kernels, ExecutableHandle executable)
      : list(list), kernels(kernels), executable(executable) {}
  ~Patcher() override { endCaptures(false).ignore(); }

  bool possible() const { return isPossible; }

  Status launch(FunctionHandle function, const Grid &grid, StreamHandle,
                void **arguments) override {
    Issue *issue = next(Issue::Launch);
    if (!issue)
      return Status();
    TANDEM_ASSIGN_OR_RETURN(const std::vector<uint32_t> *sizes, driver().argumentSizes(function));
    bool same = function == issue->function && grid.x == issue->grid.x && grid.y == issue->grid.y &&
                grid.threads == issue->grid.threads;
    size_t at = 0;
    for (size_t i = 0; i < sizes->size(); at += (*sizes)[i++])
      same = same && !std::memcmp(issue->arguments.data() + at, arguments[i], (*sizes)[i]);
    if (same)
      return Status();
    TANDEM_RETURN_IF_ERROR(
        change(driver().setLaunch(executable, issue->nodes[0], function, grid, arguments)));
    TANDEM_ASSIGN_OR_RETURN(issue->arguments, bytesOf(driver(), function, arguments));
    issue->function = function;
    issue->grid = grid;
    return Status();
  }

  Status copy(void *dst, const void *src, uint64_t bytes, StreamHandle) override {
    Issue *issue = next(Issue::Copy);
    if (!issue || (issue->addresses[0] == dst && issue->addresses[1] == src))
      return Status();
    issue->addresses[0] = dst;
    issue->addresses[1] = src;
    return change(driver().setCopy(executable, issue->nodes[0], dst, src, bytes));
  }

  Status copyRows(void *dst, uint64_t dstPitch, const void *src, uint64_t srcPitch, uint64_t width,
                  uint64_t rows, StreamHandle stream) override {
    if (list.rowsAsLaunch.count(number))
      return withRowsKernel(kernels, dst, dstPitch, src, srcPitch, width, rows,
                            [&](FunctionHandle function, uint64_t units, void **arguments) {
                              return kernels.launch(function, units, stream, arguments);
                            });
    Issue *issue = next(Issue::Rows);
    if (!issue || (issue->addresses[0] == dst && issue->addresses[1] == src))
      return Status();
    list.rowsAsLaunch.insert(number - 1);
    isPossible = false;
    return Status();
  }

  Status library(StreamHandle stream, const std::vector<const void *> &addresses,
                 const std::function<Status()> &body) override {
    Issue *issue = next(Issue::Library);
    if (!issue || issue->addresses == addresses)
      return Status();
    issue->addresses = addresses;
    Intercepting none(nullptr);
    if (std::find(captured.begin(), captured.end(), stream) == captured.end()) {
      TANDEM_RETURN_IF_ERROR(driver().beginCapture(stream));
      captured.push_back(stream);
    }
    std::vector<NodeHandle> before, now;
    TANDEM_RETURN_IF_ERROR(driver().frontier(stream, before));
    TANDEM_RETURN_IF_ERROR(body());
    if (!Recorder::findNodes(driver(), stream, before, now) || now.size() != issue->nodes.size())
      isPossible = false;
    else
      for (size_t i = 0; i < now.size(); ++i)
        replaced.emplace_back(issue->nodes[i], now[i]);
    return Status();
  }

  /// Changes the nodes of libraries. `body` has made `number` calls.
  Status finish() {
    isPossible = isPossible && number == list.issues.size();
    return endCaptures(isPossible);
  }

private:
  Driver &driver() const { return kernels.driver; }

  /// The call that is due; null, and the end of the attempt, if it is of another kind.
  Issue *next(Issue::Kind kind) {
    size_t i = number++;
    if (i < list.issues.size() && list.issues[i].kind == kind)
      return &list.issues[i];
    isPossible = false;
    return nullptr;
  }

  /// What the vendor refuses to change is no error.
  Status change(const Status &status) {
    bool refused = status.code() == Code::Unsupported || status.code() == Code::InvalidArgument;
    isPossible = isPossible && !refused;
    return refused ? Status() : status;
  }

  Status endCaptures(bool apply) {
    std::vector<GraphHandle> graphs;
    Status status;
    for (StreamHandle stream : captured) {
      GraphHandle graph = nullptr;
      Status ended = driver().endCapture(stream, &graph);
      if (status.ok())
        status = ended;
      if (graph)
        graphs.push_back(graph);
    }
    captured.clear();
    if (status.ok() && apply)
      for (const auto &[node, now] : replaced)
        if (status = change(driver().setLike(executable, node, now)); !status.ok())
          break;
    replaced.clear();
    for (GraphHandle graph : graphs)
      driver().destroyGraph(graph).ignore();
    return status;
  }

  NodeList &list;
  const Kernels &kernels;
  ExecutableHandle executable;
  bool isPossible = true;
  size_t number = 0;                                       ///< of the next call
  std::vector<StreamHandle> captured;                      ///< streams with a capture
  std::vector<std::pair<NodeHandle, NodeHandle>> replaced; ///< old and new nodes of libraries
};

Expected<bool> NodeList::patch(const Kernels &kernels, ExecutableHandle executable,
                               const std::function<Status()> &body) {
  Patcher patcher(*this, kernels, executable);
  Intercepting all(&patcher);
  TANDEM_RETURN_IF_ERROR(body());
  TANDEM_RETURN_IF_ERROR(patcher.finish());
  isComplete = patcher.possible();
  return isComplete;
}

void NodeList::update(NodeList &&now) {
  isComplete = now.isComplete && now.issues.size() == issues.size();
  for (size_t i = 0; i < issues.size() && isComplete; ++i) {
    isComplete = now.issues[i].kind == issues[i].kind &&
                 now.issues[i].nodes.size() == issues[i].nodes.size();
    now.issues[i].nodes = std::move(issues[i].nodes);
  }
  issues = std::move(now.issues);
  if (!isComplete)
    issues.clear(); // their nodes are those of the graph that was updated from, which is gone
  rowsAsLaunch = std::move(now.rowsAsLaunch);
}

} // namespace tandem::gpu
