//===- Operations.cpp - messages, puts and signals over UCX -----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Packing.h"
#include "UcxChannel.h"

#include <fmt/format.h>

using namespace tandem;
using namespace tandem::ucx;

namespace {

ucp_request_param_t hostParam() {
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  return param;
}

/// The bytes that an operand sends or receives: in place, or a packed copy if strided. The stream's
/// otherwise idle thread makes the copy.
struct Staging {
  Runs runs;
  std::vector<std::byte> copy;
  void *memory = nullptr; ///< of this run

  explicit Staging(const Layout &layout) : runs(layout) {
    if (!runs.contiguous())
      copy.resize(runs.bytes());
  }
  void *data() { return runs.contiguous() ? memory : copy.data(); }
  uint64_t bytes() const { return runs.bytes(); }
};

class GroupWork : public Work {
public:
  struct Part {
    GroupWork *owner;
    bool isSend;
    uint32_t peer; ///< world rank
    uint32_t tag;
    Operand operand;
    Staging staging;
    void *request = nullptr; ///< of an open receive
    bool *ended = nullptr;   ///< of a receive while it is being posted
  };

  explicit GroupWork(std::shared_ptr<ChannelState> state, const std::vector<Message> &messages)
      : state(std::move(state)) {
    parts.reserve(messages.size());
    // Receives first, so arriving messages find a buffer.
    for (bool sends : {false, true})
      for (const Message &message : messages)
        if (message.isSend == sends)
          parts.push_back({this, sends, this->state->members[message.peer].rank, message.tag,
                           message.buffer, Staging(message.buffer.layout)});
  }

  Status run(const Frame &frame) {
    if (parts.empty())
      return Status::success();
    epoch = frame.epoch;
    for (Part &part : parts) {
      part.staging.memory = part.operand.resolve(frame).data;
      if (part.isSend && !part.staging.runs.contiguous())
        part.staging.runs.pack(part.staging.copy.data(), part.staging.memory);
    }
    arm(static_cast<uint32_t>(parts.size()));
    state->worker->submit(shared_from_this());
    TANDEM_RETURN_IF_ERROR(wait(state->worker->spin()));
    for (Part &part : parts)
      if (!part.isSend && !part.staging.runs.contiguous())
        part.staging.runs.unpack(part.staging.memory, part.staging.copy.data());
    return Status::success();
  }

  void start(Worker &worker) override {
    // The last part may end within the loop; `keep` keeps the list of parts alive.
    std::shared_ptr<Work> keep = shared_from_this();
    for (Part &part : parts) {
      if (part.isSend)
        send(worker, part);
      else
        receive(worker, part);
    }
  }

  void cancel(Worker &worker) override {
    for (Part &part : parts)
      if (part.request)
        worker.api.ucp_request_cancel(worker.worker, part.request);
  }

private:
  void send(Worker &worker, Part &part) {
    auto endpoint = worker.endpoint(part.peer);
    if (!endpoint)
      return finishPart(worker, endpoint.status());
    ucp_request_param_t param = hostParam();
    param.cb.send = [](void *request, ucs_status_t status, void *data) {
      auto &part = *static_cast<Part *>(data);
      Worker &worker = *part.owner->state->worker;
      worker.api.ucp_request_free(request);
      part.owner->finishPart(worker, worker.peerError(status, "send", part.peer));
    };
    param.user_data = &part;
    uint64_t tag = makeTag(state->number, worker.rank(), epoch, part.tag);
    settle(worker,
           worker.api.ucp_tag_send_nbx(*endpoint, part.staging.data(), part.staging.bytes(), tag,
                                       &param),
           part);
  }

  void settle(Worker &worker, ucs_status_ptr_t request, const Part &part) {
    worker.settle(*this, request, "send", part.peer);
  }

