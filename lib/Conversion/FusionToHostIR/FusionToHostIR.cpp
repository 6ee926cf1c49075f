//===- FusionToHostIR.cpp - convert-fusion-to-hostir -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/FusionToHostIR/Passes.h"

#include "LoopPlan.h"
#include "OpLowering.h"
#include "PaddedArguments.h"
#include "ResultPlaces.h"
#include "Schedule.h"
#include "StreamLoop.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "tandem/Analysis/Pricer.h"
#include "tandem/Dialect/Fusion/IR/AxesInference.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "tandem/Dialect/Fusion/IR/ReshardSlices.h"
#include "tandem/Support/SourcePosition.h"
#include "tandem/Support/VaryingAttrs.h"

namespace tandem {
#define GEN_PASS_DEF_CONVERTFUSIONTOHOSTIR
#include "tandem/Conversion/FusionToHostIR/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

namespace {

/// Makes programs of functions, which stay as they are.
class Converter {
public:
  using GetPlan = llvm::function_ref<Explained<const LoopPlan *>(fusion::StreamLoopOp)>;
  Converter(int64_t workers, int64_t ranks, bool log, GetPlan getPlan)
      : workers(workers), ranks(ranks), log(log), getPlan(getPlan) {}

  /// Inserts the program before the function.
  LogicalResult convert(func::FuncOp func);

  int64_t numLoops = 0, numReshards = 0;

private:
  FailureOr<hostir::ProgramOp> makeProgram(func::FuncOp func);
  LogicalResult emitLoop(fusion::StreamLoopOp loop, ProgramBuilder &builder);

  const int64_t workers, ranks;
  const bool log;
  GetPlan getPlan;
};

struct ConvertFusionToHostIR
    : public tandem::impl::ConvertFusionToHostIRBase<ConvertFusionToHostIR> {
  using ConvertFusionToHostIRBase::ConvertFusionToHostIRBase;
  void runOnOperation() override;
};

} // namespace

/// The local buffer of a program's argument or result, or failure with a diagnostic at `loc`: the
/// largest of any device, if it is padded to `type` from the shape `extents`.
static FailureOr<MemRefType> getBufferType(Location loc, StringRef what, Type type,
                                           DenseI64ArrayAttr extents) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !fusion::getAxes(tensor))
    return emitError(loc) << what << ": expected a ranked tensor with axes, found " << type;
  auto shape = fusion::getLocalShape(tensor);
  if (failed(shape) || ShapedType::isDynamicShape(*shape))
    return emitError(loc) << what << ": expected known extents and mesh sizes, found " << type
                          << "; run fusion-specialize";
  if (extents)
    shape = fusion::getValidShape(tensor, extents, 0);
  return MemRefType::get(*shape, tensor.getElementType());
}

