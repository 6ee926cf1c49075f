//===- Schedules.cpp - the registration of schedules -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../LoopPlan.h"

#include "tandem/Conversion/FusionToHostIR/Passes.h"
#include "tandem/Dialect/Fusion/IR/FusionDialect.h"

using namespace mlir;
using namespace tandem;

/// Those of the project, the unoverlapped baseline first, then those that are registered later.
static std::vector<std::unique_ptr<Schedule>> &getSchedules() {
  static auto *all = [] {
    auto *schedules = new std::vector<std::unique_ptr<Schedule>>();
    schedules->push_back(createPipelineSchedule());
    schedules->push_back(createExchangeSchedule());
    schedules->push_back(createRingSchedule());
    schedules->push_back(createPushSchedule());
    schedules->push_back(createGatedSchedule());
    schedules->push_back(createDirectSchedule());
    schedules->push_back(createHierarchicalSchedule());
    return schedules;
  }();
  return *all;
}

void tandem::registerSchedule(std::unique_ptr<Schedule> schedule) {
  getSchedules().push_back(std::move(schedule));
}

const Schedule *tandem::getSchedule(fusion::ScheduleAttr schedule) {
  for (const std::unique_ptr<Schedule> &known : getSchedules())
    if (known->getName() == schedule.getName())
      return known.get();
  return nullptr;
}

bool tandem::combinesWhole(fusion::ScheduleAttr schedule) {
  const Schedule *known = schedule ? getSchedule(schedule) : nullptr;
  return known && known->combinesWhole(schedule);
}

size_t tandem::getMostGathers() {
  size_t most = std::numeric_limits<size_t>::max();
  for (const std::unique_ptr<Schedule> &schedule : getSchedules())
    most = std::min(most, schedule->getMostGathers());
  return most;
}

SmallVector<Candidate> tandem::getCandidates(const StreamLoop &loop) {
  SmallVector<Candidate> candidates;
  for (const std::unique_ptr<Schedule> &schedule : getSchedules())
    schedule->getCandidates(loop, candidates);
  return candidates;
}

Explained<std::unique_ptr<LoopPlan>> tandem::planFallback(const StreamLoop &loop) {
  // By rank, highest first; of equal ones the first.
  SmallVector<std::pair<int, size_t>> ranked;
  for (auto [number, schedule] : llvm::enumerate(getSchedules()))
    if (int rank = schedule->getFallbackRank(loop); rank >= 0)
      ranked.push_back({-rank, number});
  llvm::sort(ranked);
  // The reason why even the last resort does not match is the error.
  while (true) {
    fusion::ScheduleAttr attribute =
        getSchedules()[ranked.front().second]->getAttr(loop.place->getContext());
    Explained<std::unique_ptr<LoopPlan>> plan = LoopPlan::make(loop, attribute);
    if (succeeded(plan) || ranked.size() == 1)
      return plan;
    ranked.erase(ranked.begin());
  }
}

namespace {
class Registry final : public fusion::ScheduleRegistry {
public:
  explicit Registry(Dialect *dialect) : ScheduleRegistry(dialect) {
    for (const std::unique_ptr<Schedule> &schedule : getSchedules())
      infos.push_back(schedule->getInfo());
  }
  const fusion::ScheduleInfo *lookup(StringRef name) const override {
    const auto *found =
        llvm::find_if(infos, [&](const fusion::ScheduleInfo &info) { return info.name == name; });
    return found == infos.end() ? nullptr : found;
  }
  SmallVector<StringRef> getNames() const override {
    SmallVector<StringRef> names =
        llvm::map_to_vector(infos, [](const fusion::ScheduleInfo &info) { return info.name; });
    llvm::sort(names);
    return names;
  }

private:
  SmallVector<fusion::ScheduleInfo, 0> infos;
};
} // namespace

void tandem::registerSchedules(DialectRegistry &registry) {
  registry.addExtension(
      +[](MLIRContext *, fusion::FusionDialect *dialect) { dialect->addInterfaces<Registry>(); });
}
