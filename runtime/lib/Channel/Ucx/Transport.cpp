//===- Transport.cpp - makes channels over UCX ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "UcxChannel.h"

#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <utility>

using namespace tandem;
using namespace tandem::ucx;

namespace {

/// A rank's description of its side of a channel; followed by the group's ranks, the key and an
/// error text.
struct PeerInfo {
  uint64_t id = 0;
  uint64_t base = 0, bufferBytes = 0;
  MappedMemory::Handle mapped; ///< of the symmetric memory, if ranks of this host can map it
  uint32_t numSignals = 0;
  uint32_t groupSize = 0, keyBytes = 0, errorBytes = 0;
};

struct DecodedInfo {
  PeerInfo info;
  std::vector<uint32_t> group;
  std::string key, error;
};

std::string encode(PeerInfo info, const std::vector<uint32_t> &group, const std::string &key,
                   const std::string &error) {
  info.groupSize = static_cast<uint32_t>(group.size());
  info.keyBytes = static_cast<uint32_t>(key.size());
  info.errorBytes = static_cast<uint32_t>(error.size());
  std::string text(reinterpret_cast<const char *>(&info), sizeof(info));
  text.append(reinterpret_cast<const char *>(group.data()), group.size() * sizeof(uint32_t));
  return text + key + error;
}

bool decode(std::string_view text, DecodedInfo &result) {
  if (text.size() < sizeof(PeerInfo))
    return false;
  std::memcpy(&result.info, text.data(), sizeof(PeerInfo));
  const PeerInfo &info = result.info;
  uint64_t groupBytes = uint64_t(info.groupSize) * sizeof(uint32_t);
  if (text.size() != sizeof(PeerInfo) + groupBytes + info.keyBytes + info.errorBytes)
    return false;
  result.group.resize(info.groupSize);
  if (groupBytes)
    std::memcpy(result.group.data(), text.data() + sizeof(PeerInfo), groupBytes);
  result.key = text.substr(sizeof(PeerInfo) + groupBytes, info.keyBytes);
  result.error = text.substr(text.size() - info.errorBytes);
  return true;
}

class UcxTransport : public Transport {
public:
  UcxTransport(const Api &api, const UcxOptions &options) : api(api), options(options) {}
  ~UcxTransport() override {
    if (worker)
      worker->end(options.closeTimeout);
  }

  std::string_view name() const override { return "ucx"; }
  uint32_t capabilities() const override { return TwoSided | OneSided; }
  uint64_t progress() const override { return worker ? worker->progress() : 0; }
  Status open(Device &device) override {
    if (worker)
      return Status();
    auto made = Worker::create(api, options, device);
    if (!made)
      return made.status().withPrefix("channel ucx: ");
    worker = std::move(*made);
    if (device.hostMemory() && !options.networkOnly)
      device.mapsSymmetric = true;
    return Status();
  }
  bool movesDense(const Device &device) const override {
    return worker && !device.hostMemory() && worker->movesGpu(device.name());
  }

  Expected<std::unique_ptr<Channel>> createChannel(const ChannelDesc &desc, Device &device,
                                                   Bootstrap &bootstrap) override {
    TANDEM_RETURN_IF_ERROR(open(device));
    Status joined = join(bootstrap, device);
    auto state = std::make_shared<ChannelState>();
    state->worker = worker;
    state->name = desc.name;
    state->number = nextChannel++ % (1u << kChannelBits);
    state->self = desc.self;
    state->symmetric = desc.symmetric;

    // Failed ranks take part too: the others wait for the exchange.
    PeerInfo info;
    std::string key;
    Status mine = joined.ok() ? check(desc, bootstrap) : joined;
    if (mine.ok() && !desc.group.empty())
      mine = openLocally(*state, info, key);
    info.id = desc.id;
    auto all = allGatherStrings(bootstrap, encode(info, desc.group, key, mine.message()));
    Status result = !mine.ok() ? mine : !all ? all.status() : Status::success();
    if (result.ok() && !desc.group.empty())
      result = connectMembers(*state, desc, *all, bootstrap, device);
    // A channel is usable once all members have opened it: messages need a receiver.
    std::string problem = result.message();
    auto verdicts = all ? allGatherStrings(bootstrap, problem) : all;
    if (result.ok() && !verdicts)
      result = verdicts.status();
    if (result.ok())
      for (uint32_t rank = 0; rank < verdicts->size(); ++rank)
        if (!(*verdicts)[rank].empty())
          result = Status(Code::Aborted, fmt::format("channel \"{}\", rank {}: {}", desc.name, rank,
                                                     (*verdicts)[rank]));
    if (!result.ok()) {
      state->close();
      return result;
    }
    if (desc.group.empty())
      return std::unique_ptr<Channel>();
    return std::unique_ptr<Channel>(new UcxChannel(std::move(state)));
  }

private:
  /// Exchanges the workers' addresses, once. Errors are the same on every rank.
  Status join(Bootstrap &bootstrap, Device &device) {
    if (joined)
      return joinResult;
    joined = true;
    joinResult = exchangeAddresses(bootstrap, device);
    if (joinResult.ok() && !device.hostMemory() && !movesDense(device))
      joinResult = Status(Code::Unsupported,
                          fmt::format("channel ucx: device {} has no host memory", device.name()));
    return joinResult;
  }

