//===- CallOp.cpp - fusion.call -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpVerify.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Program/BuiltinKernels.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

/// Types of the results, then of the operands.
static SmallVector<RankedTensorType> getTypes(CallOp op) {
  return llvm::map_to_vector(llvm::concat<const Type>(op->getResultTypes(), op->getOperandTypes()),
                             [](Type type) { return cast<RankedTensorType>(type); });
}

/// `areChecked`: the extents of one letter are equal.
static shapes::CallDims getCallDims(CallOp op, bool areChecked) {
  std::vector<shapes::Shape> extents;
  for (RankedTensorType type : getTypes(op))
    extents.push_back(areChecked ? type.getShape().vec()
                                 : shapes::Shape(type.getRank(), ShapedType::kDynamic));
  return shapes::callDims(extents, op.getNumResults(), op.getDims().str());
}

FailureOr<SmallVector<SmallVector<int64_t>>> CallOp::getParallelDims() {
  shapes::CallDims found = getCallDims(*this, /*areChecked=*/false);
  if (!found.error.empty())
    return failure();
  std::string letters = found.letters();
  SmallVector<SmallVector<int64_t>> dims;
  for (const std::string &part : found.parts)
    dims.push_back(llvm::map_to_vector(part, [&](char c) {
      return c == '_' ? int64_t(-1) : static_cast<int64_t>(letters.find(c));
    }));
  return dims;
}

LogicalResult CallOp::inferResultShapes(SmallVectorImpl<SmallVector<int64_t>> &shapes) {
  for (Value output : getOutputs())
    shapes.emplace_back(cast<RankedTensorType>(output.getType()).getShape());
  FailureOr<SmallVector<SmallVector<int64_t>>> dims = getParallelDims();
  if (failed(dims))
    return success();           // the verifier says why
  SmallVector<int64_t> extents; // by parallel dimension
  for (auto [type, mine] : llvm::zip_equal(getTypes(*this), *dims))
    for (auto [extent, number] : llvm::zip_equal(type.getShape(), mine))
      if (number >= 0) {
        extents.resize(std::max<size_t>(extents.size(), number + 1), ShapedType::kDynamic);
        extents[number] = shapes::known(extents[number], extent);
      }
  for (auto [shape, mine] : llvm::zip(shapes, *dims))
    for (auto [extent, number] : llvm::zip_equal(shape, mine))
      if (number >= 0)
        extent = shapes::known(extent, extents[number]);
  return success();
}

LogicalResult CallOp::verify() {
  if (getCallee().starts_with(program::kBuiltinPrefix))
    return emitOpError() << "expected the name of a kernel of the embedder, found @" << getCallee()
                         << ": names that begin with \"" << program::kBuiltinPrefix
                         << "\" are of the runtime's own kernels";
  if (std::string error = getCallDims(*this, /*areChecked=*/true).error; !error.empty())
    return emitOpError() << error;
  if (std::optional<StringRef> effects = getEffects();
      effects && *effects != "reads" && *effects != "writes")
    return emitOpError() << "expected effects \"reads\" or \"writes\", found \"" << *effects << '"';
  for (auto [name, cost] : {std::pair("flops", getFlops()), std::pair("bytes", getBytes())})
    if (cost && !(cost->convertToDouble() >= 0))
      return emitOpError() << "expected " << name << " that are not negative, found "
                           << cost->convertToDouble();
  return success();
}

LogicalResult CallOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto callee = symbols.lookupNearestSymbolFrom<func::FuncOp>(*this, getCalleeAttr());
  if (!callee)
    return emitOpError() << "expected a function declared as @" << getCallee() << ", found none";
  if (!callee.isExternal())
    return (emitOpError() << "expected a declaration of @" << getCallee()
                          << ", found a function with a body")
               .attachNote(callee.getLoc())
           << "defined here";
  auto check = [&](StringRef what, TypeRange types, TypeRange declared) -> LogicalResult {
    if (types.size() != declared.size())
      return emitOpError() << "expected " << declared.size() << ' ' << what << "s as @"
                           << getCallee() << " has, found " << types.size();
    for (auto [i, type, other] : llvm::enumerate(types, declared)) {
      auto tensor = cast<RankedTensorType>(type);
      auto expected = dyn_cast<RankedTensorType>(other);
      if (!expected || tensor.getElementType() != expected.getElementType() ||
          failed(verifyCompatibleShape(tensor.getShape(), expected.getShape())))
        return emitOpError() << "expected " << what << ' ' << i << " of type " << other << " as @"
                             << getCallee() << " has, found " << withAxes(tensor, {});
    }
    return success();
  };
  if (failed(check("operand", getInputs().getTypes(), callee.getArgumentTypes())) ||
      failed(check("result", getOutputs().getTypes(), callee.getResultTypes())))
    return failure();
  return success();
}

AxesRule CallOp::getAxesRule() {
  AxesRule rule;
  rule.partial = PartialKind::Never;
  rule.callsOnce = true;
  rule.isOrdered = isOrdered();
  FailureOr<SmallVector<SmallVector<int64_t>>> dims = getParallelDims();
  if (failed(dims))
    return rule;
  rule.factors.assign(llvm::count_if(dims->front(), [](int64_t number) { return number >= 0; }),
                      FactorKind::Parallel);
  for (SmallVector<int64_t> &mine : *dims)
    for (int64_t &factor : mine)
      if (factor < 0) {
        factor = static_cast<int64_t>(rule.factors.size());
        rule.factors.push_back(FactorKind::Whole);
      }
  rule.results.append(dims->begin(), dims->begin() + getNumResults());
  rule.operands.append(dims->begin() + getNumResults(), dims->end());
  return rule;
}

namespace {
/// Memory of the embedder that is no operand.
struct EmbeddersState : SideEffects::Resource::Base<EmbeddersState> {
  StringRef getName() final { return "EmbeddersState"; }
};
} // namespace

void CallOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &effects) {
  if (!getEffects())
    return;
  effects.emplace_back(MemoryEffects::Read::get(), EmbeddersState::get());
  if (isOrdered())
    effects.emplace_back(MemoryEffects::Write::get(), EmbeddersState::get());
}
