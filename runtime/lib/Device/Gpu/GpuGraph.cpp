//===- GpuGraph.cpp - a run as one launch -----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GpuDevice.h"

namespace tandem::gpu {

namespace {

/// What is launched. A launch that is queued keeps it: an abort may drop the graph meanwhile.
class Replay final : public GpuOperation {
public:
  explicit Replay(std::shared_ptr<DeviceState> state) : state(std::move(state)) {
    name = "graph of a run";
  }
  ~Replay() override {
    if (executable && !state->stuck)
      state->driver->destroyExecutable(executable).ignore();
  }

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
    epoch = how.usesEpoch ? how.epoch : nullptr;
    return Status();
  }

  Status issue(GpuStream &stream, const Frame &frame) override {
    Driver &driver = *state->driver;
    if (epoch)
      TANDEM_RETURN_IF_ERROR(driver.setWord(stream.native(), epoch, frame.epoch));
    return driver.launchGraph(executable, stream.native());
  }

private:
  const std::shared_ptr<DeviceState> state;
  ExecutableHandle executable = nullptr;
  bool updatable = true;
  void *epoch = nullptr;
};

class GpuGraph final : public Graph {
public:
  explicit GpuGraph(std::shared_ptr<DeviceState> state)
      : replay(std::make_shared<Replay>(std::move(state))) {}
  Status make(GraphHandle graph, const Capture &how) { return replay->make(graph, how); }
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
  EventHandle event = nullptr;
  TANDEM_RETURN_IF_ERROR(driver.createEvent(&event, false));
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
  std::unique_ptr<GpuGraph> made(static_cast<GpuGraph *>(previous.release()));
  if (!made)
    made = std::make_unique<GpuGraph>(state);
  if (status.ok())
    status = made->make(graph, how);
  if (graph)
    driver.destroyGraph(graph).ignore();
  TANDEM_RETURN_IF_ERROR(status);
  return std::unique_ptr<Graph>(std::move(made));
}

} // namespace tandem::gpu
