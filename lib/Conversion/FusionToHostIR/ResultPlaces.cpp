//===- ResultPlaces.cpp - where results are made -----------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ResultPlaces.h"

#include "Slices.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "tandem/Dialect/Fusion/IR/ReshardSlices.h"
#include "tandem/Dialect/HostIR/IR/HostIRUtils.h"
#include "tandem/Support/VaryingAttrs.h"

using namespace mlir;
using namespace tandem;

static SmallVector<int64_t> getShapeOnDevice(Value value) {
  return *fusion::getLocalShape(cast<RankedTensorType>(value.getType()));
}

/// A value in a stream loop as the value outside of it that is the same, and a result of a loop as
/// the value that the loop yields.
static Value getOrigin(Value value) {
  while (true) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      auto loop = dyn_cast<fusion::StreamLoopOp>(argument.getOwner()->getParentOp());
      if (!loop)
        return value;
      value = loop.getInputs()[argument.getArgNumber()];
    } else if (auto loop = value.getDefiningOp<fusion::StreamLoopOp>()) {
      unsigned number = cast<OpResult>(value).getResultNumber();
      value = loop.getBody().front().getTerminator()->getOperand(number);
    } else {
      return value;
    }
  }
}

static bool isGather(Operation *op) {
  auto reshard = dyn_cast_or_null<fusion::ReshardOp>(op);
  return reshard && fusion::classifyReshard(reshard).kind == fusion::ReshardKind::AllGather;
}

/// Whether a concat's operands follow each other in memory.
static bool isContiguous(fusion::ConcatOp concat) {
  SmallVector<int64_t> shape = getShapeOnDevice(concat.getResult());
  return ShapedType::getNumElements(ArrayRef(shape).take_front(concat.getDim())) == 1;
}

/// Whether gathers, which have no buffer yet, make all of `value`, by way of reshapes and concats.
static bool isGathered(const ProgramBuilder &program, Value value) {
  if (program.getBuffer(value))
    return false;
  value = getOrigin(value);
  Operation *op = value.getDefiningOp();
  if (!op || program.getBuffer(value) || llvm::is_contained(getShapeOnDevice(value), 0))
    return false;
  if (isGather(op))
    return true;
  if (auto reshape = dyn_cast<fusion::ReshapeOp>(op))
    return isGathered(program, reshape.getInput());
  auto concat = dyn_cast<fusion::ConcatOp>(op);
  if (!concat || !isContiguous(concat))
    return false;
  llvm::SmallDenseSet<Value> origins;
  return llvm::all_of(concat.getInputs(), [&](Value input) {
    return isGathered(program, input) && origins.insert(getOrigin(input)).second;
  });
}

/// Sets the buffers of a value for which `isGathered` holds.
static void place(ProgramBuilder &program, Value value, Value buffer) {
  // Of every value on the way: that of a loop, and the one that it yields.
  program.setBuffer(value, buffer);
  value = getOrigin(value);
  program.setBuffer(value, buffer);
  Operation *op = value.getDefiningOp();
  Location loc = op->getLoc();
  OpBuilder &builder = program.getBuilder();
  if (auto reshape = dyn_cast<fusion::ReshapeOp>(op)) {
    SmallVector<int64_t> shape = getShapeOnDevice(reshape.getInput()), strides;
    int64_t offset = 0;
    (void)cast<MemRefType>(buffer.getType()).getStridesAndOffset(strides, offset);
    program.setInPlace(op);
    place(program, reshape.getInput(),
          reinterpret(builder, loc, buffer, offset, shape, computeStrides(shape)));
  } else if (auto concat = dyn_cast<fusion::ConcatOp>(op)) {
    auto dim = static_cast<int64_t>(concat.getDim());
    int64_t begin = 0;
    program.setInPlace(op);
    for (Value input : concat.getInputs()) {
      int64_t extent = getShapeOnDevice(input)[dim];
      place(program, input,
            hostir::buildRangeView(builder, loc, buffer, dim, builder.getIndexAttr(begin), extent));
      begin += extent;
    }
  }
}

bool tandem::isPlaced(const ProgramBuilder &program, Value value) {
  return program.getBuffer(value) || program.getBuffer(getOrigin(value));
}

void tandem::placeResult(ProgramBuilder &program, Value value, Value buffer) {
  if (isGathered(program, value))
    return place(program, value, buffer);
  program.setBuffer(value, buffer);
  program.setBuffer(getOrigin(value), buffer);
}

//===----------------------------------------------------------------------===//
// Results in parts
//===----------------------------------------------------------------------===//

