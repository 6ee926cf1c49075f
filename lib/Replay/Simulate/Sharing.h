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
#include <queue>
#include <vector>

namespace tandem::simulate {

/// Activities on resources of limited capacity: flows on ports and links, kernels on SMs or cores.
///
/// A resource divides its capacity equally among its activities; an activity runs at the least rate
/// that its resources give it. This is max-min fairness without redistribution: capacity that an
/// activity limited elsewhere cannot use stays unused. No capacity is given twice, and the result
/// is exact if all activities of a resource are alike, as in symmetric schedules. A change affects
/// only activities on the same resources, so a thousand ranks are cheap.
class Sharing {
public:
  using Resource = uint32_t;
  using Activity = uint32_t;
  static constexpr uint32_t kNone = 0xffffffffu;

  /// Amount of a resource that one unit of work needs.
  struct Use {
    Resource resource;
    double demand;
    /// Slowdown of the activity if others fill the resource (machine::slowdown).
    double contention = 1;
  };

  /// `shared`: fraction of the capacity left when several activities use it.
  Resource addResource(double capacity, double shared = 1);
  /// Changes the capacity from `now` on.
  void setCapacity(Resource resource, double capacity, double now);
  /// The initial capacity.
  double fullCapacity(Resource resource) const { return resources[resource].full; }
  /// Work done on it by finished activities.
  double consumed(Resource resource) const { return resources[resource].consumed; }

  /// Starts `work` units at no more than `maxRate` per second. `tag` is the caller's.
  Activity start(double work, double maxRate, const Use *uses, size_t numUses, uint32_t tag,
                 double now);
  /// When the next activity ends; infinity if none.
  double nextEnd();
  /// Ends that activity, and returns its tag.
  uint32_t finishNext();

private:
  struct Member {
    Activity activity;
    uint32_t use; ///< index in the activity's uses
  };
  struct ResourceState {
    double capacity, full, shared, consumed = 0;
    bool isChanged = false; ///< in `changed`
    std::vector<Member> members;
  };
  struct UseState {
    Resource resource;
    uint32_t position; ///< index in the resource's members
    double demand, contention;
  };
  struct ActivityState {
    double work = 0, remaining = 0, rate = 0, since = 0, maxRate = 0, end = 0;
    uint32_t tag = 0;
    bool isListed = false; ///< its end is in `ends`
    uint64_t order = 0;
    uint64_t updated = 0; ///< the change that its rate was last computed for
    std::vector<UseState> uses;
  };
  struct End {
    double at;
    uint64_t order;
    Activity activity;
    /// The queue's top is the greatest: the first to end, then the first that began.
    bool operator<(const End &other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };

  double rateOf(const ActivityState &activity) const;
  void update(Activity activity, double now);
  /// Updates members once per change: activities share several resources.
  void updateMembers(Resource resource, double now);
  void moveTo(double now);
  void touch(Resource resource);
  void settle();
  void dropOldEnds();
  void leave(Resource resource, uint32_t position);

  std::vector<ResourceState> resources;
  std::vector<ActivityState> activities;
  std::vector<Activity> unused;
  std::priority_queue<End> ends; ///< of what runs, and old ones of what has got another rate
  uint64_t nextOrder = 0;
  std::vector<Resource> changed; ///< at `changedAt`; their members have not been updated
  double changedAt = 0;
  uint64_t changes = 0; ///< number of times at which something has changed
};

} // namespace tandem::simulate

#endif // TANDEM_LIB_SIMULATE_SHARING_H
