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

fusion::ScheduleAttr Schedule::getAttr(MLIRContext *context,
                                       std::initializer_list<ScheduleOption> options) const {
  Builder builder(context);
  NamedAttrList given;
  for (const ScheduleOption &option : options) {
    if (const auto *number = std::get_if<int64_t>(&option.value); number && *number)
      given.set(option.name, builder.getI64IntegerAttr(*number));
    if (const auto *word = std::get_if<StringRef>(&option.value); word && !word->empty())
      given.set(option.name, builder.getStringAttr(*word));
    if (const auto *list = std::get_if<ArrayRef<int64_t>>(&option.value); list && !list->empty())
      given.set(option.name, builder.getDenseI64ArrayAttr(*list));
  }
  return fusion::ScheduleAttr::get(context, getName(), given.getDictionary(context));
}

namespace {
/// The schedules of one context: those of the project, the unoverlapped baseline first, then those
/// that are added.
class Registry final : public fusion::ScheduleRegistry {
public:
  explicit Registry(Dialect *dialect) : ScheduleRegistry(dialect) {
    for (auto *create :
         {createPipelineSchedule, createExchangeSchedule, createRingSchedule, createPushSchedule,
          createGatedSchedule, createDirectSchedule, createHierarchicalSchedule})
      add(create());
  }
  void add(std::unique_ptr<Schedule> schedule) {
    infos.push_back(schedule->getInfo());
    schedules.push_back(std::move(schedule));
  }
  ArrayRef<std::unique_ptr<Schedule>> getSchedules() const { return schedules; }

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
  SmallVector<std::unique_ptr<Schedule>, 0> schedules;
  SmallVector<fusion::ScheduleInfo, 0> infos;
};
} // namespace

void tandem::registerSchedules(DialectRegistry &registry) {
  registry.addExtension(
      +[](MLIRContext *, fusion::FusionDialect *dialect) { dialect->addInterfaces<Registry>(); });
}

void tandem::addSchedule(MLIRContext *context, std::unique_ptr<Schedule> schedule) {
  auto *dialect = context->getOrLoadDialect<fusion::FusionDialect>();
  // An interface of a dialect is handed out as const: it is the context's, and so is the dialect.
  auto *registry = const_cast<fusion::ScheduleRegistry *>(
      dialect->getRegisteredInterface<fusion::ScheduleRegistry>());
  static_cast<Registry *>(registry)->add(std::move(schedule));
}

/// None in a context without them.
static ArrayRef<std::unique_ptr<Schedule>> getSchedules(MLIRContext *context) {
  const auto *registry = fusion::ScheduleRegistry::get(context);
  return registry ? static_cast<const Registry *>(registry)->getSchedules()
                  : ArrayRef<std::unique_ptr<Schedule>>();
}

const Schedule *tandem::getSchedule(fusion::ScheduleAttr schedule) {
  for (const std::unique_ptr<Schedule> &known : getSchedules(schedule.getContext()))
    if (known->getName() == schedule.getName())
      return known.get();
  return nullptr;
}

bool tandem::combinesWhole(fusion::ScheduleAttr schedule) {
  const Schedule *known = schedule ? getSchedule(schedule) : nullptr;
  return known && known->combinesWhole(schedule);
}

size_t tandem::getMostGathers(MLIRContext *context) {
  size_t most = std::numeric_limits<size_t>::max();
  for (const std::unique_ptr<Schedule> &schedule : getSchedules(context))
    most = std::min(most, schedule->getMostGathers());
  return most;
}

SmallVector<Candidate> tandem::getCandidates(const StreamLoop &loop) {
  SmallVector<Candidate> candidates;
  for (const std::unique_ptr<Schedule> &schedule : getSchedules(loop.place->getContext()))
    schedule->getCandidates(loop, candidates);
  return candidates;
}

Explained<std::unique_ptr<LoopPlan>> tandem::planFallback(const StreamLoop &loop) {
  MLIRContext *context = loop.place->getContext();
  ArrayRef<std::unique_ptr<Schedule>> schedules = getSchedules(context);
  // By rank, highest first; of equal ones the first.
  SmallVector<std::pair<int, size_t>> ranked;
  for (auto [number, schedule] : llvm::enumerate(schedules))
    if (int rank = schedule->getFallbackRank(loop); rank >= 0)
      ranked.push_back({-rank, number});
  llvm::sort(ranked);
  // The reason why even the last resort does not match is the error.
  while (true) {
    fusion::ScheduleAttr attribute = schedules[ranked.front().second]->getAttr(context);
    Explained<std::unique_ptr<LoopPlan>> plan = LoopPlan::make(loop, attribute);
    if (succeeded(plan) || ranked.size() == 1)
      return plan;
    ranked.erase(ranked.begin());
  }
}
