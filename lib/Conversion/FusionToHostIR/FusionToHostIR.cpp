//===- FusionToHostIR.cpp - convert-fusion-to-hostir -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/FusionToHostIR/Passes.h"

#include "OpLowering.h"
#include "Schedule.h"
#include "StreamGroups.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"

namespace tandem {
#define GEN_PASS_DEF_CONVERTFUSIONTOHOSTIR
#include "tandem/Conversion/FusionToHostIR/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

namespace {

struct ConvertFusionToHostIR
    : public tandem::impl::ConvertFusionToHostIRBase<ConvertFusionToHostIR> {
  using ConvertFusionToHostIRBase::ConvertFusionToHostIRBase;
  void runOnOperation() override;

private:
  FailureOr<hostir::ProgramOp> makeProgram(func::FuncOp func);
  LogicalResult convert(func::FuncOp func);
  LogicalResult emitGroup(const StreamGroup &group, ProgramBuilder &builder);
};

} // namespace

/// The local buffer of a program's argument or result, or failure with a diagnostic at `loc`.
static FailureOr<MemRefType> getBufferType(Location loc, StringRef what, Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !fusion::getAxes(tensor))
    return emitError(loc) << what << ": expected a ranked tensor with axes, found " << type;
  auto shape = fusion::getLocalShape(tensor);
  if (failed(shape) || ShapedType::isDynamicShape(*shape))
    return emitError(loc) << what << ": expected known extents and mesh sizes, found " << type
                          << "; run fusion-specialize";
  return MemRefType::get(*shape, tensor.getElementType());
}

/// The program with its arguments (inputs, then results), still without a body.
FailureOr<hostir::ProgramOp> ConvertFusionToHostIR::makeProgram(func::FuncOp func) {
  OpBuilder builder(func);
  SmallVector<Type> types;
  SmallVector<Attribute> attributes;
  auto add = [&](StringRef prefix, unsigned number, Type tensor, StringAttr name,
                 bool isResult) -> LogicalResult {
    std::string label = (prefix + Twine(number)).str();
    FailureOr<MemRefType> type = getBufferType(func.getLoc(), label, tensor);
    if (failed(type))
      return failure();
    types.push_back(*type);
    NamedAttrList list;
    list.set(hostir::kNameAttrName, name ? name : builder.getStringAttr(label));
    list.set(hostir::kTypeAttrName, TypeAttr::get(tensor));
    if (isResult)
      list.set(hostir::kResultAttrName, builder.getUnitAttr());
    attributes.push_back(list.getDictionary(builder.getContext()));
    return success();
  };
  for (auto [i, type] : llvm::enumerate(func.getArgumentTypes()))
    if (failed(add("arg", i, type, func.getArgAttrOfType<StringAttr>(i, fusion::kNameAttrName),
                   false)))
      return failure();
  for (auto [i, type] : llvm::enumerate(func.getResultTypes()))
    if (failed(add("res", i, type, func.getResultAttrOfType<StringAttr>(i, fusion::kNameAttrName),
                   true)))
      return failure();

  OperationState state(func.getLoc(), hostir::ProgramOp::getOperationName());
  hostir::ProgramOp::Properties &properties =
      state.getOrAddProperties<hostir::ProgramOp::Properties>();
  properties.sym_name = func.getSymNameAttr();
  properties.function_type = TypeAttr::get(builder.getFunctionType(types, {}));
  properties.sym_visibility = func.getSymVisibilityAttr();
  properties.arg_attrs = builder.getArrayAttr(attributes);
  properties.workers = builder.getI64IntegerAttr(workers);
  if (auto oracleOf = func->getAttrOfType<FlatSymbolRefAttr>(fusion::kOracleOfAttrName))
    properties.oracle_of = oracleOf;
  Block *body = new Block();
  state.addRegion()->push_back(body);
  for (Type type : types)
    body->addArgument(type, func.getLoc());
  return cast<hostir::ProgramOp>(builder.create(state));
}

/// The reshard that names the group's schedule, else the first op.
static Operation *getPlace(const StreamGroup &group) {
  for (fusion::ReshardOp reshard : group.reshards())
    if (reshard.getScheduleAttr() == group.schedule && !reshard.getChosen())
      return reshard;
  return group.ops.front();
}

