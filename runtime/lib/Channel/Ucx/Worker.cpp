//===- Worker.cpp - the thread that communicates ----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Worker.h"

#include "tandem/Runtime/StartThread.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

using namespace tandem;
using namespace tandem::ucx;
using Clock = std::chrono::steady_clock;

namespace {

/// How long a failed worker continues, to end cancelled operations and tell its peers.
constexpr std::chrono::milliseconds kLastWords{100};

Status systemError(const char *what) {
  return Status(Code::Io, fmt::format("channel ucx: {}: {}", what, std::strerror(errno)));
}

/// Of memory of a device; host memory if UCX knows no other.
ucs_memory_type_t memoryTypeOf(std::string_view device) {
  std::string_view kind = device.substr(0, device.find(':'));
  return kind == "cuda"  ? UCS_MEMORY_TYPE_CUDA
         : kind == "hip" ? UCS_MEMORY_TYPE_ROCM
                         : UCS_MEMORY_TYPE_HOST;
}

uint32_t coresOfThisProcess() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set))
    return 1;
  return static_cast<uint32_t>(CPU_COUNT(&set));
}

} // namespace

ControlSink::~ControlSink() = default;

Expected<std::shared_ptr<Worker>> Worker::create(const Api &api, const UcxOptions &options,
                                                 Device &device) {
  std::shared_ptr<Worker> worker(new Worker(api, options, device));
  Status opened;
  device.within([&] { opened = worker->open(); });
  TANDEM_RETURN_IF_ERROR(opened);
  TANDEM_RETURN_IF_ERROR(startThread(worker->thread, "channel ucx", [worker] { worker->run(); }));
  return worker;
}

Status Worker::open() {
  ucp_config_t *config = nullptr;
  TANDEM_RETURN_IF_ERROR(
      api.status(api.ucp_config_read(nullptr, nullptr, &config), "ucp_config_read"));
  // UCX's default of 20 s is longer than most runs.
  if (!std::getenv("UCX_KEEPALIVE_INTERVAL"))
    api.ucp_config_modify(config, "KEEPALIVE_INTERVAL", "1s");
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_RMA | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.name = "tandem";
  ucs_status_t made = api.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context);
  api.ucp_config_release(config);
  TANDEM_RETURN_IF_ERROR(api.status(made, "ucp_init"));
  ucp_context_attr_t attributes{};
  attributes.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  TANDEM_RETURN_IF_ERROR(
      api.status(api.ucp_context_query(context, &attributes), "ucp_context_query"));
  memoryTypes = attributes.memory_types;

  ucp_worker_params_t workerParams{};
  workerParams.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  workerParams.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  TANDEM_RETURN_IF_ERROR(
      api.status(api.ucp_worker_create(context, &workerParams, &worker), "ucp_worker_create"));
  TANDEM_RETURN_IF_ERROR(
      api.status(api.ucp_worker_get_efd(worker, &ucxEvents), "ucp_worker_get_efd"));

  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = 0;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  handler.cb = [](void *self, const void *header, size_t headerBytes, void *data, size_t bytes,
                  const ucp_am_recv_param_t *param) {
    if (!(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV))
      static_cast<Worker *>(self)->receiveControl(header, headerBytes, data, bytes);
    return UCS_OK;
  };
  handler.arg = this;
  TANDEM_RETURN_IF_ERROR(api.status(api.ucp_worker_set_am_recv_handler(worker, &handler),
                                    "ucp_worker_set_am_recv_handler"));

  ucp_address_t *address = nullptr;
  size_t length = 0;
  TANDEM_RETURN_IF_ERROR(
      api.status(api.ucp_worker_get_address(worker, &address, &length), "ucp_worker_get_address"));
  self = PeerAddress::ofThisProcess(options.networkOnly);
  self.worker.assign(reinterpret_cast<const char *>(address), length);
  api.ucp_worker_release_address(worker, address);

  wakeEvent = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  epoll = ::epoll_create1(EPOLL_CLOEXEC);
  if (wakeEvent < 0 || epoll < 0)
    return systemError("eventfd");
  for (int fd : {ucxEvents, wakeEvent}) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = nullptr;
    if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event))
      return systemError("epoll_ctl");
  }
  return Status::success();
}

Worker::~Worker() {
  if (context) // open() has failed
    device.within([this] { destroy(); });
  for (auto &peer : peers)
    if (peer->process >= 0)
      ::close(peer->process);
  for (int fd : {wakeEvent, epoll})
    if (fd >= 0)
      ::close(fd);
}

