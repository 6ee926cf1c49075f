//===- Sharing.cpp - activities that share resources ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Sharing.h"

#include "tandem/Replay/Machine.h"

#include <algorithm>

namespace tandem::simulate {

Sharing::Resource Sharing::addResource(double capacity, double shared) {
  ResourceState state{capacity, capacity, shared, 0, false, {}};
  resources.push_back(std::move(state));
  return static_cast<Resource>(resources.size() - 1);
}

void Sharing::setCapacity(Resource resource, double capacity, double now) {
  if (resources[resource].capacity == capacity)
    return;
  moveTo(now);
  resources[resource].capacity = capacity;
  touch(resource);
}

/// To be called before anything changes.
void Sharing::moveTo(double now) {
  if (now != changedAt)
    settle();
  changedAt = now;
}

/// The members of a resource get new rates when they are asked for: many changes have one time.
void Sharing::touch(Resource resource) {
  if (resources[resource].isChanged)
    return;
  resources[resource].isChanged = true;
  changed.push_back(resource);
}

void Sharing::settle() {
  ++changes;
  for (Resource resource : changed) {
    resources[resource].isChanged = false;
    updateMembers(resource, changedAt);
  }
  changed.clear();
}

double Sharing::rateOf(const ActivityState &activity) const {
  double rate = activity.maxRate, slower = 1;
  for (const UseState &use : activity.uses) {
    const ResourceState &resource = resources[use.resource];
    auto members = static_cast<double>(resource.members.size());
    double capacity = members > 1 ? resource.capacity * resource.shared : resource.capacity;
    rate = std::min(rate, capacity / (members * use.demand));
    if (use.contention > 1)
      slower = std::max(slower, machine::slowdown(use.contention, members, resource.full));
  }
  return rate / slower;
}

/// Advances an activity to `now`, sets its new rate and adds its new end.
void Sharing::update(Activity index, double now) {
  ActivityState &activity = activities[index];
  double rate = rateOf(activity);
  if (rate == activity.rate && activity.isListed)
    return;
  activity.remaining = std::max(0.0, activity.remaining - activity.rate * (now - activity.since));
  activity.since = now;
  activity.rate = rate;
  activity.end =
      rate > 0 ? now + activity.remaining / rate : std::numeric_limits<double>::infinity();
  ends.push({activity.end, activity.order, index});
  activity.isListed = true;
}

void Sharing::updateMembers(Resource resource, double now) {
  for (const Member &member : resources[resource].members) {
    uint64_t &updated = activities[member.activity].updated;
    if (updated == changes)
      continue;
    updated = changes;
    update(member.activity, now);
  }
}

Sharing::Activity Sharing::start(double work, double maxRate, const Use *uses, size_t numUses,
                                 uint32_t tag, double now) {
  moveTo(now);
  Activity index;
  if (unused.empty()) {
    index = static_cast<Activity>(activities.size());
    activities.emplace_back();
  } else {
    index = unused.back();
    unused.pop_back();
  }
  ActivityState &activity = activities[index];
  activity.work = activity.remaining = work;
  activity.rate = 0;
  activity.since = now;
  activity.maxRate = maxRate;
  activity.tag = tag;
  activity.order = nextOrder++;
  activity.uses.clear();
  for (size_t i = 0; i < numUses; ++i) {
    std::vector<Member> &members = resources[uses[i].resource].members;
    activity.uses.push_back({uses[i].resource, static_cast<uint32_t>(members.size()),
                             uses[i].demand, uses[i].contention});
    members.push_back({index, static_cast<uint32_t>(i)});
  }
  for (size_t i = 0; i < numUses; ++i)
    touch(uses[i].resource);
  if (numUses == 0)
    update(index, now);
  return index;
}

void Sharing::dropOldEnds() {
  auto isOld = [&](const End &end) {
    const ActivityState &activity = activities[end.activity];
    return !activity.isListed || activity.order != end.order || activity.end != end.at;
  };
  while (!ends.empty() && isOld(ends.top()))
    ends.pop();
}

double Sharing::nextEnd() {
  dropOldEnds();
  // What ends now does so at any rate.
  if (ends.empty() || ends.top().at > changedAt) {
    settle();
    dropOldEnds();
  }
  return ends.empty() ? std::numeric_limits<double>::infinity() : ends.top().at;
}

void Sharing::leave(Resource resource, uint32_t position) {
  std::vector<Member> &members = resources[resource].members;
  Member last = members.back();
  members[position] = last;
  activities[last.activity].uses[last.use].position = position;
  members.pop_back();
}

uint32_t Sharing::finishNext() {
  (void)nextEnd();
  Activity index = ends.top().activity;
  ends.pop();
  ActivityState &activity = activities[index];
  activity.isListed = false;
  moveTo(activity.end);
  for (const UseState &use : activity.uses) {
    resources[use.resource].consumed += activity.work * use.demand;
    leave(use.resource, use.position);
  }
  for (const UseState &use : activity.uses)
    touch(use.resource);
  uint32_t tag = activity.tag;
  unused.push_back(index);
  return tag;
}

} // namespace tandem::simulate