  Status exchangeAddresses(Bootstrap &bootstrap, Device &device) {
    if (bootstrap.worldSize() > (1u << kSourceBits))
      return Status(Code::Unsupported, fmt::format("channel ucx: {} ranks, expected at most {}",
                                                   bootstrap.worldSize(), 1u << kSourceBits));
    auto texts = allGatherStrings(bootstrap, worker->address().encode());
    if (!texts)
      return texts.status();
    std::vector<PeerAddress> addresses;
    for (const std::string &text : *texts) {
      auto address = PeerAddress::decode(text);
      if (!address)
        return address.status();
      addresses.push_back(std::move(*address));
    }
    return worker->call([&] {
      worker->join(bootstrap.rank(), bootstrap.localSize(), std::move(addresses), device);
      return Status::success();
    });
  }

  Status check(const ChannelDesc &desc, Bootstrap &bootstrap) {
    if (desc.capabilities & ~capabilities())
      return Status(Code::Unsupported, fmt::format("channel \"{}\" needs {}, ucx has {}", desc.name,
                                                   program::capabilitiesToString(desc.capabilities),
                                                   program::capabilitiesToString(capabilities())));
    if (desc.group.empty())
      return Status::success();
    if (desc.self >= desc.group.size() || desc.group[desc.self] != bootstrap.rank())
      return Status(Code::InvalidArgument,
                    fmt::format("channel \"{}\": rank {} is not at index {} of its group",
                                desc.name, bootstrap.rank(), desc.self));
    for (uint32_t rank : desc.group)
      if (rank >= bootstrap.worldSize())
        return Status(Code::InvalidArgument, fmt::format("channel \"{}\": rank {} in a world of {}",
                                                         desc.name, rank, bootstrap.worldSize()));
    return worker->health();
  }

  /// Registers the symmetric memory and accepts control messages.
  Status openLocally(ChannelState &state, PeerInfo &info, std::string &key) {
    return worker->call([&] {
      if (!worker->addSink(state.number, &state))
        return Status(Code::Unsupported,
                      fmt::format("channel ucx: more than {} channels", 1u << kChannelBits));
      const SymmetricMemory &memory = state.symmetric;
      if (memory.empty() || memory.totalBytes == 0)
        return Status::success();
      ucp_mem_map_params_t params{};
      params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
      params.address = memory.base;
      params.length = memory.totalBytes;
      const Api &api = worker->api;
      TANDEM_RETURN_IF_ERROR(api.status(
          api.ucp_mem_map(worker->context, &params, &state.registration), "ucp_mem_map"));
      void *buffer = nullptr;
      size_t bytes = 0;
      TANDEM_RETURN_IF_ERROR(
          api.status(api.ucp_rkey_pack(worker->context, state.registration, &buffer, &bytes),
                     "ucp_rkey_pack"));
      key.assign(static_cast<const char *>(buffer), bytes);
      api.ucp_rkey_buffer_release(buffer);
      info.base = reinterpret_cast<uint64_t>(memory.base);
      info.bufferBytes = memory.bufferBytes;
      info.numSignals = memory.numSignals;
      state.own = MappedMemory::find(memory.base);
      if (state.own && state.own->handle().bytes >= memory.totalBytes)
        info.mapped = state.own->handle();
      return Status::success();
    });
  }

