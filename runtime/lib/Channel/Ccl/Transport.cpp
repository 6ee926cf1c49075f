//===- Transport.cpp - channels between GPUs by NCCL ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AbortBoard.h"
#include "Communicator.h"
#include "Core/Encode.h"

#include "tandem/Program/CollectiveRoute.h"
#include "tandem/Runtime/Gpu.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <mutex>
#include <sstream>

namespace tandem {

namespace ccl {

namespace {

/// Communicators by group: one takes hundreds of megabytes and a second. Programs whose runs follow
/// each other in one order on all ranks share them; the channels of one program do not. All ranks
/// create instances in the same order, and find the same ones.
class Pool {
public:
  /// For a channel of instance `program`, or null: a new one is needed. `owned`: for it alone.
  CommunicatorRef find(const std::vector<uint32_t> &group, uint64_t program, bool owned) {
    std::lock_guard<std::mutex> lock(mutex);
    for (Entry &entry : entries[{owned, group}])
      if (owned ? !entry.isTaken : entry.program != program)
        return entry.communicator;
    return nullptr;
  }
  /// All members have found it.
  void take(const CommunicatorRef &communicator, uint64_t program, bool owned) {
    std::lock_guard<std::mutex> lock(mutex);
    for (Entry &entry : entries[{owned, communicator->group}])
      if (entry.communicator == communicator) {
        entry.program = program;
        entry.isTaken = true;
      }
  }
  void add(const CommunicatorRef &communicator, uint64_t program, bool owned) {
    std::lock_guard<std::mutex> lock(mutex);
    entries[{owned, communicator->group}].push_back({communicator, program, true});
  }
  /// A channel that owned it has ended.
  void giveBack(const CommunicatorRef &communicator) {
    std::lock_guard<std::mutex> lock(mutex);
    for (Entry &entry : entries[{true, communicator->group}])
      if (entry.communicator == communicator)
        entry.isTaken = false;
  }
  /// It was aborted.
  void remove(const CommunicatorRef &communicator) {
    std::lock_guard<std::mutex> lock(mutex);
    for (bool owned : {false, true}) {
      std::vector<Entry> &all = entries[{owned, communicator->group}];
      auto gone = [&](const Entry &entry) { return entry.communicator == communicator; };
      all.erase(std::remove_if(all.begin(), all.end(), gone), all.end());
    }
  }

private:
  struct Entry {
    CommunicatorRef communicator;
    uint64_t program; ///< that took it last
    bool isTaken;
  };
  std::mutex mutex;
  std::map<std::pair<bool, std::vector<uint32_t>>, std::vector<Entry>> entries;
};

Status checkAbortBoard(const AbortBoard &board) {
  auto abort = board.firstAbort();
  if (!abort)
    return Status();
  return Status(Code::Aborted,
                fmt::format("rank {} aborted, and data received from it since may be wrong: {}",
                            abort->member, abort->reason));
}

class CclChannel final : public Channel {
public:
  CclChannel(std::shared_ptr<Pool> pool, std::shared_ptr<AbortBoard> board,
             CommunicatorRef communicator, bool owned, const gpu::Kernels &kernels)
      : pool(std::move(pool)), board(std::move(board)), communicator(std::move(communicator)),
        owned(owned), kernels(kernels) {
    state().addPoller(this, [this] {
      TANDEM_RETURN_IF_ERROR(this->communicator->poll());
      return checkAbortBoard(*this->board);
    });
  }
  ~CclChannel() override {
    state().removePoller(this);
    if (communicator->isAborted())
      pool->remove(communicator);
    else if (owned)
      pool->giveBack(communicator);
  }

  Expected<std::unique_ptr<Operation>> prepareGroup(const std::vector<Message> &messages) override {
    TANDEM_ASSIGN_OR_RETURN(auto operation, ccl::prepareMessages(communicator, kernels, messages));
    std::vector<Message> sorted = messages;
    sortByTag(sorted);
    for (const Message &message : sorted)
      lines.push_back(
          {operation.get(), fmt::format("{} {} {} {}", message.isSend ? 's' : 'r', message.peer,
                                        message.tag, message.buffer.layout.numBytes())});
    return operation;
  }

  Expected<std::unique_ptr<Operation>> prepareCollective(const Collective &collective) override {
    TANDEM_ASSIGN_OR_RETURN(auto operation,
                            ccl::prepareCollective(communicator, kernels, collective));
    const Operand &seen = collective.in.present() ? collective.in : collective.out;
    bool stacked = collective.in.present() ? program::stacksIn(collective.kind)
                                           : program::stacksOut(collective.kind);
    uint64_t bytes = seen.layout.numBytes() / (stacked ? communicator->group.size() : 1);
    bool reduces = program::isReduction(collective.kind);
    bool rooted = program::isRooted(collective.kind);
    lines.push_back(
        {operation.get(), fmt::format("c {}{}{} of {} bytes of {}", toString(collective.kind),
                                      reduces ? fmt::format(" {}", toString(collective.op)) : "",
                                      rooted ? fmt::format(" root {}", collective.root) : "", bytes,
                                      toString(seen.layout.dtype))});
    return operation;
  }

