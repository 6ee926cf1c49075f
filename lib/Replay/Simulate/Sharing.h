//===- Sharing.h - activities that share resources ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SIMULATE_SHARING_H
#define TANDEM_LIB_SIMULATE_SHARING_H

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace tandem::simulate {

/// Work in progress on resources of limited capacity: flows on ports and links, kernels on SMs or
/// cores.
///
/// Every resource gives its activities equal parts of its capacity, and an activity is as fast as
/// the slowest of its resources lets it be. This is max-min fairness without its second round: what
/// an activity that is slowed elsewhere leaves unused is not given to others. No resource is ever
/// given away twice; it is exact where the activities of a resource are alike (all of a symmetric
/// schedule); and a change touches only the neighbours on the same resources, so a thousand ranks
/// stay cheap.
class Sharing {
public:
  using Resource = uint32_t;
  using Activity = uint32_t;
  static constexpr uint32_t kNone = 0xffffffffu;

  /// How much of a resource one unit of an activity's work needs.
  struct Use {
    Resource resource;
    double demand;
    /// How many times as long the activity takes where the resource is full of others
    /// (machine::slowdown).
    double contention = 1;
  };

  /// `shared`: the part of the capacity that is left when more than one activity uses it.
  Resource addResource(double capacity, double shared = 1);
  /// Changes the capacity from now on.
  void setCapacity(Resource resource, double capacity, double now);
  /// As it was added.
  double fullCapacity(Resource resource) const { return resources[resource].full; }
  /// Work done on it so far by activities that are over.
  double consumed(Resource resource) const { return resources[resource].consumed; }

  /// Begins `work` units, at most `maxRate` a second. `tag` is the caller's.
  Activity start(double work, double maxRate, const Use *uses, size_t numUses, uint32_t tag,
                 double now);
  /// When the next activity ends; infinity if there is none.
  double nextEnd();
  /// Ends that activity, and returns its tag.
  uint32_t finishNext();

private:
  struct Member {
    Activity activity;
    uint32_t use; ///< which of the activity's uses this is
  };
  struct ResourceState {
    double capacity, full, shared, consumed = 0;
    std::vector<Member> members;
  };
  struct UseState {
    Resource resource;
    uint32_t position; ///< in the resource's members
    double demand, contention;
  };
  struct ActivityState {
    double work = 0, remaining = 0, rate = 0, since = 0, maxRate = 0, end = 0;
    uint32_t tag = 0;
    uint32_t heapAt = kNone;
    uint64_t order = 0;
    uint64_t updated = 0; ///< the change for which its rate has been computed
    std::vector<UseState> uses;
  };

  double rateOf(const ActivityState &activity) const;
  void update(Activity activity, double now);
  /// The members that the present change has not updated yet: activities share many resources.
  void updateMembers(Resource resource, double now);
  void leave(Resource resource, uint32_t position);
  bool before(Activity a, Activity b) const;
  void place(size_t at, Activity activity);
  void siftUp(size_t at);
  void siftDown(size_t at);

  std::vector<ResourceState> resources;
  std::vector<ActivityState> activities;
  std::vector<Activity> unused;
  std::vector<Activity> heap; ///< by end, then by order
  uint64_t nextOrder = 0;
  uint64_t changes = 0; ///< starts, ends and new capacities so far
};

} // namespace tandem::simulate

#endif // TANDEM_LIB_SIMULATE_SHARING_H
