//===- FakeNccl.cpp - NCCL between ranks that are threads ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What channel ccl asks of libnccl.so.2, on the streams of the driver that stands in: who waits for
// whom and who may be aborted when, as NCCL's source has it. Non-blocking communicators start a
// thread for each group of calls, blocking ones wait on the caller's; a child shares its parent's
// abort flag if the parent says so; what has been given back must not be used. A kernel that is
// aborted goes on without what it waits for, and so do those that wait for it. Sums of f32 and i32.
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nccl.h>
#include <set>
#include <string>
#include <thread>
#include <vector>

using tandem::fake::meetsFault;
using tandem::fake::number;

namespace {

using Flag = std::atomic<bool>;

struct Collective {
  enum Kind { AllGather, AllReduce, ReduceScatter, Broadcast, Reduce } kind;
  const char *from;
  char *to;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
  int root;
};

/// Where the ranks of a communicator meet.
struct World {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, int> came;
  std::map<std::string, std::map<int, Collective>> collectives;
  std::map<std::string, const char *> messages; ///< sent, and not yet received
  std::map<int, std::shared_ptr<World>> children;
  bool torn = false; ///< a kernel was aborted: the others get what it has, and do not wait for more

  /// False where the flag is raised first.
  bool wait(const Flag &aborted, const std::function<bool()> &until) {
    std::unique_lock<std::mutex> lock(mutex);
    while (!until() && !aborted)
      changed.wait_for(lock, std::chrono::milliseconds(1));
    return until();
  }
  bool meet(const std::string &where, int size, const Flag &aborted) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      ++came[where];
      changed.notify_all();
    }
    return wait(aborted, [&] { return came[where] >= size; });
  }
  /// In a kernel. False where nothing is there to go on with.
  bool meetOrTear(const std::string &where, int size, const Flag &aborted) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      ++came[where];
      changed.notify_all();
    }
    bool whole = wait(aborted, [&] { return torn || came[where] >= size; });
    std::lock_guard<std::mutex> lock(mutex);
    whole &= came[where] >= size;
    if (!whole && !torn) {
      torn = true;
      changed.notify_all();
    }
    return whole;
  }
};

size_t sizeOf(ncclDataType_t type) {
  switch (type) {
  case ncclInt8:
  case ncclUint8:
    return 1;
  case ncclFloat16:
  case ncclBfloat16:
    return 2;
  case ncclFloat64:
  case ncclInt64:
  case ncclUint64:
    return 8;
  default:
    return 4;
  }
}

template <typename T> void combine(char *into, const char *from, size_t count, ncclRedOp_t op) {
  auto *a = reinterpret_cast<T *>(into);
  const auto *b = reinterpret_cast<const T *>(from);
  for (size_t i = 0; i < count; ++i)
    a[i] = op == ncclSum   ? static_cast<T>(a[i] + b[i])
           : op == ncclMax ? static_cast<T>(std::fmax(a[i], b[i]))
                           : static_cast<T>(std::fmin(a[i], b[i]));
}

using Combine = void (*)(char *, const char *, size_t, ncclRedOp_t);
Combine combineOf(ncclDataType_t type) {
  switch (type) {
  case ncclInt8:
    return combine<int8_t>;
  case ncclUint8:
    return combine<uint8_t>;
  case ncclInt32:
    return combine<int32_t>;
  case ncclInt64:
    return combine<int64_t>;
  case ncclFloat64:
    return combine<double>;
  default:
    return combine<float>;
  }
}

} // namespace

struct ncclComm {
  int rank = 0, size = 1;
  bool blocking = true, shares = false;
  std::shared_ptr<Flag> aborted = std::make_shared<Flag>(false);
  std::shared_ptr<World> world;
  ncclComm *parent = nullptr;
  std::shared_ptr<Flag> childAborted; ///< while a child is made that does not share
  std::atomic<ncclResult_t> state{ncclSuccess};
  std::mutex jobMutex;
  std::thread job;
  std::atomic<int> inside{0}; ///< threads in a call
  std::atomic<bool> connected{false};
  int splits = 0, issued = 0;
  std::map<std::string, int> messages; ///< that were issued, by way
};

