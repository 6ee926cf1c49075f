//===- Messages.cpp - send and receive between threads ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalGroup.h"

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
  }

  Status execute(const Frame &frame) override {
    std::vector<SendPost> posts(sends.size());
    std::unique_lock<std::mutex> lock(group->mutex);
    Status status = group->aborted;
    for (size_t i = 0; i < sends.size() && status.ok(); ++i) {
      posts[i].view = sends[i].buffer.resolve(frame);
      group->sends[{self, sends[i].peer, frame.epoch, sends[i].tag}] = &posts[i];
    }
    if (!sends.empty())
      group->changed.notify_all();
    for (size_t i = 0; i < receives.size() && status.ok(); ++i)
      status = receive(lock, frame, i);
    for (size_t i = 0; i < sends.size(); ++i) {
      Status sent = finishSend(lock, frame, sends[i], posts[i], status);
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
  };

  Status receive(std::unique_lock<std::mutex> &lock, const Frame &frame, size_t i) {
    const Message &message = receives[i];
    auto key = std::make_tuple(message.peer, self, frame.epoch, message.tag);
    auto found = group->sends.end();
    group->changed.wait(lock, [&] {
      found = group->sends.find(key);
      return found != group->sends.end() || !group->aborted.ok() ||
             group->members[message.peer].left;
    });
    if (!group->aborted.ok())
      return group->aborted;
    if (found == group->sends.end())
      return group->leftError(message.peer);
    SendPost *post = found->second;
    group->sends.erase(found);
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
    std::vector<std::byte> dense(src.layout.numBytes());
    plan.first.run(dense.data(), src.data);
    plan.second.run(dst.data, dense.data());
  }

  /// Returns only when the buffer is no longer read.
  Status finishSend(std::unique_lock<std::mutex> &lock, const Frame &frame, const Message &message,
                    SendPost &post, const Status &status) {
    auto given = [&] {
      return !status.ok() || !group->aborted.ok() || group->members[message.peer].left;
    };
    group->changed.wait(lock, [&] {
      return post.state == SendPost::Done || (post.state == SendPost::Posted && given());
    });
    if (post.state == SendPost::Done)
      return post.error;
    auto found = group->sends.find({self, message.peer, frame.epoch, message.tag});
    if (found != group->sends.end() && found->second == &post)
      group->sends.erase(found);
    if (!status.ok())
      return status;
    return group->aborted.ok() ? group->leftError(message.peer) : group->aborted;
  }

  GroupRef group;
  uint32_t self;
  std::vector<Message> sends, receives;
  std::vector<Plan> plans; ///< per receive, for the most recent layout
};

} // namespace

Expected<std::unique_ptr<Operation>> prepareMessages(GroupRef group, uint32_t self,
                                                     const std::vector<Message> &messages) {
  return std::make_unique<MessagesOperation>(std::move(group), self, messages);
}

} // namespace tandem::local
