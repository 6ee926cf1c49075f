//===- AxesAttr.cpp - #fusion.axes -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AxesInferenceDetail.h"
#include "DimAxesSyntax.h"

#include "mlir/IR/DialectImplementation.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/IR/Placement.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

/// partial ::= `partial` `=` (`sum` | `max` | `min`)? `[` string,* `]`
static ParseResult parsePartial(AsmParser &parser, SmallVectorImpl<StringAttr> &partial,
                                ReduceKind &kind) {
  if (parser.parseKeyword("partial") || parser.parseEqual())
    return failure();
  StringRef word;
  if (succeeded(parser.parseOptionalKeyword(&word, {"sum", "max", "min"})))
    kind = *symbolizeReduceKind(word);
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
    std::string axis;
    if (parser.parseString(&axis))
      return failure();
    partial.push_back(StringAttr::get(parser.getContext(), axis));
    return success();
  });
}

/// axes ::= `<` mesh `,` `[` dim,* `]` (`,` partial)? `>`
Attribute AxesAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  MeshAttr mesh;
  SmallVector<DimAxesAttr> dims;
  SmallVector<StringAttr> partial;
  ReduceKind kind = ReduceKind::Sum;
  if (parser.parseLess() || parser.parseAttribute(mesh) || parser.parseComma() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                     [&] { return parseDimAxes(parser, dims.emplace_back()); }))
    return {};
  if (succeeded(parser.parseOptionalComma()) && parsePartial(parser, partial, kind))
    return {};
  if (parser.parseGreater())
    return {};
  for (DimAxesAttr &dim : dims)
    dim = resolveSymbolicDigits(dim, mesh);
  // Exact types: the template of the same name would need the storage class.
  return AxesAttr::getChecked([&] { return parser.emitError(loc); }, parser.getContext(), mesh,
                              ArrayRef<DimAxesAttr>(dims), ArrayRef<StringAttr>(partial), kind);
}

/// Prints the part after the mesh.
static void formatDimsAndPartial(AxesAttr axes, raw_ostream &os) {
  os << '[';
  llvm::interleaveComma(axes.getDims(), os, [&](DimAxesAttr dim) { os << formatDimAxes(dim); });
  os << ']';
  if (!axes.isPartial())
    return;
  os << ", partial = ";
  if (axes.getPartialKind() != ReduceKind::Sum)
    os << stringifyReduceKind(axes.getPartialKind()) << ' ';
  os << '[';
  llvm::interleaveComma(axes.getPartial(), os, [&](StringAttr axis) {
    os << '"';
    llvm::printEscapedString(axis.getValue(), os);
    os << '"';
  });
  os << ']';
}

void AxesAttr::print(AsmPrinter &printer) const {
  std::string text;
  llvm::raw_string_ostream os(text);
  formatDimsAndPartial(*this, os);
  printer << '<';
  printer.printAttribute(getMesh());
  printer << ", " << text << '>';
}

std::string tandem::fusion::formatAxes(AxesAttr axes) {
  if (!axes)
    return "no axes";
  std::string text;
  llvm::raw_string_ostream os(text);
  formatDimsAndPartial(axes, os);
  os << " on #" << axes.getMesh().getName().getValue();
  return text;
}

LogicalResult AxesAttr::verify(function_ref<InFlightDiagnostic()> emitError, MeshAttr mesh,
                               ArrayRef<DimAxesAttr> dims, ArrayRef<StringAttr> partial,
                               ReduceKind partialKind) {
  llvm::SmallPtrSet<StringAttr, 4> used;
  auto exists = [&](StringAttr axis) -> LogicalResult {
    if (mesh.axisIndex(axis.getValue()) >= 0)
      return success();
    InFlightDiagnostic diag = emitError();
    diag << "expected an axis of mesh " << mesh.getName() << " (";
    llvm::interleaveComma(mesh.getAxes(), diag, [&](const MeshAxis &a) { diag << a.name; });
    return diag << "), found " << axis;
  };
  auto use = [&](StringAttr axis) -> LogicalResult {
    if (failed(exists(axis)))
      return failure();
    if (!used.insert(axis).second)
      return emitError() << "expected mesh axis " << axis << " at most once, found it twice";
    return success();
  };
  for (auto [i, dim] : llvm::enumerate(dims)) {
    int64_t product = 1;
    for (auto [j, digit] : llvm::enumerate(dim.getDigits())) {
      if (digit.isDevice()) {
        if (failed(use(digit.axis)))
          return failure();
      } else if (digit.isSymbolic()) {
        if (failed(exists(digit.axis)))
          return failure();
      } else if (digit.isRest()) {
        if (j + 1 != dim.getDigits().size())
          return emitError() << "expected bare 'stream' to be the last digit of dimension " << i
                             << ", found a digit after it";
      } else if (digit.size < 1) {
        return emitError() << "expected digits of positive size in dimension " << i << ", found "
                           << digit.size;
      } else if (llvm::MulOverflow(product, digit.size, product)) {
        return emitError() << "expected digits of dimension " << i
                           << " whose product fits 63 bits, found a larger one";
      }
    }
  }
  for (StringAttr axis : partial)
    if (failed(use(axis)))
      return failure();
  if (partial.empty() && partialKind != ReduceKind::Sum)
    return emitError() << "expected a list of partial mesh axes with '"
                       << stringifyReduceKind(partialKind) << "', found none";
  return success();
}

