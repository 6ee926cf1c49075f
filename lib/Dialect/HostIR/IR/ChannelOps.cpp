//===- ChannelOps.cpp - ranks, meshes and channels --------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpVerify.h"

#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::hostir;

static LogicalResult verifyAxis(Operation *op, MeshAttr mesh, StringRef axis) {
  if (mesh.axisIndex(axis) >= 0) {
    if (ShapedType::isDynamic(mesh.axisSize(axis)))
      return op->emitOpError() << "expected a known size of mesh axis \"" << axis << "\", found ?";
    return success();
  }
  InFlightDiagnostic diag = op->emitOpError() << "expected one of the mesh's axes (";
  llvm::interleaveComma(mesh.getAxes(), diag, [&](const MeshAxis &a) { diag << a.name; });
  return diag << "), found \"" << axis << "\"";
}

LogicalResult DeviceIndexOp::verify() { return verifyAxis(*this, getMesh(), getAxis()); }

LogicalResult TranslatePositionOp::verify() {
  for (MeshAttr mesh : {getFrom(), getTo()})
    if (!mesh.isStatic())
      return emitOpError() << "expected a mesh of known sizes, found " << mesh;
  std::optional<int64_t> position = getConstantIntValue(getPosition());
  if (position && (*position < 0 || *position >= getFrom().numDevices()))
    return emitOpError() << "expected a position below " << getFrom().numDevices() << ", found "
                         << *position;
  return success();
}

OpFoldResult TranslatePositionOp::fold(FoldAdaptor adaptor) {
  if (getFrom() == getTo())
    return getPosition();
  auto position = dyn_cast_or_null<IntegerAttr>(adaptor.getPosition());
  if (!position || position.getInt() < 0 || position.getInt() >= getFrom().numDevices())
    return {};
  return IntegerAttr::get(position.getType(),
                          getTo().position(getFrom().worldRank(position.getInt())));
}

//===----------------------------------------------------------------------===//
// Channels
//===----------------------------------------------------------------------===//

ParseResult hostir::parseCapabilities(OpAsmParser &parser, ArrayAttr &capabilities) {
  SmallVector<Attribute> found;
  auto parseOne = [&]() -> ParseResult {
    StringRef keyword;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&keyword))
      return failure();
    std::optional<Capability> capability = symbolizeCapability(keyword);
    if (!capability)
      return parser.emitError(loc)
             << "expected two_sided, one_sided or collectives, found '" << keyword << "'";
    found.push_back(CapabilityAttr::get(parser.getContext(), *capability));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne))
    return failure();
  capabilities = parser.getBuilder().getArrayAttr(found);
  return success();
}

void hostir::printCapabilities(OpAsmPrinter &p, Operation *, ArrayAttr capabilities) {
  p << '[';
  llvm::interleaveComma(capabilities.getAsRange<CapabilityAttr>(), p,
                        [&](CapabilityAttr attr) { p << stringifyCapability(attr.getValue()); });
  p << ']';
}

int64_t ChannelOp::groupSize() {
  int64_t size = 1;
  for (StringRef axis : getAxes().getAsValueRange<StringAttr>()) {
    if (getMesh().axisIndex(axis) < 0 || ShapedType::isDynamic(getMesh().axisSize(axis)))
      return -1;
    size *= getMesh().axisSize(axis);
  }
  return size;
}

bool ChannelOp::can(Capability capability) {
  return llvm::any_of(getCapabilities().getAsRange<CapabilityAttr>(),
                      [&](CapabilityAttr attr) { return attr.getValue() == capability; });
}

LogicalResult ChannelOp::verify() {
  llvm::SmallSet<StringRef, 4> axes;
  for (StringRef axis : getAxes().getAsValueRange<StringAttr>()) {
    if (failed(verifyAxis(*this, getMesh(), axis)))
      return failure();
    if (!axes.insert(axis).second)
      return emitOpError() << "expected each axis once, found \"" << axis << "\" twice";
  }
  if (getCapabilities().empty())
    return emitOpError() << "expected at least one capability, found none";
  llvm::SmallSet<Capability, 4> capabilities;
  for (auto attr : getCapabilities().getAsRange<CapabilityAttr>())
    if (!capabilities.insert(attr.getValue()).second)
      return emitOpError() << "expected each capability once, found '"
                           << stringifyCapability(attr.getValue()) << "' twice";
  StringRef link = getLinkClass();
  if (!link.empty() && link != "node" && link != "network")
    return emitOpError() << "expected link \"node\" or \"network\", found \"" << link << "\"";
  return success();
}
