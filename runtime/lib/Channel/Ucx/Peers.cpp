//===- Peers.cpp - endpoints, control messages, dead peers ------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Worker.h"

#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

using namespace tandem;
using namespace tandem::ucx;

namespace {

std::string linkTarget(const char *path) {
  char buffer[256];
  ssize_t n = ::readlink(path, buffer, sizeof(buffer));
  return n > 0 ? std::string(buffer, static_cast<size_t>(n)) : std::string();
}

/// A control message in flight.
struct Outgoing {
  Worker *worker;
  std::shared_ptr<Work> owner;
  ucp_ep_h endpoint;
  uint32_t rank;
  Control control;
  std::string text;
};

void outgoingSent(void *request, ucs_status_t status, void *data) {
  auto *out = static_cast<Outgoing *>(data);
  if (request)
    out->worker->api.ucp_request_free(request);
  // The owner keeps `out` alive until it is reused.
  std::shared_ptr<Work> owner = std::move(out->owner);
  if (out->worker->hasLeft(out->rank)) // meanwhile: it needs no more
    status = UCS_OK;
  owner->finishPart(*out->worker, out->worker->peerError(status, "signal", out->rank));
}

void outgoingFlushed(void *request, ucs_status_t status, void *data) {
  auto *out = static_cast<Outgoing *>(data);
  const Api &api = out->worker->api;
  if (status != UCS_OK)
    return outgoingSent(request, status, data);
  if (request)
    api.ucp_request_free(request);
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.cb.send = outgoingSent;
  param.user_data = out;
  ucs_status_ptr_t sent = api.ucp_am_send_nbx(out->endpoint, 0, &out->control, sizeof(Control),
                                              out->text.data(), out->text.size(), &param);
  if (!UCS_PTR_IS_PTR(sent))
    outgoingSent(nullptr, UCS_PTR_STATUS(sent), data);
}

} // namespace

PeerAddress PeerAddress::ofThisProcess(bool networkOnly) {
  PeerAddress self;
  self.pid = ::getpid();
  if (networkOnly)
    return self;
  // Equal for processes of one boot that share process ids, System V segments and /dev/shm.
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat shm{};
  ::stat("/dev/shm", &shm);
  if (!boot.empty())
    self.host = fmt::format("{} {} {} {}", boot, linkTarget("/proc/self/ns/pid"),
                            linkTarget("/proc/self/ns/ipc"), shm.st_dev);
  return self;
}

Expected<PeerAddress> PeerAddress::decode(std::string_view bytes) {
  PeerAddress result;
  if (!core::decode(bytes, result.fields()))
    return Status(Code::Internal, "channel ucx: malformed address of a peer");
  return result;
}

Status Worker::peerError(ucs_status_t status, const char *what, uint32_t peer) {
  if (status == UCS_OK)
    return Status::success();
  // A cancelled operation ended because the worker failed: report that reason.
  Status why = health();
  if (!why.ok())
    return why;
  return Status(Code::Io, fmt::format("rank {}: {}, rank {}: {}", worldRank, what, peer,
                                      api.ucs_status_string(status)));
}

bool Worker::settle(Work &owner, ucs_status_ptr_t request, const char *what, uint32_t peer) {
  if (UCS_PTR_IS_PTR(request))
    return false;
  owner.finishPart(*this, peerError(UCS_PTR_STATUS(request), what, peer));
  return true;
}

Expected<ucp_ep_h> Worker::endpoint(uint32_t rank) {
  Peer &peer = *peers[rank];
  if (peer.endpoint)
    return peer.endpoint;
  // UCX 1.13 cannot use shared memory together with its detection of dead peers. So pidfds detect
  // them on one host, and UCX between hosts.
  bool sameHost = isNear(rank);
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t *>(peer.address.worker.data());
  params.err_mode = sameHost ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = [](void *arg, ucp_ep_h, ucs_status_t status) {
    auto *peer = static_cast<Peer *>(arg);
    peer->owner->peerFailed(*peer, peer->owner->api.ucs_status_string(status));
  };
  params.err_handler.arg = &peer;
  ucs_status_t made = api.ucp_ep_create(worker, &params, &peer.endpoint);
  if (made != UCS_OK) {
    peer.endpoint = nullptr;
    return peerError(made, "connect", rank);
  }
  if (sameHost && peer.address.pid != self.pid)
    watchProcess(peer);
  return peer.endpoint;
}