/// The last slice may be shorter, but not empty.
static LogicalResult verifySliceCount(int64_t extent, int64_t count, size_t dim,
                                      function_ref<InFlightDiagnostic()> emitError) {
  if (isSliceCount(extent, count))
    return success();
  // Counts follow from slice sizes: the next smaller size gives the next larger count.
  auto slice = static_cast<int64_t>(llvm::divideCeil(extent, count));
  auto below = static_cast<int64_t>(llvm::divideCeil(extent, slice));
  InFlightDiagnostic diag = emitError();
  diag << "expected a number of slices that leaves none empty, found 'stream(" << count << ")' of "
       << extent << " indices in dimension " << dim << ": slices of " << slice << " leave "
       << count - below << " empty; accepted nearby: " << below;
  if (slice > 1)
    diag << " and " << llvm::divideCeil(extent, slice - 1);
  return diag;
}

bool AxesAttr::mustBePadded(int64_t dim, int64_t extent) const {
  ArrayRef<Digit> digits = getDims()[dim].getDigits();
  if (ShapedType::isDynamic(extent) || !(getDims()[dim].hasDevice() || getDims()[dim].hasStream()))
    return false;
  int64_t product = 1;
  for (const Digit &digit : digits) {
    int64_t size = getDigitSize(digit, getMesh());
    // The innermost slice may be shorter.
    if (ShapedType::isDynamic(size) || (&digit == &digits.back() && digit.isStream()))
      break;
    if (llvm::MulOverflow(product, size, product) || extent % product != 0)
      return true;
  }
  return false;
}

LogicalResult AxesAttr::verifyEncoding(ArrayRef<int64_t> shape, Type elementType,
                                       function_ref<InFlightDiagnostic()> emitError) const {
  // Whether digits fit is known when extents are padded: see verifyFits.
  if (shape.size() != getDims().size())
    return emitError() << "expected axes for " << shape.size() << " dimensions, found "
                       << getDims().size();
  return success();
}

LogicalResult AxesAttr::verifyFits(ArrayRef<int64_t> shape,
                                   function_ref<InFlightDiagnostic()> emitError) const {
  for (auto [i, extent, dim] : llvm::enumerate(shape, getDims())) {
    if (ShapedType::isDynamic(extent))
      continue;
    int64_t product = 1;
    bool outerIsKnown = true;
    for (const Digit &digit : dim.getDigits()) {
      int64_t size = getDigitSize(digit, getMesh());
      if (ShapedType::isDynamic(size)) {
        outerIsKnown = false;
        continue;
      }
      int64_t outer = product;
      if (!llvm::MulOverflow(product, size, product) && extent % product == 0)
        continue;
      if (digit.isStream() && &digit == &dim.getDigits().back()) {
        if (outerIsKnown && failed(verifySliceCount(extent / outer, size, i, emitError)))
          return failure();
        continue;
      }
      InFlightDiagnostic diag = emitError();
      diag << "expected digits whose product divides the extent " << extent << " of dimension " << i
           << ", found ";
      if (digit.isDevice())
        diag << "mesh axis " << digit.axis << " of size " << size;
      else
        diag << '\'' << (digit.isStream() ? "stream" : "serial") << '(' << size << ")'";
      if (product != size)
        diag << " (product " << product << ')';
      return diag;
    }
  }
  return success();
}

AxesAttr AxesAttr::getReplicated(MeshAttr mesh, int64_t rank) {
  SmallVector<DimAxesAttr> dims(rank, DimAxesAttr::get(mesh.getContext(), {}));
  return AxesAttr::get(mesh.getContext(), mesh, dims, {}, ReduceKind::Sum);
}

bool AxesAttr::hasStream() const {
  return llvm::any_of(getDims(), [](DimAxesAttr dim) { return dim.hasStream(); });
}

DimAxesAttr fusion::getDimPlacement(DimAxesAttr dim) {
  if (llvm::all_of(dim.getDigits(), [](const Digit &digit) { return digit.isDevice(); }))
    return dim;
  SmallVector<Digit> digits;
  for (const Digit &digit : dim.getDigits()) {
    if (digit.isRest())
      break;
    if (digit.isDevice())
      digits.push_back(digit);
    else if (digit.isSymbolic())
      digits.push_back(Digit::serial(digit.axis));
    else if (!digits.empty() && digits.back().isSerial() && !digits.back().isSymbolic())
      digits.back().size *= digit.size;
    else if (digit.size != 1)
      digits.push_back(Digit::serial(digit.size));
  }
  while (!digits.empty() && digits.back().isSerial())
    digits.pop_back();
  return DimAxesAttr::get(dim.getContext(), digits);
}

AxesAttr AxesAttr::getPlacement() const {
  return withDims(llvm::map_to_vector(getDims(), getDimPlacement));
}

AxesAttr AxesAttr::withDims(ArrayRef<DimAxesAttr> dims) const {
  return AxesAttr::get(getContext(), getMesh(), dims, getPartial(), getPartialKind());
}

AxesAttr AxesAttr::withPartial(ArrayRef<StringAttr> partial, ReduceKind kind) const {
  return AxesAttr::get(getContext(), getMesh(), getDims(), partial,
                       partial.empty() ? ReduceKind::Sum : kind);
}

int64_t AxesAttr::dimOfDeviceAxis(StringRef axis) const {
  for (auto [i, dim] : llvm::enumerate(getDims()))
    for (const Digit &digit : dim.getDigits())
      if (digit.isDevice() && digit.axis.getValue() == axis)
        return i;
  return -1;
}