/// The program with its arguments (inputs, then results), still without a body.
FailureOr<hostir::ProgramOp> Converter::makeProgram(func::FuncOp func) {
  OpBuilder builder(func);
  SmallVector<Type> types;
  SmallVector<Attribute> attributes;
  auto add = [&](StringRef prefix, unsigned number, Type tensor, DictionaryAttr given,
                 bool isResult) -> LogicalResult {
    auto find = [&](StringRef attribute) { return given ? given.get(attribute) : Attribute(); };
    auto name = cast_if_present<StringAttr>(find(fusion::kNameAttrName));
    auto extents = cast_if_present<DenseI64ArrayAttr>(find(fusion::kExtentsAttrName));
    std::string label = (prefix + Twine(number)).str();
    FailureOr<MemRefType> type = getBufferType(func.getLoc(), label, tensor, extents);
    if (failed(type))
      return failure();
    types.push_back(*type);
    NamedAttrList list;
    list.set(hostir::kNameAttrName, name ? name : builder.getStringAttr(label));
    list.set(hostir::kTypeAttrName, TypeAttr::get(tensor));
    if (extents)
      list.set(hostir::kExtentsAttrName, extents);
    if (Attribute varying = find(fusion::kVaryingAttrName))
      list.set(hostir::kVaryingAttrName, varying);
    if (Attribute mask = find(fusion::kMaskAttrName))
      list.set(hostir::kMaskAttrName, mask);
    if (isResult)
      list.set(hostir::kResultAttrName, builder.getUnitAttr());
    attributes.push_back(list.getDictionary(builder.getContext()));
    return success();
  };
  for (auto [i, type] : llvm::enumerate(func.getArgumentTypes()))
    if (failed(add("arg", i, type, func.getArgAttrDict(i), false)))
      return failure();
  auto nameOf = [&](unsigned i) {
    auto name = func.getResultAttrOfType<StringAttr>(i, fusion::kNameAttrName);
    return name ? name : builder.getStringAttr("res" + Twine(i));
  };
  for (unsigned i = 0; i < func.getNumResults();) {
    if (std::optional<ResultParts> parts = findParts(func, i)) {
      SmallVector<Attribute> list;
      for (unsigned end = i + parts->count; i < end; ++i)
        list.push_back(
            builder.getDictionaryAttr({{builder.getStringAttr(hostir::kNameAttrName), nameOf(i)},
                                       {builder.getStringAttr(hostir::kTypeAttrName),
                                        TypeAttr::get(func.getResultTypes()[i])}}));
      types.push_back(parts->getType());
      attributes.push_back(builder.getDictionaryAttr(
          {{builder.getStringAttr(hostir::kPartsAttrName), builder.getArrayAttr(list)},
           {builder.getStringAttr(hostir::kResultAttrName), builder.getUnitAttr()}}));
      continue;
    }
    if (failed(add("res", i, func.getResultTypes()[i], func.getResultAttrDict(i), true)))
      return failure();
    ++i;
  }

  OperationState state(func.getLoc(), hostir::ProgramOp::getOperationName());
  hostir::ProgramOp::Properties &properties =
      state.getOrAddProperties<hostir::ProgramOp::Properties>();
  properties.sym_name = func.getSymNameAttr();
  properties.function_type = TypeAttr::get(builder.getFunctionType(types, {}));
  properties.sym_visibility = func.getSymVisibilityAttr();
  properties.arg_attrs = builder.getArrayAttr(attributes);
  properties.workers = builder.getI64IntegerAttr(workers);
  if (auto referenceOf = func->getAttrOfType<FlatSymbolRefAttr>(fusion::kReferenceOfAttrName))
    properties.reference_of = referenceOf;
  properties.deterministic = func->getAttrOfType<StringAttr>(fusion::kDeterministicAttrName);
  Block *body = new Block();
  state.addRegion()->push_back(body);
  for (Type type : types)
    body->addArgument(type, func.getLoc());
  return cast<hostir::ProgramOp>(builder.create(state));
}

/// Constants that are no part of a kernel.
static LogicalResult emitConstants(Block &block, ProgramBuilder &builder) {
  for (auto constant : block.getOps<arith::ConstantOp>())
    if (llvm::any_of(constant->getUsers(),
                     [](Operation *user) { return !user->hasTrait<OpTrait::Elementwise>(); }))
      if (failed(emitConstant(constant, builder)))
        return failure();
  return success();
}

