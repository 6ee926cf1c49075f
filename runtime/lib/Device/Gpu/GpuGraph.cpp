//===- GpuGraph.cpp - a run as one launch -----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GpuDevice.h"
#include "NodeList.h"

#include <algorithm>
#include <utility>

namespace tandem::gpu {

uint64_t *Capture::signalWord(uint64_t perRun, uint64_t value) {
  for (const SignalWord &word : signalWords)
    if (word.perRun == perRun && word.value == value)
      return word.at;
  if (closed || signalWords.size() == kMaxSignalWords)
    return nullptr;
  if (taken->size() == signalWords.size()) {
    uint64_t *word = state->takeSignalWord();
    if (!word)
      return nullptr;
    taken->push_back(word);
  }
  signalWords.push_back({(*taken)[signalWords.size()], perRun, value});
  return signalWords.back().at;
}

namespace {

/// The graph to launch. A queued launch keeps it alive: an abort may drop the graph meanwhile.
class Replay final : public GpuOperation {
public:
  explicit Replay(std::shared_ptr<DeviceState> state) : state(std::move(state)) {
    name = "graph of a run";
  }
  ~Replay() override {
    if (!state->stuck)
      release();
  }

  /// Takes `made`. An existing executable is updated to it; false if it cannot be.
  Expected<bool> make(GraphHandle made, NodeList &&list, const Capture &how,
                      std::shared_ptr<std::atomic<uint64_t>> runs) {
    Driver &driver = *state->driver;
    if (updates()) {
      bool done = false;
      Status status = how.updatable ? driver.update(executable, made, &done) : Status();
      driver.destroyGraph(made).ignore();
      TANDEM_RETURN_IF_ERROR(status);
      if (!done)
        return false;
      nodes.update(std::move(list));
    } else {
      release();
      graph = made; // its nodes name those of the executable
      TANDEM_RETURN_IF_ERROR(driver.instantiate(graph, &executable));
      nodes = std::move(list);
    }
    rowsAsLaunch = nodes.rowsAsLaunch.size();
    updatable = how.updatable;
    epoch = how.countRun ? how.epoch : nullptr;
    signalWords = how.signalWords;
    countsItself = how.readerCounts;
    counted = std::move(runs);
    return true;
  }

  /// Copies of rows that became launches are other nodes.
  bool updates() const {
    return executable && updatable && nodes.rowsAsLaunch.size() == rowsAsLaunch;
  }
  bool patches() const { return updates() && nodes.complete(); }

  Status issue(GpuStream &stream, const Frame &frame) override {
    Driver &driver = *state->driver;
    // The GPU counts runs. Work other than this stream's graphs may have run in between.
    if (epoch && counted->exchange(frame.epoch) + 1 != frame.epoch)
      TANDEM_RETURN_IF_ERROR(driver.setWord(stream.native(), epoch, frame.epoch - 1));
    return driver.launchGraph(executable, stream.native());
  }

  const std::shared_ptr<DeviceState> state;
  ExecutableHandle executable = nullptr;
  NodeList nodes;
  std::vector<SignalWord> signalWords;
  bool countsItself = false; ///< see Capture

private:
  void release() {
    if (executable)
      state->driver->destroyExecutable(executable).ignore();
    if (graph)
      state->driver->destroyGraph(graph).ignore();
    executable = graph = nullptr;
  }

  GraphHandle graph = nullptr;
  size_t rowsAsLaunch = 0; ///< in the executable
  bool updatable = true;
  void *epoch = nullptr;
  std::shared_ptr<std::atomic<uint64_t>> counted;
};

class GpuGraph final : public Graph {
public:
  GpuGraph(const Toolbox &tools, std::vector<DeviceStream *> streams)
      : kernels(*tools.kernels), streams(std::move(streams)),
        replay(std::make_shared<Replay>(tools.state)) {}
  Replay &operator*() { return *replay; }
  Status launch(Stream &stream, const Frame &frame) override {
    // All of the device's streams are of this kind.
    return static_cast<DeviceStream &>(stream).submit(*replay, frame, replay);
  }
  // A launch that a stream's thread has yet to issue would get the new addresses.
  bool updates() const override { return replay.use_count() == 1 && replay->updates(); }
  bool patches() const override { return replay.use_count() == 1 && replay->patches(); }