  std::string prepared() override {
    std::string text;
    for (const Line &line : lines)
      text += line.text + "\n";
    return text;
  }

  Status compare(const std::vector<std::string> &members, Marker &culprit) override {
    auto self = communicator->self;
    for (uint32_t m = 0; m < members.size(); ++m) {
      if (m == self)
        continue;
      std::vector<std::string> collectives, sends, receives;
      std::istringstream in(members[m]);
      for (std::string line; std::getline(in, line);) {
        if (line.size() < 2)
          return Status(Code::Io,
                        fmt::format("rank {} gives a malformed command", communicator->group[m]));
        if (line[0] == 'c')
          collectives.push_back(line.substr(2));
        std::string end = fmt::format("{} ", self);
        if (line.compare(2, end.size(), end) == 0)
          (line[0] == 's' ? sends : receives).push_back(line.substr(2 + end.size()));
      }
      TANDEM_RETURN_IF_ERROR(match('c', "", collectives, m, culprit));
      std::string peer = fmt::format("{} ", m);
      TANDEM_RETURN_IF_ERROR(match('s', peer, receives, m, culprit));
      TANDEM_RETURN_IF_ERROR(match('r', peer, sends, m, culprit));
    }
    return Status();
  }

  void abort(const Status &reason) override {
    pool->remove(communicator);
    board->post(reason.message());
    communicator->abort(reason);
  }

private:
  struct Line {
    Operation *operation;
    std::string text;
  };

  DeviceState &state() const { return *communicator->state; }

  /// Compares this rank's lines of one kind (and peer) with the member's: NCCL matches by order
  /// only, and would hang or mix up differing commands.
  Status match(char kind, const std::string &peer, const std::vector<std::string> &theirs,
               uint32_t member, Marker &culprit) const {
    size_t n = 0;
    const char *what = kind == 'c' ? "collective" : "(tag, bytes) of a message";
    for (const Line &line : lines) {
      if (line.text[0] != kind || line.text.compare(2, peer.size(), peer) != 0)
        continue;
      std::string mine = line.text.substr(2 + peer.size());
      std::string other = n < theirs.size() ? theirs[n] : "none";
      ++n;
      if (mine == other)
        continue;
      culprit = line.operation->marker;
      bool sameBytes = kind != 'c' && n <= theirs.size();
      return Status(sameBytes && tagOf(mine) != tagOf(other) ? Code::Unsupported
                                                             : Code::InvalidProgram,
                    fmt::format("channel ccl matches in order of issue: {} {}: found {} here and "
                                "{} on rank {}",
                                what, n - 1, mine, other, communicator->group[member]));
    }
    if (n != theirs.size())
      return Status(Code::InvalidProgram,
                    fmt::format("channel ccl: rank {} has {} {}s where this rank has {}",
                                communicator->group[member], theirs.size(), what, n));
    return Status();
  }
  static std::string tagOf(const std::string &line) { return line.substr(0, line.find(' ')); }

  std::shared_ptr<Pool> pool;
  const std::shared_ptr<AbortBoard> board;
  CommunicatorRef communicator;
  const bool owned;
  const gpu::Kernels &kernels;
  std::vector<Line> lines; ///< of the prepared commands, in order
};

/// What a rank tells the others.
struct Introduction {
  std::string error; ///< empty: it can take part
  std::string group; ///< its channel, pooled communicator and group
  std::string gpu;   ///< its UUID
  uint32_t splits = 0;
  uint64_t host = 0; ///< a hash of its name
  AbortBoard::Address board;
  ncclUniqueId id{}; ///< of the first member, for a new communicator
  auto fields() { return std::tie(error, group, gpu, splits, host, board, id); }
};

class CclTransport final : public Transport {
public:
  std::string_view name() const override { return "ccl"; }
  std::string description() const override {
    std::vector<std::string> libraries;
    for (const gpu::Vendor *vendor : gpu::vendors()) {
      auto api = Api::get(*vendor);
      int version = 0;
      if (api && (*api)->ncclGetVersion(&version) == ncclSuccess)
        libraries.push_back(fmt::format("{} {}.{}.{}", (*api)->title, version / 10000,
                                        version % 10000 / 100, version % 100));
    }
    return libraries.empty() ? "ccl" : fmt::format("ccl ({})", fmt::join(libraries, ", "));
  }
  uint32_t capabilities() const override { return TwoSided | Collectives; }
  bool moves(const Device &) const override { return true; } // or says why not

