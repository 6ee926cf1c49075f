//===- ScheduleAttr.cpp - #fusion.schedule -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/DialectImplementation.h"
#include "tandem/Dialect/Fusion/IR/FusionAttrs.h"

using namespace mlir;
using namespace tandem::fusion;

static ParseResult parseOrder(AsmParser &parser, PeerOrder &order) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  if (parser.parseKeyword(&word))
    return failure();
  std::optional<PeerOrder> found = symbolizePeerOrder(word);
  if (!found)
    return parser.emitError(loc) << "expected a peer order (rotated, xor), found '" << word << "'";
  order = *found;
  return success();
}

static ParseResult parseMerge(AsmParser &parser, SmallVectorImpl<int64_t> &merge) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                        [&] { return parser.parseInteger(merge.emplace_back()); });
}

/// schedule ::= `<` kind (`,` option)* `>`
/// option   ::= (`directions` | `streams`) `=` integer | `channel` `=` (word | string)
///            | `order` `=` order | `merge` `=` `[` integer (`,` integer)* `]`
Attribute ScheduleAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  if (parser.parseLess() || parser.parseKeyword(&word))
    return {};
  std::optional<ScheduleKind> kind = symbolizeScheduleKind(word);
  if (!kind) {
    parser.emitError(loc) << "expected a schedule (pipeline, exchange, push), found '" << word
                          << "'";
    return {};
  }
  int64_t directions = 1, streams = 0;
  std::string channel;
  PeerOrder order = PeerOrder::Rotated;
  SmallVector<int64_t> merge;
  SmallVector<StringRef> seen;
  while (succeeded(parser.parseOptionalComma())) {
    SMLoc optionLoc = parser.getCurrentLocation();
    StringRef option;
    if (failed(parser.parseOptionalKeyword(
            &option, {"directions", "streams", "channel", "order", "merge"}))) {
      parser.emitError(optionLoc,
                       "expected 'directions', 'streams', 'channel', 'order' or 'merge'");
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
                        : option == "order"    ? parseOrder(parser, order)
                        : option == "merge"    ? parseMerge(parser, merge)
                                               : parser.parseKeywordOrString(&channel);
    if (value)
      return {};
  }
  if (parser.parseGreater())
    return {};
  // Exact types: the template of the same name would need the storage class.
  return ScheduleAttr::getChecked([&] { return parser.emitError(loc); }, parser.getContext(), *kind,
                                  directions, streams, StringRef(channel), order,
                                  ArrayRef<int64_t>(merge));
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
  if (getOrder() != PeerOrder::Rotated)
    printer << ", order = " << stringifyPeerOrder(getOrder());
  if (!getMerge().empty()) {
    printer << ", merge = [";
    llvm::interleaveComma(getMerge(), printer);
    printer << ']';
  }
  printer << '>';
}

LogicalResult ScheduleAttr::verify(function_ref<InFlightDiagnostic()> emitError, ScheduleKind kind,
                                   int64_t directions, int64_t streams, StringRef, PeerOrder order,
                                   ArrayRef<int64_t> merge) {
  if (directions != 1 && directions != 2)
    return emitError() << "expected 1 or 2 directions, found " << directions;
  if (streams < 0)
    return emitError() << "expected a number of streams that is not negative, found " << streams;
  if (kind != ScheduleKind::Push && (order != PeerOrder::Rotated || !merge.empty()))
    return emitError() << "expected 'order' and 'merge' beside push alone, found "
                       << stringifyScheduleKind(kind);
  for (int64_t peers : merge)
    if (peers < 1)
      return emitError() << "expected 'merge' to count 1 peer or more each time, found " << peers;
  return success();
}