namespace {

struct {
  std::mutex mutex;
  std::set<ncclComm_t> live;
  std::vector<std::unique_ptr<ncclComm>> all; ///< so that use of one that is gone is found
  std::map<uint64_t, std::shared_ptr<World>> worlds;
} registry;

ncclComm_t add(std::unique_ptr<ncclComm> comm) {
  std::lock_guard<std::mutex> lock(registry.mutex);
  registry.live.insert(comm.get());
  number("nccl-live") = static_cast<int64_t>(registry.live.size());
  registry.all.push_back(std::move(comm));
  return registry.all.back().get();
}

bool isLive(ncclComm_t comm) {
  std::lock_guard<std::mutex> lock(registry.mutex);
  bool live = registry.live.count(comm) != 0;
  if (!live)
    ++number("nccl-misuse");
  return live;
}

/// While a thread is in a call that uses `comm`.
class Inside {
public:
  explicit Inside(ncclComm_t comm) : comm(comm) { ++comm->inside; }
  ~Inside() { --comm->inside; }
  Inside(const Inside &) = delete;
  Inside &operator=(const Inside &) = delete;

private:
  ncclComm_t comm;
};

void join(ncclComm_t comm) {
  std::lock_guard<std::mutex> lock(comm->jobMutex);
  if (comm->job.joinable())
    comm->job.join();
}

/// Does what a group does: on a thread where `comm` is non-blocking.
ncclResult_t launch(ncclComm_t comm, std::function<ncclResult_t()> body) {
  if (comm->blocking) {
    Inside inside(comm);
    return body();
  }
  ++number("nccl-threads");
  join(comm);
  comm->state = ncclInProgress;
  std::lock_guard<std::mutex> lock(comm->jobMutex);
  comm->job = std::thread([comm, body = std::move(body)] { comm->state = body(); });
  return ncclInProgress;
}

/// What a call does on the host before it enqueues: makes connections when first used, and waits
/// where a test says so: rank "nccl-hold" - 1, from call "nccl-hold-from" of rank 0 on.
ncclResult_t enter(ncclComm_t comm) {
  if (!comm->connected && !comm->world->meet("connect", comm->size, *comm->aborted))
    return ncclInternalError;
  comm->connected = true;
  if (comm->rank == 0)
    ++number("nccl-calls");
  if (number("nccl-hold") != comm->rank + 1 || number("nccl-calls") < number("nccl-hold-from"))
    return ncclSuccess;
  ++number("nccl-held");
  while (number("nccl-hold") == comm->rank + 1 && !*comm->aborted)
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  --number("nccl-held");
  return *comm->aborted ? ncclInternalError : ncclSuccess;
}

/// Of one rank; kept apart, for others may still read what lies where it goes.
std::vector<char> compute(const std::map<int, Collective> &all, int rank) {
  const Collective &mine = all.at(rank);
  size_t bytes = mine.count * sizeOf(mine.type);
  auto sum = [&](size_t at) {
    std::vector<char> total(all.begin()->second.from + at, all.begin()->second.from + at + bytes);
    for (auto other = std::next(all.begin()); other != all.end(); ++other)
      combineOf(mine.type)(total.data(), other->second.from + at, mine.count, mine.op);
    return total;
  };
  std::vector<char> out;
  switch (mine.kind) {
  case Collective::AllGather:
    for (const auto &[other, theirs] : all)
      out.insert(out.end(), theirs.from, theirs.from + bytes);
    break;
  case Collective::AllReduce:
    out = sum(0);
    break;
  case Collective::ReduceScatter:
    out = sum(static_cast<size_t>(rank) * bytes);
    break;
  case Collective::Broadcast:
    out.assign(all.at(mine.root).from, all.at(mine.root).from + bytes);
    break;
  case Collective::Reduce:
    if (rank == mine.root)
      out = sum(0);
    break;
  }
  return out;
}

/// A call of a group, and what it does in the stream: a group is one kernel, in which everything is
/// sent before anything is waited for.
struct Pending {
  ncclComm_t comm;
  CUstream stream;
  std::function<void()> send, work, end;
  int toSelf = 0; ///< 1: a message is sent to this rank, -1: received from it
};

thread_local int depth = 0;
thread_local std::vector<Pending> pending;

ncclResult_t endGroup() {
  if (--depth > 0 || pending.empty())
    return ncclSuccess;
  std::vector<Pending> group;
  group.swap(pending);
  ncclComm_t comm = group[0].comm;
  int toSelf = 0;
  for (const Pending &call : group)
    toSelf += call.toSelf;
  if (toSelf != 0)
    return ncclInvalidUsage;
  return launch(comm, [comm, group] {
    if (ncclResult_t entered = enter(comm); entered != ncclSuccess)
      return entered;
    tandem::fake::add(group[0].stream, [group] {
      for (auto part : {&Pending::send, &Pending::work, &Pending::end})
        for (const Pending &call : group)
          if (call.*part)
            (call.*part)();
    });
    return ncclSuccess;
  });
}

ncclResult_t enqueue(Pending call) {
  ++depth;
  pending.push_back(std::move(call));
  return endGroup();
}

ncclResult_t collective(ncclComm_t comm, cudaStream_t stream, Collective what) {
  if (!isLive(comm))
    return ncclInvalidArgument;
  bool reduces = what.kind != Collective::AllGather && what.kind != Collective::Broadcast;
  if (reduces && (what.type == ncclFloat16 || what.type == ncclBfloat16))
    return ncclInvalidArgument;
  // A graph does it many times.
  auto times = std::make_shared<int>(0);
  auto work = [=, issue = comm->issued++, world = comm->world, aborted = comm->aborted,
               rank = comm->rank, size = comm->size] {
    std::string name = std::to_string(issue) + ":" + std::to_string((*times)++);
    {
      std::lock_guard<std::mutex> lock(world->mutex);
      world->collectives[name][rank] = what;
    }
    if (!world->meetOrTear("begin " + name, size, *aborted))
      return;
    std::vector<char> out;
    {
      // Whoever was aborted since may free what it has given.
      std::lock_guard<std::mutex> lock(world->mutex);
      if (world->torn)
        return;
      out = compute(world->collectives[name], rank);
    }
    if (world->meetOrTear("end " + name, size, *aborted))
      std::copy(out.begin(), out.end(), what.to);
  };
  return enqueue({comm, stream, nullptr, work, nullptr});
}

/// The `n`-th message from one rank to another.
std::string nameOf(ncclComm_t comm, bool sends, int peer) {
  std::string way = sends ? std::to_string(comm->rank) + ">" + std::to_string(peer)
                          : std::to_string(peer) + ">" + std::to_string(comm->rank);
  return way + " " + std::to_string(comm->messages[(sends ? "s" : "r") + way]++) + ":";
}

} // namespace