LogicalResult Converter::emitLoop(fusion::StreamLoopOp loop, ProgramBuilder &builder) {
  Explained<const LoopPlan *> known = getPlan(loop);
  if (failed(known))
    return known.report();
  const StreamLoop &sliced = (*known)->loop;
  if (log) {
    InFlightDiagnostic remark = loop.emitRemark();
    remark << sliced.schedule.getName() << ": " << sliced.numSlices() << " slices of ";
    llvm::interleave(
        sliced.ops, remark, [&](Operation *op) { remark << op->getName().getStringRef(); }, " + ");
  }
  numLoops += !sliced.streamSizes.empty();
  numReshards += loop.getReshards().size();

  // Values of the loop and outside of it are the same buffers.
  Block &body = loop.getBody().front();
  for (auto [operand, argument] : llvm::zip_equal(loop.getInputs(), body.getArguments()))
    builder.setBuffer(argument, builder.getBuffer(operand));
  auto yielded = body.getTerminator()->getOperands();
  for (auto [value, result] : llvm::zip_equal(yielded, loop.getResults()))
    if (Value buffer = builder.getBuffer(result))
      builder.setBuffer(value, buffer);
  if (failed(emitConstants(body, builder)) || failed(emitWhole(sliced.before, builder)) ||
      failed((*known)->plan.emit(builder)) || failed(emitWhole(sliced.after, builder)))
    return failure();
  for (auto [value, result] : llvm::zip_equal(yielded, loop.getResults()))
    builder.setBuffer(result, builder.getBuffer(value));
  return success();
}

/// An op outside of loops runs whole.
static LogicalResult emitPlain(Operation *op, ProgramBuilder &builder) {
  if (Explained<SmallVector<int64_t>> digits = getStreamDigits(op); failed(digits))
    return digits.report();
  if (auto reshard = dyn_cast<fusion::ReshardOp>(op))
    if (!fusion::classifyReshard(reshard).isLocal())
      return op->emitError("expected a reshard that communicates in a stream loop; run "
                           "fusion-form-loops");
  return emitWhole(op, builder);
}

/// How the loops of a function are run, for reports; null if it has none that communicates.
static ArrayAttr getChoices(func::FuncOp func) {
  Builder builder(func.getContext());
  SmallVector<Attribute> choices;
  for (auto loop : func.getOps<fusion::StreamLoopOp>()) {
    SmallVector<Attribute> locations;
    for (fusion::ReshardOp reshard : loop.getReshards())
      locations.push_back(builder.getStringAttr(getSourceText(reshard.getLoc())));
    if (locations.empty() || !loop.getScheduleAttr())
      continue;
    SmallVector<PricedCandidateAttr> candidates;
    if (std::optional<ArrayAttr> priced = loop.getCandidates())
      candidates = llvm::to_vector(priced->getAsRange<PricedCandidateAttr>());
    Attribute what = candidates.empty() ? fusion::CandidateAttr::get(loop.getScheduleAttr())
                                        : candidates.front().getWhat();
    choices.push_back(
        ChoiceAttr::get(func.getContext(), describeReshards(loop), builder.getArrayAttr(locations),
                        what, fusion::stringifyScheduleSource(*loop.getSource()), candidates,
                        candidates.empty() ? StringAttr() : loop.getSignatureAttr()));
  }
  return choices.empty() ? ArrayAttr() : builder.getArrayAttr(choices);
}

