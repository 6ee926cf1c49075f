//===- Communicator.cpp - a group of GPUs under NCCL ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Communicator.h"

#include <cstring>
#include <fmt/format.h>

namespace tandem::ccl {

using Clock = std::chrono::steady_clock;

namespace {

uint64_t numberOf(const ncclUniqueId &id) {
  uint64_t number = 0xcbf29ce484222325u; // FNV-1a
  for (char byte : id.internal)
    number = (number ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  return number;
}

} // namespace

ncclDataType_t typeOf(DType type) {
  switch (type) {
  case DType::F32:
    return ncclFloat32;
  case DType::F16:
    return ncclFloat16;
  case DType::BF16:
    return ncclBfloat16;
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
                                               uint32_t self, std::chrono::milliseconds timeout) {
  TANDEM_ASSIGN_OR_RETURN(const Api *api, Api::get());
  std::shared_ptr<Communicator> made(
      new Communicator(*api, std::move(state), std::move(group), self, numberOf(id)));
  std::lock_guard<std::mutex> lock(made->mutex);
  Status status = made->state->driver->within([&] {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const char *what = "ncclCommInitRankConfig";
    TANDEM_RETURN_IF_ERROR(
        api->status(api->ncclCommInitRankConfig(&made->comm, static_cast<int>(made->group.size()),
                                                id, static_cast<int>(self), &config),
                    what));
    return made->settle(what, Clock::now() + timeout);
  });
  if (status.ok())
    return made;
  made->aborting = true;
  if (made->comm)
    made->state->driver->within([&] { return api->status(api->ncclCommAbort(made->comm), ""); })
        .ignore();
  made->comm = nullptr;
  return status;
}

Communicator::~Communicator() {
  std::lock_guard<std::mutex> lock(mutex);
  // What NCCL will not let go of in time stays on its thread.
  auto giveUp = Clock::now() + std::chrono::seconds(5);
  for (gpu::Backoff backoff; gone && !*gone && Clock::now() < giveUp; backoff.pause()) {
  }
  if (!comm)
    return;
  state->driver
      ->within([&] {
        // Finalising waits for the others, who may be gone.
        Status left = api.status(api.ncclCommFinalize(comm), "ncclCommFinalize");
        if (left.ok())
          left = settle("ncclCommFinalize", Clock::now() + std::chrono::seconds(5));
        if (left.ok())
          return api.status(api.ncclCommDestroy(comm), "ncclCommDestroy");
        return api.status(api.ncclCommAbort(comm), "ncclCommAbort");
      })
      .ignore();
}

Status Communicator::settle(const char *what, Clock::time_point deadline) {
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
    if (Clock::now() > deadline)
      return Status(Code::Timeout, fmt::format("{}: no end in time", what));
  }
}

Status Communicator::abortError() {
  std::lock_guard<std::mutex> lock(reasonMutex);
  return reason.ok() ? Status(Code::Aborted, "the communicator was aborted") : reason;
}

Status Communicator::poll() {
  std::unique_lock<std::mutex> lock(mutex, std::try_to_lock);
  if (!lock || !comm || aborting)
    return Status();
  ncclResult_t now = ncclSuccess;
  TANDEM_RETURN_IF_ERROR(
      api.status(api.ncclCommGetAsyncError(comm, &now), "ncclCommGetAsyncError"));
  return api.status(now, "NCCL");
}

void Communicator::abort(const Status &why) {
  {
    std::lock_guard<std::mutex> lock(reasonMutex);
    if (reason.ok())
      reason = why;
  }
  aborting = true; // whoever settles lets go of the lock
  std::lock_guard<std::mutex> lock(mutex);
  if (!comm)
    return;
  // It first ends the kernels, and then may wait for peers, and for graphs that hold its work;
  // those go when the driver next looks, on the thread that aborts.
  auto through = std::make_shared<std::atomic<bool>>(false);
  auto end = [api = &api, state = state, comm = comm, through] {
    state->driver->within([&] { return api->status(api->ncclCommAbort(comm), "ncclCommAbort"); })
        .ignore();
    *through = true;
  };
  comm = nullptr;
  gone = through;
  try {
    std::thread(end).detach();
  } catch (const std::exception &) {
    end();
  }
}

Status Communicator::warmUp(std::chrono::milliseconds timeout) {
  gpu::Driver &driver = *state->driver;
  auto size = static_cast<uint32_t>(group.size());
  uint64_t bytes = uint64_t(size) * 64;
  char *memory = nullptr;
  gpu::StreamHandle handle = nullptr;
  TANDEM_RETURN_IF_ERROR(driver.createStream(&handle));
  Status status = driver.allocate(3 * bytes, reinterpret_cast<void **>(&memory));
  auto *stream = static_cast<cudaStream_t>(handle);
  if (status.ok())
    status = driver.fill(memory, 0, 3 * bytes);
  if (status.ok())
    status = call("messages", [&](const Api &nccl, ncclComm_t c) {
      ncclResult_t result = nccl.ncclGroupStart();
      for (uint32_t peer = 0; peer < size && result == ncclSuccess; ++peer) {
        result = nccl.ncclSend(memory + 64 * peer, 64, ncclInt8, static_cast<int>(peer), c, stream);
        if (result == ncclSuccess)
          result = nccl.ncclRecv(memory + bytes + 64 * peer, 64, ncclInt8, static_cast<int>(peer),
                                 c, stream);
      }
      ncclResult_t ended = nccl.ncclGroupEnd();
      return result == ncclSuccess ? ended : result;
    });
  if (status.ok())
    status = call("ncclAllGather", [&](const Api &nccl, ncclComm_t c) {
      return nccl.ncclAllGather(memory, memory + bytes, 16, ncclFloat32, c, stream);
    });
  if (status.ok())
    status = call("ncclReduceScatter", [&](const Api &nccl, ncclComm_t c) {
      return nccl.ncclReduceScatter(memory + bytes, memory, 16, ncclFloat32, ncclSum, c, stream);
    });
  if (status.ok())
    status = call("ncclAllReduce", [&](const Api &nccl, ncclComm_t c) {
      return nccl.ncclAllReduce(memory, memory + bytes, 16, ncclFloat32, ncclSum, c, stream);
    });
  auto deadline = Clock::now() + timeout;
  for (gpu::Backoff backoff; status.ok(); backoff.pause()) {
    bool done = false;
    status = driver.queryStream(handle, &done);
    if (done)
      break;
    if (status.ok())
      status = poll();
    if (Clock::now() > deadline)
      status = Status(Code::Timeout, "the first messages of a communicator did not arrive");
  }
  if (!status.ok())
    abort(status);
  driver.destroyStream(handle).ignore();
  if (memory && status.ok())
    driver.free(memory).ignore();
  return status;
}

} // namespace tandem::ccl
