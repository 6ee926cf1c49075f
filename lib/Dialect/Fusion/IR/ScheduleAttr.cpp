//===- ScheduleAttr.cpp - #fusion.schedule -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/DialectImplementation.h"
#include "tandem/Dialect/Fusion/IR/FusionAttrs.h"

using namespace mlir;
using namespace mlir::tandem::fusion;

/// schedule ::= `<` kind (`,` (`directions` | `streams`) `=` integer | `,` `channel` `=` (word |
/// string))* `>`
Attribute ScheduleAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  if (parser.parseLess() || parser.parseKeyword(&word))
    return {};
  std::optional<ScheduleKind> kind = symbolizeScheduleKind(word);
  if (!kind) {
    parser.emitError(loc) << "expected a schedule (pipeline, exchange, ring, push, hierarchical), "
                             "found '"
                          << word << "'";
    return {};
  }
  int64_t directions = 1, streams = 0;
  std::string channel;
  SmallVector<StringRef> seen;
  while (succeeded(parser.parseOptionalComma())) {
    SMLoc optionLoc = parser.getCurrentLocation();
    StringRef option;
    if (failed(parser.parseOptionalKeyword(&option, {"directions", "streams", "channel"}))) {
      parser.emitError(optionLoc, "expected 'directions', 'streams' or 'channel'");
      return {};
    }
    if (llvm::is_contained(seen, option)) {
      parser.emitError(optionLoc) << "expected '" << option << "' at most once, found it twice";
      return {};
    }
    seen.push_back(option);
    if (parser.parseEqual())
      return {};
    ParseResult value = option == "directions" ? parser.parseInteger(directions)
                        : option == "streams"  ? parser.parseInteger(streams)
                                               : parser.parseKeywordOrString(&channel);
    if (value)
      return {};
  }
  if (parser.parseGreater())
    return {};
  // Exact types: the template of the same name would need the storage class.
  return ScheduleAttr::getChecked([&] { return parser.emitError(loc); }, parser.getContext(), *kind,
                                  directions, streams, StringRef(channel));
}

void ScheduleAttr::print(AsmPrinter &printer) const {
  printer << '<' << stringifyScheduleKind(getKind());
  if (getDirections() != 1)
    printer << ", directions = " << getDirections();
  if (getStreams() != 0)
    printer << ", streams = " << getStreams();
  if (!getChannel().empty()) {
    printer << ", channel = ";
    printer.printString(getChannel());
  }
  printer << '>';
}

LogicalResult ScheduleAttr::verify(function_ref<InFlightDiagnostic()> emitError, ScheduleKind,
                                   int64_t directions, int64_t streams, StringRef) {
  if (directions != 1 && directions != 2)
    return emitError() << "expected 1 or 2 directions, found " << directions;
  if (streams < 0)
    return emitError() << "expected a number of streams that is not negative, found " << streams;
  return success();
}