  void receive(Worker &worker, Part &part) {
    // UCX 1.13 reports the length of a message that had already arrived only to the callback. The
    // callback may run before the call returns; `part` may then be in use for the next run.
    bool ended = false;
    part.ended = &ended;
    ucp_request_param_t param = hostParam();
    param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    param.cb.recv = [](void *request, ucs_status_t status, const ucp_tag_recv_info_t *info,
                       void *data) {
      auto &part = *static_cast<Part *>(data);
      part.request = nullptr;
      if (part.ended)
        *part.ended = true;
      part.ended = nullptr;
      Worker &worker = *part.owner->state->worker;
      worker.api.ucp_request_free(request);
      part.owner->received(worker, part, status, status == UCS_OK ? info->length : 0);
    };
    param.user_data = &part;
    uint64_t tag = makeTag(state->number, part.peer, epoch, part.tag);
    ucs_status_ptr_t request = worker.api.ucp_tag_recv_nbx(
        worker.worker, part.staging.data(), part.staging.bytes(), tag, ~uint64_t(0), &param);
    if (ended)
      return;
    part.ended = nullptr;
    if (UCS_PTR_IS_PTR(request))
      part.request = request;
    else
      received(worker, part, UCS_PTR_STATUS(request), 0);
  }

  void received(Worker &worker, const Part &part, ucs_status_t status, uint64_t length) {
    Status result = worker.peerError(status, "receive", part.peer);
    // UCS_OK means the message was not longer. A shorter message is an error too.
    if (status == UCS_ERR_MESSAGE_TRUNCATED || (result.ok() && length != part.staging.bytes()))
      result = Status(Code::InvalidProgram,
                      fmt::format("{}: expected {} bytes from rank {} (tag {}), found {}",
                                  state->where(), part.staging.bytes(), part.peer, part.tag,
                                  status == UCS_OK ? std::to_string(length) : std::string("more")));
    finishPart(worker, result);
  }

  std::shared_ptr<ChannelState> state;
  std::vector<Part> parts;
  uint64_t epoch = 0;
};

class PutWork : public Work {
public:
  PutWork(std::shared_ptr<ChannelState> state, const Put &put)
      : state(std::move(state)), put(put), staging(put.src.layout), target(put.dst),
        member(this->state->members[put.peer]) {}

  Status run(const Frame &frame) {
    if (staging.bytes() == 0)
      return Status::success();
    staging.memory = put.src.resolve(frame).data;
    if (!staging.runs.contiguous())
      staging.runs.pack(staging.copy.data(), staging.memory);
    base = member.base + frame.half * member.halfBytes + put.offset;
    arm(1);
    state->worker->submit(shared_from_this());
    return wait(state->worker->spin());
  }

  void start(Worker &worker) override {
    std::shared_ptr<Work> keep = shared_from_this();
    if (worker.hasLeft(member.rank))
      return finishPart(worker, Status::success());
    auto endpoint = worker.endpoint(member.rank);
    if (!endpoint)
      return finishPart(worker, endpoint.status());
    ucp_request_param_t param = hostParam();
    param.cb.send = [](void *request, ucs_status_t status, void *data) {
      auto &self = *static_cast<PutWork *>(data);
      Worker &worker = *self.state->worker;
      worker.api.ucp_request_free(request);
      if (worker.hasLeft(self.member.rank))
        status = UCS_OK;
      self.finishPart(worker, worker.peerError(status, "put", self.member.rank));
    };
    param.user_data = this;
    uint64_t count = target.bytes() / target.runBytes();
    arm(static_cast<uint32_t>(count));
    auto *packed = static_cast<const std::byte *>(staging.data());
    target.forEach([&](uint64_t remote, uint64_t local) {
      worker.settle(*this,
                    worker.api.ucp_put_nbx(*endpoint, packed + local, target.runBytes(),
                                           base + remote, member.key, &param),
                    "put", member.rank);
    });
  }

private:
  std::shared_ptr<ChannelState> state;
  Put put;
  Staging staging;
  Runs target;
  const Member &member;
  uint64_t base = 0;
};

class SignalWork : public Work {
public:
  SignalWork(std::shared_ptr<ChannelState> state, const tandem::Signal &signal)
      : state(std::move(state)), signal(signal) {}

