//===- Interfaces.cpp - default methods of the interfaces -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Runtime/Channel.h"
#include "tandem/Runtime/Context.h"

#include <cstring>
#include <fmt/format.h>

namespace tandem {

PeerStores::~PeerStores() = default;
ErrorSink::~ErrorSink() = default;
Operation::~Operation() = default;
Graph::~Graph() = default;
Event::~Event() = default;
Stream::~Stream() = default;
Memory::~Memory() {
  if (release)
    release(base);
}
Device::~Device() = default;
Bootstrap::~Bootstrap() = default;
Channel::~Channel() = default;
Transport::~Transport() = default;
Context::~Context() = default;
Instance::~Instance() = default;
void InstanceDeleter::operator()(Instance *instance) const { instance->retire(); }

Status Device::upload(void *dst, const void *src, uint64_t bytes) {
  if (bytes)
    std::memcpy(dst, src, bytes);
  return Status();
}
Status Device::download(void *dst, const void *src, uint64_t bytes) {
  return upload(dst, src, bytes);
}
Expected<std::unique_ptr<Operation>> Device::prepareEpilogue(const MatmulDesc &,
                                                             const EpilogueDesc &) {
  return Status(Code::Unsupported, fmt::format("device {} has no matmuls with epilogues", name()));
}
Expected<std::unique_ptr<Operation>> Device::prepareGatedMatmul(const GatedMatmulDesc &) {
  return Status(Code::Unsupported, fmt::format("device {} has no gated matmul", name()));
}
Expected<std::unique_ptr<Operation>> Device::prepareCall(const CallDesc &) {
  return Status(Code::Unsupported, "this device runs no kernels of the embedder");
}
Status Device::agree(Bootstrap &) { return Status(); }
Expected<std::unique_ptr<Graph>> Device::capture(const std::vector<Stream *> &,
                                                 std::unique_ptr<Graph>,
                                                 const std::function<Status()> &) {
  return Status(Code::Unsupported, "this device has no graphs");
}

Status Device::captureInto(Stream &, const std::vector<Stream *> &, const CapturedParts &) {
  return Status(Code::Unsupported, "this device has no graphs");
}

Expected<std::unique_ptr<Stream>> Device::wrapStream(void *) {
  return Status(Code::Unsupported,
                fmt::format("device {} has no streams of the caller: expected a GPU", name()));
}

Status HostOperation::enqueue(Stream &stream, const Frame &frame) {
  return stream.enqueueHost(*this, frame);
}

Status checkTarget(const Put &put, uint64_t bufferBytes, uint32_t rank) {
  uint64_t span = put.dst.spanBytes();
  if (put.offset <= bufferBytes && span <= bufferBytes - put.offset)
    return Status();
  return Status(Code::InvalidProgram,
                fmt::format("{} bytes at {} do not lie inside the {} symmetric bytes of rank {}",
                            span, put.offset, bufferBytes, rank));
}

Status checkSlot(uint32_t slot, uint32_t numSignals, uint32_t rank) {
  return slot < numSignals
             ? Status()
             : Status(Code::InvalidProgram,
                      fmt::format("signal slot {} of the {} of rank {}", slot, numSignals, rank));
}

Status Channel::compare(const std::vector<std::string> &, Marker &) { return Status(); }

static Status lacks(const char *what) {
  return Status(Code::Unsupported, std::string("this channel cannot do ") + what);
}

Expected<std::unique_ptr<Operation>> Channel::prepareGroup(const std::vector<Message> &) {
  return lacks("send and receive");
}
Expected<std::unique_ptr<Operation>> Channel::preparePut(const Put &) { return lacks("put"); }
Expected<std::unique_ptr<Operation>> Channel::prepareSignal(const Signal &) {
  return lacks("signal");
}
Expected<std::unique_ptr<Operation>> Channel::prepareWaitSignal(const WaitSignal &) {
  return lacks("wait_signal");
}
Expected<std::unique_ptr<Operation>> Channel::prepareExchange(const FusedExchange &) {
  return lacks("a fused exchange");
}
Expected<std::unique_ptr<Operation>> Channel::prepareCollective(const Collective &) {
  return lacks("collectives");
}

} // namespace tandem