LogicalResult ConvertFusionToHostIR::emitGroup(const StreamGroup &group, ProgramBuilder &builder) {
  Operation *place = getPlace(group);
  fusion::ScheduleKind kind = group.schedule.getKind();
  if (failed(checkSchedule(group.schedule, [&] { return place->emitError(); })))
    return failure();
  const Schedule *schedule = getSchedule(kind);
  // A choice that the loop cannot keep is no error.
  if (!group.scheduleIsNamed && kind != fusion::ScheduleKind::Pipeline) {
    ScopedDiagnosticHandler quiet(&getContext(), [](Diagnostic &) { return success(); });
    if (failed(schedule->matches(group, [&] { return place->emitError(); }))) {
      kind = fusion::ScheduleKind::Pipeline;
      schedule = getSchedule(kind);
    }
  }
  if (failed(schedule->matches(group, [&] { return place->emitError(); })))
    return failure();
  if (log && !group.reshards().empty()) {
    ScheduleCost cost = schedule->cost(group);
    InFlightDiagnostic remark = place->emitRemark();
    remark << fusion::stringifyScheduleKind(kind) << ": " << group.numSlices() << " slices of ";
    llvm::interleave(
        group.ops, remark, [&](Operation *op) { remark << op->getName().getStringRef(); }, " + ");
    remark << "; " << cost.steps << " communication steps, " << cost.bytesSent
           << " bytes sent by a rank, " << cost.computeOps << " compute commands";
  }
  numLoops += !group.streamSizes.empty();
  numReshards += group.reshards().size();
  return schedule->emit(group, builder);
}

LogicalResult ConvertFusionToHostIR::convert(func::FuncOp func) {
  if (!func.getBody().hasOneBlock())
    return func.emitError("expected a body of one block");
  FailureOr<SmallVector<StreamGroup>> groups = getStreamGroups(func);
  if (failed(groups))
    return failure();
  FailureOr<hostir::ProgramOp> program = makeProgram(func);
  if (failed(program))
    return failure();

  // The oracle is for one rank, whatever the world.
  bool isOracle = func->hasAttr(fusion::kOracleOfAttrName);
  ProgramBuilder builder(*program, workers,
                         std::max<int64_t>(getWorldSize(func), isOracle ? 1 : ranks));
  Block &body = program->getBody().front();
  for (BlockArgument argument : func.getArguments())
    builder.setBuffer(argument, body.getArgument(argument.getArgNumber()));

  // A value that is returned is made in place, the first time that it is; otherwise it is copied.
  Operation *terminator = func.getBody().front().getTerminator();
  SmallVector<std::pair<Value, Value>> copies;
  for (OpOperand &returned : terminator->getOpOperands()) {
    Value value = returned.get();
    Value buffer = body.getArgument(func.getNumArguments() + returned.getOperandNumber());
    if (builder.getBuffer(value))
      copies.push_back({value, buffer});
    else
      builder.setBuffer(value, buffer);
  }

  for (auto constant : func.getBody().front().getOps<arith::ConstantOp>())
    if (llvm::any_of(constant->getUsers(),
                     [](Operation *user) { return !user->hasTrait<OpTrait::Elementwise>(); }))
      if (failed(emitConstant(constant, builder)))
        return failure();
  for (const StreamGroup &group : *groups)
    if (failed(emitGroup(group, builder)))
      return failure();
  for (const std::pair<Value, Value> &copy : copies) {
    if (llvm::is_contained(cast<RankedTensorType>(copy.first.getType()).getShape(), 0))
      continue;
    builder.onMesh(terminator->getLoc(), fusion::getAxes(copy.first).getMesh(), [&] {
      hostir::CopyOp::create(builder.getBuilder(), terminator->getLoc(),
                             builder.getBuffer(copy.first), copy.second, builder.getMainStream());
    });
  }
  func.erase();
  return success();
}

void ConvertFusionToHostIR::runOnOperation() {
  if (workers < 1) {
    getOperation().emitError("option workers: expected at least 1, found ") << workers;
    return signalPassFailure();
  }
  for (func::FuncOp func : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
    if (!func.isExternal() && failed(convert(func)))
      return signalPassFailure();
}
