//===- FakeQueue.h - streams, events and graphs of the fake driver ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_SUPPORT_FAKEQUEUE_H
#define TANDEM_TEST_SUPPORT_FAKEQUEUE_H

#include "FakeCuda.h"

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <thread>
#include <vector>

namespace tandem::fake {

/// The GPU, from 1, that is current on this thread.
int64_t currentGpu();
/// Everything that is given to a GPU shares its lock. A driver that makes a graph has it for itself
/// until the GPU is idle, so that what would make it so, an abort too, waits for ever: not always,
/// on GPUs, but what relies on the contrary hangs there one day.
std::shared_mutex &lockOf(int64_t gpu);
/// Until it has nothing to do.
void waitForGpu(int64_t gpu);

/// A node of a graph: work, and what it was made of.
struct Node {
  Work work;
  CUfunction function = nullptr; ///< of a launch; null: a library's kernel, or a copy
  CUDA_MEMCPY3D copy{};          ///< of a copy, whose Height is not 0
  std::vector<Node *> before;
};

struct Graph {
  std::mutex mutex;
  std::deque<Node> nodes; ///< in the order of issue
  bool open = true;       ///< streams that have joined leave it when it is closed
  bool destroyed = false;
  bool global = false; ///< captured in the default mode
};

/// Ends the captures of the default mode in all threads, unless the calling thread is in another
/// mode (cuThreadExchangeStreamCaptureMode). Queries, waits and allocations call it, as in CUDA.
void disturb();

/// Does a copy.
Node nodeOf(const CUDA_MEMCPY3D &copy);
/// Does the node's work when it is its turn in the stream, or puts it into the graph that is
/// captured.
void add(CUstream stream, Node node);

class Event;

/// A stream: one thread that does what it is given in order.
class Queue {
public:
  Queue();
  ~Queue();
  void push(Work work);
  bool idle();
  void wait();
  /// Whether all queues of a GPU are.
  static bool allIdle(int64_t gpu);

  /// Where work goes instead, or null.
  std::shared_ptr<Graph> capturing() const { return capture && capture->open ? capture : nullptr; }
  /// Waits for an event that has been recorded in a capture.
  void join(Event &event);

  const int64_t gpu;
  std::atomic<int64_t> passed{0}; ///< nanoseconds that have passed for events alone
  std::shared_ptr<Graph> capture;
  std::vector<Node *> frontier; ///< of the capture: what the next node is behind

private:
  void run();
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Work> queue;
  bool stop = false;
  std::thread thread;
};

/// Null is the legacy default stream of the current GPU, which lasts as long as the process.
Queue *queueOf(CUstream stream);

class Event {
public:
  std::atomic<uint64_t> recorded{0}, reached{0};
  std::atomic<int64_t> time{0}; ///< of the latest that was reached, in nanoseconds
  bool timed = true;

  /// The graph it has been recorded in, if any; asked while another thread records.
  std::shared_ptr<Graph> captured();
  /// Records it where the queue is in its capture; false if there is none.
  bool captureOn(Queue &queue);

private:
  friend class Queue;
  std::mutex mutex;
  std::shared_ptr<Graph> capture;
  std::vector<Node *> frontier;
};

} // namespace tandem::fake

#endif // TANDEM_TEST_SUPPORT_FAKEQUEUE_H