extern "C" {

ncclResult_t ncclGetVersion(int *version) { return *version = NCCL_VERSION_CODE, ncclSuccess; }
ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  static std::atomic<uint64_t> last{0};
  uint64_t mine = ++last;
  ++number("nccl-ids");
  std::memset(id, 0, sizeof *id);
  std::memcpy(id->internal, &mine, sizeof mine);
  return ncclSuccess;
}
const char *ncclGetErrorString(ncclResult_t) { return "the fake NCCL refuses"; }
const char *ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclCommInitRankConfig(ncclComm_t *made, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t *config) {
  auto comm = std::make_unique<ncclComm>();
  comm->rank = rank;
  comm->size = size;
  comm->blocking = config->blocking != 0;
  comm->shares = config->splitShare == 1;
  uint64_t name = 0;
  std::memcpy(&name, id.internal, sizeof name);
  {
    std::lock_guard<std::mutex> lock(registry.mutex);
    std::shared_ptr<World> &world = registry.worlds[name];
    if (!world)
      world = std::make_shared<World>();
    comm->world = world;
  }
  *made = add(std::move(comm));
  return launch(*made, [comm = *made] {
    while (number("nccl-no-init-on") == comm->rank + 1 && !*comm->aborted)
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    // Who was aborted before it came never does.
    if (meetsFault("init", comm->rank + 1) || *comm->aborted)
      return ncclInternalError;
    return comm->world->meet("made", comm->size, *comm->aborted) ? ncclSuccess : ncclInternalError;
  });
}

ncclResult_t ncclCommSplit(ncclComm_t parent, int, int, ncclComm_t *made, ncclConfig_t *config) {
  if (!isLive(parent) || parent->state != ncclSuccess)
    return ncclInvalidArgument;
  auto comm = std::make_unique<ncclComm>();
  comm->rank = parent->rank;
  comm->size = parent->size;
  comm->blocking = config->blocking != 0;
  comm->parent = parent;
  if (parent->shares)
    comm->aborted = parent->aborted;
  else
    parent->childAborted = comm->aborted;
  int split = parent->splits++;
  {
    std::lock_guard<std::mutex> lock(parent->world->mutex);
    std::shared_ptr<World> &world = parent->world->children[split];
    if (!world)
      world = std::make_shared<World>();
    comm->world = world;
  }
  *made = nullptr;
  ncclComm_t child = add(std::move(comm));
  ncclResult_t result = launch(parent, [=] {
    while (number("nccl-no-split-on") == parent->rank + 1 && !*parent->aborted)
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    // Who was aborted before it came never does.
    bool came = !*child->aborted && parent->world->meet("split " + std::to_string(split),
                                                        parent->size, *child->aborted);
    parent->childAborted.reset();
    __atomic_store_n(made, child, __ATOMIC_RELEASE); // whether it is whole or not
    return came ? ncclSuccess : ncclInternalError;
  });
  return result == ncclInProgress ? ncclSuccess : result; // the parent says how it goes
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
  if (!isLive(comm))
    return ncclInvalidArgument;
  *error = comm->state;
  if (*error == ncclSuccess && number("nccl-error-on") == comm->rank + 1)
    *error = ncclRemoteError;
  if (*error == ncclSuccess && !comm->blocking)
    join(comm);
  return ncclSuccess;
}

