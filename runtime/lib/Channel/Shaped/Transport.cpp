//===- Transport.cpp - channels with the delays of a link -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Who sends waits, so the receiver needs to know nothing of the delay:
//
// - A group is posted when its sends have passed the port.
// - A put moves its bytes at once, and ends when they would have passed the port. A later signal of
//   its stream tells the peer of them.
// - A signal is a message without bytes.
// - A collective takes the steps and bytes of the simulator's model, after all have arrived.
//
//===----------------------------------------------------------------------===//

#include "LinkImpl.h"
#include "tandem/Program/CollectiveRoute.h"

#include <algorithm>
#include <fmt/format.h>

using namespace tandem;

namespace {

/// What the operations of a channel share.
struct Shared {
  std::shared_ptr<Link> link;
  Status aborted; ///< guarded by the link's mutex
};

using Inner = std::unique_ptr<HostOperation>;

Expected<Inner> hostOperation(Expected<std::unique_ptr<Operation>> made) {
  if (!made)
    return made.status();
  Operation *operation = made->release();
  if (auto *host = dynamic_cast<HostOperation *>(operation))
    return Inner(host);
  delete operation;
  return Status(Code::Unsupported, "a shaped link needs a channel for host memory");
}

/// Sends so many bytes each, and then does the rest.
std::unique_ptr<Operation> afterSends(std::shared_ptr<Shared> shared, Inner inner,
                                      std::vector<double> sends) {
  std::vector<shaped::Port::Transfer> transfers(sends.size());
  return makeHostOperation([shared = std::move(shared), inner = std::move(inner),
                            sends = std::move(sends),
                            transfers = std::move(transfers)](const Frame &frame) mutable {
    for (size_t i = 0; i < sends.size(); ++i)
      transfers[i] = shared->link->post(sends[i]);
    for (shaped::Port::Transfer transfer : transfers)
      TANDEM_RETURN_IF_ERROR(shared->link->await(transfer, shared->aborted));
    return inner->execute(frame);
  });
}

class ShapedChannel final : public Channel {
public:
  ShapedChannel(std::unique_ptr<Channel> inner, std::shared_ptr<Link> link, const ChannelDesc &desc)
      : inner(std::move(inner)), shared(std::make_shared<Shared>()), self(desc.self),
        members(desc.group.size()) {
    shared->link = std::move(link);
  }

  Expected<std::unique_ptr<Operation>> prepareGroup(const std::vector<Message> &messages) override {
    std::vector<double> sends;
    for (const Message &message : messages)
      if (message.isSend && message.peer != self)
        sends.push_back(static_cast<double>(message.buffer.layout.numBytes()));
    TANDEM_ASSIGN_OR_RETURN(Inner group, hostOperation(inner->prepareGroup(messages)));
    return afterSends(shared, std::move(group), std::move(sends));
  }

  Expected<std::unique_ptr<Operation>> preparePut(const Put &put) override {
    if (put.peer == self)
      return inner->preparePut(put);
    TANDEM_ASSIGN_OR_RETURN(Inner operation, hostOperation(inner->preparePut(put)));
    return makeHostOperation(
        [shared = shared, operation = std::move(operation),
         bytes = static_cast<double>(put.src.layout.numBytes())](const Frame &frame) -> Status {
          shaped::Port::Transfer transfer = shared->link->post(bytes);
          TANDEM_RETURN_IF_ERROR(operation->execute(frame));
          return shared->link->await(transfer, shared->aborted);
        });
  }

  Expected<std::unique_ptr<Operation>> prepareSignal(const Signal &signal) override {
    if (signal.peer == self)
      return inner->prepareSignal(signal);
    TANDEM_ASSIGN_OR_RETURN(Inner operation, hostOperation(inner->prepareSignal(signal)));
    return afterSends(shared, std::move(operation), {0});
  }

  Expected<std::unique_ptr<Operation>> prepareWaitSignal(const WaitSignal &wait) override {
    return inner->prepareWaitSignal(wait);
  }

  Expected<std::unique_ptr<Operation>> prepareCollective(const Collective &collective) override {
    TANDEM_ASSIGN_OR_RETURN(Inner operation, hostOperation(inner->prepareCollective(collective)));
    auto g = static_cast<double>(members);
    if (members < 2)
      return std::unique_ptr<Operation>(std::move(operation));
    auto out = static_cast<double>(collective.out.layout.numBytes());
    auto in = static_cast<double>(collective.in.layout.numBytes());
    double slice = out > 0 && in > 0 ? std::min(out, in) : std::max(out, in);
    if (collective.kind == CollectiveKind::AllToAll)
      slice /= g;
    auto route = program::collectiveRoute(collective.kind, g, slice);
    const LinkShape &shape = shared->link->shape;
    auto seconds = [&](double steps, double bytes) {
      return steps * shape.latency + bytes / shape.bytesPerSecond;
    };
    bool tree = route.treeSteps >= 0 && seconds(route.treeSteps, route.treeBytes) <
                                            seconds(route.ringSteps, route.ringBytes);
    return makeHostOperation(
        [shared = shared, operation = std::move(operation),
         steps = tree ? route.treeSteps : route.ringSteps,
         bytes = tree ? route.treeBytes : route.ringBytes](const Frame &frame) -> Status {
          TANDEM_RETURN_IF_ERROR(operation->execute(frame));
          return shared->link->await(shared->link->post(bytes, steps), shared->aborted);
        });
  }

  uint64_t progress() const override { return inner->progress(); }
  const uint64_t *signalWords() const override { return inner->signalWords(); }
  std::string prepared() override { return inner->prepared(); }
  Status compare(const std::vector<std::string> &summaries, Marker &culprit) override {
    return inner->compare(summaries, culprit);
  }
  void abort(const Status &reason) override {
    shared->link->abort(shared->aborted, reason);
    inner->abort(reason);
  }

private:
  std::unique_ptr<Channel> inner;
  std::shared_ptr<Shared> shared;
  uint32_t self;
  size_t members;
};

class ShapedTransport final : public Transport {
public:
  ShapedTransport(std::unique_ptr<Transport> inner, std::shared_ptr<Link> link)
      : inner(std::move(inner)), link(std::move(link)) {}

  std::string_view name() const override { return inner->name(); }
  std::string description() const override {
    return fmt::format("{} (link of {:g} GB/s, {:g} us)", inner->description(),
                       link->shape.bytesPerSecond * 1e-9, link->shape.latency * 1e6);
  }
  uint32_t capabilities() const override { return inner->capabilities(); }
  Reach reach() const override { return inner->reach(); }
  Status open(Device &device) override { return inner->open(device); }
  bool moves(const Device &device) const override { return inner->moves(device); }
  bool movesDense(const Device &device) const override { return inner->movesDense(device); }

  Expected<std::unique_ptr<Channel>> createChannel(const ChannelDesc &desc, Device &device,
                                                   Bootstrap &bootstrap) override {
    TANDEM_ASSIGN_OR_RETURN(auto channel, inner->createChannel(desc, device, bootstrap));
    if (!channel)
      return std::unique_ptr<Channel>();
    return std::make_unique<ShapedChannel>(std::move(channel), link, desc);
  }
  Status checkRun() const override { return inner->checkRun(); }
  uint64_t progress() const override { return inner->progress(); }

private:
  std::unique_ptr<Transport> inner;
  std::shared_ptr<Link> link;
};

} // namespace

std::unique_ptr<Transport> tandem::shapeTransport(std::unique_ptr<Transport> inner,
                                                  std::shared_ptr<Link> link) {
  return std::make_unique<ShapedTransport>(std::move(inner), std::move(link));
}
