//===- Pipeline.cpp - collective, then compute, slice by slice -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Schedule.h"
#include "Support/Combine.h"
#include "Support/SliceFactors.h"

using namespace mlir;
using namespace tandem;

namespace {

/// Per slice: each op of the loop in order on the iteration's stream, reshards as collectives. A
/// loop that is not streamed has one slice, on the main stream: the unoverlapped baseline. Matches
/// wherever its reshards can be lowered.
class Pipeline : public Schedule {
  fusion::ScheduleInfo getInfo() const override {
    using Option = fusion::ScheduleOption;
    return {"pipeline", {{"streams", Option::Kind::Integer}, getCombineOption()}};
  }
  bool combinesWhole(fusion::ScheduleAttr schedule) const override {
    return isCombinedWhole(schedule);
  }

  Explained<SchedulePlan> match(const StreamLoop &loop) const override {
    if (Obstacle why = verifyCombine(loop))
      return why;
    for (fusion::ReshardOp reshard : loop.reshards())
      if (Explained<fusion::SliceReshard> plan = classifySlices(reshard); failed(plan))
        return plan.explanation();
    return SchedulePlan{[&loop](ProgramBuilder &program) {
      return emitPipeline(loop, program, /*sendsMessages=*/false);
    }};
  }

  void getCandidates(const StreamLoop &loop,
                     SmallVectorImpl<Candidate> &candidates) const override {
    fusion::ScheduleAttr schedule = getAttr(loop.op->getContext());
    candidates.push_back({schedule});
    addSliced(loop, schedule, getOwnerFactor, candidates);
    addSliced(loop, schedule, getRangeFactors, candidates);
  }
  int getFallbackRank(const StreamLoop &loop) const override { return 0; }
};

} // namespace

fusion::ScheduleAttr tandem::getBaseline(const StreamLoop &loop) {
  MLIRContext *context = loop.op->getContext();
  return Pipeline().getAttr(context, combinesWhole(loop.schedule) ? "combine = whole" : "");
}

std::optional<SchedulePlan> tandem::planIfNothingMoves(const StreamLoop &loop) {
  if (!movesNothing(loop.reshards()))
    return std::nullopt;
  return SchedulePlan{[&loop](ProgramBuilder &program) {
    return emitPipeline(loop, program, /*sendsMessages=*/false);
  }};
}

LogicalResult tandem::emitPipeline(const StreamLoop &all, ProgramBuilder &program,
                                   bool sendsMessages) {
  if (all.streamSizes.empty())
    return emitWhole(all.ops, program, sendsMessages);
  // A reduction whose operand is sliced by receiver runs whole, after the loop.
  StreamLoop loop = all;
  SmallVector<Operation *> after;
  llvm::erase_if(loop.ops, [&](Operation *op) {
    bool isAfter = isa<fusion::ReshardOp>(op) && loop.accumulators.erase(op);
    if (isAfter)
      after.push_back(op);
    return isAfter;
  });
  LoopEmitter body(loop, program);
  body.sendsMessages = sendsMessages;
  Location loc = loop.ops.front()->getLoc();
  if (failed(body.prepare()))
    return failure();
  int64_t slices = loop.numSlices();
  int64_t streams = program.getNumStreams(loop.schedule.getInteger("streams"), slices);
  program.fork(loc, streams);
  auto iteration = [&](Value i) -> LogicalResult {
    Value stream = program.getStream(loc, i, streams);
    SliceIndex index = getSliceIndex(program.getBuilder(), loc, loop.streamSizes, i);
    return body.forEachShape(loc, index, [&](const SliceIndex &slice) {
      return body.emitSlices(loop.ops, slice, stream, /*isStreamUsed=*/false);
    });
  };
  if (failed(program.loop(loc, 0, slices, iteration)))
    return failure();
  program.join(loc, streams);
  if (failed(body.finish()))
    return failure();
  return emitWhole(after, program);
}

std::unique_ptr<Schedule> tandem::createPipelineSchedule() { return std::make_unique<Pipeline>(); }