void Worker::watchProcess(Peer &peer) {
#ifdef SYS_pidfd_open
  // Before Linux 5.3 there is no pidfd; then the watchdog ends the run.
  peer.process = static_cast<int>(::syscall(SYS_pidfd_open, peer.address.pid, 0));
  if (peer.process < 0) {
    if (errno == ESRCH)
      peerFailed(peer, "its process has ended");
    return;
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = &peer;
  ::epoll_ctl(epoll, EPOLL_CTL_ADD, peer.process, &event);
#endif
}

void Worker::processEnded(Peer &peer) {
  ::epoll_ctl(epoll, EPOLL_CTL_DEL, peer.process, nullptr);
  // Its last messages may still be in our queue.
  if (!gaveUp)
    while (api.ucp_worker_progress(worker)) {
    }
  peerFailed(peer, "its process has ended");
}

void Worker::noteAnswer(Peer &peer) {
  if (std::exchange(peer.answers, false))
    goodbye->finishPart(*this, Status::success());
}

void Worker::peerFailed(Peer &peer, const std::string &why) {
  noteAnswer(peer);
  if (peer.left || leaving || gaveUp)
    return;
  peer.left = true;
  fail(Status(Code::Aborted, fmt::format("rank {}: lost rank {}: {}", worldRank, peer.rank, why)),
       true);
}

void Worker::sendControl(Work &owner, uint32_t rank, const Control &control, std::string text) {
  if (hasLeft(rank))
    return owner.finishPart(*this, Status::success());
  auto ep = endpoint(rank);
  if (!ep)
    return owner.finishPart(*this, ep.status());
  auto out = std::make_shared<Outgoing>(
      Outgoing{this, owner.shared_from_this(), *ep, rank, control, std::move(text)});
  out->control.source = worldRank;
  owner.keep(out);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = outgoingFlushed;
  param.user_data = out.get();
  ucs_status_ptr_t flushed = api.ucp_ep_flush_nbx(*ep, &param);
  if (!UCS_PTR_IS_PTR(flushed))
    outgoingFlushed(nullptr, UCS_PTR_STATUS(flushed), out.get());
}

void Worker::receiveControl(const void *header, size_t headerBytes, const void *data,
                            size_t bytes) {
  Control control;
  if (headerBytes != sizeof(control))
    return;
  std::memcpy(&control, header, sizeof(control));
  noteProgress();
  switch (control.type) {
  case Control::Signal:
  case Control::Hello:
    // No run of a closed channel is left to wait for it.
    if (auto sink = sinks.find(control.channel); sink != sinks.end())
      sink->second->receive(control);
    break;
  case Control::Leave:
    if (control.source < peers.size()) {
      Peer &peer = *peers[control.source];
      submit(std::make_shared<Task>([&peer](Worker &worker, Task &self) {
        Control answer;
        answer.type = Control::Answer;
        worker.sendControl(self, peer.rank, answer);
        peer.left = true;
        worker.noteAnswer(peer);
      }));
    }
    break;
  case Control::Answer:
    if (control.source < peers.size())
      noteAnswer(*peers[control.source]);
    break;
  case Control::Abort:
    fail(Status(Code::Aborted,
                fmt::format("rank {}: rank {} ended the run: {}", worldRank, control.source,
                            std::string_view(static_cast<const char *>(data), bytes))),
         false);
    break;
  }
}

bool Worker::addSink(uint32_t channel, ControlSink *sink) {
  return sinks.emplace(channel, sink).second;
}

void Worker::removeSink(uint32_t channel, ControlSink *sink) {
  if (auto found = sinks.find(channel); found != sinks.end() && found->second == sink)
    sinks.erase(found);
}
