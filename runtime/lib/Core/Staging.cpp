//===- Staging.cpp - device memory over channels of host memory ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Runtime/Channel.h"

#include <fmt/format.h>

namespace tandem {

namespace {

/// The device as the inner transport sees it: only a name.
class HostFacade final : public Device {
public:
  explicit HostFacade(Device &device) : device(device) {}
  std::string_view name() const override { return device.name(); }
  bool hostMemory() const override { return true; }
  Expected<std::unique_ptr<Stream>> createStream(StreamPriority priority) override {
    return device.createStream(priority);
  }
  Expected<std::unique_ptr<Event>> createEvent() override { return device.createEvent(); }
  Expected<std::unique_ptr<Memory>> allocate(uint64_t bytes, MemoryKind) override {
    return device.allocate(bytes, MemoryKind::Host);
  }
  Expected<std::unique_ptr<Operation>> prepareCopy(const Operand &, const Operand &) override {
    return no();
  }
  Expected<std::unique_ptr<Operation>> prepareMatmul(const MatmulDesc &) override { return no(); }
  Expected<std::unique_ptr<Operation>> prepareAccumulate(const Operand &, const Operand &,
                                                         ReduceOp) override {
    return no();
  }
  Expected<std::unique_ptr<Operation>> prepareReduce(const Operand &, const Operand &, uint64_t,
                                                     ReduceOp, bool) override {
    return no();
  }
  Expected<std::unique_ptr<Operation>> prepareLaunch(const LaunchDesc &) override { return no(); }
  void abort(const Status &reason) override { device.abort(reason); }

private:
  static Status no() { return Status(Code::Internal, "a staged channel computes nothing"); }
  Device &device;
};

/// Operands of one operation and their copies, which the inner operation sees: in host memory, or,
/// if `isNear`, in the device's memory, of operands with gaps only.
class Stage {
public:
  Stage(Device &device, bool isNear) : device(device), isNear(isNear) {}

  /// The copy of `operand`, dense; loaded before the operation, stored after it, or both.
  Expected<Operand> add(const Operand &operand, bool load, bool store) {
    auto slot = static_cast<uint32_t>(sources.size() * 2);
    Operand near = operand, far;
    near.slot = slot;
    far.slot = slot + 1;
    far.layout =
        Layout::dense(operand.layout.dtype, operand.layout.shape.data(), operand.layout.rank);
    sources.push_back(operand.slot);
    if (isNear && operand.layout.isDense()) {
      copies.push_back(nullptr);
      return near;
    }
    TANDEM_ASSIGN_OR_RETURN(
        auto memory,
        device.allocate(far.layout.numBytes(), isNear ? MemoryKind::Plain : MemoryKind::Host));
    copies.push_back(std::move(memory));
    if (far.layout.numElements() == 0)
      return far;
    if (load) {
      TANDEM_ASSIGN_OR_RETURN(auto copy, device.prepareCopy(far, near));
      loads.push_back(std::move(copy));
    }
    if (store) {
      TANDEM_ASSIGN_OR_RETURN(auto copy, device.prepareCopy(near, far));
      stores.push_back(std::move(copy));
    }
    return far;
  }

  Device &device;
  bool isNear;
  std::vector<uint32_t> sources;               ///< the program's slots
  std::vector<std::unique_ptr<Memory>> copies; ///< null: none is needed
  std::vector<std::unique_ptr<Operation>> loads, stores;
};

class StagedOperation final : public Operation {
public:
  StagedOperation(Stage stage, std::unique_ptr<Operation> inner)
      : stage(std::move(stage)), inner(std::move(inner)) {}

  Status enqueue(Stream &stream, const Frame &frame) override {
    // Two runs may be in flight, and each reads its own frame. Both may use the same buffer, if
    // another instance shares the symmetric memory.
    Frame &mine = frames[frame.epoch % 2];
    std::vector<void *> &at = pointers[frame.epoch % 2];
    at.resize(stage.sources.size() * 2);
    for (size_t i = 0; i < stage.sources.size(); ++i) {
      at[2 * i] = frame.pointers[stage.sources[i]];
      at[2 * i + 1] = stage.copies[i] ? stage.copies[i]->data() : nullptr;
    }
    mine = frame;
    mine.pointers = at.data();
    for (const auto &load : stage.loads) {
      load->marker = marker;
      TANDEM_RETURN_IF_ERROR(load->enqueue(stream, mine));
    }
    inner->marker = marker;
    TANDEM_RETURN_IF_ERROR(inner->enqueue(stream, mine));
    for (const auto &store : stage.stores) {
      store->marker = marker;
      TANDEM_RETURN_IF_ERROR(store->enqueue(stream, mine));
    }
    return Status();
  }