  Expected<std::unique_ptr<Channel>> createChannel(const ChannelDesc &desc, Device &device,
                                                   Bootstrap &bootstrap) override {
    auto *gpu = dynamic_cast<gpu::GpuAccess *>(&device);
    Status mine;
    const Api *api = nullptr;
    if (!gpu) {
      mine = Status(Code::Unsupported,
                    fmt::format("channel ccl: expected a GPU, found device {}", device.name()));
    } else {
      auto found = Api::get(gpu->shared()->driver->vendor());
      if (found)
        api = *found;
      else
        mine = found.status();
    }
    // One exchange of: this rank's status, group and GPU, its pooled communicator, how it creates
    // communicators, its abort board; and for a new communicator the id, from the first member.
    bool owned = !desc.runsFollow;
    uint64_t program = desc.id >> 16;
    CommunicatorRef communicator;
    if (mine.ok() && !desc.group.empty())
      communicator = pool->find(desc.group, program, owned);
    ncclUniqueId id{};
    bool leads = mine.ok() && !communicator && !desc.group.empty() && desc.self == 0;
    if (leads)
      mine = api->status(api->ncclGetUniqueId(&id), "ncclGetUniqueId");
    Introduction self{mine.message(),
                      fmt::format("{} {} {}", desc.id, communicator ? communicator->number : 0,
                                  fmt::join(desc.group, ",")),
                      gpu ? gpu->shared()->driver->info().uuid : "",
                      api && api->splits,
                      std::hash<std::string>()(bootstrap.host()),
                      board->address(),
                      id};
    TANDEM_ASSIGN_OR_RETURN(auto said, allGatherStrings(bootstrap, core::encode(self.fields())));
    std::vector<Introduction> all(said.size());
    for (size_t rank = 0; rank < all.size(); ++rank)
      if (!core::decode(said[rank], all[rank].fields()))
        all[rank].error = "found no introduction";
    if (!board->connected()) {
      // Ranks that call their hosts different may share no page, even if they could.
      std::vector<AbortBoard::Address> addresses;
      for (const Introduction &other : all)
        addresses.push_back(other.host == self.host ? other.board : AbortBoard::Address());
      board->connect(addresses);
    }
    TANDEM_RETURN_IF_ERROR(mine);
    TANDEM_RETURN_IF_ERROR(checkGroup(desc, self.group, all));
    if (desc.group.empty())
      return std::unique_ptr<Channel>();
    const core::WaitLimit limit{desc.timeout, [&bootstrap] { return bootstrap.health(); }};
    if (!communicator) {
      TANDEM_ASSIGN_OR_RETURN(
          communicator,
          Communicator::create(gpu->shared(), all[desc.group[0]].id, desc.group, desc.self, limit));
      communicator->warn = [log = device.log](const std::string &text) {
        log(LogLevel::Warning, text);
      };
      TANDEM_RETURN_IF_ERROR(communicator->warmUp(limit));
      pool->add(communicator, program, owned);
    } else {
      pool->take(communicator, program, owned);
    }
    return std::make_unique<CclChannel>(pool, board, std::move(communicator), owned,
                                        gpu->kernels());
  }

  Status checkRun() const override { return checkAbortBoard(*board); }

private:
  static Status checkGroup(const ChannelDesc &desc, const std::string &group,
                           const std::vector<Introduction> &all) {
    for (uint32_t rank = 0; rank < all.size(); ++rank)
      if (!all[rank].error.empty())
        return Status(Code::Aborted, fmt::format("rank {}: {}", rank, all[rank].error));
    std::map<std::string, uint32_t> owners;
    for (uint32_t rank : desc.group) {
      if (all[rank].group != group)
        return Status(Code::InvalidProgram,
                      fmt::format("rank {} names another group for this channel", rank));
      if (all[rank].splits != all[desc.group[0]].splits)
        return Status(
            Code::InvalidProgram,
            fmt::format(
                "channel ccl: ranks {} and {} create communicators differently: NCCL's version, "
                "NCCL_COMM_BLOCKING and NCCL_COMM_SPLIT_SHARE_RESOURCES must be equal",
                desc.group[0], rank));
      auto [other, fresh] = owners.emplace(all[rank].gpu, rank);
      if (!fresh)
        return Status(
            Code::Unsupported,
            fmt::format("channel ccl needs a GPU for each rank: ranks {} and {} share one",
                        other->second, rank));
    }
    return Status();
  }

  std::shared_ptr<Pool> pool = std::make_shared<Pool>();
  /// Of all ranks of the world: wrong data of another group may reach this one through a third
  /// group.
  std::shared_ptr<AbortBoard> board = std::make_shared<AbortBoard>();
};

} // namespace
} // namespace ccl

Expected<std::unique_ptr<Transport>> createCclTransport() {
  std::string reasons;
  bool found = false;
  for (const gpu::Vendor *vendor : gpu::vendors()) {
    auto api = ccl::Api::get(*vendor);
    if (api)
      found = true;
    else
      reasons += (reasons.empty() ? "" : "; ") + api.status().message();
  }
  if (!found)
    return Status(Code::Unsupported, reasons);
  return std::make_unique<ccl::CclTransport>();
}

} // namespace tandem
