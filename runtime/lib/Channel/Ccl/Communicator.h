//===- Communicator.h - a group of GPUs under NCCL --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CHANNEL_CCL_COMMUNICATOR_H
#define TANDEM_CHANNEL_CCL_COMMUNICATOR_H

#include "Api.h"
#include "Core/OwnThread.h"
#include "Core/SharedStep.h"
#include "Device/Gpu/ChannelInterface.h"

#include "tandem/Runtime/Channel.h"

#include <functional>

namespace tandem::ccl {

using gpu::DeviceState;

inline NativeStream native(gpu::GpuStream &stream) {
  return static_cast<NativeStream>(stream.native());
}

/// One group of GPUs under NCCL. Any thread.
///
/// A non-blocking NCCL communicator can be aborted at any time, but starts a thread for each group
/// of calls (ncclGroupEndInternal), which costs the host 50 us per command. A blocking one works on
/// the caller's thread, but must not be aborted while a thread is in it, because ncclCommAbort()
/// frees it. So there are two: a non-blocking root, made with a time limit, and its blocking child
/// by ncclCommSplit(), which commands use. With `splitShare` they share one abort flag
/// (ncclCommInitChildComm), which all waits in NCCL poll, on the host (sockets, proxies) and in
/// kernels. Other shared resources are reference-counted (commFree). To abort, first abort the
/// root: that raises the flag and frees only the root. When all threads have left the child, abort
/// the child. Splitting is non-blocking too, because it reports through the root (ncclAsyncLaunch).
/// Without `Api::splits` there is only the root, and commands use it.
class Communicator : public std::enable_shared_from_this<Communicator> {
public:
  /// Collective over the group. `group`: world ranks; `self`: this rank's place in it.
  static Expected<std::shared_ptr<Communicator>> create(std::shared_ptr<DeviceState> state,
                                                        const ncclUniqueId &id,
                                                        std::vector<uint32_t> group, uint32_t self,
                                                        const core::WaitLimit &limit);
  /// Leaves together with the other members, or alone if they do not leave in time. It waits for
  /// NCCL a few times `patience`; what NCCL has not given back then stays on its thread.
  ~Communicator();

  /// Calls `body(api, communicator)`, which enqueues, and waits until NCCL has accepted it.
  template <typename Body> Status call(const char *what, Body &&body) {
    if (aborting)
      return abortError();
    std::lock_guard<std::mutex> lock(handles->calls);
    if (aborting || !handles->run)
      return abortError();
    Status status = state->driver->within([&] {
      TANDEM_RETURN_IF_ERROR(api.status(body(api, handles->run), what));
      return settle(handles->run, what, nullptr);
    });
    return !status.ok() && aborting ? abortError() : status;
  }

  /// Asynchronous errors of NCCL. Does not block.
  Status poll();
  /// Aborts NCCL and returns, even if threads are in its calls. NCCL finishes on a separate thread.
  void abort(const Status &why);
  bool isAborted() const { return aborting; }
  /// Sends to every member and reduces, so that NCCL's lazy loading and connecting happen before
  /// the program runs. Collective.
  Status warmUp(const core::WaitLimit &limit);

  const Api &api;
  const std::shared_ptr<DeviceState> state;
  const std::vector<uint32_t> group;
  const uint32_t self;
  /// A hash of its unique id: equal on all members.
  const uint64_t number;
  /// Set after create(). `warn` is told, by the thread that ends it, what NCCL could not give back.
  std::chrono::milliseconds patience{5000};
  std::function<void(const std::string &)> warn;

private:
  /// NCCL's handles. They may outlive the communicator on a thread that is stuck in NCCL.
  struct Handles {
    ncclComm_t root = nullptr;
    /// The communicator for commands: the root or its child. NCCL writes it on a thread during
    /// creation.
    ncclComm_t run = nullptr;
    std::mutex calls; ///< held during calls on `run`
  };
  Communicator(const Api &api, std::shared_ptr<DeviceState> state, std::vector<uint32_t> group,
               uint32_t self, uint64_t number)
      : api(api), state(std::move(state)), group(std::move(group)), self(self), number(number) {}
  Status make(const ncclUniqueId &id, const core::WaitLimit &limit);
  /// A collective call.
  core::SharedStep collectiveStep(const core::WaitLimit &limit, const char *what) const;
  /// Waits until NCCL has completed the last call on `comm`. `step`: ends the wait; null: nothing
  /// but an abort does.
  Status settle(ncclComm_t comm, const char *what, const core::SharedStep *step);
  Status abortError();
  void leave();
  bool leaves(const char *what, std::function<Status()> body);
  Status firstCalls(char *memory, uint64_t bytes, gpu::StreamHandle on);

  const std::shared_ptr<Handles> handles = std::make_shared<Handles>();
  std::mutex polls; ///< held by poll(); taken before handles are freed
  std::atomic<bool> aborting{false};
  std::mutex reasonMutex;
  Status reason;
  core::OwnThread gone; ///< set during an abort
};

using CommunicatorRef = std::shared_ptr<Communicator>;

ncclDataType_t typeOf(DType type);
ncclRedOp_t opOf(ReduceOp op);

/// Between two ranks NCCL matches messages in the order in which they are posted: the order of
/// their tags.
void sortByTag(std::vector<Message> &messages);

/// Operations on a communicator. `kernels`: of the device; outlives them.
Expected<std::unique_ptr<Operation>> prepareMessages(CommunicatorRef communicator,
                                                     const gpu::Kernels &kernels,
                                                     const std::vector<Message> &messages);
Expected<std::unique_ptr<Operation>> prepareCollective(CommunicatorRef communicator,
                                                       const gpu::Kernels &kernels,
                                                       const Collective &collective);

} // namespace tandem::ccl

#endif // TANDEM_CHANNEL_CCL_COMMUNICATOR_H
