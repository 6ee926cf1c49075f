//===- Worker.h - the thread that communicates ------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One UCX worker and the thread that owns it. All UCX calls except in create() happen on that
// thread; other threads submit Work. The thread sleeps in epoll on UCX's descriptor,
// on a wake-up descriptor, and on the pidfds of peers on this host: UCX 1.13 does not notice the
// death of a peer over shared memory.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CHANNEL_UCX_WORKER_H
#define TANDEM_CHANNEL_UCX_WORKER_H

#include "../../Core/Encode.h"
#include "Work.h"
#include "tandem/Runtime/Device.h"
#include "tandem/Runtime/Ucx.h"

#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace tandem::ucx {

/// The data needed to connect to a worker; exchanged once.
struct PeerAddress {
  std::string worker; ///< ucp_address_t
  std::string host;   ///< equal if shared memory and process ids are shared
  int64_t pid = 0;

  /// All but `worker`. `networkOnly`: makes `host` unique.
  static PeerAddress ofThisProcess(bool networkOnly);
  auto fields() { return std::tie(worker, host, pid); }
  std::string encode() const { return core::encode(PeerAddress(*this).fields()); }
  static Expected<PeerAddress> decode(std::string_view bytes);
};

/// A small message between workers; `text` may follow.
struct Control {
  enum Type : uint32_t {
    Signal, ///< slot of channel reaches value
    Leave,  ///< sender's transport ends in good order: nothing will come from it any more
    Answer, ///< to Leave: the sender has received what came before it
    Abort,  ///< sender gives up; text says why
    Hello,  ///< opens the connection, or shows progress of a channel; no other effect
  };
  Type type = Hello;
  uint32_t source = 0; ///< world rank
  uint32_t channel = 0;
  uint32_t slot = 0;
  uint64_t value = 0;
};

/// A channel as the progress thread sees it, which makes all calls.
class ControlSink {
public:
  virtual ~ControlSink();
  /// Signal or Hello.
  virtual void receive(const Control &control) = 0;
  /// The worker has failed: wake all waiting threads.
  virtual void failed(const Status &status) = 0;
};

class Worker {
public:
  /// UCX finds out at several places which GPU is current: all calls are made with `device`, which
  /// is there until end(), current.
  static Expected<std::shared_ptr<Worker>> create(const Api &api, const UcxOptions &options,
                                                  Device &device);
  ~Worker();

  // Any thread.
  const PeerAddress &address() const { return self; }
  std::chrono::microseconds spin() const { return spinTime; }
  uint32_t rank() const { return worldRank; }
  /// Grows while pieces of messages and controls arrive or leave.
  uint64_t progress() const { return moved; }
  /// Whether UCX was built to move memory of the GPU `device` directly.
  bool movesGpu(std::string_view device) const;
  /// Whether the rank shares memory with this one. After join().
  bool isNear(uint32_t rank) const {
    return rank == worldRank || (!self.host.empty() && peers[rank]->address.host == self.host);
  }
  /// Success, or why this worker has stopped.
  Status health();
  /// Starts `work` on the progress thread, or ends it at once with health().
  void submit(std::shared_ptr<Work> work);
  /// Ends all present and later work with `reason`. The first reason stays.
  void fail(const Status &reason, bool tellPeers);
  /// Runs f on the progress thread, also after a failure, and waits for it.
  Status call(const std::function<Status()> &f);
  /// The same for the end of a channel, which waits at most UcxOptions::patience. `f` owns what it
  /// needs. After end() it does nothing.
  void callAtEnd(std::function<void()> f);

  /// Sends Leave to all connected peers, and waits up to `timeout` for their progress threads to
  /// answer; their callers need not do anything. Then destroys UCX's worker, which ends the thread.
  /// A thread that does not return from UCX within UcxOptions::patience is left behind, and the
  /// device's log says so.
  void end(std::chrono::milliseconds timeout);

