//===- Communicator.cpp - a group of GPUs under NCCL ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Communicator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <utility>
#include <xxhash.h>

namespace tandem::ccl {

using Clock = std::chrono::steady_clock;

ncclDataType_t typeOf(DType type) {
  switch (type) {
  case DType::F32:
    return ncclFloat32;
  case DType::F16:
  case DType::I16: // is only moved
    return ncclFloat16;
  case DType::BF16:
    return ncclBfloat16;
  case DType::F64:
    return ncclFloat64;
  case DType::I64:
    return ncclInt64;
  case DType::I8:
    return ncclInt8;
  case DType::I1:       // 0 or 1: max is "or", min is "and"
  case DType::F8E4M3FN: // is only moved
  case DType::F8E5M2:
    return ncclUint8;
  case DType::I32:
    break;
  }
  return ncclInt32;
}

ncclRedOp_t opOf(ReduceOp op) {
  return op == ReduceOp::Sum ? ncclSum : op == ReduceOp::Max ? ncclMax : ncclMin;
}

Expected<CommunicatorRef> Communicator::create(std::shared_ptr<DeviceState> state,
                                               const ncclUniqueId &id, std::vector<uint32_t> group,
                                               uint32_t self, const core::WaitLimit &limit) {
  TANDEM_ASSIGN_OR_RETURN(const Api *api, Api::get(state->driver->vendor()));
  std::shared_ptr<Communicator> made(
      new Communicator(*api, std::move(state), std::move(group), self,
                       XXH3_64bits(id.internal, sizeof id.internal)));
  Status status = made->state->driver->within([&] { return made->make(id, limit); });
  if (status.ok())
    return made;
  made->abort(status);
  return status;
}

/// Blocks of a kernel of NCCL, each on an SM of its own: what the checker assumes
/// (replay::SmLimits::perChannel). NCCL could use 64; on 8 GPUs with NVLink it uses up to 32.
static constexpr int kMostBlocks = 32;

core::SharedStep Communicator::collectiveStep(const core::WaitLimit &limit,
                                              const char *what) const {
  return core::SharedStep(
      limit, what, fmt::format("{}: not all of ranks {} came", what, fmt::join(group, ", ")));
}

Status Communicator::make(const ncclUniqueId &id, const core::WaitLimit &limit) {
  auto end = [&](const char *what) {
    core::SharedStep step = collectiveStep(limit, what);
    return settle(handles->root, what, &step);
  };
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.maxCTAs = kMostBlocks;
  if (api.splits)
    config.splitShare = 1;
  const char *what = "ncclCommInitRankConfig";
  TANDEM_RETURN_IF_ERROR(
      api.status(api.ncclCommInitRankConfig(&handles->root, static_cast<int>(group.size()), id,
                                            static_cast<int>(self), &config),
                 what));
  TANDEM_RETURN_IF_ERROR(end(what));
  if (!api.splits) {
    handles->run = handles->root;
    return Status();
  }
  ncclConfig_t ofChild = NCCL_CONFIG_INITIALIZER;
  ofChild.blocking = 1;
  ofChild.maxCTAs = kMostBlocks;
  what = "ncclCommSplit";
  TANDEM_RETURN_IF_ERROR(api.status(
      api.ncclCommSplit(handles->root, 0, static_cast<int>(self), &handles->run, &ofChild), what));
  return end(what);
}

Communicator::~Communicator() {
  if (handles->root && !aborting)
    leave();
  // What NCCL will not let go of in time stays on its thread.
  if (gone)
    (void)gone.isDone(patience);
}

/// Makes calls by which this rank leaves, on a thread: they may wait for peers, or never return.
/// False: they have not returned in time.
bool Communicator::leaves(const char *what, std::function<Status()> body) {
  auto result = std::make_shared<Status>();
  core::OwnThread left(
      [state = state, body = std::move(body), result] { *result = state->driver->within(body); });
  bool isDone = left.isDone(patience);
  Status status = isDone ? *result
                         : Status(Code::Timeout, fmt::format("{}: it has not returned after {} ms",
                                                             what, patience.count()));
  if (!status.ok() && warn)
    warn(fmt::format("channel ccl: rank {}: {}", group[self], status.message()));
  return isDone;
}

void Communicator::leave() {
  if (state->aborted)
    return abort(state->abortReason());
  if (handles->run != handles->root) {
    // The child first, which blocks until the GPU has done what it was asked.
    bool left = leaves("ncclCommDestroy", [&api = api, handles = handles] {
      std::lock_guard<std::mutex> lock(handles->calls);
      TANDEM_RETURN_IF_ERROR(api.status(api.ncclCommFinalize(handles->run), "ncclCommFinalize"));
      ncclComm_t child = std::exchange(handles->run, nullptr);
      return api.status(api.ncclCommDestroy(child), "ncclCommDestroy");
    });
    // What is still in it, or could not leave, goes as after any abort.
    if (!left || handles->run)
      return abort(Status(Code::Aborted, "the communicator was left"));
  }
  // Finalising waits for the others, who may be gone.
  Status left = state->driver->within([&] {
    TANDEM_RETURN_IF_ERROR(api.status(api.ncclCommFinalize(handles->root), "ncclCommFinalize"));
    core::SharedStep step = collectiveStep({patience}, "ncclCommFinalize");
    return settle(handles->root, "ncclCommFinalize", &step);
  });
  if (left.ok())
    leaves("ncclCommDestroy", [&api = api, handles = handles] {
      return api.status(api.ncclCommDestroy(handles->root), "ncclCommDestroy");
    });
  else
    leaves("ncclCommAbort", [&api = api, handles = handles] {
      return api.status(api.ncclCommAbort(handles->root), "ncclCommAbort");
    });
}

Status Communicator::settle(ncclComm_t comm, const char *what, const core::SharedStep *step) {
  for (gpu::Backoff backoff;; backoff.pause()) {
    ncclResult_t now = ncclSuccess;
    TANDEM_RETURN_IF_ERROR(
        api.status(api.ncclCommGetAsyncError(comm, &now), "ncclCommGetAsyncError"));
    if (now != ncclInProgress)
      return api.status(now, what);
    if (aborting)
      return abortError();
    if (state->aborted)
      return state->abortReason();
    if (step)
      TANDEM_RETURN_IF_ERROR(step->goOn());
  }
}

Status Communicator::abortError() {
  std::lock_guard<std::mutex> lock(reasonMutex);
  return reason.ok() ? Status(Code::Aborted, "the communicator was aborted") : reason;
}

Status Communicator::poll() {
  std::lock_guard<std::mutex> lock(polls);
  if (aborting || !handles->run)
    return Status();
  // A non-blocking one joins its thread when it is asked: that is for whoever settles it, who sees
  // its errors. A blocking one may be asked while a thread is in it.
  std::unique_lock<std::mutex> calls(handles->calls, std::defer_lock);
  if (handles->run == handles->root && !calls.try_lock())
    return Status();
  ncclResult_t now = ncclSuccess;
  TANDEM_RETURN_IF_ERROR(
      api.status(api.ncclCommGetAsyncError(handles->run, &now), "ncclCommGetAsyncError"));
  return api.status(now, "NCCL");
}

void Communicator::abort(const Status &why) {
  {
    std::lock_guard<std::mutex> lock(reasonMutex);
    if (reason.ok())
      reason = why;
  }
  // Nobody comes in from here on, and whoever settles leaves.
  if (aborting.exchange(true))
    return;
  {
    std::lock_guard<std::mutex> lock(polls);
  }
  // It first ends the kernels, and then may wait for peers, and for graphs that hold its work;
  // those go when the driver next looks, on the thread that aborts.
  gone = core::OwnThread([&api = api, state = state, handles = handles] {
    auto end = [&](ncclComm_t comm) {
      if (comm)
        state->driver->within([&] { return api.status(api.ncclCommAbort(comm), "ncclCommAbort"); })
            .ignore();
    };
    auto waitUntilEmpty = [&] { std::lock_guard<std::mutex> lock(handles->calls); };
    if (!api.splits)
      waitUntilEmpty();
    end(handles->root); // and joins the thread that would still make the child
    if (!api.splits)
      return;
    waitUntilEmpty();
    end(handles->run);
  });
}

Status Communicator::firstCalls(char *memory, uint64_t bytes, gpu::StreamHandle on) {
  auto size = static_cast<uint32_t>(group.size());
  auto *stream = static_cast<NativeStream>(on);
  TANDEM_RETURN_IF_ERROR(call("messages", [&](const Api &nccl, ncclComm_t c) {
    ncclResult_t result = nccl.ncclGroupStart();
    for (uint32_t peer = 0; peer < size && result == ncclSuccess; ++peer) {
      result = nccl.ncclSend(memory + 64 * peer, 64, ncclInt8, static_cast<int>(peer), c, stream);
      if (result == ncclSuccess)
        result = nccl.ncclRecv(memory + bytes + 64 * peer, 64, ncclInt8, static_cast<int>(peer), c,
                               stream);
    }
    ncclResult_t ended = nccl.ncclGroupEnd();
    return result == ncclSuccess ? ended : result;
  }));
  TANDEM_RETURN_IF_ERROR(call("ncclAllGather", [&](const Api &nccl, ncclComm_t c) {
    return nccl.ncclAllGather(memory, memory + bytes, 16, ncclFloat32, c, stream);
  }));
  TANDEM_RETURN_IF_ERROR(call("ncclReduceScatter", [&](const Api &nccl, ncclComm_t c) {
    return nccl.ncclReduceScatter(memory + bytes, memory, 16, ncclFloat32, ncclSum, c, stream);
  }));
  return call("ncclAllReduce", [&](const Api &nccl, ncclComm_t c) {
    return nccl.ncclAllReduce(memory, memory + bytes, 16, ncclFloat32, ncclSum, c, stream);
  });
}

Status Communicator::warmUp(const core::WaitLimit &limit) {
  gpu::Driver &driver = *state->driver;
  uint64_t bytes = uint64_t(group.size()) * 64;
  char *memory = nullptr;
  gpu::StreamHandle stream = nullptr;
  TANDEM_RETURN_IF_ERROR(driver.createStream(&stream, StreamPriority::Normal));
  Status status = driver.allocate(3 * bytes, reinterpret_cast<void **>(&memory));
  if (status.ok())
    status = driver.fill(memory, 0, 3 * bytes);
  std::string what = fmt::format("the first messages between ranks {}", fmt::join(group, ", "));
  core::SharedStep step(limit, what, what + " did not arrive");
  auto goOn = [&] {
    if (state->aborted)
      return state->abortReason();
    TANDEM_RETURN_IF_ERROR(step.goOn());
    return poll();
  };
  core::OwnThread called;
  if (status.ok()) {
    // Connecting waits for the peer within a call: on a thread, so that this one can abort.
    auto result = std::make_shared<Status>();
    called = core::OwnThread([own = shared_from_this(), result, memory, bytes, stream] {
      *result = own->firstCalls(memory, bytes, stream);
    });
    for (gpu::Backoff backoff; status.ok() && !called.isDone(); backoff.pause())
      status = goOn();
    if (status.ok())
      status = *result;
  }
  for (gpu::Backoff backoff; status.ok(); backoff.pause()) {
    bool done = false;
    status = driver.queryStream(stream, &done);
    if (done)
      break;
    if (status.ok())
      status = goOn();
  }
  if (!status.ok())
    abort(status);
  if (called && !called.isDone(std::chrono::seconds(5)))
    return status;
  // What still runs when this gives up writes there until the abort has ended it.
  bool idle = status.ok();
  auto giveUp = Clock::now() + std::chrono::seconds(5);
  for (gpu::Backoff backoff; !idle && Clock::now() < giveUp; backoff.pause())
    if (!driver.queryStream(stream, &idle).ok())
      break;
  driver.destroyStream(stream).ignore();
  if (memory && idle)
    driver.free(memory).ignore();
  return status;
}

} // namespace tandem::ccl