/// The slice of rows that `value` is, perhaps with another shape; null if it is none.
static fusion::SliceOp getRows(Value value) {
  while (auto reshape = value.getDefiningOp<fusion::ReshapeOp>())
    value = reshape.getInput();
  auto slice = value.getDefiningOp<fusion::SliceOp>();
  if (!slice || slice.getType().getRank() == 0)
    return {};
  auto isOne = [](int64_t step) { return step == 1; };
  auto isZero = [](int64_t offset) { return offset == 0; };
  if (!llvm::all_of(slice.getSteps(), isOne) ||
      !llvm::all_of(slice.getOffsets().drop_front(), isZero) ||
      slice.getType().getShape().drop_front() != slice.getInput().getType().getShape().drop_front())
    return {};
  return slice;
}

/// Whether a gather makes `value` in slices that each lie in one of `count` equal parts of
/// dimension 0, and nothing else reads what it makes on the way.
static bool isGatheredInParts(Value value, int64_t count) {
  auto type = cast<RankedTensorType>(value.getType());
  fusion::AxesAttr axes = fusion::getAxes(type);
  auto digits = fusion::resolveDim(axes.getDims()[0], type.getDimSize(0), axes.getMesh());
  if (failed(digits))
    return false;
  int64_t slices = 1;
  for (const fusion::ResolvedDigit &digit : *digits) {
    if (digit.kind != fusion::DigitKind::Stream || digit.ragged)
      break;
    slices *= digit.size;
  }
  value = getOrigin(value);
  return slices % count == 0 && isGather(value.getDefiningOp()) && value.hasOneUse();
}

MemRefType ResultParts::getType() const {
  auto type = cast<RankedTensorType>(gathered.getType());
  return MemRefType::get(getShapeOnDevice(gathered), type.getElementType());
}

std::optional<ResultParts> tandem::findParts(func::FuncOp func, unsigned first) {
  ValueRange results = func.getBody().front().getTerminator()->getOperands();
  fusion::SliceOp begin = getRows(results[first]);
  if (!begin || !begin.getInput().getDefiningOp<fusion::StreamLoopOp>())
    return std::nullopt;
  Value gathered = begin.getInput();
  int64_t rows = begin.getType().getDimSize(0),
          all = cast<RankedTensorType>(gathered.getType()).getDimSize(0);
  if (rows == 0 || all == rows || all % rows != 0 ||
      first + all / rows > static_cast<int64_t>(results.size()))
    return std::nullopt;
  ResultParts parts{first, static_cast<unsigned>(all / rows), gathered};
  llvm::SmallDenseSet<Operation *> slices;
  for (unsigned i = 0; i < parts.count; ++i) {
    fusion::SliceOp slice = getRows(results[first + i]);
    if (!slice || slice.getInput() != gathered || slice.getType().getDimSize(0) != rows ||
        slice.getOffsets()[0] != i * rows ||
        func.getResultAttr(first + i, fusion::kExtentsAttrName) ||
        func.getResultAttr(first + i, fusion::kVaryingAttrName))
      return std::nullopt;
    slices.insert(slice);
  }
  // A slice that is a result before these is made there, and copied here.
  auto isSlice = [&](Value result) { return slices.contains(getRows(result)); };
  if (llvm::any_of(results.take_front(first), isSlice) ||
      !llvm::all_of(gathered.getUsers(), [&](Operation *user) { return slices.contains(user); }) ||
      !isGatheredInParts(gathered, parts.count))
    return std::nullopt;
  return parts;
}

void tandem::placeParts(ProgramBuilder &program, func::FuncOp func, const ResultParts &parts,
                        TypedValue<MemRefType> buffer) {
  place(program, parts.gathered, buffer);
  OpBuilder &builder = program.getBuilder();
  ValueRange results = func.getBody().front().getTerminator()->getOperands();
  for (unsigned i = 0; i < parts.count; ++i) {
    // From the slice to the result: other shapes of the same rows.
    SmallVector<Operation *> ops{getRows(results[parts.first + i])};
    for (Value value = results[parts.first + i]; value.getDefiningOp() != ops.front();) {
      ops.insert(ops.begin() + 1, value.getDefiningOp());
      value = value.getDefiningOp()->getOperand(0);
    }
    int64_t offset = i * (buffer.getType().getNumElements() / parts.count);
    for (Operation *op : ops) {
      SmallVector<int64_t> shape = getShapeOnDevice(op->getResult(0));
      program.setInPlace(op);
      program.setBuffer(op->getResult(0), reinterpret(builder, op->getLoc(), buffer, offset, shape,
                                                      computeStrides(shape)));
    }
  }
}
