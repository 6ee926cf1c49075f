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

/// The characters for each dimension of `count` tensors: "s_" and "_" for "s_, _". One tensor
/// without dimensions, and no tensor, are written as nothing. Failure if there are not `count`.
static FailureOr<SmallVector<std::string>> splitDims(StringRef dims, size_t count) {
  SmallVector<StringRef> texts;
  dims.split(texts, ',');
  SmallVector<std::string> parts;
  for (StringRef text : texts)
    llvm::copy_if(text, std::back_inserter(parts.emplace_back()), [](char c) { return c != ' '; });
  if (count == 0 && parts.size() == 1 && parts.front().empty())
    parts.clear();
  if (parts.size() != count)
    return failure();
  return parts;
}

/// Types of the results, then of the operands.
static SmallVector<RankedTensorType> getTypes(CallOp op) {
  return llvm::map_to_vector(llvm::concat<const Type>(op->getResultTypes(), op->getOperandTypes()),
                             [](Type type) { return cast<RankedTensorType>(type); });
}

static std::string describe(CallOp op, size_t part) {
  size_t results = op.getNumResults();
  if (part >= results)
    return ("operand " + Twine(part - results)).str();
  return results == 1 ? "the result" : ("result " + Twine(part)).str();
}

/// call_c2
static FailureOr<SmallVector<std::string>>
getParts(CallOp op, function_ref<InFlightDiagnostic()> emitError = nullptr) {
  size_t numResults = op.getNumResults(), numOperands = op.getNumOperands();
  auto [from, to] = op.getDims().split("->");
  auto ofResults = splitDims(to, numResults), ofOperands = splitDims(from, numOperands);
  bool hasArrow = from.size() != op.getDims().size();
  if (!hasArrow || numResults == 0 || failed(ofResults) || failed(ofOperands)) {
    if (emitError && numResults == 0)
      emitError() << "expected at least one result, found none";
    else if (emitError)
      emitError() << "expected dims of " << numOperands << " operands and "
                  << (numResults == 1 ? "a result" : Twine(numResults) + " results")
                  << ", as in \"s_, _ -> s_\", found \"" << op.getDims() << '"';
    return failure();
  }
  SmallVector<std::string> parts = std::move(*ofResults);
  llvm::append_range(parts, *ofOperands);
  for (auto [i, part, type] : llvm::enumerate(parts, getTypes(op))) {
    if (static_cast<int64_t>(part.size()) != type.getRank()) {
      if (emitError)
        emitError() << "expected " << type.getRank() << " dims of " << describe(op, i)
                    << ", found \"" << part << '"';
      return failure();
    }
    for (char c : part)
      if (c != '_' && !(c >= 'a' && c <= 'z')) {
        if (emitError)
          emitError() << "expected lower-case letters and '_' as dims of " << describe(op, i)
                      << ", found \"" << part << '"';
        return failure();
      }
  }
  return parts;
}

/// The parallel dimensions of a tensor, in order.
static std::string lettersOf(StringRef part) {
  std::string letters;
  llvm::copy_if(part, std::back_inserter(letters), [](char c) { return c != '_'; });
  return letters;
}

FailureOr<SmallVector<SmallVector<int64_t>>> CallOp::getParallelDims() {
  FailureOr<SmallVector<std::string>> parts = getParts(*this);
  if (failed(parts))
    return failure();
  std::string letters = lettersOf(parts->front());
  SmallVector<SmallVector<int64_t>> dims;
  for (StringRef part : *parts) {
    dims.emplace_back();
    for (char c : part) {
      size_t at = letters.find(c);
      if (c != '_' && at == std::string::npos)
        return failure();
      dims.back().push_back(c == '_' ? -1 : static_cast<int64_t>(at));
    }
  }
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
        extents[number] = knownExtent(extents[number], extent);
      }
  for (auto [shape, mine] : llvm::zip(shapes, *dims))
    for (auto [extent, number] : llvm::zip_equal(shape, mine))
      if (number >= 0)
        extent = knownExtent(extent, extents[number]);
  return success();
}

LogicalResult CallOp::verify() {
  if (getCallee().starts_with(program::kBuiltinPrefix))
    return emitOpError() << "expected the name of a kernel of the embedder, found @" << getCallee()
                         << ": names that begin with \"" << program::kBuiltinPrefix
                         << "\" are of the runtime's own kernels";
  FailureOr<SmallVector<std::string>> parts = getParts(*this, [&] { return emitOpError(); });
  if (failed(parts))
    return failure();
  SmallVector<RankedTensorType> types = getTypes(*this);
  SmallVector<int64_t> extents(128, ShapedType::kDynamic); // by letter
  std::string letters = lettersOf(parts->front());
  for (auto [i, part, type] : llvm::enumerate(*parts, types))
    for (auto [dim, c] : llvm::enumerate(StringRef(part))) {
      if (c == '_')
        continue;
      if (part.find(c) != dim)
        return emitOpError() << "expected the dims of " << describe(*this, i)
                             << " to be distinct, found '" << Twine(c) << "' twice";
      if (letters.find(c) == std::string::npos)
        return emitOpError() << "expected every parallel dimension in the result, found '"
                             << Twine(c) << "' of " << describe(*this, i) << " only";
      int64_t &extent = extents[c];
      if (!compatibleExtents(extent, type.getDimSize(dim)))
        return emitOpError() << "expected equal extents of the dimensions '" << Twine(c)
                             << "', found " << extent << " and " << type.getDimSize(dim);
      extent = knownExtent(extent, type.getDimSize(dim));
    }
  for (size_t i = 1; i < getNumResults(); ++i)
    if (std::string mine = lettersOf((*parts)[i]); mine != letters)
      return emitOpError() << "expected the parallel dimensions '" << letters
                           << "' in all results, in this order, found '" << mine << "' in "
                           << describe(*this, i);
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
