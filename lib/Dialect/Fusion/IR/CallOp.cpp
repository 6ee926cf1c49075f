//===- CallOp.cpp - fusion.call -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpVerify.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"

using namespace mlir;
using namespace tandem::fusion;

/// The characters for each dimension of the result, then of each operand: "s_" and "s_", "_" for
/// "s_, _ -> s_". Empty if there is not one arrow.
static SmallVector<std::string> splitDims(StringRef dims) {
  auto strip = [](StringRef text) {
    std::string stripped;
    llvm::copy_if(text, std::back_inserter(stripped), [](char c) { return c != ' '; });
    return stripped;
  };
  auto [from, to] = dims.split("->");
  if (from.size() == dims.size())
    return {};
  SmallVector<std::string> parts{strip(to)};
  SmallVector<StringRef> operands;
  from.split(operands, ',');
  // Without operands, nothing is written before the arrow.
  if (operands.size() > 1 || !strip(from).empty())
    llvm::append_range(parts, llvm::map_range(operands, strip));
  return parts;
}

/// Types of the result, then of the operands.
static SmallVector<RankedTensorType> getTypes(CallOp op) {
  SmallVector<RankedTensorType> types{op.getResult().getType()};
  for (Value input : op.getInputs())
    types.push_back(cast<RankedTensorType>(input.getType()));
  return types;
}

static std::string describe(size_t part) {
  return part == 0 ? "the result" : ("operand " + Twine(part - 1)).str();
}

/// call_c2; one operand without dimensions may be written as nothing.
static FailureOr<SmallVector<std::string>>
getParts(CallOp op, function_ref<InFlightDiagnostic()> emitError = nullptr) {
  SmallVector<std::string> parts = splitDims(op.getDims());
  SmallVector<RankedTensorType> types = getTypes(op);
  if (parts.size() == 1 && types.size() == 2)
    parts.emplace_back();
  if (parts.size() != types.size()) {
    if (emitError)
      emitError() << "expected dims of " << types.size() - 1 << " operands and a result, as in "
                  << "\"s_, _ -> s_\", found \"" << op.getDims() << '"';
    return failure();
  }
  for (auto [i, part, type] : llvm::enumerate(parts, types)) {
    if (static_cast<int64_t>(part.size()) != type.getRank()) {
      if (emitError)
        emitError() << "expected " << type.getRank() << " dims of " << describe(i) << ", found \""
                    << part << '"';
      return failure();
    }
    for (char c : part)
      if (c != '_' && !(c >= 'a' && c <= 'z')) {
        if (emitError)
          emitError() << "expected lower-case letters and '_' as dims of " << describe(i)
                      << ", found \"" << part << '"';
        return failure();
      }
  }
  return parts;
}

FailureOr<SmallVector<SmallVector<int64_t>>> CallOp::getParallelDims() {
  FailureOr<SmallVector<std::string>> parts = getParts(*this);
  if (failed(parts))
    return failure();
  std::string letters;
  for (char c : parts->front())
    if (c != '_')
      letters += c;
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
  SmallVector<int64_t> &shape = shapes.emplace_back(getResult().getType().getShape());
  FailureOr<SmallVector<SmallVector<int64_t>>> dims = getParallelDims();
  if (failed(dims))
    return success(); // the verifier says why
  for (auto [type, mine] : llvm::zip_equal(getTypes(*this), *dims))
    for (auto [extent, number] : llvm::zip_equal(type.getShape(), mine))
      for (auto [result, other] : llvm::zip_equal(shape, dims->front()))
        if (number >= 0 && number == other)
          result = knownExtent(result, extent);
  return success();
}

LogicalResult CallOp::verify() {
  FailureOr<SmallVector<std::string>> parts = getParts(*this, [&] { return emitOpError(); });
  if (failed(parts))
    return failure();
  SmallVector<RankedTensorType> types = getTypes(*this);
  SmallVector<int64_t> extents(128, ShapedType::kDynamic); // by letter
  for (auto [i, part, type] : llvm::enumerate(*parts, types))
    for (auto [dim, c] : llvm::enumerate(StringRef(part))) {
      if (c == '_')
        continue;
      if (part.find(c) != dim)
        return emitOpError() << "expected the dims of " << describe(i) << " to be distinct, found '"
                             << Twine(c) << "' twice";
      if (parts->front().find(c) == std::string::npos)
        return emitOpError() << "expected every parallel dimension in the result, found '"
                             << Twine(c) << "' of " << describe(i) << " only";
      int64_t &extent = extents[c];
      if (!compatibleExtents(extent, type.getDimSize(dim)))
        return emitOpError() << "expected equal extents of the dimensions '" << Twine(c)
                             << "', found " << extent << " and " << type.getDimSize(dim);
      extent = knownExtent(extent, type.getDimSize(dim));
    }
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
      failed(check("result", getResult().getType(), callee.getResultTypes())))
    return failure();
  return success();
}

AxesRule CallOp::getAxesRule() {
  AxesRule rule;
  rule.partial = PartialKind::Never;
  rule.callsOnce = true;
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
  rule.results = {dims->front()};
  rule.operands.append(dims->begin() + 1, dims->end());
  return rule;
}
