//===- DimAxesAttr.cpp - the digits of one dimension -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DimAxesSyntax.h"

#include "mlir/IR/DialectImplementation.h"
#include "tandem/Dialect/Fusion/IR/FusionAttrs.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

/// digit ::= `didx` `(` string `)` | `stream` (`(` size `)`)? | `serial` `(` size `)`
/// size ::= integer | string
static ParseResult parseDigit(AsmParser &parser, SmallVectorImpl<Digit> &digits) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef kind;
  if (failed(parser.parseOptionalKeyword(&kind, {"didx", "stream", "serial"})))
    return parser.emitError(loc, "expected 'didx(\"axis\")', 'stream', 'stream(n)', 'serial(n)' or "
                                 "'-' (n: a number or the name of a mesh axis)");
  if (kind == "didx") {
    std::string axis;
    if (parser.parseLParen() || parser.parseString(&axis) || parser.parseRParen())
      return failure();
    digits.push_back(Digit::device(StringAttr::get(parser.getContext(), axis)));
    return success();
  }
  if (kind == "stream" && failed(parser.parseOptionalLParen())) {
    digits.push_back(Digit::stream());
    return success();
  }
  int64_t size;
  if (kind == "serial" && parser.parseLParen())
    return failure();
  std::string axis;
  if (succeeded(parser.parseOptionalString(&axis))) {
    auto name = StringAttr::get(parser.getContext(), axis);
    digits.push_back(kind == "stream" ? Digit::stream(name) : Digit::serial(name));
    return parser.parseRParen();
  }
  if (parser.parseInteger(size) || parser.parseRParen())
    return failure();
  digits.push_back(kind == "stream" ? Digit::stream(size) : Digit::serial(size));
  // kDynamic marks bare `stream`; as a written number it is invalid.
  if (ShapedType::isDynamic(size) || size < 1)
    return parser.emitError(loc) << "expected a positive size of '" << kind << "', found " << size;
  return success();
}

ParseResult tandem::fusion::parseDimAxes(AsmParser &parser, DimAxesAttr &dim) {
  SmallVector<Digit> digits;
  if (failed(parser.parseOptionalMinus())) {
    do {
      if (parseDigit(parser, digits))
        return failure();
    } while (succeeded(parser.parseOptionalStar()));
  }
  dim = DimAxesAttr::get(parser.getContext(), digits);
  return success();
}

std::string tandem::fusion::formatDimAxes(DimAxesAttr dim) {
  if (dim.getDigits().empty())
    return "-";
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleave(
      dim.getDigits(), os,
      [&](const Digit &digit) {
        os << (digit.isDevice() ? "didx" : digit.isStream() ? "stream" : "serial");
        if (digit.axis) {
          os << "(\"";
          llvm::printEscapedString(digit.axis.getValue(), os);
          os << "\")";
        } else if (!digit.isRest()) {
          os << '(' << digit.size << ')';
        }
      },
      " * ");
  return text;
}

Attribute DimAxesAttr::parse(AsmParser &parser, Type) {
  DimAxesAttr dim;
  if (parser.parseLess() || parseDimAxes(parser, dim) || parser.parseGreater())
    return {};
  return dim;
}

void DimAxesAttr::print(AsmPrinter &printer) const {
  printer << '<' << formatDimAxes(*this);
  // Avoid `->`, which would be lexed as an arrow.
  printer << (getDigits().empty() ? " >" : ">");
}

DimAxesAttr fusion::resolveSymbolicDigits(DimAxesAttr dim, MeshAttr mesh) {
  SmallVector<Digit> digits;
  ArrayRef<Digit> rest = dim.getDigits();
  while (!rest.empty()) {
    // Adjacent `stream("a") * stream("b")` are one digit: each slice has one owner where the
    // operand has `didx("a") * didx("b")`.
    auto isSymbolicStream = [](const Digit &digit) {
      return digit.isSymbolic() && digit.isStream();
    };
    ArrayRef<Digit> run = rest.take_while(isSymbolicStream);
    if (run.empty())
      run = rest.take_front();
    rest = rest.drop_front(run.size());
    bool isKnown = true;
    int64_t product = 1;
    for (const Digit &digit : run) {
      int64_t size = getDigitSize(digit, mesh);
      isKnown &= digit.isSymbolic() && !ShapedType::isDynamic(size) &&
                 !llvm::MulOverflow(product, size, product);
    }
    if (isKnown)
      digits.push_back(run.front().isStream() ? Digit::stream(product) : Digit::serial(product));
    else
      llvm::append_range(digits, run);
  }
  return DimAxesAttr::get(dim.getContext(), digits);
}

bool DimAxesAttr::hasDevice() const {
  return llvm::any_of(getDigits(), [](const Digit &d) { return d.isDevice(); });
}

bool DimAxesAttr::hasStream() const {
  return llvm::any_of(getDigits(), [](const Digit &d) { return d.isStream(); });
}
