//===- LocalWorld.cpp - bootstrap and transport of ranks as threads ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalGroup.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace tandem {

LocalWorld::~LocalWorld() = default;

std::shared_ptr<LocalWorld> LocalWorld::create(uint32_t worldSize,
                                               std::chrono::milliseconds timeout) {
  return std::make_shared<local::WorldImpl>(worldSize, timeout);
}

namespace local {

namespace {

class LocalBootstrap final : public Bootstrap {
public:
  LocalBootstrap(std::shared_ptr<WorldImpl> world, uint32_t rank, uint32_t number)
      : world(std::move(world)), self(rank), number(number) {}
  ~LocalBootstrap() override { world->leave(self, number); }
  uint32_t rank() const override { return self; }
  uint32_t worldSize() const override { return world->size; }
  Status allGather(const void *mine, size_t bytes, void *all) override {
    return world->allGather(self, number, mine, bytes, all);
  }
  Status barrier() override { return world->allGather(self, number, nullptr, 0, nullptr); }
  Status health() override { return world->health(); }
  void giveUp(const Status &reason) override { world->giveUp(reason); }

private:
  std::shared_ptr<WorldImpl> world;
  uint32_t self, number;
};

class LocalChannel final : public Channel {
public:
  LocalChannel(GroupRef group, uint32_t self) : group(std::move(group)), self(self) {}
  ~LocalChannel() override {
    Group::Member &member = group->members[self];
    std::unique_lock<std::shared_mutex> memory(member.memory);
    {
      std::lock_guard<std::mutex> lock(group->mutex);
      member.left = true;
      group->changed.notify_all();
    }
    memory.unlock();
    std::lock_guard<std::mutex> lock(group->world->signalMutex);
    group->world->signalRaised.notify_all();
  }

  Expected<std::unique_ptr<Operation>> prepareGroup(const std::vector<Message> &messages) override {
    return prepareMessages(group, self, messages);
  }
  Expected<std::unique_ptr<Operation>> preparePut(const Put &put) override {
    return local::preparePut(group, put);
  }
  Expected<std::unique_ptr<Operation>> prepareSignal(const Signal &signal) override {
    return local::prepareSignal(group, signal);
  }
  Expected<std::unique_ptr<Operation>> prepareWaitSignal(const WaitSignal &wait) override {
    return local::prepareWaitSignal(group, self, wait);
  }
  Expected<std::unique_ptr<Operation>> prepareCollective(const Collective &collective) override {
    return local::prepareCollective(group, self, collective);
  }

  void abort(const Status &reason) override {
    {
      std::lock_guard<std::mutex> lock(group->mutex);
      if (group->aborted.ok())
        group->aborted = Status(Code::Aborted, fmt::format("ended by rank {} ({})",
                                                           group->ranks[self], reason.message()));
      group->changed.notify_all();
    }
    std::lock_guard<std::mutex> lock(group->world->signalMutex);
    group->world->signalRaised.notify_all();
  }

private:
  GroupRef group;
  uint32_t self;
};

class LocalTransport final : public Transport {
public:
  LocalTransport(std::shared_ptr<WorldImpl> world, uint32_t generation)
      : world(std::move(world)), generation(generation) {}
  std::string_view name() const override { return "local"; }
  uint32_t capabilities() const override { return TwoSided | OneSided | Collectives; }