  // Progress thread only: from call() or a Work.
  /// Called once, first: all addresses, and this rank's number.
  /// Messages are in memory of `operands`.
  void join(uint32_t rank, uint32_t localSize, std::vector<PeerAddress> addresses,
            const Device &operands);
  /// Of operands. After join().
  ucs_memory_type_t memoryType() const { return operandType; }
  /// False if the channel already has a sink.
  bool addSink(uint32_t channel, ControlSink *sink);
  /// No effect if `sink` is not the channel's.
  void removeSink(uint32_t channel, ControlSink *sink);
  const Api &api;
  ucp_context_h context = nullptr;
  ucp_worker_h worker = nullptr;
  /// The endpoint to `rank`, made at first use.
  Expected<ucp_ep_h> endpoint(uint32_t rank);
  /// Whether the rank has left in good order. What is sent to it then is dropped: it has ended its
  /// runs, so nothing on it waits for more.
  bool hasLeft(uint32_t rank) const { return peers[rank]->left; }
  /// Sends once all earlier puts to that rank have arrived there; ends one part of `owner`.
  void sendControl(Work &owner, uint32_t rank, const Control &control, std::string text = {});
  /// Ends one part of `owner` with the result of a UCX call. True if it has ended.
  bool settle(Work &owner, ucs_status_ptr_t request, const char *what, uint32_t peer);
  void noteProgress() { ++moved; }
  Status peerError(ucs_status_t status, const char *what, uint32_t peer);
  /// Removes finished work from the list; the returned reference keeps it alive.
  std::shared_ptr<Work> forget(Work &work);

private:
  struct Peer {
    Worker *owner = nullptr;
    uint32_t rank = 0;
    PeerAddress address;
    ucp_ep_h endpoint = nullptr;
    int process = -1; ///< pidfd
    bool left = false;
    bool answers = false; ///< its answer to Leave has yet to come
  };

  Worker(const Api &api, const UcxOptions &options, Device &device)
      : api(api), options(options), device(device) {}
  Status open();
  void destroy();
  /// Ends what a link to another host still holds. UCX's worker alone would call abort() if a large
  /// message is under way on an endpoint that reports errors.
  void closeBrokenEndpoints();
  /// Never returns if end() has left the thread behind: what it would use may be gone.
  void stayIfLeftBehind(std::unique_lock<std::mutex> &lock);
  std::shared_ptr<Task> sayGoodbye();
  void run();
  void loop();
  bool takeSubmitted();
  void sleep();
  void watchProcess(Peer &peer);
  void processEnded(Peer &peer);
  void giveUp();
  void peerFailed(Peer &peer, const std::string &why);
  /// The peer has left, or has answered.
  void noteAnswer(Peer &peer);
  void receiveControl(const void *header, size_t headerBytes, const void *data, size_t bytes);
  void wakeThread();

  UcxOptions options;
  Device &device;
  std::atomic<uint64_t> moved{0};
  PeerAddress self;
  std::chrono::microseconds spinTime{0};                ///< fixed by join
  uint32_t worldRank = 0;                               ///< fixed by join
  uint64_t memoryTypes = 0;                             ///< that UCX moves, as bits
  ucs_memory_type_t operandType = UCS_MEMORY_TYPE_HOST; ///< fixed by join
  std::vector<std::unique_ptr<Peer>> peers;
  int ucxEvents = -1, wakeEvent = -1, epoll = -1;

  std::mutex mutex;
  std::vector<std::shared_ptr<Work>> submitted; ///< guarded by mutex
  bool sleeping = false;                        ///< guarded by mutex
  std::condition_variable changed;
  bool destroyed = false;                            ///< guarded by mutex: UCX's worker
  bool leftBehind = false;                           ///< guarded by mutex
  bool stopping = false;                             ///< guarded by mutex
  bool tell = false;                                 ///< guarded by mutex
  Status failure;                                    ///< guarded by mutex
  std::unordered_map<uint32_t, ControlSink *> sinks; ///< progress thread

  std::vector<std::shared_ptr<Work>> inFlight;  ///< progress thread
  std::vector<std::shared_ptr<Work>> forgotten; ///< abandoned, kept until UCX is destroyed
  bool gaveUp = false;                          ///< progress thread: UCX is not progressed any more
  bool leaving = false;                         ///< progress thread
  std::shared_ptr<Work> goodbye;                ///< progress thread: one part per answer to come
  std::atomic<bool> stuck{false};               ///< a call of UCX has not returned in time
  std::thread thread;                           ///< shares ownership of this
};

} // namespace tandem::ucx

#endif // TANDEM_CHANNEL_UCX_WORKER_H