/// Gives it back: nobody may be in it.
static ncclResult_t giveBack(ncclComm_t comm) {
  if (comm->inside != 0)
    ++number("nccl-misuse");
  join(comm);
  std::lock_guard<std::mutex> lock(registry.mutex);
  registry.live.erase(comm);
  number("nccl-live") = static_cast<int64_t>(registry.live.size());
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (!isLive(comm))
    return ncclInvalidArgument;
  if (std::shared_ptr<Flag> child = comm->childAborted)
    *child = true;
  *comm->aborted = true;
  bool fails = !comm->parent && meetsFault("abort", comm->rank + 1);
  ncclResult_t result = giveBack(comm);
  return fails ? ncclSystemError : result;
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (!isLive(comm))
    return ncclInvalidArgument;
  bool fails = comm->parent && number("nccl-no-finalize-on") == comm->rank + 1;
  return launch(comm, [fails] { return fails ? ncclInternalError : ncclSuccess; });
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (!isLive(comm))
    return ncclInvalidArgument;
  bool fails = meetsFault(comm->parent ? "child" : "root", comm->rank + 1);
  {
    std::lock_guard<std::mutex> lock(registry.mutex);
    for (ncclComm_t other : registry.live)
      if (other->parent == comm)
        ++number("nccl-orphans");
  }
  ncclResult_t result = giveBack(comm);
  return fails ? ncclSystemError : result;
}

ncclResult_t ncclGroupStart() { return ++depth, ncclSuccess; }
ncclResult_t ncclGroupEnd() { return endGroup(); }

ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream,
                    {Collective::AllGather, static_cast<const char *>(from),
                     static_cast<char *>(to), count, type, ncclSum, 0});
}
ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream,
                    {Collective::AllReduce, static_cast<const char *>(from),
                     static_cast<char *>(to), count, type, op, 0});
}
ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream,
                    {Collective::ReduceScatter, static_cast<const char *>(from),
                     static_cast<char *>(to), count, type, op, 0});
}
ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream,
                    {Collective::Broadcast, static_cast<const char *>(from),
                     static_cast<char *>(to), count, type, ncclSum, root});
}
ncclResult_t ncclReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return collective(comm, stream,
                    {Collective::Reduce, static_cast<const char *>(from), static_cast<char *>(to),
                     count, type, op, root});
}

ncclResult_t ncclSend(const void *from, size_t, ncclDataType_t, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  if (!isLive(comm))
    return ncclInvalidArgument;
  auto times = std::make_shared<int>(0);
  auto name = [name = nameOf(comm, true, peer), times] { return name + std::to_string(*times); };
  auto send = [=, world = comm->world] {
    std::lock_guard<std::mutex> lock(world->mutex);
    world->messages[name()] = static_cast<const char *>(from);
    world->changed.notify_all();
  };
  auto end = [=, world = comm->world, aborted = comm->aborted] {
    world->wait(*aborted, [&] { return world->messages.count(name()) == 0; });
    // Aborted, it frees what it has given: the receiver must not find it.
    std::lock_guard<std::mutex> lock(world->mutex);
    world->messages.erase(name());
    ++*times;
  };
  return enqueue({comm, stream, send, nullptr, end, peer == comm->rank ? 1 : 0});
}
ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  if (!isLive(comm))
    return ncclInvalidArgument;
  auto times = std::make_shared<int>(0);
  auto name = [name = nameOf(comm, false, peer), times] { return name + std::to_string(*times); };
  auto work = [=, world = comm->world, aborted = comm->aborted, bytes = count * sizeOf(type)] {
    for (bool came = false; !came && !*aborted;) {
      world->wait(*aborted, [&] { return world->messages.count(name()) != 0; });
      std::lock_guard<std::mutex> lock(world->mutex);
      auto message = world->messages.find(name());
      if (message == world->messages.end())
        continue; // its sender was aborted since
      std::memcpy(to, message->second, bytes);
      world->messages.erase(message);
      world->changed.notify_all();
      came = true;
    }
    ++*times;
  };
  return enqueue({comm, stream, nullptr, work, nullptr, peer == comm->rank ? -1 : 0});
}

} // extern "C"
