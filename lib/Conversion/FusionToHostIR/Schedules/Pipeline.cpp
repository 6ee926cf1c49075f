//===- Pipeline.cpp - collective, then compute, slice by slice -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Schedule.h"

#include "tandem/Dialect/Fusion/IR/Placement.h"

using namespace mlir;
using namespace tandem;

namespace {

/// Per slice: each op of the group in order on the iteration's stream, reshards
/// as collectives. A group that is not streamed has one slice, on the main
/// stream: the plain sequence. Always matches where its reshards can be
/// lowered.
class Pipeline : public Schedule {
  fusion::ScheduleInfo getInfo() const override {
    return {"pipeline", {{"streams", fusion::ScheduleOption::Kind::Integer}}};
  }

  LogicalResult matches(const StreamGroup &group,
                        function_ref<InFlightDiagnostic()> why) const override {
    for (fusion::ReshardOp reshard : group.reshards())
      if (failed(planReshard(reshard, getSymbolicIndex(reshard), nullptr, why)))
        return failure();
    return success();
  }

  void getCandidates(const StreamGroup &group,
                     SmallVectorImpl<fusion::ScheduleAttr> &candidates) const override {
    candidates.push_back(getAttr(group.place->getContext()));
  }
  int getFallbackRank(const StreamGroup &group) const override { return 0; }

  LogicalResult emit(const StreamGroup &group, ProgramBuilder &program) const override {
    return emitPipeline(group, program, /*sendsMessages=*/false);
  }
};

} // namespace

LogicalResult tandem::emitPipeline(const StreamGroup &all, ProgramBuilder &program,
                                   bool sendsMessages) {
  if (all.streamSizes.empty())
    return emitWhole(all.ops, program, sendsMessages);
  // A reduction whose operand is sliced by receiver runs whole, behind the
  // loop.
  StreamGroup group = all;
  SmallVector<Operation *> behind;
  llvm::erase_if(group.ops, [&](Operation *op) {
    bool isBehind = isa<fusion::ReshardOp>(op) && group.accumulators.erase(op);
    if (isBehind)
      behind.push_back(op);
    return isBehind;
  });
  LoopEmitter body(group, program);
  body.sendsMessages = sendsMessages;
  Location loc = group.ops.front()->getLoc();
  if (failed(body.prepare()))
    return failure();
  int64_t slices = group.numSlices();
  int64_t streams = program.getNumStreams(group.schedule, slices);
  program.fork(loc, streams);
  auto iteration = [&](Value i) -> LogicalResult {
    Value stream = program.getStream(loc, i, streams);
    SliceIndex index = getSliceIndex(program.getBuilder(), loc, group.streamSizes, i);
    return body.forEachShape(loc, index, [&](const SliceIndex &slice) {
      return body.emitSlices(group.ops, slice, stream, /*isStreamUsed=*/false);
    });
  };
  if (failed(program.loop(loc, 0, slices, iteration)))
    return failure();
  program.join(loc, streams);
  if (failed(body.finish()))
    return failure();
  return emitWhole(behind, program);
}

std::unique_ptr<Schedule> tandem::createPipelineSchedule() { return std::make_unique<Pipeline>(); }
