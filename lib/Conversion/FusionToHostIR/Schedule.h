//===- Schedule.h - how a stream loop becomes host IR -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULE_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULE_H

#include "LoopEmitter.h"
#include "StreamLoop.h"
#include "tandem/Analysis/Pricer.h"
#include "tandem/Dialect/Fusion/IR/ScheduleInfo.h"
#include "tandem/Dialect/Fusion/Transforms/StreamReshard.h"
#include "tandem/Support/LLVM.h"
#include <functional>
#include <limits>
#include <optional>

namespace tandem {

using program::Capability;

/// How a schedule lowers one loop: all that `Schedule::match` has found out. It refers to the loop,
/// which must live as long and stay as it is.
struct SchedulePlan {
  /// Emits the commands. An op that has no lowering is an error, reported at the op.
  std::function<LogicalResult(ProgramBuilder &program)> emit;
  /// What the commands use of the channels and the devices. Without what devices lack, such as a
  /// kernel, the parts run one by one, and nothing is gained.
  program::CapabilitySet uses = {};
  /// Whether partial sums are added in the order of the ranks, as the unoverlapped baseline of a
  /// deterministic program adds them.
  bool addsInRankOrder = true;
  /// Whether a command of its own adds a matmul's bias, to what has been rounded: other bits than
  /// the matmul's.
  bool addsBiasSeparately = false;
};

/// A schedule with options that is worth a price.
struct Candidate {
  fusion::ScheduleAttr schedule;
  /// The slices to cut a reshard into first, by its number in the loop op
  /// (StreamLoopOp::getReshards()); none: the loop as it is.
  std::optional<std::pair<unsigned, fusion::StreamFactor>> slices = std::nullopt;
};

/// An algorithm that makes a stream loop host IR. Const, and so used by several threads.
class Schedule {
public:
  virtual ~Schedule() = default;

  /// The name and the options, which attributes are verified against.
  virtual fusion::ScheduleInfo getInfo() const = 0;
  StringRef getName() const { return getInfo().name; }
  /// The attribute with options as they are written: "by = sms, streams = 2".
  fusion::ScheduleAttr getAttr(MLIRContext *context, const Twine &options = "") const;

  /// Appends what is worth a price for the loop: options, and slices to try. Candidates that do not
  /// match are passed over later.
  virtual void getCandidates(const StreamLoop &loop,
                             SmallVectorImpl<Candidate> &candidates) const = 0;

  /// How well the schedule suits the loop where nothing is known of the machine: of those that
  /// match, the one of the highest rank is chosen. Negative: never without a price. One schedule
  /// has rank 0, for all loops: it is the last resort.
  virtual int getFallbackRank(const StreamLoop &loop) const { return -1; }

  /// Whether ops that combine slices of what a loop gathers run after it instead, once, on the
  /// whole gathered value.
  virtual bool combinesWhole(fusion::ScheduleAttr schedule) const { return false; }

  /// The most gathers that it takes in one loop without slices.
  virtual size_t getMostGathers() const { return std::numeric_limits<size_t>::max(); }

  /// The plan for the loop with the options `loop.schedule`, or why the schedule cannot lower it:
  /// what was expected and what was found.
  virtual Explained<SchedulePlan> match(const StreamLoop &loop) const = 0;
};

/// The schedule that an attribute names, or null. In a context with registered schedules attributes
/// are verified, so there is one.
const Schedule *getSchedule(fusion::ScheduleAttr schedule);

/// Why the schedule of the loop does not take it, by its rules.
Obstacle verifyRules(const StreamLoop &loop);

/// Whether the schedule does so (Schedule::combinesWhole); null or unknown ones do not.
bool combinesWhole(fusion::ScheduleAttr schedule);
/// The most gathers in a loop without slices that every schedule takes.
size_t getMostGathers(MLIRContext *context);

/// Adds a schedule to a context with the project's (registerSchedules), before anything is compiled
/// in it.
void addSchedule(MLIRContext *context, std::unique_ptr<Schedule> schedule);

/// The unoverlapped baseline. What the loop's annotation keeps whole is not sliced without it.
fusion::ScheduleAttr getBaseline(const StreamLoop &loop);

/// The candidates of all schedules for a loop. The first is the unoverlapped baseline.
SmallVector<Candidate> getCandidates(const StreamLoop &loop);

/// Slice by slice: the ops of the loop in order, on the worker of the iteration. Without stream
/// digits, one op after another on the main stream. `sendsMessages`: see LoopEmitter.
LogicalResult emitPipeline(const StreamLoop &loop, ProgramBuilder &program, bool sendsMessages);

/// That plan for a loop whose reshards are all among groups of one device, for schedules that only
/// know what to do with peers; otherwise nothing.
std::optional<SchedulePlan> planIfNothingMoves(const StreamLoop &loop);

std::unique_ptr<Schedule> createPipelineSchedule();
std::unique_ptr<Schedule> createExchangeSchedule();
std::unique_ptr<Schedule> createPushSchedule();
std::unique_ptr<Schedule> createGatedSchedule();
std::unique_ptr<Schedule> createDirectSchedule();
std::unique_ptr<Schedule> createRingSchedule();
std::unique_ptr<Schedule> createHierarchicalSchedule();

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULE_H
