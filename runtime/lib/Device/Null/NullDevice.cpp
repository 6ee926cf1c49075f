//===- NullDevice.cpp - a device that does nothing ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Runtime/Device.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace tandem {

namespace {

class NullEvent final : public Event {
public:
  bool reached() override { return true; }
  Status synchronize() override { return Status(); }
};

/// Everything enqueued is done at once.
class NullStream final : public Stream {
public:
  explicit NullStream(const std::atomic<bool> &aborted) : aborted(aborted) {}
  Status enqueueHost(HostOperation &, const Frame &) override { return check(); }
  Status record(Event &, Marker) override { return check(); }
  Status wait(Event &, Marker) override { return check(); }
  Status synchronize() override { return check(); }
  bool idle() override { return true; }
  Marker position() const override { return kNoMarker; }

private:
  Status check() const {
    return aborted.load(std::memory_order_relaxed) ? Status(Code::Aborted, "the device was aborted")
                                                   : Status();
  }
  const std::atomic<bool> &aborted;
};

std::unique_ptr<Operation> doNothing() {
  return makeHostOperation([](const Frame &) { return Status(); });
}

class NullDevice final : public Device {
public:
  std::string_view name() const override { return "null"; }
  bool hostMemory() const override { return true; }
  Expected<std::unique_ptr<Stream>> createStream(StreamPriority) override {
    return std::make_unique<NullStream>(aborted);
  }
  Expected<std::unique_ptr<Event>> createEvent() override { return std::make_unique<NullEvent>(); }
  Expected<std::unique_ptr<Memory>> allocate(uint64_t bytes, MemoryKind) override {
    void *memory = std::calloc(bytes / 64 + 1, 64);
    if (!memory)
      return Status(Code::OutOfMemory, "cannot allocate " + std::to_string(bytes) + " bytes");
    return std::make_unique<Memory>(memory, bytes, std::free);
  }
  Expected<std::unique_ptr<Operation>> prepareCopy(const Operand &, const Operand &) override {
    return doNothing();
  }
  Expected<std::unique_ptr<Operation>> prepareMatmul(const MatmulDesc &) override {
    return doNothing();
  }
  Expected<std::unique_ptr<Operation>> prepareAccumulate(const Operand &, const Operand &,
                                                         ReduceOp) override {
    return doNothing();
  }
  Expected<std::unique_ptr<Operation>> prepareReduce(const Operand &, const Operand &, uint64_t,
                                                     ReduceOp, bool) override {
    return doNothing();
  }
  Expected<std::unique_ptr<Operation>> prepareCall(const CallDesc &) override {
    return doNothing();
  }
  Expected<std::unique_ptr<Operation>> prepareLaunch(const LaunchDesc &) override {
    return doNothing();
  }
  void abort(const Status &) override { aborted = true; }

private:
  std::atomic<bool> aborted{false};
};

} // namespace

std::unique_ptr<Device> createNullDevice() { return std::make_unique<NullDevice>(); }

} // namespace tandem
