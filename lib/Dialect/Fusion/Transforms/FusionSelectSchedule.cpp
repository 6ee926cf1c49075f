//===- FusionSelectSchedule.cpp - fusion-select-schedule -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PassLog.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/IR/Reshard.h"
#include "tandem/Dialect/Fusion/Transforms/Passes.h"

namespace mlir::tandem::fusion {
#define GEN_PASS_DEF_FUSIONSELECTSCHEDULE
#include "tandem/Dialect/Fusion/Transforms/Passes.h.inc"
} // namespace mlir::tandem::fusion

using namespace mlir;
using namespace mlir::tandem;
using namespace mlir::tandem::fusion;

/// Mesh axes that split another dimension afterwards, or none. Those of one device move nothing,
/// but `exchange` is for one axis and no other.
static int64_t countMoved(RankedTensorType from, RankedTensorType to) {
  return llvm::count_if(getAxes(from).getMesh().getAxes(), [&](const MeshAxis &axis) {
    return getAxes(from).dimOfDeviceAxis(axis.name) != getAxes(to).dimOfDeviceAxis(axis.name);
  });
}

namespace {
struct FusionSelectSchedulePass
    : public fusion::impl::FusionSelectScheduleBase<FusionSelectSchedulePass> {
  using FusionSelectScheduleBase::FusionSelectScheduleBase;

  void runOnOperation() override {
    PassLog say("fusion-select-schedule", log);
    exchange = pipeline = user = 0;
    WalkResult result = getOperation().walk([&](ReshardOp op) {
      return succeeded(select(op, say)) ? WalkResult::advance() : WalkResult::interrupt();
    });
    if (result.wasInterrupted())
      return signalPassFailure();
    say.summary(getOperation().getLoc(),
                {{"exchange", exchange}, {"pipeline", pipeline}, {"named by the user", user}});
    numExchange += exchange;
    numPipeline += pipeline;
    numUser += user;
  }

private:
  unsigned exchange = 0, pipeline = 0, user = 0;

  LogicalResult select(ReshardOp op, const PassLog &say) {
    RankedTensorType from = op.getInput().getType(), to = op.getType();
    Reshard reshard = classifyReshard(from, to);
    if (!reshard.isSupported())
      return op.emitOpError() << reshard.reason;
    bool oneOwner = reshard.kind == ReshardKind::AllGather && reshard.axes.size() == 1 &&
                    slicesHaveOneOwner(from, to) && countMoved(from, to) == 1;
    if (ScheduleAttr schedule = op.getScheduleAttr()) {
      ++user;
      say(op.getLoc(), [&](raw_ostream &os) {
        os << stringifyReshardKind(reshard.kind) << " keeps schedule "
           << stringifyScheduleKind(schedule.getKind());
      });
      return success();
    }
    ScheduleKind kind = oneOwner ? ScheduleKind::Exchange : ScheduleKind::Pipeline;
    ++(oneOwner ? exchange : pipeline);
    op.setScheduleAttr(ScheduleAttr::get(op.getContext(), kind));
    op.setChosen(true);
    say(op.getLoc(), [&](raw_ostream &os) {
      os << stringifyReshardKind(reshard.kind) << " goes through schedule "
         << stringifyScheduleKind(kind) << (oneOwner ? ": every stream slice has one owner" : "");
    });
    return success();
  }
};
} // namespace