  /// The memory of a rank of this host, in which this one can write; null: through UCX then.
  std::shared_ptr<MappedMemory> mapMemory(const MappedMemory::Handle &handle, uint32_t rank,
                                          Bootstrap &bootstrap, const Device &device) {
    if (handle.pid == 0 || !worker->isNear(rank))
      return nullptr;
    auto mapped = MappedMemory::map(handle);
    if (mapped)
      return std::move(*mapped);
    if (bootstrap.localRank() == 0 && !std::exchange(logged, true))
      device.log(LogLevel::Warning,
                 fmt::format("channel ucx: puts within this host go through UCX, which takes "
                             "longer, since ranks cannot map each other's memory: {}",
                             mapped.status().message()));
    return nullptr;
  }

  /// Checks the members' descriptions and connects to the members.
  Status connectMembers(ChannelState &state, const ChannelDesc &desc,
                        const std::vector<std::string> &all, Bootstrap &bootstrap,
                        const Device &device) {
    std::vector<std::string> keys;
    for (uint32_t rank : desc.group) {
      DecodedInfo theirs;
      if (!decode(all[rank], theirs))
        return Status(
            Code::Internal,
            fmt::format("channel \"{}\": rank {} sent a malformed description", desc.name, rank));
      if (!theirs.error.empty())
        return Status(Code::Aborted,
                      fmt::format("channel \"{}\", rank {}: {}", desc.name, rank, theirs.error));
      if (theirs.info.id != desc.id || theirs.group != desc.group)
        return Status(Code::InvalidProgram,
                      fmt::format("channel \"{}\": ranks {} and {} name different groups",
                                  desc.name, bootstrap.rank(), rank));
      state.members.push_back({rank, theirs.info.base, theirs.info.bufferBytes,
                               theirs.info.numSignals, nullptr,
                               mapMemory(theirs.info.mapped, rank, bootstrap, device)});
      keys.push_back(std::move(theirs.key));
    }
    // A greeting opens each connection and shows that it works.
    auto greeting = std::make_shared<Task>([&](Worker &worker, Task &self) {
      self.arm(static_cast<uint32_t>(state.members.size()) + 1);
      Status unpacked;
      for (size_t i = 0; i < state.members.size(); ++i) {
        Member &member = state.members[i];
        auto endpoint = worker.endpoint(member.rank);
        if (endpoint && !keys[i].empty()) {
          ucs_status_t status =
              worker.api.ucp_ep_rkey_unpack(*endpoint, keys[i].data(), &member.key);
          if (status != UCS_OK)
            unpacked = worker.peerError(status, "ucp_ep_rkey_unpack", member.rank);
        }
        Control hello;
        hello.channel = state.number;
        worker.sendControl(self, member.rank, hello);
      }
      self.finishPart(worker, unpacked);
    });
    worker->submit(greeting);
    if (!greeting->waitUntil(std::chrono::steady_clock::now() + connectTimeout))
      worker->fail(Status(Code::Timeout,
                          fmt::format("rank {}, channel \"{}\": no connection to all of its {} "
                                      "ranks within {} s",
                                      bootstrap.rank(), desc.name, desc.group.size(),
                                      connectTimeout.count() / 1000)),
                   false);
    return greeting->wait(std::chrono::microseconds(0));
  }

  static constexpr std::chrono::milliseconds connectTimeout{30000};

  const Api &api;
  std::shared_ptr<Worker> worker; ///< null until open()
  UcxOptions options;
  uint32_t nextChannel = 0;
  bool joined = false;
  bool logged = false; ///< that other processes' memory cannot be mapped
  Status joinResult;
};

} // namespace

UcxOptions tandem::ucxOptionsFromEnvironment() {
  UcxOptions options;
  if (const char *spin = std::getenv("TANDEM_UCX_SPIN"); spin && *spin)
    options.spin = std::chrono::microseconds(std::strtol(spin, nullptr, 10));
  const char *network = std::getenv("TANDEM_UCX_NETWORK_ONLY");
  options.networkOnly = network && !std::strcmp(network, "1");
  const char *direct = std::getenv("TANDEM_UCX_GPU_DIRECT");
  options.gpuDirect = !direct || std::strcmp(direct, "0") != 0;
  return options;
}

Expected<std::unique_ptr<Transport>> tandem::createUcxTransport(const UcxOptions &options) {
  TANDEM_ASSIGN_OR_RETURN(const Api *api, Api::get());
  return createTransport(*api, options);
}

Expected<std::unique_ptr<Transport>> tandem::ucx::createTransport(const Api &api,
                                                                  const UcxOptions &options) {
  return std::unique_ptr<Transport>(new UcxTransport(api, options));
}
