//===- EpiloguePush.cpp - slices that their matmul stores to peers -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EpiloguePush.h"

#include "tandem/Program/Gated.h"

using namespace mlir;
using namespace tandem;

bool tandem::isByEpilogue(const StreamLoop &loop) {
  return loop.schedule.getWord("by") == "epilogue";
}

Explanation tandem::refuseEpilogue(const StreamLoop &loop, const Twine &expected) {
  return loop.explain() << "schedule push, by = epilogue: expected " << expected;
}

Obstacle tandem::verifyEpiloguePush(const StreamLoop &loop, fusion::ReshardOp reduction,
                                    const OwnerDigits &digits, size_t producers) {
  if (digits.devices > program::kMostGatedTargets)
    return refuseEpilogue(loop, "at most " + Twine(program::kMostGatedTargets) +
                                    " devices, found " + Twine(digits.devices));
  auto matmul = reduction.getInput().getDefiningOp<fusion::MatmulOp>();
  if (!matmul || producers != 1 || matmul.getTransposeA() || matmul.getBias() ||
      matmul.getType().getRank() != 2 || matmul.getRhs().getType().getRank() != 2 ||
      loop.digitMaps.contains(matmul))
    return refuseEpilogue(loop, "a product of two matrices to be the only op before the reduction");
  // Of the rows, what is on this device.
  SmallVector<fusion::Digit> rows;
  ArrayRef<fusion::DimAxesAttr> dims = fusion::getAxes(matmul.getType()).getDims();
  llvm::copy_if(dims[0].getDigits(), std::back_inserter(rows),
                [](const fusion::Digit &digit) { return !digit.isDevice(); });
  if (digits.numSlices() != 1 || rows.empty() || !rows.front().isStream())
    return refuseEpilogue(loop, "one block of rows per device, found the slices " +
                                    fusion::formatAxes(fusion::getAxes(matmul.getType())));
  return std::nullopt;
}

LogicalResult tandem::emitEpiloguePush(ProgramBuilder &program, Location loc,
                                       function_ref<LogicalResult()> body) {
  OpBuilder &builder = program.getBuilder();
  // It waits for nothing, so it leaves no SMs.
  auto gated = hostir::GatedMatmulOp::create(builder, loc, program.getMainStream(),
                                             builder.getI64IntegerAttr(0));
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&gated.getBody());
  return body();
}
