//===- MeshAttr.cpp - #tandem.mesh -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/DialectImplementation.h"
#include "tandem/Dialect/Mesh/IR/Mesh.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace tandem;

/// axis ::= string `=` (integer | `?`)
static ParseResult parseAxis(AsmParser &parser, SmallVectorImpl<MeshAxis> &axes) {
  std::string name;
  int64_t size = ShapedType::kDynamic;
  if (parser.parseString(&name) || parser.parseEqual())
    return failure();
  if (failed(parser.parseOptionalQuestion()) && parser.parseInteger(size))
    return failure();
  axes.push_back({StringAttr::get(parser.getContext(), name), size});
  return success();
}

/// mesh ::= `<` string `,` `[` axis,* `]` (`,` `devices` `=` `[` integer,* `]`)? `>`
Attribute MeshAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  std::string name;
  SmallVector<MeshAxis> axes;
  SmallVector<int64_t> devices;
  if (parser.parseLess() || parser.parseString(&name) || parser.parseComma() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                     [&] { return parseAxis(parser, axes); }))
    return {};
  if (succeeded(parser.parseOptionalComma())) {
    if (parser.parseKeyword("devices") || parser.parseEqual() ||
        parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                       [&] { return parser.parseInteger(devices.emplace_back()); }))
      return {};
    if (devices.empty()) {
      parser.emitError(loc, "expected at least one device in 'devices', found none");
      return {};
    }
  }
  if (parser.parseGreater())
    return {};
  // Exact types: the template of the same name would need the storage class.
  return MeshAttr::getChecked([&] { return parser.emitError(loc); }, parser.getContext(),
                              StringAttr::get(parser.getContext(), name), ArrayRef<MeshAxis>(axes),
                              ArrayRef<int64_t>(devices));
}

void MeshAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printer.printString(getName().getValue());
  printer << ", [";
  llvm::interleaveComma(getAxes(), printer, [&](const MeshAxis &axis) {
    printer.printString(axis.name.getValue());
    printer << " = ";
    if (ShapedType::isDynamic(axis.size))
      printer << '?';
    else
      printer << axis.size;
  });
  printer << ']';
  if (!getDevices().empty()) {
    printer << ", devices = [";
    llvm::interleaveComma(getDevices(), printer);
    printer << ']';
  }
  printer << '>';
}

LogicalResult MeshAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringAttr name,
                               ArrayRef<MeshAxis> axes, ArrayRef<int64_t> devices) {
  constexpr int64_t maxDevices = std::numeric_limits<int32_t>::max();
  llvm::StringSet<> names;
  int64_t known = 1;
  bool isStatic = true;
  for (const MeshAxis &axis : axes) {
    StringRef axisName = axis.name.getValue();
    if (axisName.empty())
      return emitError() << "expected mesh axes with names, found an empty name in mesh " << name;
    if (!names.insert(axisName).second)
      return emitError() << "expected mesh axes with distinct names, found \"" << axisName
                         << "\" twice in mesh " << name;
    if (ShapedType::isDynamic(axis.size)) {
      isStatic = false;
      continue;
    }
    if (axis.size < 1)
      return emitError() << "expected a positive size or '?' for mesh axis \"" << axisName
                         << "\", found " << axis.size;
    if (axis.size > maxDevices / known)
      return emitError() << "expected at most " << maxDevices << " devices in mesh " << name
                         << ", found more at axis \"" << axisName << "\"";
    known *= axis.size;
  }
  if (devices.empty())
    return success();
  if (!isStatic)
    return emitError() << "expected known sizes in mesh " << name
                       << " that lists its devices, found '?'";
  if (static_cast<int64_t>(devices.size()) != known)
    return emitError() << "expected " << known << " devices in mesh " << name << ", found "
                       << devices.size();
  llvm::SmallDenseSet<int64_t> seen;
  for (int64_t device : devices) {
    if (device < 0 || device > maxDevices)
      return emitError() << "expected device ranks between 0 and " << maxDevices << " in mesh "
                         << name << ", found " << device;
    if (!seen.insert(device).second)
      return emitError() << "expected distinct devices in mesh " << name << ", found " << device
                         << " twice";
  }
  return success();
}

int64_t MeshAttr::axisIndex(StringRef axis) const {
  for (auto [i, a] : llvm::enumerate(getAxes()))
    if (a.name.getValue() == axis)
      return i;
  return -1;
}

int64_t MeshAttr::axisSize(StringRef axis) const {
  int64_t index = axisIndex(axis);
  return index < 0 ? ShapedType::kDynamic : getAxes()[index].size;
}

int64_t MeshAttr::numDevices() const {
  int64_t n = 1;
  for (const MeshAxis &axis : getAxes()) {
    if (ShapedType::isDynamic(axis.size))
      return ShapedType::kDynamic;
    n *= axis.size;
  }
  return n;
}

int64_t MeshAttr::worldRank(int64_t position) const {
  return getDevices().empty() ? position : getDevices()[position];
}

int64_t MeshAttr::position(int64_t worldRank) const {
  if (getDevices().empty())
    return worldRank >= 0 && isStatic() && worldRank < numDevices() ? worldRank : -1;
  const int64_t *it = llvm::find(getDevices(), worldRank);
  return it == getDevices().end() ? -1 : it - getDevices().begin();
}

SmallVector<int64_t> MeshAttr::coordinates(int64_t position) const {
  SmallVector<int64_t> coords(getAxes().size());
  for (int64_t i = coords.size() - 1; i >= 0; --i) {
    coords[i] = position % getAxes()[i].size;
    position /= getAxes()[i].size;
  }
  return coords;
}