  Expected<bool> patch(const std::function<Status()> &body) override {
    if (!patches())
      return false;
    Capture how;
    how.epoch = streams[0]->epochWord();
    how.state = replay->state.get();
    how.signalWords = replay->signalWords;
    how.closed = how.patches = true;
    how.countsItself = replay->countsItself;
    for (DeviceStream *stream : streams)
      stream->beginCapture(how);
    auto done = replay->nodes.patch(kernels, replay->executable, body);
    for (DeviceStream *stream : streams)
      stream->endCapture();
    return done;
  }

private:
  const Kernels &kernels;
  std::vector<DeviceStream *> streams;
  std::shared_ptr<Replay> replay;
};

/// The root node of a graph whose commands read the run number.
Status countRun(Driver &driver, StreamHandle stream, const Capture &how) {
  RunWords words;
  words.epoch = static_cast<uint64_t *>(how.epoch);
  TANDEM_ASSIGN_OR_RETURN(words.stopped, how.state->stoppedWord());
  words.count = static_cast<int32_t>(how.signalWords.size());
  std::copy(how.signalWords.begin(), how.signalWords.end(), words.words);
  void *arguments[] = {&words};
  return driver.launch(how.countRun, {1, 1, kMaxSignalWords}, stream, arguments);
}

/// Makes the other streams join the capture before the parts, and the first stream after them.
/// `how`: of this capture; `known`: what is known of it before.
Status captureAll(Driver &driver, const std::vector<DeviceStream *> &streams, EventHandle event,
                  Capture &how, const Capture &known, const Device::CapturedParts &parts) {
  StreamHandle first = streams[0]->native();
  if (known.countRun && !known.readerCounts && !parts.firstCounts)
    TANDEM_RETURN_IF_ERROR(countRun(driver, first, known));
  TANDEM_RETURN_IF_ERROR(driver.record(event, first));
  Status status;
  size_t numCaptured = 1;
  while (status.ok() && numCaptured < streams.size()) {
    status = driver.wait(streams[numCaptured]->native(), event);
    numCaptured += status.ok() ? 1 : 0;
  }
  if (status.ok() && parts.first) {
    how.countsItself = parts.firstCounts;
    status = parts.first();
    how.countsItself = false;
  }
  if (status.ok())
    status = parts.body();
  // Also after an error: a stream that did not join back would stay in the capture.
  for (size_t s = 1; s < numCaptured; ++s) {
    Status joined = driver.record(event, streams[s]->native());
    if (joined.ok())
      joined = driver.wait(first, event);
    if (status.ok())
      status = joined;
  }
  return status;
}

/// Puts the work between what `main` has and what it gets next, in the capture of `main`.
Status captureBehind(const Toolbox &tools, DeviceStream &main,
                     const std::vector<DeviceStream *> &streams, EventHandle event, Capture &how,
                     const Device::CapturedParts &parts) {
  Driver &driver = tools.driver();
  TANDEM_RETURN_IF_ERROR(driver.record(event, main.native()));
  TANDEM_RETURN_IF_ERROR(driver.wait(streams[0]->native(), event));
  Status status = captureAll(driver, streams, event, how, how, parts);
  // Also after an error: the caller could not end its capture.
  Status joined = driver.record(event, streams[0]->native());
  if (joined.ok())
    joined = driver.wait(main.native(), event);
  return status.ok() ? joined : status;
}

/// `known`: findings of an earlier capture of the same work.
Status captureOnce(const Kernels &kernels, const std::vector<DeviceStream *> &streams, Capture &how,
                   const Capture &known, NodeList &list, const std::function<Status()> &body,
                   GraphHandle *graph) {
  Driver &driver = kernels.driver;
  EventHandle event = nullptr;
  TANDEM_RETURN_IF_ERROR(driver.createEvent(&event, false));
  for (DeviceStream *stream : streams)
    stream->beginCapture(how);
  Status status = driver.beginCapture(streams[0]->native());
  if (status.ok()) {
    Device::CapturedParts parts;
    parts.body = [&] { return list.record(kernels, body); };
    status = captureAll(driver, streams, event, how, known, parts);
    Status ended = driver.endCapture(streams[0]->native(), graph);
    if (status.ok())
      status = ended;
  }
  for (DeviceStream *stream : streams)
    stream->endCapture();
  driver.destroyEvent(event).ignore();
  return status;
}

} // namespace

Status captureIntoForeign(const Toolbox &tools, Stream &main, const std::vector<Stream *> &streams,
                          const Device::CapturedParts &parts) {
  Driver &driver = tools.driver();
  std::vector<DeviceStream *> mine;
  for (Stream *stream : streams)
    mine.push_back(static_cast<DeviceStream *>(stream));
  Capture how;
  how.state = tools.state.get();
  how.epoch = mine[0]->epochWord(/*foreign=*/true);
  how.closed = how.foreign = true; // signals are kernels that read the run number
  if (parts.countsRuns) {
    TANDEM_ASSIGN_OR_RETURN(how.countRun, tools.kernels->get("run_words"));
  }
  EventHandle event = nullptr;
  TANDEM_RETURN_IF_ERROR(driver.createEvent(&event, false));
  for (DeviceStream *stream : mine)
    stream->beginCapture(how);
  Status status = captureBehind(tools, static_cast<DeviceStream &>(main), mine, event, how, parts);
  for (DeviceStream *stream : mine)
    stream->endCapture();
  driver.destroyEvent(event).ignore();
  return status;
}

Expected<std::unique_ptr<Graph>> captureGraph(const Toolbox &tools,
                                              const std::vector<Stream *> &streams,
                                              std::unique_ptr<Graph> previous,
                                              const std::function<Status()> &body) {
  Driver &driver = tools.driver();
  std::vector<DeviceStream *> mine;
  for (Stream *stream : streams)
    mine.push_back(static_cast<DeviceStream *>(stream));
  std::unique_ptr<GpuGraph> made(static_cast<GpuGraph *>(previous.release()));
  if (!made)
    made = std::make_unique<GpuGraph>(tools, mine);
  Replay &replay = **made;
  NodeList list;
  list.rowsAsLaunch = replay.nodes.rowsAsLaunch;
  Capture how;
  how.epoch = mine[0]->epochWord();
  how.state = tools.state.get();
  how.taken = &mine[0]->signalWords();
  GraphHandle graph = nullptr;
  Status status = captureOnce(*tools.kernels, mine, how, Capture(), list, body, &graph);
  if (status.ok() && how.countRun) { // capture again, now that it is known who counts the run
    driver.destroyGraph(std::exchange(graph, nullptr)).ignore();
    Capture again;
    again.epoch = how.epoch;
    again.state = how.state;
    again.signalWords = how.signalWords;
    again.closed = true;
    again.countsItself = how.readerCounts;
    status = captureOnce(*tools.kernels, mine, again, how, list, body, &graph);
    how.updatable = again.updatable;
  }
  if (!status.ok()) {
    if (graph)
      driver.destroyGraph(graph).ignore();
    return status;
  }
  TANDEM_ASSIGN_OR_RETURN(bool isMade,
                          replay.make(graph, std::move(list), how, mine[0]->counted()));
  return std::unique_ptr<Graph>(isMade ? std::move(made) : nullptr);
}

} // namespace tandem::gpu
