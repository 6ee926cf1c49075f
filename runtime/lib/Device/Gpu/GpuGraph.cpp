//===- GpuGraph.cpp - a run as one launch -----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GpuDevice.h"

#include <algorithm>

namespace tandem::gpu {

uint64_t *Capture::signalWord(uint64_t perRun, uint64_t value) {
  for (const SignalWord &word : signalWords)
    if (word.perRun == perRun && word.value == value)
      return word.at;
  if (closed || signalWords.size() == kMaxSignalWords)
    return nullptr;
  if (taken.size() == signalWords.size()) {
    uint64_t *word = state->takeSignalWord();
    if (!word)
      return nullptr;
    taken.push_back(word);
  }
  signalWords.push_back({taken[signalWords.size()], perRun, value});
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
    if (state->stuck)
      return;
    if (executable)
      state->driver->destroyExecutable(executable).ignore();
    if (state->aborted) // it may still run
      return;
    for (uint64_t *word : taken) // the graph has ended, so its words are unused
      state->giveSignalWord(word);
  }

  /// Reuses the words of the previous capture: its runs have ended before the words change.
  void lend(Capture &how) {
    how.state = state.get();
    how.taken = std::move(taken);
  }
  void takeBack(Capture &how) { taken = std::move(how.taken); }

  /// `graph` stays the caller's. An existing executable is updated; false if it cannot be.
  Expected<bool> make(GraphHandle graph, const Capture &how,
                      std::shared_ptr<std::atomic<uint64_t>> runs) {
    Driver &driver = *state->driver;
    if (updates()) {
      bool done = false;
      if (how.updatable)
        TANDEM_RETURN_IF_ERROR(driver.update(executable, graph, &done));
      if (!done)
        return false;
    } else {
      if (executable)
        driver.destroyExecutable(executable).ignore();
      executable = nullptr;
      TANDEM_RETURN_IF_ERROR(driver.instantiate(graph, &executable));
    }
    updatable = how.updatable;
    epoch = how.countRun ? how.epoch : nullptr;
    counted = std::move(runs);
    return true;
  }

  bool updates() const { return executable && updatable; }

  Status issue(GpuStream &stream, const Frame &frame) override {
    Driver &driver = *state->driver;
    // The GPU counts runs. Work other than this stream's graphs may have run in between.
    if (epoch && counted->exchange(frame.epoch) + 1 != frame.epoch)
      TANDEM_RETURN_IF_ERROR(driver.setWord(stream.native(), epoch, frame.epoch - 1));
    return driver.launchGraph(executable, stream.native());
  }

private:
  const std::shared_ptr<DeviceState> state;
  ExecutableHandle executable = nullptr;
  bool updatable = true;
  void *epoch = nullptr;
  std::shared_ptr<std::atomic<uint64_t>> counted;
  std::vector<uint64_t *> taken;
};

class GpuGraph final : public Graph {
public:
  explicit GpuGraph(std::shared_ptr<DeviceState> state)
      : replay(std::make_shared<Replay>(std::move(state))) {}
  Replay &operator*() { return *replay; }
  Status launch(Stream &stream, const Frame &frame) override {
    // All of the device's streams are of this kind.
    return static_cast<DeviceStream &>(stream).submit(*replay, frame, replay);
  }
  bool updates() const override { return replay->updates(); }

private:
  std::shared_ptr<Replay> replay;
};

/// The root node of a graph whose commands read the run number.
Status countRun(Driver &driver, StreamHandle stream, const Capture &how) {
  TANDEM_ASSIGN_OR_RETURN(void *released, how.state->releaseWord());
  RunWords words;
  words.epoch = static_cast<uint64_t *>(how.epoch);
  words.released = static_cast<const uint64_t *>(released);
  words.count = static_cast<int32_t>(how.signalWords.size());
  std::copy(how.signalWords.begin(), how.signalWords.end(), words.words);
  void *arguments[] = {&words};
  return driver.launch(how.countRun, {1, 1, kMaxSignalWords}, stream, arguments);
}

/// Makes the other streams join the capture before `body` and the first stream after it.
Status captureAll(Driver &driver, const std::vector<DeviceStream *> &streams, EventHandle event,
                  const Capture &known, const std::function<Status()> &body) {
  StreamHandle first = streams[0]->native();
  if (known.countRun)
    TANDEM_RETURN_IF_ERROR(countRun(driver, first, known));
  TANDEM_RETURN_IF_ERROR(driver.record(event, first));
  for (size_t s = 1; s < streams.size(); ++s)
    TANDEM_RETURN_IF_ERROR(driver.wait(streams[s]->native(), event));
  Status status = body();
  // Also after an error: a stream that did not join back would stay in the capture.
  for (size_t s = 1; s < streams.size(); ++s) {
    Status joined = driver.record(event, streams[s]->native());
    if (joined.ok())
      joined = driver.wait(first, event);
    if (status.ok())
      status = joined;
  }
  return status;
}

/// `known`: findings of an earlier capture of the same work.
Status captureOnce(Driver &driver, const std::vector<DeviceStream *> &streams, Capture &how,
                   const Capture &known, const std::function<Status()> &body, GraphHandle *graph) {
  EventHandle event = nullptr;
  TANDEM_RETURN_IF_ERROR(driver.createEvent(&event, false));
  for (DeviceStream *stream : streams)
    stream->beginCapture(how);
  Status status = driver.beginCapture(streams[0]->native());
  if (status.ok()) {
    status = captureAll(driver, streams, event, known, body);
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

Expected<std::unique_ptr<Graph>> captureGraph(const std::shared_ptr<DeviceState> &state,
                                              const std::vector<Stream *> &streams,
                                              std::unique_ptr<Graph> previous,
                                              const std::function<Status()> &body) {
  Driver &driver = *state->driver;
  std::vector<DeviceStream *> mine;
  for (Stream *stream : streams)
    mine.push_back(static_cast<DeviceStream *>(stream));
  Capture how;
  how.epoch = mine[0]->epochWord();
  std::unique_ptr<GpuGraph> made(static_cast<GpuGraph *>(previous.release()));
  if (!made)
    made = std::make_unique<GpuGraph>(state);
  Replay &replay = **made;
  replay.lend(how);
  GraphHandle graph = nullptr;
  auto drop = [&] {
    if (graph)
      driver.destroyGraph(graph).ignore();
    graph = nullptr;
  };
  Status status = captureOnce(driver, mine, how, Capture(), body, &graph);
  if (status.ok() && how.countRun) { // capture again, after the node that counts the run
    drop();
    Capture again;
    again.epoch = how.epoch;
    again.state = how.state;
    again.signalWords = how.signalWords;
    again.closed = true;
    status = captureOnce(driver, mine, again, how, body, &graph);
    how.updatable = again.updatable;
  }
  replay.takeBack(how);
  Expected<bool> isMade = status.ok() ? replay.make(graph, how, mine[0]->counted()) : status;
  drop();
  TANDEM_RETURN_IF_ERROR(isMade.status());
  return std::unique_ptr<Graph>(*isMade ? std::move(made) : nullptr);
}

} // namespace tandem::gpu
