//===- JsonFields.h - typed access to JSON, with located errors ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_MACHINE_JSONFIELDS_H
#define TANDEM_LIB_MACHINE_JSONFIELDS_H

#include "tandem/Replay/Machine.h"

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tandem::machine {

enum class Unit : uint8_t { Time, Bandwidth, Rate, Count };

/// Reads fields of a machine file. Keeps the first error; later reads give zero, so a parser checks
/// once at the end. A number is `[value, unit, source]`.
class Fields {
public:
  using json = nlohmann::json;

  struct Scale {
    Unit unit = Unit::Count;
    double factor = 0; ///< to SI
  };

  class Object {
  public:
    Object(Fields &fields, const json *value, std::string path)
        : path(std::move(path)), fields(fields), value(value) {}

    bool has(const char *field) const { return value && value->contains(field); }
    bool isText(const char *field, const char *text);
    std::string text(const char *field);
    /// The field's index in `choices`.
    unsigned choice(const char *field, const std::vector<const char *> &choices);
    /// An integer.
    uint64_t count(const char *field, uint64_t least, uint64_t most);
    /// In SI units.
    double number(const char *field, Unit unit, double least, double most);
    Curve curve(const char *field, Unit unit, double least, double most);
    Scale unit(const char *field, const std::vector<Unit> &units);
    /// One of `sources`; counts it.
    void source(const char *field);
    Object object(const char *field, const std::vector<const char *> &known);
    /// An object of any fields.
    const json &anyObject(const char *field);
    const json &list(const char *field);

    std::string path; ///< "" for the root

  private:
    friend class Fields;
    const json &member(const char *field);
    std::string at(const char *field) const;

    Fields &fields;
    const json *value; ///< null after an error
  };

  /// `source`: the text's name in messages. Counts the numbers in `machine`.
  Fields(std::string source, Machine &machine) : file(std::move(source)), machine(machine) {}

  bool ok() const { return error.ok(); }
  const Status &status() const { return error; }
  void fail(const std::string &path, const std::string &what);

  Object root(const json &value, const std::vector<const char *> &known) {
    return at(value, "", known);
  }
  /// `value` as an object whose fields are all in `known`.
  Object at(const json &value, const std::string &path, const std::vector<const char *> &known);
  unsigned choiceOf(const json &value, const std::string &path,
                    const std::vector<const char *> &choices);
  /// Four positive numbers.
  std::array<double, 4> row(const json &value, const std::string &path);

private:
  Scale scaleOf(const json &value, const std::string &path, const std::vector<Unit> &units);
  void countSource(const json &value, const std::string &path);
  /// Checks a number against its bounds, which are in SI units.
  double checked(const json &value, const std::string &path, const Scale &scale, double least,
                 double most);

  std::string file;
  Machine &machine;
  Status error;
};

} // namespace tandem::machine

#endif // TANDEM_LIB_MACHINE_JSONFIELDS_H
