//===- Communicator.h - a group of GPUs under NCCL --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CHANNEL_CCL_COMMUNICATOR_H
#define TANDEM_CHANNEL_CCL_COMMUNICATOR_H

#include "Api.h"
#include "GpuStream.h"
#include "Kernels.h"

#include "tandem/Runtime/Channel.h"

namespace tandem::ccl {

using gpu::DeviceState;

/// One NCCL communicator, non-blocking: no call waits for a peer for longer than a poll, so that
/// abort() always gets through. Any thread.
class Communicator {
public:
  /// Collective over the group. `group`: world ranks; `self`: this rank's place in it.
  static Expected<std::shared_ptr<Communicator>> create(std::shared_ptr<DeviceState> state,
                                                        const ncclUniqueId &id,
                                                        std::vector<uint32_t> group, uint32_t self,
                                                        std::chrono::milliseconds timeout);
  /// Leaves with the others if they come, else alone.
  ~Communicator();

  /// Calls `body(api, communicator)`, which enqueues, and waits until NCCL has taken it in.
  template <typename Body> Status call(const char *what, Body &&body) {
    std::lock_guard<std::mutex> lock(mutex);
    if (aborting || !comm)
      return abortError();
    return state->driver->within([&] {
      TANDEM_RETURN_IF_ERROR(api.status(body(api, comm), what));
      return settle(what, std::chrono::steady_clock::time_point::max());
    });
  }

  /// What NCCL itself has noticed; success if it is busy.
  Status poll();
  /// Tells NCCL to give up, and returns; what NCCL then still does is done on a thread.
  void abort(const Status &why);
  /// Sends something to everybody and reduces something, so that what NCCL loads and connects at
  /// first use is there before the program runs. Collective.
  Status warmUp(std::chrono::milliseconds timeout);

  const Api &api;
  const std::shared_ptr<DeviceState> state;
  const std::vector<uint32_t> group;
  const uint32_t self;
  /// Of its unique id: equal on all members.
  const uint64_t number;

private:
  Communicator(const Api &api, std::shared_ptr<DeviceState> state, std::vector<uint32_t> group,
               uint32_t self, uint64_t number)
      : api(api), state(std::move(state)), group(std::move(group)), self(self), number(number) {}
  /// Until NCCL is through with what it was asked; with the lock held.
  Status settle(const char *what, std::chrono::steady_clock::time_point deadline);
  Status abortError();

  std::mutex mutex;
  ncclComm_t comm = nullptr;
  std::atomic<bool> aborting{false};
  std::mutex reasonMutex;
  Status reason;
  std::shared_ptr<std::atomic<bool>> gone; ///< set: an abort is under way; true: it is through
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
