//===- FakeGraph.cpp - streams and graphs of the fake driver ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A graph is a list of nodes in the order of issue, which is an order that its dependencies allow.
// When it runs, a node waits for its dependencies only: branches are threads, so TSan can find a
// dependency that is missing, except between short copies, whose words are atomic.
// An executable refuses what CUDA's documentation says that one refuses: other dimensions of a
// copy, and nodes of a graph that is gone.
//
//===----------------------------------------------------------------------===//

// NOLINTBEGIN(performance-no-int-to-ptr): addresses and handles are integers in the driver's API

#include "FakeCupti.h"
#include "FakeQueue.h"

#include <algorithm>
#include <cstring>

namespace tandem::fake {

namespace {

struct {
  std::mutex mutex;
  std::set<Queue *> all;
} queues;

/// What a launch does.
struct Plan {
  std::vector<Work> work;
  std::vector<std::vector<size_t>> before;   ///< by node: those in other branches that it waits for
  std::vector<std::vector<size_t>> branches; ///< of nodes one after the other
};

struct Executable {
  std::shared_ptr<Graph> graph; ///< whose nodes name those of the executable
  /// Replaced as a whole, so that launches in a queue keep theirs.
  std::shared_ptr<const Plan> plan;
};

struct {
  std::mutex mutex;
  std::set<CUgraphExec> live;
} executables;

std::atomic<int> globalCaptures{0}; ///< in progress, of the default mode
std::atomic<bool> wasDisturbed{false};
thread_local CUstreamCaptureMode captureMode = CU_STREAM_CAPTURE_MODE_GLOBAL;

void *pointer(CUdeviceptr address) { return reinterpret_cast<void *>(address); }

/// Words at a time where possible: they may be signals. An abort copies many of them at once.
void copyBytes(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
  if (bytes % 8 != 0 || bytes > 2048 || (dst | src) % 8 != 0) {
    std::memcpy(pointer(dst), pointer(src), bytes);
    return;
  }
  for (size_t at = 0; at < bytes; at += 8)
    __atomic_store_n(
        static_cast<uint64_t *>(pointer(dst + at)),
        __atomic_load_n(static_cast<const uint64_t *>(pointer(src + at)), __ATOMIC_ACQUIRE),
        __ATOMIC_RELEASE);
}

std::shared_ptr<const Plan> planOf(const Graph &graph) {
  auto plan = std::make_shared<Plan>();
  std::map<const Node *, size_t> indexOf;
  for (const Node &node : graph.nodes) {
    size_t index = plan->work.size(), branch = plan->branches.size();
    std::vector<size_t> &before = plan->before.emplace_back();
    for (const Node *other : node.before)
      before.push_back(indexOf.at(other));
    // Behind the last node of a branch that it depends on.
    for (size_t b = 0; b < plan->branches.size(); ++b)
      if (auto found = std::find(before.begin(), before.end(), plan->branches[b].back());
          found != before.end() && branch == plan->branches.size()) {
        before.erase(found);
        branch = b;
      }
    if (branch == plan->branches.size())
      plan->branches.emplace_back();
    plan->branches[branch].push_back(index);
    plan->work.push_back(node.work);
    indexOf[&node] = index;
  }
  return plan;
}

/// `run` does the work of a node.
void runPlan(const Plan &plan, const std::function<void(size_t)> &run) {
  // One flag per node, so that nothing but the dependencies orders branches.
  std::vector<std::atomic<bool>> done(plan.work.size());
  auto runBranch = [&](const std::vector<size_t> &branch) {
    for (size_t index : branch) {
      for (size_t other : plan.before[index])
        while (!done[other].load(std::memory_order_acquire))
          std::this_thread::sleep_for(std::chrono::microseconds(20));
      run(index);
      done[index].store(true, std::memory_order_release);
    }
  };
  std::vector<std::thread> threads;
  for (size_t b = 1; b < plan.branches.size(); ++b)
    threads.emplace_back(runBranch, plan.branches[b]);
  if (!plan.branches.empty())
    runBranch(plan.branches[0]);
  for (std::thread &thread : threads)
    thread.join();
}

/// Names a library's kernel in the parameters of a node; its arguments are then the node.
CUfunction libraryKernel() {
  static int any;
  return reinterpret_cast<CUfunction>(&any);
}

/// Replaces the work of a node in an executable.
CUresult setWork(CUgraphExec handle, CUgraphNode node, const Work &work) {
  std::lock_guard<std::mutex> lock(executables.mutex);
  auto &executable = *reinterpret_cast<Executable *>(handle);
  if (executable.graph->destroyed)
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < executable.graph->nodes.size(); ++i)
    if (&executable.graph->nodes[i] == reinterpret_cast<Node *>(node)) {
      auto plan = std::make_shared<Plan>(*executable.plan);
      plan->work[i] = work;
      executable.plan = std::move(plan);
      ++number("patches");
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_VALUE;
}

uint64_t now() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

NodeTime timeOf(const Node &node, const Work &work) {
  NodeTime time{node.function ? nameOf(node.function) : "_Z12library_gemmv",
                node.copy.WidthInBytes * node.copy.Height, now(), 0};
  work();
  time.end = now();
  return time;
}

std::shared_ptr<Graph> &graphOf(CUgraph handle) {
  return *reinterpret_cast<std::shared_ptr<Graph> *>(handle);
}

} // namespace

void disturb() {
  if (globalCaptures > 0 && captureMode == CU_STREAM_CAPTURE_MODE_GLOBAL)
    wasDisturbed = true;
}

Node nodeOf(const CUDA_MEMCPY3D &copy) {
  Node node;
  node.copy = copy;
  node.work = [copy, gpu = currentGpu()] {
    while (gpu != 0 && number("hold-copies-on") == gpu)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (size_t row = 0; row < copy.Height; ++row)
      copyBytes(copy.dstDevice + row * copy.dstPitch, copy.srcDevice + row * copy.srcPitch,
                copy.WidthInBytes);
  };
  return node;
}

void add(CUstream stream, Work work) {
  Node node;
  node.work = std::move(work);
  add(stream, std::move(node));
}

void add(CUstream stream, Node node) {
  auto *queue = queueOf(stream);
  std::shared_ptr<Graph> capture = queue->capturing();
  if (!capture) {
    std::shared_lock<std::shared_mutex> shared(lockOf(queue->gpu));
    return queue->push(std::move(node.work));
  }
  std::lock_guard<std::mutex> lock(capture->mutex);
  node.before = queue->frontier;
  capture->nodes.push_back(std::move(node));
  queue->frontier = {&capture->nodes.back()};
}

Queue *queueOf(CUstream stream) {
  if (stream)
    return reinterpret_cast<Queue *>(stream);
  static std::mutex mutex;
  static std::map<int64_t, Queue *> legacy;
  std::lock_guard<std::mutex> lock(mutex);
  Queue *&queue = legacy[currentGpu()];
  if (!queue)
    queue = new Queue;
  return queue;
}

Queue::Queue() : gpu(currentGpu()), thread([this] { run(); }) {
  std::lock_guard<std::mutex> lock(queues.mutex);
  queues.all.insert(this);
}

Queue::~Queue() {
  {
    std::lock_guard<std::mutex> lock(queues.mutex);
    queues.all.erase(this);
  }
  push([this] { stop = true; });
  thread.join();
}

void Queue::push(Work work) {
  std::lock_guard<std::mutex> lock(mutex);
  queue.push_back(std::move(work));
  changed.notify_all();
}

bool Queue::idle() {
  std::lock_guard<std::mutex> lock(mutex);
  return queue.empty();
}

void Queue::wait() {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return queue.empty(); });
}