void Worker::closeBrokenEndpoints() {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  for (auto &peer : peers)
    if (peer->endpoint && !isNear(peer->rank)) {
      ucs_status_ptr_t closing = api.ucp_ep_close_nbx(peer->endpoint, &param);
      peer->endpoint = nullptr;
      if (UCS_PTR_IS_PTR(closing))
        api.ucp_request_free(closing);
    }
}

void Worker::destroy() {
  // Ends the operations that UCX still holds; their callbacks find their work in `forgotten`.
  if (worker) {
    if (gaveUp || !forgotten.empty())
      closeBrokenEndpoints();
    api.ucp_worker_destroy(worker);
  }
  if (context)
    api.ucp_cleanup(context);
  worker = nullptr;
  context = nullptr;
  forgotten.clear();
}

bool Worker::movesGpu(std::string_view device) const {
  ucs_memory_type_t type = memoryTypeOf(device);
  return options.gpuDirect && type != UCS_MEMORY_TYPE_HOST && (memoryTypes >> type & 1) != 0;
}

void Worker::join(uint32_t rank, uint32_t localSize, std::vector<PeerAddress> addresses,
                  const Device &operands) {
  if (!operands.hostMemory())
    operandType = memoryTypeOf(operands.name());
  worldRank = rank;
  spinTime = options.spin;
  // With more ranks than cores, a polling rank would take the core of the rank it waits for.
  if (spinTime.count() < 0)
    spinTime = std::chrono::microseconds(coresOfThisProcess() >= localSize ? 20 : 0);
  for (uint32_t i = 0; i < addresses.size(); ++i) {
    peers.push_back(std::make_unique<Peer>());
    peers.back()->owner = this;
    peers.back()->rank = i;
    peers.back()->address = std::move(addresses[i]);
  }
}

Status Worker::health() {
  std::lock_guard<std::mutex> lock(mutex);
  return failure;
}

void Worker::submit(std::shared_ptr<Work> work) {
  Status refused;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (stopping)
      refused = Status(Code::Aborted, "the transport has been closed");
    else if (!failure.ok() && !work->evenAfterFailure)
      refused = failure;
    if (refused.ok()) {
      submitted.push_back(std::move(work));
      wakeThread();
      return;
    }
  }
  work->wake(refused);
}

void Worker::wakeThread() {
  if (!sleeping)
    return;
  sleeping = false;
  uint64_t one = 1;
  // A full counter wakes the thread as well.
  if (::write(wakeEvent, &one, sizeof(one)) < 0)
    return;
}

void Worker::fail(const Status &reason, bool tellPeers) {
  std::lock_guard<std::mutex> lock(mutex);
  if (!failure.ok())
    return;
  failure = reason;
  tell = tellPeers;
  wakeThread();
}

Status Worker::call(const std::function<Status()> &f) {
  if (!thread.joinable())
    return f();
  auto task = std::make_shared<Task>(
      [&f](Worker &worker, Task &self) { self.finishPart(worker, f()); }, true);
  submit(task);
  return task->wait(std::chrono::microseconds(0));
}

void Worker::callAtEnd(std::function<void()> f) {
  auto task = std::make_shared<Task>(
      [f = std::move(f)](Worker &worker, Task &self) {
        f();
        self.finishPart(worker, Status::success());
      },
      true);
  submit(task);
  if (!task->waitUntil(Clock::now() + (stuck ? Clock::duration(0) : options.patience)))
    stuck = true;
}

std::shared_ptr<Work> Worker::forget(Work &work) {
  std::shared_ptr<Work> keep = std::move(inFlight[work.place]);
  if (work.place + 1 < inFlight.size()) {
    inFlight[work.place] = std::move(inFlight.back());
    inFlight[work.place]->place = work.place;
  }
  inFlight.pop_back();
  return keep;
}

bool Worker::takeSubmitted() {
  std::vector<std::shared_ptr<Work>> taken;
  Status why;
  bool stop, fails;
  {
    std::unique_lock<std::mutex> lock(mutex);
    stayIfLeftBehind(lock);
    taken.swap(submitted);
    why = failure;
    stop = stopping;
    fails = !failure.ok() && !gaveUp;
  }
  if (fails)
    giveUp();
  for (std::shared_ptr<Work> &work : taken) {
    if (!why.ok() && !work->evenAfterFailure) {
      work->wake(why);
      continue;
    }
    work->place = inFlight.size();
    inFlight.push_back(work);
    work->start(*this);
  }
  return !taken.empty() || stop;
}

void Worker::run() {
  device.within([this] {
    loop();
    // The waiting threads are gone, but UCX may still write to these.
    for (auto &work : inFlight) {
      work->abandon(Status(Code::Aborted, "the transport has been closed"));
      forgotten.push_back(work);
    }
    inFlight.clear();
    destroy();
    std::unique_lock<std::mutex> lock(mutex);
    stayIfLeftBehind(lock);
    destroyed = true;
    changed.notify_all();
  });
}

