//===- JsonFields.cpp - typed access to JSON, with located errors ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "JsonFields.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tandem::machine {

using json = nlohmann::json;

namespace {

struct UnitName {
  const char *text;
  Unit unit;
  double factor;
};
constexpr UnitName kUnits[] = {
    {"s", Unit::Time, 1},         {"ms", Unit::Time, 1e-3},       {"us", Unit::Time, 1e-6},
    {"ns", Unit::Time, 1e-9},     {"GB/s", Unit::Bandwidth, 1e9}, {"TB/s", Unit::Bandwidth, 1e12},
    {"GFLOP/s", Unit::Rate, 1e9}, {"TFLOP/s", Unit::Rate, 1e12},  {"1", Unit::Count, 1},
};

/// "us" out of an array, shortened where it is long.
std::string shown(const json &value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > 60)
    text.replace(57, std::string::npos, "...");
  return text;
}

const json kNothing;
const json kNoObject = json::object();
const json kNoList = json::array();

} // namespace

void Fields::fail(const std::string &path, const std::string &what) {
  if (error.ok())
    error = Status(Code::InvalidArgument,
                   fmt::format("{}: {}{}{}", file, path, path.empty() ? "" : ": ", what));
}

Fields::Object Fields::at(const json &value, const std::string &path,
                          const std::vector<const char *> &known) {
  if (!ok())
    return {*this, nullptr, path};
  if (!value.is_object()) {
    fail(path, fmt::format("expected an object, found {}", shown(value)));
    return {*this, nullptr, path};
  }
  for (const auto &item : value.items()) {
    const std::string &key = item.key();
    if (std::find(known.begin(), known.end(), key) == known.end())
      fail(path.empty() ? key : fmt::format("{}.{}", path, key),
           fmt::format("unknown field, expected one of {}", fmt::join(known, ", ")));
  }
  return {*this, ok() ? &value : nullptr, path};
}

unsigned Fields::choiceOf(const json &value, const std::string &path,
                          const std::vector<const char *> &choices) {
  for (unsigned i = 0; i < choices.size(); ++i)
    if (value.is_string() && value.get_ref<const std::string &>() == choices[i])
      return i;
  fail(path, fmt::format("expected one of {}, found {}", fmt::join(choices, ", "), shown(value)));
  return 0;
}

std::array<double, 4> Fields::row(const json &value, const std::string &path) {
  std::array<double, 4> result{1, 1, 1, 1};
  bool good = value.is_array() && value.size() == result.size();
  for (size_t i = 0; good && i < result.size(); ++i) {
    good = value[i].is_number() && value[i].get<double>() > 0 && value[i].get<double>() < 1e15;
    if (good)
      result[i] = value[i].get<double>();
  }
  if (!good)
    fail(path, fmt::format("expected [m, n, k, value], all above 0, found {}", shown(value)));
  return result;
}

Fields::Scale Fields::scaleOf(const json &value, const std::string &path,
                              const std::vector<Unit> &units) {
  std::vector<const char *> accepted;
  for (const UnitName &name : kUnits)
    if (std::find(units.begin(), units.end(), name.unit) != units.end()) {
      if (value.is_string() && value.get_ref<const std::string &>() == name.text)
        return {name.unit, name.factor};
      accepted.push_back(name.text);
    }
  fail(path, fmt::format("expected one of the units {}, found {}", fmt::join(accepted, ", "),
                         shown(value)));
  return {units.front(), 0};
}

void Fields::countSource(const json &value, const std::string &path) {
  for (const Source &source : machine.sources)
    if (value.is_string() && value.get_ref<const std::string &>() == source.name) {
      ++machine.numbersBySource[source.kind];
      return;
    }
  fail(path, fmt::format("expected the name of a source, found {}", shown(value)));
}

double Fields::checked(const json &value, const std::string &path, const Scale &scale, double least,
                       double most) {
  double result = value.is_number() ? value.get<double>() * scale.factor : NAN;
  if (result >= least && result <= most)
    return result;
  if (ok() && scale.factor > 0)
    fail(path, fmt::format("expected a number from {} to {}, found {}", least / scale.factor,
                           most / scale.factor, shown(value)));
  return least;
}