bool Queue::allIdle(int64_t gpu) {
  std::lock_guard<std::mutex> lock(queues.mutex);
  return std::all_of(queues.all.begin(), queues.all.end(),
                     [&](Queue *queue) { return queue->gpu != gpu || queue->idle(); });
}

void Queue::join(Event &event) {
  std::lock_guard<std::mutex> lock(event.mutex);
  if (capture != event.capture)
    frontier.clear();
  capture = event.capture;
  for (Node *node : event.frontier)
    if (std::find(frontier.begin(), frontier.end(), node) == frontier.end())
      frontier.push_back(node);
}

void Queue::run() {
  std::unique_lock<std::mutex> lock(mutex);
  while (!stop) {
    changed.wait(lock, [&] { return !queue.empty(); });
    Work work = queue.front();
    lock.unlock();
    work();
    lock.lock();
    queue.pop_front();
    changed.notify_all();
  }
}

std::shared_ptr<Graph> Event::captured() {
  std::lock_guard<std::mutex> lock(mutex);
  return capture;
}

bool Event::captureOn(Queue &queue) {
  std::lock_guard<std::mutex> lock(mutex);
  capture = queue.capturing();
  frontier = queue.frontier;
  return capture != nullptr;
}

} // namespace tandem::fake

using namespace tandem::fake;

extern "C" {

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  auto *queue = queueOf(stream);
  if (number("no-capture-on") == queue->gpu)
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  ++number("captures");
  queue->capture = std::make_shared<Graph>();
  queue->capture->global = mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
  if (queue->capture->global)
    ++globalCaptures;
  queue->frontier.clear();
  return CUDA_SUCCESS;
}
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
  *status = queueOf(stream)->capturing() ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                         : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  std::swap(*mode, captureMode);
  return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  auto *queue = queueOf(stream);
  *graph = reinterpret_cast<CUgraph>(new std::shared_ptr<Graph>(queue->capture));
  queue->capture->open = false;
  bool disturbed = queue->capture->global && --globalCaptures == 0 && wasDisturbed.exchange(false);
  queue->capture = nullptr;
  queue->frontier.clear();
  return disturbed ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}
CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *,
                                   CUgraph *, const CUgraphNode **nodes, const CUgraphEdgeData **,
                                   size_t *count) {
  auto *queue = queueOf(stream);
  bool active = queue->capturing() != nullptr;
  *status = active ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  if (nodes)
    *nodes = reinterpret_cast<const CUgraphNode *>(queue->frontier.data());
  if (count)
    *count = active ? queue->frontier.size() : 0;
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *dependencies,
                                       CUgraphEdgeData *edges, size_t *count) {
  const std::vector<Node *> &before = reinterpret_cast<Node *>(node)->before;
  if (dependencies) {
    *count = std::min(*count, before.size());
    for (size_t i = 0; i < *count; ++i) {
      dependencies[i] = reinterpret_cast<CUgraphNode>(before[i]);
      edges[i] = {};
    }
  } else {
    *count = before.size();
  }
  return CUDA_SUCCESS;
}
CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
  *type = reinterpret_cast<Node *>(node)->copy.Height ? CU_GRAPH_NODE_TYPE_MEMCPY
                                                      : CU_GRAPH_NODE_TYPE_KERNEL;
  return CUDA_SUCCESS;
}
CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params) {
  *params = {};
  params->func = libraryKernel();
  params->kernelParams = reinterpret_cast<void **>(node);
  return CUDA_SUCCESS;
}
CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *params) {
  return *params = reinterpret_cast<Node *>(node)->copy, CUDA_SUCCESS;
}
CUresult cuGraphMemsetNodeGetParams(CUgraphNode, CUDA_MEMSET_NODE_PARAMS *) {
  return CUDA_ERROR_INVALID_VALUE; // there are none
}
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec executable, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS *params) {
  if (reinterpret_cast<Node *>(node)->copy.Height)
    return CUDA_ERROR_INVALID_VALUE;
  if (params->func == libraryKernel())
    return setWork(executable, node, reinterpret_cast<Node *>(params->kernelParams)->work);
  const auto &kernels = knownKernels();
  auto found = kernels.find(nameOf(params->func));
  return found == kernels.end() ? CUDA_ERROR_NOT_SUPPORTED
                                : setWork(executable, node, found->second(params->kernelParams));
}
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                        const CUDA_MEMCPY3D *params, CUcontext) {
  const CUDA_MEMCPY3D &before = reinterpret_cast<Node *>(node)->copy;
  if (before.Height != 1 || params->Height != 1 || params->Depth != 1 ||
      params->dstMemoryType != before.dstMemoryType ||
      params->srcMemoryType != before.srcMemoryType)
    return CUDA_ERROR_INVALID_VALUE;
  return setWork(executable, node, nodeOf(*params).work);
}
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec, CUgraphNode, const CUDA_MEMSET_NODE_PARAMS *,
                                        CUcontext) {
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphInstantiate(CUgraphExec *executable, CUgraph graph, unsigned long long) {
  std::unique_lock<std::shared_mutex> alone(lockOf(currentGpu()));
  waitForGpu(currentGpu());
  ++number("instantiations");
  *executable =
      reinterpret_cast<CUgraphExec>(new Executable{graphOf(graph), planOf(*graphOf(graph))});
  std::lock_guard<std::mutex> lock(executables.mutex);
  executables.live.insert(*executable);
  return CUDA_SUCCESS;
}
CUresult cuGraphExecUpdate(CUgraphExec handle, CUgraph graph, CUgraphExecUpdateResultInfo *) {
  std::lock_guard<std::mutex> lock(executables.mutex);
  auto &executable = *reinterpret_cast<Executable *>(handle);
  const std::deque<Node> &before = executable.graph->nodes, &now = graphOf(graph)->nodes;
  auto same = [](const Node &a, const Node &b) {
    return a.copy.Height == b.copy.Height &&
           (a.copy.Height <= 1 || !std::memcmp(&a.copy, &b.copy, sizeof a.copy));
  };
  if (number("no-update") != 0 || before.size() != now.size() ||
      !std::equal(before.begin(), before.end(), now.begin(), same))
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  executable.plan = planOf(*graphOf(graph));
  return CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  GraphLaunch launch{currentGpu(), now(), 0, {}};
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<Graph> graph;
  {
    std::lock_guard<std::mutex> lock(executables.mutex);
    if (executables.live.count(executable) == 0) // an address that is gone
      return CUDA_ERROR_INVALID_VALUE;
    plan = reinterpret_cast<Executable *>(executable)->plan;
    graph = reinterpret_cast<Executable *>(executable)->graph;
  }
  ++number("graph-launches");
  launch.end = now();
  if (!isProfiled())
    graph = nullptr;
  add(stream, [plan, graph, launch]() mutable {
    launch.nodes.resize(graph ? plan->work.size() : 0);
    runPlan(*plan, [&](size_t i) {
      if (graph)
        launch.nodes[i] = timeOf(graph->nodes[i], plan->work[i]);
      else
        plan->work[i]();
    });
    if (graph)
      note(std::move(launch));
  });
  return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph graph) {
  graphOf(graph)->destroyed = true;
  return delete &graphOf(graph), CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec executable) {
  std::lock_guard<std::mutex> lock(executables.mutex);
  executables.live.erase(executable);
  return delete reinterpret_cast<Executable *>(executable), CUDA_SUCCESS;
}

} // extern "C"

// NOLINTEND(performance-no-int-to-ptr)
