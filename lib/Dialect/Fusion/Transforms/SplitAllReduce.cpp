//===- SplitAllReduce.cpp - an all-reduce as two reshards -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SplitAllReduce.h"

#include "tandem/Dialect/Fusion/IR/Reshard.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

/// The types between reduce-scatter and all-gather, one per dimension that can be split.
static SmallVector<RankedTensorType> getScatteredTypes(ReshardOp op, StringAttr axis) {
  RankedTensorType type = op.getType();
  AxesAttr axes = getAxes(type);
  SmallVector<RankedTensorType> types;
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    int64_t devices = axes.getMesh().axisSize(axis.getValue());
    if (!axes.getDims()[dim].getDigits().empty() || type.getDimSize(dim) == 0 ||
        type.getDimSize(dim) % devices != 0)
      continue;
    SmallVector<DimAxesAttr> dims(axes.getDims());
    dims[dim] = DimAxesAttr::get(op.getContext(), {Digit::device(axis)});
    types.push_back(withAxes(type, axes.withDims(dims)));
  }
  return types;
}

static Value createReshards(OpBuilder &builder, ReshardOp op, Value input,
                            RankedTensorType scattered) {
  auto create = [&](RankedTensorType type, Value value) {
    return ReshardOp::create(builder, op.getLoc(), type, value, ScheduleAttr());
  };
  return create(op.getType(), scattered ? create(scattered, input) : input);
}

/// Seconds of the producer, the reduction, and the all-gather if any.
static FailureOr<double> price(ReshardOp op, RankedTensorType scattered, Pricer &pricer) {
  Operation *producer = op.getInput().getDefiningOp();
  SmallVector<Type> inputs{op.getInput().getType()};
  if (producer)
    inputs.assign(producer->operand_type_begin(), producer->operand_type_end());
  OpBuilder builder(op.getContext());
  OwningOpRef<func::FuncOp> func(func::FuncOp::create(
      builder, op.getLoc(), "candidate", builder.getFunctionType(inputs, op.getType())));
  Block *body = func->addEntryBlock();
  builder.setInsertionPointToStart(body);
  Value terms = body->getArguments().front();
  if (producer) {
    IRMapping operands;
    operands.map(producer->getOperands(), body->getArguments());
    terms = builder.clone(*producer, operands)->getResult(0);
  }
  func::ReturnOp::create(builder, op.getLoc(), createReshards(builder, op, terms, scattered));
  return pricer.price(*func, Pricer::From::FormLoops);
}

/// The type in between with the least price; null if none is worth it.
static RankedTensorType getCheapest(ReshardOp op, ArrayRef<RankedTensorType> types,
                                    Pricer &pricer) {
  FailureOr<double> whole = price(op, {}, pricer);
  if (failed(whole))
    return {};
  double least = std::min((1 - Pricer::kLeastGain) * *whole, *whole - Pricer::kLeastSplitGain);
  RankedTensorType best;
  for (RankedTensorType scattered : types)
    if (FailureOr<double> seconds = price(op, scattered, pricer);
        succeeded(seconds) && *seconds < least) {
      least = *seconds;
      best = scattered;
    }
  return best;
}

bool fusion::splitAllReduce(ReshardOp op, Pricer *pricer) {
  RankedTensorType from = op.getInput().getType(), to = op.getType();
  Reshard reshard = classifyReshard(from, to);
  Operation *producer = op.getInput().getDefiningOp();
  if (reshard.kind != ReshardKind::AllReduce || reshard.axes.size() != 1 || op.getScheduleAttr() ||
      getAxes(from).hasStream() || getAxes(to).hasStream() ||
      (producer && (producer->getNumResults() != 1 || producer->getNumOperands() == 0)))
    return false;
  // Of what any order of addition leaves as it is, the library's all-reduce is the best.
  bool isRounded =
      isa<FloatType>(to.getElementType()) && getAxes(from).getPartialKind() == ReduceKind::Sum;
  if (!pricer && !isRounded)
    return false;
  SmallVector<RankedTensorType> types = getScatteredTypes(op, reshard.axes.front());
  if (types.empty())
    return false;
  RankedTensorType best = pricer ? getCheapest(op, types, *pricer) : types.front();
  if (!best)
    return false;
  OpBuilder builder(op);
  op.replaceAllUsesWith(createReshards(builder, op, op.getInput(), best));
  op.erase();
  return true;
}
