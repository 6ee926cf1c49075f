//===- ScheduleAttr.cpp - #fusion.schedule -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpVerify.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/DialectImplementation.h"
#include "tandem/Dialect/Fusion/IR/FusionAttrs.h"
#include "tandem/Dialect/Fusion/IR/FusionDialect.h"
#include "tandem/Dialect/Fusion/IR/ScheduleInfo.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Threading.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fusion;

const ScheduleRegistry *ScheduleRegistry::get(MLIRContext *context) {
  auto *dialect = context->getLoadedDialect<FusionDialect>();
  return dialect ? dialect->getRegisteredInterface<ScheduleRegistry>() : nullptr;
}

const ScheduleInfo *ScheduleRegistry::lookup(StringRef name) const {
  const auto *found =
      llvm::find_if(getInfos(), [&](const ScheduleInfo &info) { return info.name == name; });
  return found == getInfos().end() ? nullptr : found;
}

SmallVector<StringRef> ScheduleRegistry::getNames() const {
  SmallVector<StringRef> names =
      llvm::map_to_vector(getInfos(), [](const ScheduleInfo &info) { return info.name; });
  llvm::sort(names);
  return names;
}

const ScheduleOption *ScheduleInfo::getChoice(StringRef choice) const {
  const auto *found =
      llvm::find_if(choices, [&](const ScheduleOption &option) { return option.name == choice; });
  return found == choices.end() ? nullptr : found;
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

bool ScheduleChoice::isMade(DictionaryAttr options) const {
  Attribute value = options.get(option);
  if (auto given = dyn_cast_if_present<StringAttr>(value))
    return given.getValue() == word;
  auto number = dyn_cast_if_present<IntegerAttr>(value);
  return number ? number.getInt() > above : bool(value);
}

std::string ScheduleChoice::str() const {
  return word.empty() ? ("'" + option + "'").str() : (option + " = " + word).str();
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

/// `<` (name | option `=` value) (`,` option `=` value)* `>`
static ParseResult parseOptions(AsmParser &parser, StringRef &name, NamedAttrList &options) {
  auto parseOne = [&]() -> ParseResult {
    SMLoc optionLoc = parser.getCurrentLocation();
    StringRef option;
    if (parser.parseKeyword(&option))
      return failure();
    if (options.get(option))
      return parser.emitError(optionLoc)
             << "expected '" << option << "' at most once, found it twice";
    bool isFirst = name.empty() && options.empty();
    if (isFirst && failed(parser.parseOptionalEqual())) {
      name = option;
      return success();
    }
    if (!isFirst && parser.parseEqual())
      return failure();
    Attribute value = parseValue(parser);
    if (!value)
      return failure();
    options.set(option, value);
    return success();
  };
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, parseOne);
}

static bool hasWord(const ScheduleOption &option, Attribute value) {
  auto word = dyn_cast<StringAttr>(value);
  return word && llvm::is_contained(option.words, word.getValue());
}

/// Finds the schedule that has all choices. Its name and the choices that are not its defaults
/// stay, so equal schedules are equal attributes. The verifier refuses what no schedule has.
static LogicalResult resolveChoices(function_ref<InFlightDiagnostic()> emitError,
                                    MLIRContext *context, StringRef &name, NamedAttrList &options) {
  const ScheduleRegistry *registry = ScheduleRegistry::get(context);
  const ScheduleInfo *named = registry ? registry->lookup(name) : nullptr;
  bool isWritten = llvm::any_of(kScheduleChoices,
                                [&](StringRef choice) { return options.get(choice) != nullptr; });
  if (!name.empty() && (!named || !isWritten))
    return success();
  NamedAttrList all = options; // also those that the name stands for
  for (const ScheduleOption &choice : named ? ArrayRef(named->choices) : ArrayRef<ScheduleOption>())
    if (!all.get(choice.name))
      all.set(choice.name, StringAttr::get(context, choice.words.front()));
  auto hasAll = [&](const ScheduleInfo &info) {
    return llvm::all_of(kScheduleChoices, [&](StringRef choice) {
      const ScheduleOption *has = info.getChoice(choice);
      Attribute word = all.get(choice);
      return has ? !word || hasWord(*has, word) : !options.get(choice);
    });
  };
  const ScheduleInfo *info = named;
  if (registry && isWritten && !(named && hasAll(*named)))
    if (const auto *other = llvm::find_if(registry->getInfos(), hasAll);
        other != registry->getInfos().end())
      info = other;
  if (!info)
    return emitError() << "expected the name of a schedule, or choices that one has ("
                       << llvm::join(ArrayRef(kScheduleChoices), ", ") << "), found "
                       << options.getDictionary(context);
  if (!hasAll(*info))
    return success();
  for (StringRef choice : kScheduleChoices) {
    Attribute word = all.get(choice);
    const ScheduleOption *has = info->getChoice(choice);
    options.erase(choice);
    if (has && word && word != StringAttr::get(context, has->words.front()))
      options.set(choice, word);
  }
  name = info->name;
  return success();
}

Attribute ScheduleAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef name;
  NamedAttrList options;
  if (parseOptions(parser, name, options))
    return {};
  // Exact types: the template of the same name would need the storage class.
  auto emitError = [&] { return parser.emitError(loc); };
  if (failed(resolveChoices(emitError, parser.getContext(), name, options)))
    return {};
  return ScheduleAttr::getChecked(emitError, parser.getContext(), name,
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
  using Kind = ScheduleOption::Kind;
  auto isLess = [&](int64_t number) { return number < option.least; };
  if (option.kind == Kind::Word) {
    if (hasWord(option, value))
      return success();
    return emitError() << "expected '" << option.name << "' to be one of "
                       << llvm::join(option.words, ", ") << ", found " << value;
  }
  auto integer = dyn_cast<IntegerAttr>(value);
  auto integers = dyn_cast<DenseI64ArrayAttr>(value);
  if (option.kind == Kind::Integer
          ? integer && !isLess(integer.getInt())
          : integers && !integers.empty() && llvm::none_of(integers.asArrayRef(), isLess))
    return success();
  return emitError() << "expected a "
                     << (option.kind == Kind::Integer ? "number" : "list of numbers")
                     << " of at least " << option.least << " in '" << option.name << "', found "
                     << value;
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
    const ScheduleOption *option = info->getChoice(key);
    if (!option)
      option = llvm::find_if(info->options, [&](const ScheduleOption &o) { return o.name == key; });
    if (option == info->options.end()) {
      SmallVector<StringRef> known = llvm::to_vector(kScheduleChoices);
      for (const ScheduleOption &other : info->options)
        known.push_back(other.name);
      return emitError() << "schedule " << name << " has no option '" << key << "'"
                         << suggestName(key, known);
    }
    if (failed(verifyOption(emitError, *option, given.getValue())))
      return failure();
  }
  for (const ScheduleRule &rule : info->rules) {
    if (!rule.choice.isMade(options))
      continue;
    if (rule.with && !rule.with->isMade(options))
      return emitError() << "schedule " << name << ": expected " << rule.choice.str()
                         << " only with " << rule.with->str();
    for (const ScheduleChoice &other : rule.without)
      if (other.isMade(options))
        return emitError() << "schedule " << name << ": expected no " << other.str() << " with "
                           << rule.choice.str() << ", found both";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Candidates
//===----------------------------------------------------------------------===//

Attribute CandidateAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  auto emitError = [&] { return parser.emitError(loc); };
  MLIRContext *context = parser.getContext();
  StringRef name;
  NamedAttrList options;
  if (parseOptions(parser, name, options))
    return {};
  bool isValid = true;
  auto take = [&](StringRef option, int64_t least, int64_t missing) {
    Attribute value = options.erase(option);
    auto number = dyn_cast_if_present<IntegerAttr>(value);
    isValid &= !value || (number && number.getInt() >= least);
    return number ? number.getInt() : missing;
  };
  int64_t slices = take("slices", 1, 0), dim = take("dim", 0, -1), pieces = take("pieces", 1, 1),
          perOwner = take("per_owner", 1, 1), reshard = take("reshard", 0, 0);
  Attribute owners = options.erase("to_owners");
  isValid &= (!owners || owners == StringAttr::get(context, "yes")) &&
             (slices ? dim >= 0 : dim == -1 && pieces == 1 && perOwner == 1 && !owners);
  if (!isValid) {
    emitError() << "expected positive numbers 'slices' and 'dim', and with them 'pieces', "
                   "'per_owner', 'reshard' and to_owners = yes";
    return {};
  }
  if (failed(resolveChoices(emitError, context, name, options)))
    return {};
  ScheduleAttr schedule =
      ScheduleAttr::getChecked(emitError, context, name, options.getDictionary(context));
  return schedule ? get(context, schedule, slices, std::max<int64_t>(dim, 0), pieces, perOwner,
                        bool(owners), reshard)
                  : CandidateAttr();
}

std::string CandidateAttr::str() const {
  std::string text = getSchedule().str();
  if (!getSlices())
    return text;
  auto add = [&](StringRef option, int64_t value, int64_t missing) {
    if (value != missing)
      text += (", " + option + " = " + Twine(value)).str();
  };
  add("slices", getSlices(), 0);
  add("dim", getDim(), -1);
  add("pieces", getPieces(), 1);
  add("per_owner", getPerOwner(), 1);
  if (getToOwners())
    text += ", to_owners = yes";
  add("reshard", getReshard(), 0);
  return text;
}

void CandidateAttr::print(AsmPrinter &printer) const { printer << '<' << str() << '>'; }

CandidateAttr CandidateAttr::fromStr(MLIRContext *context, StringRef text) {
  ScopedDiagnosticHandler none(context, [thread = llvm::get_threadid()](Diagnostic &) {
    return success(llvm::get_threadid() == thread);
  });
  return dyn_cast_if_present<CandidateAttr>(
      parseAttribute(("#fusion.candidate<" + text + ">").str(), context));
}
