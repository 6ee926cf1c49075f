//===- Schedules.cpp - the registration of schedules -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Schedule.h"

#include "tandem/Conversion/FusionToHostIR/Passes.h"
#include "tandem/Dialect/Fusion/IR/FusionDialect.h"
#include "tandem/Support/SilenceDiagnostics.h"

using namespace mlir;
using namespace tandem;

/// Those of the project, the unoverlapped baseline first, and those that are
/// registered later.
static std::vector<std::unique_ptr<Schedule>> &getSchedules() {
  static auto *all = [] {
    auto *schedules = new std::vector<std::unique_ptr<Schedule>>();
    schedules->push_back(createPipelineSchedule());
    schedules->push_back(createExchangeSchedule());
    schedules->push_back(createPushSchedule());
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

SmallVector<fusion::ScheduleAttr> tandem::getCandidates(const StreamGroup &group) {
  SmallVector<fusion::ScheduleAttr> candidates;
  for (const std::unique_ptr<Schedule> &schedule : getSchedules())
    schedule->getCandidates(group, candidates);
  return candidates;
}

fusion::ScheduleAttr tandem::getFallbackSchedule(const StreamGroup &group) {
  SilenceDiagnostics silence(group.place->getContext());
  const Schedule *best = nullptr;
  int highest = -1;
  for (const std::unique_ptr<Schedule> &schedule : getSchedules()) {
    int rank = schedule->getFallbackRank(group);
    if (rank > highest && (rank == 0 || succeeded(schedule->matches(
                                            group, [&] { return group.place->emitError(); })))) {
      best = schedule.get();
      highest = rank;
    }
  }
  return best->getAttr(group.place->getContext());
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