  Expected<std::unique_ptr<Channel>> createChannel(const ChannelDesc &desc, Device &device,
                                                   Bootstrap &bootstrap) override {
    GroupRef group;
    Status mine;
    if (!device.hostMemory())
      mine = Status(Code::Unsupported, "the local channel needs host memory, device \"" +
                                           std::string(device.name()) + "\" has its own");
    if (mine.ok() && !desc.group.empty()) {
      group = world->group(generation, desc);
      group->members[desc.self].symmetric = desc.symmetric;
    }
    // After this exchange all members have joined, so every rank sees its peers' memory.
    std::string text = mine.ok() ? fmt::format("{}", desc.id) : "!" + mine.message();
    for (uint32_t rank : desc.group)
      text += fmt::format(",{}", rank);
    TANDEM_ASSIGN_OR_RETURN(std::vector<std::string> all, allGatherStrings(bootstrap, text));
    TANDEM_RETURN_IF_ERROR(mine);
    for (uint32_t rank = 0; rank < all.size(); ++rank)
      if (all[rank].substr(0, 1) == "!")
        return Status(Code::Aborted, fmt::format("rank {}: {}", rank, all[rank].substr(1)));
    for (uint32_t rank : desc.group)
      if (all[rank] != text)
        return Status(Code::InvalidProgram,
                      fmt::format("rank {} names another group for this channel", rank));
    if (desc.group.empty())
      return std::unique_ptr<Channel>();
    return std::make_unique<LocalChannel>(std::move(group), desc.self);
  }

private:
  std::shared_ptr<WorldImpl> world;
  uint32_t generation;
};

} // namespace

Status WorldImpl::checkRank(uint32_t rank) const {
  return rank < size ? Status()
                     : Status(Code::InvalidArgument,
                              fmt::format("no rank {} in a world of {}", rank, size));
}

std::unique_ptr<Bootstrap> WorldImpl::bootstrap(uint32_t rank) {
  std::lock_guard<std::mutex> lock(mutex);
  uint32_t number = bootstraps[rank]++;
  Exchange &exchange = exchanges[number];
  if (exchange.pieces.empty()) {
    exchange.pieces.resize(size);
    exchange.arrived.assign(size, 0);
    exchange.left.assign(size, 0);
  }
  return std::make_unique<LocalBootstrap>(std::static_pointer_cast<WorldImpl>(shared_from_this()),
                                          rank, number);
}

std::unique_ptr<Transport> WorldImpl::transport(uint32_t rank) {
  std::lock_guard<std::mutex> lock(mutex);
  return std::make_unique<LocalTransport>(std::static_pointer_cast<WorldImpl>(shared_from_this()),
                                          transports[rank]++);
}

Status WorldImpl::allGather(uint32_t rank, uint32_t number, const void *mine, size_t bytes,
                            void *all) {
  std::unique_lock<std::mutex> lock(mutex);
  TANDEM_RETURN_IF_ERROR(givenUp);
  Exchange &at = exchanges.at(number); // stays, as this rank has not left
  if (at.arrived[rank])
    return Status(
        Code::InvalidArgument,
        fmt::format("rank {} is in an exchange already: is it used by two threads?", rank));
  at.pieces[rank].assign(static_cast<const char *>(mine), mine ? bytes : 0);
  at.arrived[rank] = 1;
  uint64_t before = at.generation;
  if (++at.numArrived == size) {
    at.result = std::make_shared<const std::vector<std::string>>(std::move(at.pieces));
    at.pieces.assign(size, std::string());
    at.arrived.assign(size, 0);
    at.numArrived = 0;
    ++at.generation;
    changed.notify_all();
  } else {
    uint32_t missing = size;
    auto gone = [&] {
      for (uint32_t r = 0; r < size; ++r)
        if (at.left[r] && !at.arrived[r]) {
          missing = r;
          return true;
        }
      return false;
    };
    bool inTime = changed.wait_for(
        lock, timeout, [&] { return at.generation != before || !givenUp.ok() || gone(); });
    if (at.generation == before) { // it may be tried again
      at.arrived[rank] = 0;
      --at.numArrived;
      TANDEM_RETURN_IF_ERROR(givenUp);
      if (inTime)
        return Status(Code::Aborted, fmt::format("rank {} has left", missing));
      std::string who;
      for (uint32_t r = 0; r < size; ++r)
        if (r != rank && !at.arrived[r])
          who += fmt::format("{}{}", who.empty() ? "" : ", ", r);
      return Status(Code::Timeout, fmt::format("rank {}: no message from rank {} in {} ms", rank,
                                               who, timeout.count()));
    }
  }
  auto pieces = at.result; // kept until all ranks have reached the next exchange
  lock.unlock();
  for (uint32_t r = 0; r < size; ++r) {
    if ((*pieces)[r].size() != bytes)
      return Status(Code::Internal, fmt::format("all-gather: rank {} gave {} bytes, rank {} {}", r,
                                                (*pieces)[r].size(), rank, bytes));
    if (bytes)
      std::memcpy(static_cast<char *>(all) + r * bytes, (*pieces)[r].data(), bytes);
  }
  return Status();
}

Status WorldImpl::health() {
  std::lock_guard<std::mutex> lock(mutex);
  return givenUp;
}

void WorldImpl::giveUp(const Status &reason) {
  std::lock_guard<std::mutex> lock(mutex);
  if (givenUp.ok())
    givenUp = Status(Code::Aborted, reason.message());
  changed.notify_all();
}

void WorldImpl::leave(uint32_t rank, uint32_t number) {
  std::lock_guard<std::mutex> lock(mutex);
  Exchange &at = exchanges.at(number);
  at.left[rank] = 1;
  changed.notify_all();
  if (std::all_of(at.left.begin(), at.left.end(), [](char left) { return left; }))
    exchanges.erase(number);
}

GroupRef WorldImpl::group(uint32_t generation, const ChannelDesc &desc) {
  std::lock_guard<std::mutex> lock(mutex);
  std::weak_ptr<Group> &entry = groups[{generation, desc.id, desc.group}];
  GroupRef group = entry.lock();
  if (!group) {
    group = std::make_shared<Group>(desc.group,
                                    std::static_pointer_cast<WorldImpl>(shared_from_this()));
    entry = group;
  }
  return group;
}

Status Group::leftError(uint32_t member) const {
  return Status(Code::Aborted, fmt::format("rank {} has left", ranks[member]));
}

void Group::addSpareCollective() {
  Collectives one;
  one[{}].posts.resize(ranks.size());
  spareCollectives.push_back(one.extract(one.begin()));
}

CollectiveState &Group::collective(uint64_t epoch, uint32_t sequence) {
  auto key = std::make_pair(epoch, sequence);
  if (auto found = collectives.find(key); found != collectives.end())
    return found->second;
  if (spareCollectives.empty())
    addSpareCollective();
  Collectives::node_type node = std::move(spareCollectives.back());
  spareCollectives.pop_back();
  node.key() = key;
  return collectives.insert(std::move(node)).position->second;
}

void Group::endCollective(uint64_t epoch, uint32_t sequence) {
  Collectives::node_type node = collectives.extract({epoch, sequence});
  CollectiveState &state = node.mapped();
  std::fill(state.posts.begin(), state.posts.end(), CollectivePost());
  state.numPosted = state.numRead = state.numLeft = 0;
  spareCollectives.push_back(std::move(node));
}

} // namespace local
} // namespace tandem
