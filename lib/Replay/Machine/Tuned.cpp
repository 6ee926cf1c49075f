//===- Tuned.cpp - choices that were measured -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Replay/Tuned.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

using nlohmann::json;

namespace tandem::machine {

static Status wrong(const std::string &message) { return Status(Code::InvalidArgument, message); }

static Expected<std::string> textOf(const json &object, const char *field,
                                    const std::string &where) {
  if (!object.is_object() || !object.contains(field) || !object.at(field).is_string())
    return wrong(fmt::format("{}{}: expected a string", where, field));
  return object.at(field).get<std::string>();
}

static Expected<double> secondsOf(const json &object, const char *field, const std::string &where) {
  if (!object.is_object() || !object.contains(field) || !object.at(field).is_number() ||
      object.at(field).get<double>() < 0)
    return wrong(fmt::format("{}{}: expected seconds", where, field));
  return object.at(field).get<double>();
}

Expected<TunedChoices> TunedChoices::parse(std::string_view text) {
  json all = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (all.is_discarded())
    return wrong("expected JSON");
  if (!all.is_object() || !all.contains("tandem_tuned") || all.at("tandem_tuned") != 1)
    return wrong("tandem_tuned: expected 1");
  TunedChoices choices;
  TANDEM_ASSIGN_OR_RETURN(choices.machine, textOf(all, "machine", ""));
  TANDEM_ASSIGN_OR_RETURN(choices.target, textOf(all, "target", ""));
  if (!all.contains("loops") || !all.at("loops").is_array())
    return wrong("loops: expected a list");
  for (size_t i = 0; i < all.at("loops").size(); ++i) {
    const json &entry = all.at("loops").at(i);
    std::string where = fmt::format("loops[{}].", i);
    Loop loop;
    TANDEM_ASSIGN_OR_RETURN(loop.signature, textOf(entry, "signature", where));
    TANDEM_ASSIGN_OR_RETURN(loop.what, textOf(entry, "what", where));
    TANDEM_ASSIGN_OR_RETURN(loop.program, textOf(entry, "program", where));
    TANDEM_ASSIGN_OR_RETURN(loop.seconds, secondsOf(entry, "seconds", where));
    TANDEM_ASSIGN_OR_RETURN(loop.plain, secondsOf(entry, "plain", where));
    choices.loops.push_back(std::move(loop));
  }
  return choices;
}

} // namespace tandem::machine