LogicalResult Converter::convert(func::FuncOp func) {
  if (!func.getBody().hasOneBlock())
    return func.emitError("expected a body of one block");
  FailureOr<hostir::ProgramOp> program = makeProgram(func);
  if (failed(program))
    return failure();

  // The reference is for one rank, whatever the world.
  bool isReference = func->hasAttr(fusion::kReferenceOfAttrName);
  ProgramBuilder builder(*program, workers,
                         std::max<int64_t>(getWorldSize(func), isReference ? 1 : ranks));
  Block &body = program->getBody().front();
  for (BlockArgument argument : func.getArguments()) {
    Value buffer = body.getArgument(argument.getArgNumber());
    if (auto extents = func.getArgAttrOfType<DenseI64ArrayAttr>(argument.getArgNumber(),
                                                                fusion::kExtentsAttrName))
      buffer = emitPadding(builder, func.getLoc(), cast<RankedTensorType>(argument.getType()),
                           extents, buffer);
    builder.setBuffer(argument, buffer);
  }

  // A value that is returned is made in place, the first time that it is; otherwise it is copied.
  // What such a value is put together from is made in its place, too, if it can be.
  Operation *terminator = func.getBody().front().getTerminator();
  SmallVector<std::pair<Value, Value>> copies;
  SmallVector<std::pair<OpOperand *, Value>> padded;
  unsigned argument = func.getNumArguments();
  for (unsigned i = 0; i < func.getNumResults(); ++i) {
    Value buffer = body.getArgument(argument++);
    if (std::optional<ResultParts> parts = findParts(func, i)) {
      placeParts(builder, func, *parts, cast<TypedValue<MemRefType>>(buffer));
      i += parts->count - 1;
      continue;
    }
    OpOperand &returned = terminator->getOpOperand(i);
    Value value = returned.get();
    if (func.getResultAttr(i, fusion::kExtentsAttrName)) {
      if (!isPlaced(builder, value))
        placeResult(builder, value, builder.getOrAllocBuffer(value));
      padded.push_back({&returned, buffer});
    } else if (isPlaced(builder, value)) {
      copies.push_back({value, buffer});
    } else {
      placeResult(builder, value, buffer);
    }
  }

  if (failed(emitConstants(func.getBody().front(), builder)))
    return failure();
  for (Operation &op : func.getBody().front().without_terminator()) {
    if (op.hasTrait<OpTrait::ConstantLike>())
      continue;
    auto loop = dyn_cast<fusion::StreamLoopOp>(&op);
    if (failed(loop ? emitLoop(loop, builder) : emitPlain(&op, builder)))
      return failure();
  }
  for (const std::pair<Value, Value> &copy : copies) {
    if (llvm::is_contained(cast<RankedTensorType>(copy.first.getType()).getShape(), 0))
      continue;
    builder.onMesh(terminator->getLoc(), fusion::getAxes(copy.first).getMesh(), [&] {
      hostir::CopyOp::create(builder.getBuilder(), terminator->getLoc(),
                             builder.getBuffer(copy.first), copy.second, builder.getMainStream());
    });
  }
  for (auto [returned, buffer] : padded)
    emitWithoutPadding(builder, terminator->getLoc(),
                       cast<RankedTensorType>(returned->get().getType()),
                       func.getResultAttrOfType<DenseI64ArrayAttr>(returned->getOperandNumber(),
                                                                   fusion::kExtentsAttrName),
                       builder.getBuffer(returned->get()), buffer);
  if (!isReference)
    program->setChoicesAttr(getChoices(func));
  return success();
}

void ConvertFusionToHostIR::runOnOperation() {
  if (workers < 1) {
    getOperation().emitError("option workers: expected at least 1, found ") << workers;
    return signalPassFailure();
  }
  LoopPlans &plans = getAnalysis<LoopPlans>();
  auto getPlan = [&](fusion::StreamLoopOp loop) { return plans.get(loop); };
  Converter converter(workers, ranks, log, getPlan);
  for (func::FuncOp func : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
    if (func.isExternal())
      continue;
    if (failed(fusion::verifyFits(func)) || failed(converter.convert(func)))
      return signalPassFailure();
    func.erase();
  }
  numLoops += converter.numLoops;
  numReshards += converter.numReshards;
}

OwningOpRef<ModuleOp> Trial::lower(int64_t workers) const {
  func::FuncOp trial = *func;
  OwningOpRef<ModuleOp> module(ModuleOp::create(trial.getLoc()));
  module->push_back(trial);
  auto getPlan = [&](fusion::StreamLoopOp) { return Explained<const LoopPlan *>(plan.get()); };
  Converter converter(workers, /*ranks=*/0, /*log=*/false, getPlan);
  LogicalResult done = failed(fusion::verifyFits(trial)) ? failure() : converter.convert(trial);
  trial->remove();
  return succeeded(done) ? std::move(module) : OwningOpRef<ModuleOp>();
}
