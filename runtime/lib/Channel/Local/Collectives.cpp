//===- Collectives.cpp - collectives between threads ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalGroup.h"

#include "tandem/Program/CollectiveRoute.h"

#include <fmt/format.h>

namespace tandem::local {

namespace {

/// A plan for the layouts of the last run, which are those of the next one as a rule.
class KnownCopy {
public:
  void run(const TensorView &to, const TensorView &from) {
    if (!known || dst != to.layout || src != from.layout) {
      dst = to.layout;
      src = from.layout;
      plan = CopyPlan(dst, src);
      known = true;
    }
    plan.run(to.data, from.data);
  }

private:
  bool known = false;
  Layout dst, src;
  CopyPlan plan;
};

/// Each rank writes its own output and reads the others' inputs directly.
class CollectiveOperation final : public HostOperation {
public:
  CollectiveOperation(GroupRef group, uint32_t self, const Collective &collective)
      : group(std::move(group)), self(self), collective(collective) {
    // Other kinds ignore these fields, so they may differ between ranks.
    if (!program::isRooted(collective.kind))
      this->collective.root = 0;
    if (!program::isReduction(collective.kind))
      this->collective.op = ReduceOp::Sum;
    copies.resize(this->group->members.size());
    // Two runs may be in flight, so runs need not allocate.
    std::lock_guard<std::mutex> lock(this->group->mutex);
    for (int run = 0; run < 2 && self == 0; ++run)
      this->group->addSpareCollective();
  }

  Status execute(const Frame &frame) override {
    std::unique_lock<std::mutex> lock(group->mutex);
    auto size = static_cast<uint32_t>(group->members.size());
    // The last member that is done ends it; a stream runs one execution of this operation at a
    // time, so its members are safe.
    CollectiveState *state = &group->collective(frame.epoch, collective.sequence);
    state->posts[self] = {true,
                          collective.kind,
                          collective.op,
                          collective.root,
                          collective.out.resolve(frame),
                          collective.in.resolve(frame)};
    if (++state->numPosted == size)
      group->changed.notify_all();
    uint32_t gone = size;
    group->changed.wait(lock, [&] {
      return state->numPosted == size || state->failed || !group->aborted.ok() ||
             (gone = firstGone(*state)) != size;
    });
    if (state->numPosted != size || state->failed) {
      // Some members are missing: no rank has read anything, and none will.
      state->failed = true;
      group->changed.notify_all();
      if (!group->aborted.ok())
        return group->aborted;
      return gone != size ? group->leftError(gone) : Status(Code::Aborted, "another rank aborted");
    }
    // Every member is now in this function, and none waits for anything outside it. The waits below
    // end even after an abort, and no rank leaves while its input is read.
    lock.unlock();
    Status status = check(*state);
    bool late = status.ok() && needsTemporary(*state);
    try {
      if (status.ok())
        late ? reduceToTemporary(*state) : write(*state);
    } catch (const std::bad_alloc &) {
      // The others wait for this rank below: continue.
      status = Status(Code::OutOfMemory, "no memory for a collective's temporary");
      late = false;
    }
    lock.lock();
    if (++state->numRead == size)
      group->changed.notify_all();
    group->changed.wait(lock, [&] { return state->numRead == size; });
    if (++state->numLeft == size)
      group->endCollective(frame.epoch, collective.sequence);
    lock.unlock();
    if (late) {
      const Layout &layout = collective.out.layout;
      copies[self].run(
          collective.out.resolve(frame),
          {result.data(), Layout::dense(layout.dtype, layout.shape.data(), layout.rank)});
    }
    return status;
  }

private:
  uint32_t firstGone(const CollectiveState &state) const {
    for (uint32_t m = 0; m < state.posts.size(); ++m)
      if (!state.posts[m].present && group->members[m].left)
        return m;
    return static_cast<uint32_t>(state.posts.size());
  }

  /// A rank's slice, from the operand that has it.
  static Layout slice(const CollectivePost &post) {
    if (post.in.layout.rank || post.in.data)
      return program::stacksIn(post.kind) ? post.in.slice(0).layout : post.in.layout;
    return program::stacksOut(post.kind) ? post.out.slice(0).layout : post.out.layout;
  }

  Status check(const CollectiveState &state) const {
    const CollectivePost &first = state.posts[0];
    for (uint32_t m = 1; m < state.posts.size(); ++m) {
      const CollectivePost &post = state.posts[m];
      bool same = post.kind == first.kind && post.op == first.op && post.root == first.root;
      if (same) {
        Layout a = slice(first), b = slice(post);
        same = a.dtype == b.dtype && a.sameShape(b);
      }
      if (!same)
        return Status(
            Code::InvalidProgram,
            fmt::format("ranks {} and {} disagree: {} root {} of {}, and {} root {} of {}",
                        group->ranks[0], group->ranks[m], toString(first.kind), first.root,
                        slice(first).str(), toString(post.kind), post.root, slice(post).str()));
    }
    return Status();
  }

  /// An in-place all-reduce would overwrite inputs that others still read.
  static bool needsTemporary(const CollectiveState &state) {
    for (const CollectivePost &post : state.posts)
      if (post.kind == CollectiveKind::AllReduce && post.in.data == post.out.data && post.in.data)
        return true;
    return false;
  }

  void reduceToTemporary(const CollectiveState &state) {
    const Layout &layout = collective.out.layout;
    result.resize(layout.numBytes());
    TensorView dense{result.data(), Layout::dense(layout.dtype, layout.shape.data(), layout.rank)};
    reduce(state, dense, [](const CollectivePost &post) { return post.in; });
  }

  /// In group order on every rank, so that all get the same bits.
  template <typename Pick>
  void reduce(const CollectiveState &state, const TensorView &out, Pick pick) {
    size_t size = state.posts.size();
    bool known = terms.size() == size && sum == out.layout;
    sum = out.layout;
    terms.resize(size);
    addresses.resize(size);
    for (size_t m = 0; m < size; ++m) {
      TensorView in = pick(state.posts[m]);
      known = known && terms[m] == in.layout;
      terms[m] = in.layout;
      addresses[m] = in.data;
    }
    if (!known)
      combine = CombinePlan(sum, terms, collective.op);
    combine.run(out.data, addresses.data());
  }

  void write(const CollectiveState &state) {
    CollectiveKind kind = collective.kind;
    if (program::isToRoot(kind) && self != collective.root)
      return;
    const TensorView &out = state.posts[self].out;
    auto received = [&](const CollectivePost &post) {
      return program::stacksIn(kind) ? post.in.slice(self) : post.in;
    };
    if (program::isReduction(kind))
      return reduce(state, out, received);
    if (program::isFromRoot(kind))
      return copies[self].run(out, received(state.posts[collective.root]));
    for (uint32_t m = 0; m < state.posts.size(); ++m)
      copies[m].run(out.slice(m), received(state.posts[m]));
  }

  GroupRef group;
  uint32_t self;
  Collective collective;
  std::vector<KnownCopy> copies; ///< by the member that is read
  Layout sum;                    ///< what `combine` was made for
  std::vector<Layout> terms;
  CombinePlan combine;
  std::vector<const void *> addresses;
  std::vector<std::byte> result; ///< of an all-reduce in place
};

} // namespace

Expected<std::unique_ptr<Operation>> prepareCollective(GroupRef group, uint32_t self,
                                                       const Collective &collective) {
  return std::make_unique<CollectiveOperation>(std::move(group), self, collective);
}

} // namespace tandem::local