  std::string whyNoGraph() const override { return inner->whyNoGraph(); }

private:
  Stage stage;
  std::unique_ptr<Operation> inner;
  Frame frames[2];
  std::vector<void *> pointers[2];
};

class StagedChannel final : public Channel {
public:
  StagedChannel(Device &device, bool isNear, std::unique_ptr<Channel> inner)
      : device(device), isNear(isNear), inner(std::move(inner)) {}

  Expected<std::unique_ptr<Operation>> prepareGroup(const std::vector<Message> &messages) override {
    Stage stage(device, isNear);
    std::vector<Message> staged = messages;
    for (Message &message : staged) {
      TANDEM_ASSIGN_OR_RETURN(message.buffer,
                              stage.add(message.buffer, message.isSend, !message.isSend));
    }
    TANDEM_ASSIGN_OR_RETURN(auto operation, inner->prepareGroup(staged));
    return std::make_unique<StagedOperation>(std::move(stage), std::move(operation));
  }

  Expected<std::unique_ptr<Operation>> prepareCollective(const Collective &collective) override {
    Stage stage(device, isNear);
    Collective staged = collective;
    if (collective.in.present()) {
      TANDEM_ASSIGN_OR_RETURN(staged.in, stage.add(collective.in, true, false));
    }
    if (collective.out.present()) {
      TANDEM_ASSIGN_OR_RETURN(staged.out, stage.add(collective.out, false, true));
    }
    TANDEM_ASSIGN_OR_RETURN(auto operation, inner->prepareCollective(staged));
    return std::make_unique<StagedOperation>(std::move(stage), std::move(operation));
  }

  uint64_t progress() const override { return inner->progress(); }
  std::string prepared() override { return inner->prepared(); }
  Status compare(const std::vector<std::string> &members, Marker &culprit) override {
    return inner->compare(members, culprit);
  }
  void abort(const Status &reason) override { inner->abort(reason); }

private:
  Device &device;
  bool isNear;
  std::unique_ptr<Channel> inner;
};

class StagedTransport final : public Transport {
public:
  explicit StagedTransport(std::unique_ptr<Transport> inner) : inner(std::move(inner)) {}

  std::string_view name() const override { return inner->name(); }
  uint32_t capabilities() const override {
    return inner->capabilities() & ~static_cast<uint32_t>(OneSided);
  }
  Status open(Device &device) override { return inner->open(device); }
  bool moves(const Device &) const override { return true; }
  bool copiesGaps(const Device &device) const override { return inner->movesDense(device); }

  Expected<std::unique_ptr<Channel>> createChannel(const ChannelDesc &desc, Device &device,
                                                   Bootstrap &bootstrap) override {
    bool isNear = inner->movesDense(device);
    if (!facade) {
      facade = std::make_unique<HostFacade>(device);
      if (bootstrap.rank() == 0 && !isNear)
        device.log(
            LogLevel::Warning,
            fmt::format("channel {} moves host memory: data of device {} is copied through it",
                        inner->name(), device.name()));
    }
    TANDEM_ASSIGN_OR_RETURN(auto channel,
                            inner->createChannel(desc, isNear ? device : *facade, bootstrap));
    if (!channel)
      return std::unique_ptr<Channel>();
    return std::make_unique<StagedChannel>(device, isNear, std::move(channel));
  }
  Status checkRun() const override { return inner->checkRun(); }
  uint64_t progress() const override { return inner->progress(); }

private:
  std::unique_ptr<Device> facade; ///< outlives what the inner transport keeps
  std::unique_ptr<Transport> inner;
};

} // namespace

std::unique_ptr<Transport> stageThroughHost(std::unique_ptr<Transport> inner) {
  return std::make_unique<StagedTransport>(std::move(inner));
}

} // namespace tandem
