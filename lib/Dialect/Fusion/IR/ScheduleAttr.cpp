//===- ScheduleAttr.cpp - #fusion.schedule -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpVerify.h"
#include "mlir/IR/DialectImplementation.h"
#include "tandem/Dialect/Fusion/IR/FusionAttrs.h"
#include "tandem/Dialect/Fusion/IR/FusionDialect.h"
#include "tandem/Dialect/Fusion/IR/ScheduleInfo.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

const ScheduleRegistry *ScheduleRegistry::get(MLIRContext *context) {
  auto *dialect = context->getLoadedDialect<FusionDialect>();
  return dialect ? dialect->getRegisteredInterface<ScheduleRegistry>() : nullptr;
}

int64_t ScheduleAttr::getInteger(StringRef option) const {
  auto value = getOptions().getAs<IntegerAttr>(option);
  return value ? value.getInt() : 0;
}

ArrayRef<int64_t> ScheduleAttr::getIntegers(StringRef option) const {
  auto value = getOptions().getAs<DenseI64ArrayAttr>(option);
  return value ? value.asArrayRef() : ArrayRef<int64_t>();
}

StringRef ScheduleAttr::getWord(StringRef option) const {
  auto value = getOptions().getAs<StringAttr>(option);
  return value ? value.getValue() : StringRef();
}

bool ScheduleAttr::takesSequences() const {
  const ScheduleRegistry *registry = ScheduleRegistry::get(getContext());
  const ScheduleInfo *info = registry ? registry->lookup(getName()) : nullptr;
  return info && info->takesSequences;
}

/// value ::= integer | `[` integer (`,` integer)* `]` | word | string
static Attribute parseValue(AsmParser &parser) {
  Builder &builder = parser.getBuilder();
  int64_t integer;
  if (OptionalParseResult parsed = parser.parseOptionalInteger(integer); parsed.has_value())
    return succeeded(*parsed) ? builder.getI64IntegerAttr(integer) : Attribute();
  if (succeeded(parser.parseOptionalLSquare())) {
    SmallVector<int64_t> integers;
    auto parseOne = [&] { return parser.parseInteger(integers.emplace_back()); };
    if (parser.parseCommaSeparatedList(parseOne) || parser.parseRSquare())
      return {};
    return builder.getDenseI64ArrayAttr(integers);
  }
  std::string word;
  if (parser.parseKeywordOrString(&word))
    return {};
  return builder.getStringAttr(word);
}

/// schedule ::= `<` name (`,` option `=` value)* `>`
Attribute ScheduleAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef name;
  if (parser.parseLess() || parser.parseKeyword(&name))
    return {};
  NamedAttrList options;
  while (succeeded(parser.parseOptionalComma())) {
    SMLoc optionLoc = parser.getCurrentLocation();
    StringRef option;
    if (parser.parseKeyword(&option))
      return {};
    if (options.get(option)) {
      parser.emitError(optionLoc) << "expected '" << option << "' at most once, found it twice";
      return {};
    }
    if (parser.parseEqual())
      return {};
    Attribute value = parseValue(parser);
    if (!value)
      return {};
    options.set(option, value);
  }
  if (parser.parseGreater())
    return {};
  // Exact types: the template of the same name would need the storage class.
  return ScheduleAttr::getChecked([&] { return parser.emitError(loc); }, parser.getContext(), name,
                                  options.getDictionary(parser.getContext()));
}

std::string ScheduleAttr::str() const {
  if (getOptions().empty())
    return getName().str();
  std::string text;
  llvm::raw_string_ostream(text) << *this;
  StringRef inner = text;
  (void)inner.consume_front("#fusion.schedule<");
  (void)inner.consume_back(">");
  return inner.str();
}

void ScheduleAttr::print(AsmPrinter &printer) const {
  printer << '<' << getName();
  for (NamedAttribute option : getOptions()) {
    printer << ", " << option.getName().getValue() << " = ";
    if (auto integer = dyn_cast<IntegerAttr>(option.getValue())) {
      printer << integer.getInt();
    } else if (auto integers = dyn_cast<DenseI64ArrayAttr>(option.getValue())) {
      printer << '[';
      llvm::interleaveComma(integers.asArrayRef(), printer);
      printer << ']';
    } else {
      printer.printKeywordOrString(cast<StringAttr>(option.getValue()).getValue());
    }
  }
  printer << '>';
}

/// Verifies an option of the schedule and its value.
static LogicalResult verifyOption(function_ref<InFlightDiagnostic()> emitError,
                                  const ScheduleOption &option, Attribute value) {
  auto isLess = [&](int64_t number) { return number < option.least; };
  switch (option.kind) {
  case ScheduleOption::Kind::Integer: {
    auto integer = dyn_cast<IntegerAttr>(value);
    if (!integer || isLess(integer.getInt()))
      return emitError() << "expected a number of at least " << option.least << " in '"
                         << option.name << "', found " << value;
    return success();
  }
  case ScheduleOption::Kind::Integers: {
    auto integers = dyn_cast<DenseI64ArrayAttr>(value);
    if (!integers || integers.empty() || llvm::any_of(integers.asArrayRef(), isLess))
      return emitError() << "expected a list of numbers of at least " << option.least << " in '"
                         << option.name << "', found " << value;
    return success();
  }
  case ScheduleOption::Kind::Word: {
    auto word = dyn_cast<StringAttr>(value);
    if (word && llvm::is_contained(option.words, word.getValue()))
      return success();
    return emitError() << "expected '" << option.name << "' to be one of "
                       << llvm::join(option.words, ", ") << ", found " << value;
  }
  }
  return failure();
}

LogicalResult ScheduleAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringRef name,
                                   DictionaryAttr options) {
  const ScheduleRegistry *registry = ScheduleRegistry::get(options.getContext());
  if (!registry)
    return success();
  const ScheduleInfo *info = registry->lookup(name);
  if (!info)
    return emitError() << "expected a schedule (" << llvm::join(registry->getNames(), ", ")
                       << "), found '" << name << "'";
  for (NamedAttribute given : options) {
    StringRef key = given.getName().getValue();
    const auto *option =
        llvm::find_if(info->options, [&](const ScheduleOption &o) { return o.name == key; });
    if (option == info->options.end()) {
      SmallVector<StringRef> known =
          llvm::map_to_vector(info->options, [](const ScheduleOption &o) { return o.name; });
      return emitError() << "schedule " << name << " has no option '" << key << "'"
                         << suggestName(key, known);
    }
    if (failed(verifyOption(emitError, *option, given.getValue())))
      return failure();
  }
  return success();
}