  Status run(const Frame &frame) {
    value = frame.epoch * signal.perRun + signal.value;
    arm(1);
    state->worker->submit(shared_from_this());
    return wait(state->worker->spin());
  }

  void start(Worker &worker) override {
    Control control;
    control.kind = Control::Signal;
    control.channel = state->number;
    control.slot = signal.slot;
    control.value = value;
    worker.sendControl(*this, state->members[signal.peer].rank, control);
  }

private:
  std::shared_ptr<ChannelState> state;
  tandem::Signal signal;
  uint64_t value = 0;
};

/// An operation whose work runs on the progress thread.
template <typename W> class WorkOperation : public HostOperation {
public:
  explicit WorkOperation(std::shared_ptr<W> work) : work(std::move(work)) {}
  Status execute(const Frame &frame) override { return work->run(frame); }

private:
  std::shared_ptr<W> work;
};

template <typename W> std::unique_ptr<Operation> wrap(std::shared_ptr<W> work) {
  return std::make_unique<WorkOperation<W>>(std::move(work));
}

class WaitSignalOperation : public HostOperation {
public:
  WaitSignalOperation(std::shared_ptr<ChannelState> state, const WaitSignal &wait)
      : state(std::move(state)), wait(wait) {}
  Status execute(const Frame &frame) override {
    return state->waitForSignal(wait.slot, frame.epoch * wait.perRun + wait.value);
  }

private:
  std::shared_ptr<ChannelState> state;
  WaitSignal wait;
};

} // namespace

Expected<std::unique_ptr<Operation>>
UcxChannel::prepareGroup(const std::vector<Message> &messages) {
  for (const Message &message : messages)
    TANDEM_RETURN_IF_ERROR(checkPeer(message.isSend ? "send" : "recv", message.peer));
  return wrap(std::make_shared<GroupWork>(state, messages));
}

Expected<std::unique_ptr<Operation>> UcxChannel::preparePut(const Put &put) {
  TANDEM_RETURN_IF_ERROR(checkPeer("put", put.peer));
  const Member &member = state->members[put.peer];
  uint64_t span = put.dst.spanBytes();
  if (!put.dst.sameShape(put.src.layout) || put.dst.dtype != put.src.layout.dtype)
    return Status(Code::InvalidProgram, fmt::format("{}, put: {} does not fit {}", state->where(),
                                                    put.src.layout.str(), put.dst.str()));
  if (!member.base || span > member.halfBytes || put.offset > member.halfBytes - span)
    return Status(
        Code::InvalidProgram,
        fmt::format("{}, put: bytes {} to {} are outside the {} bytes of symmetric memory "
                    "of rank {}",
                    state->where(), put.offset, put.offset + span, member.halfBytes, member.rank));
  return wrap(std::make_shared<PutWork>(state, put));
}

Expected<std::unique_ptr<Operation>> UcxChannel::prepareSignal(const tandem::Signal &signal) {
  TANDEM_RETURN_IF_ERROR(checkPeer("signal", signal.peer));
  const Member &member = state->members[signal.peer];
  if (signal.slot >= member.numSignals)
    return Status(Code::InvalidProgram,
                  fmt::format("{}, signal: slot {} is not below the {} of rank {}", state->where(),
                              signal.slot, member.numSignals, member.rank));
  return wrap(std::make_shared<SignalWork>(state, signal));
}

Expected<std::unique_ptr<Operation>> UcxChannel::prepareWaitSignal(const WaitSignal &wait) {
  if (wait.slot >= state->symmetric.numSignals)
    return Status(Code::InvalidProgram,
                  fmt::format("{}, wait_signal: slot {} is not below {}", state->where(), wait.slot,
                              state->symmetric.numSignals));
  return std::make_unique<WaitSignalOperation>(state, wait);
}