std::string Fields::Object::at(const char *field) const {
  return path.empty() ? field : path + "." + field;
}

const json &Fields::Object::member(const char *field) {
  if (!value)
    return kNothing;
  auto found = value->find(field);
  if (found != value->end())
    return *found;
  fields.fail(at(field), "missing");
  value = nullptr;
  return kNothing;
}

bool Fields::Object::isText(const char *field, const char *text) {
  const json &found = member(field);
  return found.is_string() && found.get_ref<const std::string &>() == text;
}

std::string Fields::Object::text(const char *field) {
  const json &found = member(field);
  if (found.is_string())
    return found.get<std::string>();
  fields.fail(at(field), fmt::format("expected a text, found {}", shown(found)));
  return "";
}

unsigned Fields::Object::choice(const char *field, const std::vector<const char *> &choices) {
  const json &found = member(field);
  return fields.ok() ? fields.choiceOf(found, at(field), choices) : 0;
}

uint64_t Fields::Object::count(const char *field, uint64_t least, uint64_t most) {
  const json &found = member(field);
  if (found.is_number_unsigned() && found.get<uint64_t>() >= least && found.get<uint64_t>() <= most)
    return found.get<uint64_t>();
  fields.fail(at(field), fmt::format("expected a whole number from {} to {}, found {}", least, most,
                                     shown(found)));
  return least;
}

double Fields::Object::number(const char *field, Unit unit, double least, double most) {
  const json &found = member(field);
  if (!fields.ok())
    return least;
  if (!found.is_array() || found.size() != 3) {
    fields.fail(at(field), fmt::format("expected [value, unit, source], found {}", shown(found)));
    return least;
  }
  Scale scale = fields.scaleOf(found[1], at(field), {unit});
  fields.countSource(found[2], at(field));
  return fields.checked(found[0], at(field), scale, least, most);
}

Curve Fields::Object::curve(const char *field, Unit unit, double least, double most) {
  const json &found = member(field);
  if (!fields.ok())
    return Curve(least);
  if (!found.is_array() || found.size() != 3 || !found[0].is_array())
    return Curve(number(field, unit, least, most));
  Scale scale = fields.scaleOf(found[1], at(field), {unit});
  fields.countSource(found[2], at(field));
  std::vector<std::pair<double, double>> points;
  for (const json &point : found[0]) {
    bool good = point.is_array() && point.size() == 2 && point[0].is_number() &&
                point[0].get<double>() >= 0 &&
                (points.empty() || point[0].get<double>() > points.back().first);
    if (!good) {
      fields.fail(at(field), fmt::format("expected [bytes, value] with bytes ascending, found {}",
                                         shown(point)));
      return Curve(least);
    }
    points.emplace_back(point[0].get<double>(),
                        fields.checked(point[1], at(field), scale, least, most));
  }
  if (points.empty()) {
    fields.fail(at(field), "expected at least one point");
    return Curve(least);
  }
  return Curve(std::move(points));
}

Fields::Scale Fields::Object::unit(const char *field, const std::vector<Unit> &units) {
  const json &found = member(field);
  return fields.ok() ? fields.scaleOf(found, at(field), units) : Scale{units.front(), 1};
}

void Fields::Object::source(const char *field) {
  const json &found = member(field);
  if (fields.ok())
    fields.countSource(found, at(field));
}

Fields::Object Fields::Object::object(const char *field, const std::vector<const char *> &known) {
  const json &found = member(field);
  return value ? fields.at(found, at(field), known) : Object(fields, nullptr, at(field));
}

const json &Fields::Object::anyObject(const char *field) {
  const json &found = member(field);
  if (found.is_object())
    return found;
  fields.fail(at(field), fmt::format("expected an object, found {}", shown(found)));
  return kNoObject;
}

const json &Fields::Object::list(const char *field) {
  const json &found = member(field);
  if (found.is_array())
    return found;
  fields.fail(at(field), fmt::format("expected a list, found {}", shown(found)));
  return kNoList;
}

} // namespace tandem::machine
