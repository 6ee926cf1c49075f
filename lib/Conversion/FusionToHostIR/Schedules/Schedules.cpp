//===- Schedules.cpp - the registration of schedules -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../LoopPlan.h"

#include "Support/SliceFactors.h"
#include "mlir/AsmParser/AsmParser.h"
#include "tandem/Conversion/FusionToHostIR/Passes.h"
#include "tandem/Dialect/Fusion/IR/FusionDialect.h"
#include "tandem/Dialect/Fusion/IR/ReshardSlices.h"

using namespace mlir;
using namespace tandem;

/// Adds the words of a schedule's choices, as the table has them.
static void addChoices(fusion::ScheduleInfo &info) {
  auto add = [&](std::initializer_list<StringRef> words) {
    for (auto [choice, list] : llvm::zip_equal(fusion::kScheduleChoices, words)) {
      fusion::ScheduleOption option{choice, fusion::ScheduleOption::Kind::Word};
      list.split(option.words, ' ');
      if (!list.empty())
        info.choices.push_back(std::move(option));
    }
  };
#define TANDEM_SCHEDULE(schedule, order, by, compute, sum)                                         \
  if (info.name == #schedule)                                                                      \
    add({#order, #by, #compute, #sum});
#include "tandem-c/Schedules.def"
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
    addChoices(infos.back());
    schedules.push_back(std::move(schedule));
  }
  ArrayRef<std::unique_ptr<Schedule>> getSchedules() const { return schedules; }

  ArrayRef<fusion::ScheduleInfo> getInfos() const override { return infos; }
  const Schedule *getSchedule(StringRef name) const {
    const fusion::ScheduleInfo *info = lookup(name);
    return info ? schedules[info - infos.begin()].get() : nullptr;
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
  const auto *registry = fusion::ScheduleRegistry::get(schedule.getContext());
  return registry ? static_cast<const Registry *>(registry)->getSchedule(schedule.getName())
                  : nullptr;
}

fusion::ScheduleAttr Schedule::getAttr(MLIRContext *context, const Twine &options) const {
  std::string more = options.str();
  return cast<fusion::ScheduleAttr>(parseAttribute(
      ("#fusion.schedule<" + getName() + (more.empty() ? "" : ", ") + more + ">").str(), context));
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

static StringRef describeLoop(fusion::LoopKind loop) {
  switch (loop) {
  case fusion::LoopKind::Gather:
    return "a gather";
  case fusion::LoopKind::AllToAll:
    return "an all-to-all";
  case fusion::LoopKind::Reduction:
    return "a reduction";
  case fusion::LoopKind::AllReduce:
    return "an all-reduce";
  }
  return "";
}

static fusion::LoopKind getLoopKind(fusion::ReshardKind kind) {
  if (kind == fusion::ReshardKind::AllReduce)
    return fusion::LoopKind::AllReduce;
  if (isReduction(kind))
    return fusion::LoopKind::Reduction;
  return kind == fusion::ReshardKind::AllToAll ? fusion::LoopKind::AllToAll
                                               : fusion::LoopKind::Gather;
}

/// Of what needs most: a loop may gather before it reduces, and a reshard may be several rows.
static fusion::LoopKind getLoopKind(ArrayRef<fusion::ReshardOp> reshards) {
  fusion::LoopKind kind = fusion::LoopKind::Gather;
  for (fusion::ReshardOp op : reshards) {
    fusion::Reshard reshard = fusion::classifyReshard(op);
    kind = std::max(kind, getLoopKind(reshard.kind));
    for (const fusion::ReshardStep &step : reshard.steps)
      kind = std::max(kind, getLoopKind(step.kind));
  }
  return kind;
}

/// The rule by which the schedule does not take such loops, or null.
static const fusion::ScheduleRule *findRule(fusion::ScheduleAttr schedule, fusion::LoopKind loop) {
  const auto *registry = fusion::ScheduleRegistry::get(schedule.getContext());
  for (const fusion::ScheduleRule &rule : registry->lookup(schedule.getName())->rules)
    if (!rule.loops.empty() && rule.choice.isMade(schedule.getOptions()) &&
        !llvm::is_contained(rule.loops, loop))
      return &rule;
  return nullptr;
}

Obstacle tandem::verifyRules(const StreamLoop &loop) {
  fusion::LoopKind kind = getLoopKind(loop.reshards());
  const fusion::ScheduleRule *rule = findRule(loop.schedule, kind);
  if (!rule || movesNothing(loop.reshards()))
    return std::nullopt;
  Explanation why = loop.explain() << "schedule " << loop.schedule.getName() << ": expected ";
  llvm::interleave(
      rule->loops, why, [&](fusion::LoopKind taken) { why << describeLoop(taken); }, " or ");
  return std::move(why) << " with " << rule->choice.str() << ", found " << describeLoop(kind);
}

SmallVector<Candidate> tandem::getCandidates(const StreamLoop &loop) {
  SmallVector<Candidate> candidates;
  for (const std::unique_ptr<Schedule> &schedule : getSchedules(loop.op->getContext()))
    schedule->getCandidates(loop, candidates);
  SmallVector<fusion::ReshardOp> reshards = loop.reshards(), numbered = getNumberedReshards(loop);
  llvm::erase_if(candidates, [&](const Candidate &candidate) {
    ArrayRef<fusion::ReshardOp> moved = reshards;
    if (candidate.slices)
      moved = ArrayRef(numbered).slice(candidate.slices->first, 1);
    return findRule(candidate.schedule, getLoopKind(moved)) != nullptr;
  });
  return candidates;
}

Explained<std::unique_ptr<LoopPlan>> tandem::planFallback(const StreamLoop &loop) {
  MLIRContext *context = loop.op->getContext();
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
