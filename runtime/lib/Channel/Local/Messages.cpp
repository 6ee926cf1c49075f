//===- Messages.cpp - send and receive between threads ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalGroup.h"

#include <algorithm>
#include <fmt/format.h>

namespace tandem::local {

namespace {

/// The receiver copies directly from the sender's buffer.
class MessagesOperation final : public HostOperation {
public:
  MessagesOperation(GroupRef group, uint32_t self, const std::vector<Message> &messages)
      : group(std::move(group)), self(self) {
    for (const Message &message : messages)
      (message.isSend ? sends : receives).push_back(message);
    plans.resize(receives.size());
    posts.resize(sends.size());
    // Two runs may be in flight, so runs need not allocate.
    std::lock_guard<std::mutex> lock(this->group->mutex);
    for (const Message &send : sends) {
      Group::Member &peer = this->group->members[send.peer];
      peer.maxSends += 2;
      peer.sends.reserve(peer.maxSends);
    }
  }

  Status execute(const Frame &frame) override {
    // A stream runs one execution of this operation at a time, so `posts` is safe.
    std::unique_lock<std::mutex> lock(group->mutex);
    Status status = group->aborted;
    for (size_t i = 0; i < sends.size() && status.ok(); ++i) {
      posts[i] = {
          self,    sends[i].tag, frame.epoch, SendPost::Posted, sends[i].buffer.resolve(frame),
          Status()};
      group->members[sends[i].peer].sends.push_back(&posts[i]);
    }
    if (!sends.empty())
      group->changed.notify_all();
    for (size_t i = 0; i < receives.size() && status.ok(); ++i)
      status = receive(lock, frame, i);
    for (size_t i = 0; i < sends.size(); ++i) {
      Status sent = finishSend(lock, sends[i], posts[i], status);
      if (status.ok())
        status = sent;
    }
    return status;
  }

private:
  struct Plan {
    Layout src;
    bool valid = false, staged = false;
    CopyPlan first, second; ///< staged through a dense copy, because the shapes differ
    std::vector<std::byte> dense;
  };

  Status receive(std::unique_lock<std::mutex> &lock, const Frame &frame, size_t i) {
    const Message &message = receives[i];
    std::vector<SendPost *> &posted = group->members[self].sends;
    auto found = posted.end();
    group->changed.wait(lock, [&] {
      found = std::find_if(posted.begin(), posted.end(), [&](const SendPost *post) {
        return post->source == message.peer && post->epoch == frame.epoch &&
               post->tag == message.tag;
      });
      return found != posted.end() || !group->aborted.ok() || group->members[message.peer].left;
    });
    if (!group->aborted.ok())
      return group->aborted;
    if (found == posted.end())
      return group->leftError(message.peer);
    SendPost *post = *found;
    posted.erase(found);
    const Layout &dst = message.buffer.layout, &src = post->view.layout;
    if (dst.dtype != src.dtype || dst.numElements() != src.numElements()) {
      post->error =
          Status(Code::InvalidProgram,
                 fmt::format("message with tag {} from rank {} to rank {}: sent {}, received as {}",
                             message.tag, group->ranks[message.peer], group->ranks[self], src.str(),
                             dst.str()));
      post->state = SendPost::Done;
      group->changed.notify_all();
      return post->error;
    }
    post->state = SendPost::Taken;
    lock.unlock();
    copy(plans[i], message.buffer.resolve(frame), post->view);
    lock.lock();
    post->state = SendPost::Done;
    group->changed.notify_all();
    return Status();
  }

  static void copy(Plan &plan, const TensorView &dst, const TensorView &src) {
    if (!plan.valid || plan.src != src.layout) {
      plan.valid = true;
      plan.src = src.layout;
      plan.staged = !dst.layout.sameShape(src.layout);
      if (plan.staged) {
        plan.first = CopyPlan(
            Layout::dense(src.layout.dtype, src.layout.shape.data(), src.layout.rank), src.layout);
        plan.second = CopyPlan(
            dst.layout, Layout::dense(dst.layout.dtype, dst.layout.shape.data(), dst.layout.rank));
      } else {
        plan.first = CopyPlan(dst.layout, src.layout);
      }
    }
    if (!plan.staged)
      return plan.first.run(dst.data, src.data);
    plan.dense.resize(src.layout.numBytes());
    plan.first.run(plan.dense.data(), src.data);
    plan.second.run(dst.data, plan.dense.data());
  }

  /// Returns only when the buffer is no longer read.
  Status finishSend(std::unique_lock<std::mutex> &lock, const Message &message, SendPost &post,
                    const Status &status) {
    auto given = [&] {
      return !status.ok() || !group->aborted.ok() || group->members[message.peer].left;
    };
    group->changed.wait(lock, [&] {
      return post.state == SendPost::Done || (post.state == SendPost::Posted && given());
    });
    if (post.state == SendPost::Done)
      return post.error;
    std::vector<SendPost *> &posted = group->members[message.peer].sends;
    posted.erase(std::remove(posted.begin(), posted.end(), &post), posted.end());
    if (!status.ok())
      return status;
    return group->aborted.ok() ? group->leftError(message.peer) : group->aborted;
  }

  GroupRef group;
  uint32_t self;
  std::vector<Message> sends, receives;
  std::vector<Plan> plans;     ///< per receive, for the most recent layout
  std::vector<SendPost> posts; ///< per send
};

} // namespace

Expected<std::unique_ptr<Operation>> prepareMessages(GroupRef group, uint32_t self,
                                                     const std::vector<Message> &messages) {
  return std::make_unique<MessagesOperation>(std::move(group), self, messages);
}

} // namespace tandem::local
