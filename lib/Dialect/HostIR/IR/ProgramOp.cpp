//===- ProgramOp.cpp - programs, kernels and their terminator -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpVerify.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Interfaces/FunctionImplementation.h"
#include "tandem/Support/ElementTypes.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;

//===----------------------------------------------------------------------===//
// Syntax
//===----------------------------------------------------------------------===//

// Like function_interface_impl::parseFunctionOp, but the body may be empty.
static ParseResult parseFunction(OpAsmParser &parser, OperationState &result,
                                 StringAttr functionType, StringAttr argAttrs,
                                 StringAttr resAttrs) {
  (void)impl::parseOptionalVisibilityKeyword(parser, result.attributes);
  StringAttr name;
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<Type> resultTypes;
  SmallVector<DictionaryAttr> resultAttrs;
  bool isVariadic = false;
  if (parser.parseSymbolName(name, SymbolTable::getSymbolAttrName(), result.attributes) ||
      function_interface_impl::parseFunctionSignatureWithArguments(
          parser, /*allowVariadic=*/false, arguments, isVariadic, resultTypes, resultAttrs) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  SmallVector<Type> argumentTypes;
  for (const OpAsmParser::Argument &argument : arguments)
    argumentTypes.push_back(argument.type);
  Builder &builder = parser.getBuilder();
  result.addAttribute(functionType,
                      TypeAttr::get(builder.getFunctionType(argumentTypes, resultTypes)));
  call_interface_impl::addArgAndResultAttrs(builder, result, arguments, resultAttrs, argAttrs,
                                            resAttrs);
  Region *body = result.addRegion();
  if (parser.parseRegion(*body, arguments))
    return failure();
  if (body->empty())
    body->emplaceBlock();
  return success();
}

static void printFunction(OpAsmPrinter &p, FunctionOpInterface op, ArrayRef<StringRef> elided) {
  p << ' ';
  StringRef visibility = SymbolTable::getVisibilityAttrName();
  if (auto attr = op->getAttrOfType<StringAttr>(visibility))
    p << attr.getValue() << ' ';
  p.printSymbolName(op.getName());
  function_interface_impl::printFunctionSignature(p, op, op.getArgumentTypes(),
                                                  /*isVariadic=*/false, op.getResultTypes());
  SmallVector<StringRef> hidden(elided);
  hidden.append({visibility, "function_type", "arg_attrs", "res_attrs"});
  function_interface_impl::printFunctionAttributes(p, op, hidden);
  p << ' ';
  p.printRegion(op.getFunctionBody(), /*printEntryBlockArgs=*/false,
                /*printBlockTerminators=*/true);
}

ParseResult ProgramOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseFunction(parser, result, getFunctionTypeAttrName(result.name),
                       getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void ProgramOp::print(OpAsmPrinter &p) {
  SmallVector<StringRef> elided;
  if (getWorkers() == kDefaultWorkers)
    elided.push_back(getWorkersAttrName());
  printFunction(p, *this, elided);
}

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseFunction(parser, result, getFunctionTypeAttrName(result.name),
                       getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void KernelOp::print(OpAsmPrinter &p) { printFunction(p, *this, {}); }

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

static bool isBuffer(Type type) {
  auto memref = dyn_cast<MemRefType>(type);
  if (!memref || !memref.hasStaticShape() || !hasStaticStrides(memref) || !isBufferSpace(memref))
    return false;
  return isElementType(memref.getElementType());
}

// program_c2
static LogicalResult verifyLogicalType(ProgramOp op, unsigned index, RankedTensorType logical) {
  auto local = cast<MemRefType>(op.getArgumentTypes()[index]);
  SmallVector<int64_t> shape(logical.getShape());
  if (auto encoding = dyn_cast_if_present<ShardedEncoding>(logical.getEncoding())) {
    FailureOr<SmallVector<int64_t>> localShape = encoding.getLocalShape(logical);
    if (failed(localShape))
      return op.emitOpError() << "expected a type of known extents and mesh in '" << kTypeAttrName
                              << "' of argument " << index << ", found " << logical;
    shape = *localShape;
  }
  if (auto extents = op.getArgAttrOfType<DenseI64ArrayAttr>(index, kExtentsAttrName)) {
    auto isPart = [](ArrayRef<int64_t> part, ArrayRef<int64_t> all) {
      return part.size() == all.size() && llvm::all_of(llvm::zip_equal(part, all), [](auto pair) {
               return std::get<0>(pair) >= 0 && std::get<0>(pair) <= std::get<1>(pair);
             });
    };
    if (!isPart(extents, logical.getShape()))
      return op.emitOpError() << "expected extents of argument " << index << " up to those of "
                              << logical << ", found '" << kExtentsAttrName << "' of "
                              << printShape(extents.asArrayRef());
    if (isPart(local.getShape(), shape))
      shape = SmallVector<int64_t>(local.getShape());
  }
  if (shape == local.getShape() && logical.getElementType() == local.getElementType())
    return success();
  return op.emitOpError() << "expected argument " << index << " of local shape "
                          << printShape(shape) << " and element type " << logical.getElementType()
                          << ", as '" << kTypeAttrName << "' says, found " << local;
}

// program_c7
static LogicalResult verifyParts(ProgramOp op, unsigned index, ArrayAttr parts) {
  auto whole = cast<MemRefType>(op.getArgumentTypes()[index]);
  if (!op.getArgAttr(index, kResultAttrName) || op.getArgAttr(index, kTypeAttrName))
    return op.emitOpError() << "expected '" << kPartsAttrName << "' on a result without '"
                            << kTypeAttrName << "', found it on argument " << index;
  int64_t count = static_cast<int64_t>(parts.size());
  if (count < 2)
    return op.emitOpError() << "expected two or more parts of argument " << index << ", found "
                            << count;
  for (Attribute part : parts) {
    auto dictionary = dyn_cast<DictionaryAttr>(part);
    auto attr = dictionary ? dictionary.getAs<TypeAttr>(kTypeAttrName) : TypeAttr();
    auto type = attr ? dyn_cast<RankedTensorType>(attr.getValue()) : RankedTensorType();
    if (!type)
      return op.emitOpError() << "expected a tensor type in '" << kTypeAttrName
                              << "' of each part of argument " << index << ", found " << part;
    SmallVector<int64_t> shape(type.getShape());
    if (auto encoding = dyn_cast_if_present<ShardedEncoding>(type.getEncoding())) {
      FailureOr<SmallVector<int64_t>> local = encoding.getLocalShape(type);
      if (failed(local))
        return op.emitOpError() << "expected a part of known extents and mesh, found " << type;
      shape = *local;
    }
    if (ShapedType::isDynamicShape(shape) ||
        ShapedType::getNumElements(shape) * count != whole.getNumElements() ||
        type.getElementType() != whole.getElementType())
      return op.emitOpError() << "expected " << count << " equal parts of " << whole
                              << " as argument " << index << ", found one of " << type;
  }
  return success();
}

LogicalResult ProgramOp::verify() {
  if (!getResultTypes().empty())
    return emitOpError() << "expected no results (they are arguments marked '" << kResultAttrName
                         << "'), found " << getResultTypes().size();
  bool sawResult = false;
  for (auto [index, type] : llvm::enumerate(getArgumentTypes())) {
    if (!isBuffer(type))
      return emitOpError() << "expected argument " << index << " to be a memref of "
                           << kElementTypes
                           << " with static shape and strides in default or symmetric memory, "
                              "found "
                           << type;
    auto logical = getArgAttrOfType<TypeAttr>(index, kTypeAttrName);
    if (logical)
      if (auto tensor = dyn_cast<RankedTensorType>(logical.getValue()))
        if (failed(verifyLogicalType(*this, index, tensor)))
          return failure();
    if (auto parts = getArgAttrOfType<ArrayAttr>(index, kPartsAttrName))
      if (failed(verifyParts(*this, index, parts)))
        return failure();
    bool isResult = getArgAttr(index, kResultAttrName) != nullptr;
    if (sawResult && !isResult)
      return emitOpError() << "expected results after inputs, found input argument " << index
                           << " after a result";
    sawResult |= isResult;
  }
  if (auto workers = static_cast<int64_t>(getWorkers()); workers < 1 || workers > kMaxWorkers)
    return emitOpError() << "expected 1 to " << kMaxWorkers << " workers, found " << workers;
  for (auto [name, bytes] : {std::pair(getArenaBytesAttrName(), getArenaBytes()),
                             std::pair(getSymmetricBytesAttrName(), getSymmetricBytes())})
    if (bytes && static_cast<int64_t>(*bytes) < 0)
      return emitOpError() << "expected '" << name.getValue() << "' that is not negative, found "
                           << static_cast<int64_t>(*bytes);
  if (std::optional<StringRef> level = getDeterministic();
      level && *level != "bitwise" && *level != "batch" && *level != "tp")
    return emitOpError()
           << "expected 'deterministic' to be \"bitwise\", \"batch\" or \"tp\", found \"" << *level
           << "\"";
  return success();
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

LogicalResult KernelOp::verify() {
  for (Type type : llvm::concat<const Type>(getArgumentTypes(), getResultTypes()))
    if (!isElementType(type))
      return emitOpError() << "expected scalars of " << kElementTypes << ", found " << type;
  return success();
}

LogicalResult KernelOp::verifyRegions() {
  for (Operation &op : getBody().front()) {
    if (isa<YieldOp>(op))
      continue;
    bool known = isa<ExpDifferenceOp>(op) ||
                 isa_and_present<arith::ArithDialect, math::MathDialect>(op.getDialect());
    if (!known || op.getNumRegions() != 0)
      return op.emitOpError() << "expected only 'arith' and 'math' operations in a kernel";
  }
  if (getBody().front().empty() || !isa<YieldOp>(getBody().front().back()))
    return emitOpError() << "expected 'hostir.yield' at the end of the body";
  return success();
}

LogicalResult hostir::YieldOp::verify() {
  auto kernel = cast<KernelOp>((*this)->getParentOp());
  if (llvm::equal(getOperandTypes(), kernel.getResultTypes()))
    return success();
  InFlightDiagnostic diag = emitOpError() << "expected operands of types (";
  llvm::interleaveComma(kernel.getResultTypes(), diag);
  diag << "), as the kernel's results, found (";
  llvm::interleaveComma(getOperandTypes(), diag);
  return diag << ")";
}
