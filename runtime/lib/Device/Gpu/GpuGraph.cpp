//===- GpuGraph.cpp - a run as one launch -----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GpuDevice.h"

#include <algorithm>

namespace tandem::gpu {

uint64_t *Capture::signalWord(uint64_t perRun, uint64_t value, FunctionHandle set) {
  for (const SignalWord &word : signalWords)
    if (word.perRun == perRun && word.value == value)
      return word.at;
  if (signalWords.size() == kMaxSignalWords)
    return nullptr;
  if (taken.size() == signalWords.size()) {
    uint64_t *word = state->takeSignalWord();
    if (!word)
      return nullptr;
    taken.push_back(word);
  }
  setWords = set;
  signalWords.push_back({taken[signalWords.size()], perRun, value});
  return signalWords.back().at;
}

namespace {

/// What is launched. A launch that is queued keeps it: an abort may drop the graph meanwhile.
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
    for (uint64_t *word : taken) // nothing of it runs any more, as with the memory it works on
      state->giveSignalWord(word);
  }

  /// A capture has the words of the one before: what of that still runs is over when they change.
  void lend(Capture &how) {
    how.state = state.get();
    how.taken = std::move(taken);
  }
  void takeBack(Capture &how) { taken = std::move(how.taken); }

  /// `graph` stays the caller's.
  Status make(GraphHandle graph, const Capture &how) {
    Driver &driver = *state->driver;
    bool done = false;
    if (executable && how.updatable && updatable)
      TANDEM_RETURN_IF_ERROR(driver.update(executable, graph, &done));
    if (!done) {
      if (executable)
        driver.destroyExecutable(executable).ignore();
      executable = nullptr;
      TANDEM_RETURN_IF_ERROR(driver.instantiate(graph, &executable));
    }
    updatable = how.updatable;
    epoch = how.usesEpoch || how.setWords ? how.epoch : nullptr;
    setWords = how.setWords;
    words.epoch = static_cast<uint64_t *>(epoch);
    words.count = static_cast<int32_t>(how.signalWords.size());
    std::copy(how.signalWords.begin(), how.signalWords.end(), words.words);
    return Status();
  }

  Status issue(GpuStream &stream, const Frame &frame) override {
    Driver &driver = *state->driver;
    if (setWords) {
      TANDEM_ASSIGN_OR_RETURN(void *released, state->releaseWord());
      words.released = static_cast<const uint64_t *>(released);
      words.number = frame.epoch;
      void *arguments[] = {&words};
      TANDEM_RETURN_IF_ERROR(
          driver.launch(setWords, {1, 1, kMaxSignalWords}, stream.native(), arguments));
    } else if (epoch) {
      TANDEM_RETURN_IF_ERROR(driver.setWord(stream.native(), epoch, frame.epoch));
    }
    return driver.launchGraph(executable, stream.native());
  }

private:
  const std::shared_ptr<DeviceState> state;
  ExecutableHandle executable = nullptr;
  bool updatable = true;
  void *epoch = nullptr;
  FunctionHandle setWords = nullptr; ///< null: there are none but the epoch
  RunWords words;
  std::vector<uint64_t *> taken;
};

class GpuGraph final : public Graph {
public:
  explicit GpuGraph(std::shared_ptr<DeviceState> state)
      : replay(std::make_shared<Replay>(std::move(state))) {}
  Replay &operator*() { return *replay; }
  Status launch(Stream &stream, const Frame &frame) override {
    // All of the device's streams are of this kind.
    return static_cast<GpuStream &>(stream).submit(*replay, frame, replay);
  }

private:
  std::shared_ptr<Replay> replay;
};

/// Between the first stream and the others, before and after what `body` enqueues.
Status captureAll(Driver &driver, const std::vector<GpuStream *> &streams, EventHandle event,
                  const std::function<Status()> &body) {
  StreamHandle first = streams[0]->native();
  TANDEM_RETURN_IF_ERROR(driver.record(event, first));
  for (size_t s = 1; s < streams.size(); ++s)
    TANDEM_RETURN_IF_ERROR(driver.wait(streams[s]->native(), event));
  Status status = body();
  // Also after an error: a stream that does not come back would stay in the capture.
  for (size_t s = 1; s < streams.size(); ++s) {
    Status joined = driver.record(event, streams[s]->native());
    if (joined.ok())
      joined = driver.wait(first, event);
    if (status.ok())
      status = joined;
  }
  return status;
}

} // namespace

Expected<std::unique_ptr<Graph>> captureGraph(const std::shared_ptr<DeviceState> &state,
                                              const std::vector<Stream *> &streams,
                                              std::unique_ptr<Graph> previous,
                                              const std::function<Status()> &body) {
  Driver &driver = *state->driver;
  std::vector<GpuStream *> mine;
  for (Stream *stream : streams)
    mine.push_back(static_cast<GpuStream *>(stream));
  Capture how;
  how.epoch = mine[0]->epochWord();
  std::unique_ptr<GpuGraph> made(static_cast<GpuGraph *>(previous.release()));
  if (!made)
    made = std::make_unique<GpuGraph>(state);
  EventHandle event = nullptr;
  TANDEM_RETURN_IF_ERROR(driver.createEvent(&event, false));
  (**made).lend(how);
  for (GpuStream *stream : mine)
    stream->beginCapture(how);
  GraphHandle graph = nullptr;
  Status status = driver.beginCapture(mine[0]->native());
  if (status.ok()) {
    status = captureAll(driver, mine, event, body);
    Status ended = driver.endCapture(mine[0]->native(), &graph);
    if (status.ok())
      status = ended;
  }
  for (GpuStream *stream : mine)
    stream->endCapture();
  driver.destroyEvent(event).ignore();
  (**made).takeBack(how);
  if (status.ok())
    status = (**made).make(graph, how);
  if (graph)
    driver.destroyGraph(graph).ignore();
  TANDEM_RETURN_IF_ERROR(status);
  return std::unique_ptr<Graph>(std::move(made));
}

} // namespace tandem::gpu