void Worker::stayIfLeftBehind(std::unique_lock<std::mutex> &lock) {
  changed.wait(lock, [this] { return !leftBehind; });
}

void Worker::loop() {
  auto lastProgress = Clock::now();
  for (;;) {
    bool busy = takeSubmitted();
    if (busy) {
      std::unique_lock<std::mutex> lock(mutex);
      stayIfLeftBehind(lock);
      if (stopping && submitted.empty())
        break;
    }
    if (!gaveUp)
      busy |= api.ucp_worker_progress(worker) != 0;
    if (busy || (spinTime.count() > 0 && !inFlight.empty())) {
      auto now = Clock::now();
      if (busy)
        lastProgress = now;
      if (busy || now - lastProgress < spinTime)
        continue;
    }
    sleep();
    lastProgress = Clock::now();
  }
}

void Worker::sleep() {
  if (!gaveUp) {
    ucs_status_t armed = api.ucp_worker_arm(worker);
    if (armed == UCS_ERR_BUSY)
      return;
    if (armed != UCS_OK)
      fail(api.status(armed, "ucp_worker_arm"), true);
  }
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (!submitted.empty() || stopping || (!failure.ok() && !gaveUp))
      return;
    sleeping = true;
  }
  epoll_event events[8];
  int count = ::epoll_wait(epoll, events, 8, -1);
  {
    std::lock_guard<std::mutex> lock(mutex);
    sleeping = false;
  }
  uint64_t ignored;
  while (::read(wakeEvent, &ignored, sizeof(ignored)) > 0) {
  }
  for (int i = 0; i < count; ++i)
    if (auto *peer = static_cast<Peer *>(events[i].data.ptr))
      processEnded(*peer);
}

void Worker::giveUp() {
  gaveUp = true;
  Status reason = health();
  for (auto &[channel, sink] : sinks)
    sink->failed(reason);
  std::shared_ptr<Task> farewell;
  if (tell) {
    uint32_t told = 0;
    for (auto &peer : peers)
      told += peer->endpoint && !peer->left && peer->rank != worldRank;
    farewell = std::make_shared<Task>([](Worker &, Task &) {});
    farewell->arm(told + 1);
    farewell->place = inFlight.size();
    inFlight.push_back(farewell);
    Control control;
    control.type = Control::Abort;
    for (auto &peer : peers)
      if (peer->endpoint && !peer->left && peer->rank != worldRank)
        sendControl(*farewell, peer->rank, control, reason.message().substr(0, 1024));
    farewell->finishPart(*this, Status::success());
  }
  std::vector<std::shared_ptr<Work>> open = inFlight;
  for (auto &work : open)
    work->cancel(*this);
  open.clear();
  auto deadline = Clock::now() + kLastWords;
  while (!inFlight.empty() && Clock::now() < deadline)
    if (!api.ucp_worker_progress(worker))
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  for (auto &work : inFlight) {
    work->abandon(reason);
    forgotten.push_back(work);
  }
  inFlight.clear();
}

std::shared_ptr<Task> Worker::sayGoodbye() {
  auto task = std::make_shared<Task>([](Worker &worker, Task &self) {
    worker.leaving = true;
    worker.goodbye = self.shared_from_this();
    uint32_t told = 0;
    for (auto &peer : worker.peers) {
      peer->answers = peer->endpoint && !peer->left && peer->rank != worker.worldRank;
      told += peer->answers;
    }
    self.arm(2 * told + 1); // sent, and answered
    Control control;
    control.type = Control::Leave;
    for (auto &peer : worker.peers)
      if (peer->answers)
        worker.sendControl(self, peer->rank, control);
    self.finishPart(worker, Status::success());
  });
  submit(task);
  return task;
}

void Worker::end(std::chrono::milliseconds timeout) {
  if (!thread.joinable())
    return;
  if (!stuck)
    sayGoodbye()->waitUntil(Clock::now() + timeout);
  {
    std::unique_lock<std::mutex> lock(mutex);
    stopping = true;
    wakeThread();
    auto patience = stuck ? std::chrono::milliseconds(0) : options.patience;
    leftBehind = !changed.wait_for(lock, patience, [this] { return destroyed; });
  }
  // Only this thread writes it.
  if (!leftBehind)
    return thread.join();
  thread.detach();
  device.log(LogLevel::Warning,
             fmt::format("channel ucx: rank {}: a call of UCX has not returned after {} ms: it is "
                         "left to its thread",
                         worldRank, options.patience.count()));
}
