//===- CommandLine.h - options of tools -------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUN_COMMANDLINE_H
#define TANDEM_RUN_COMMANDLINE_H

#include "tandem/Program/Status.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

namespace tandem::run {

/// Takes an option's value; errors name the option, what was expected and what was found.
using OptionHandler = std::function<Status(const std::string &option, const std::string &value)>;

/// What a tool understands: flags, options with a value ("--key=value", "--key value", "-k value"),
/// and arguments that are none.
struct CommandLine {
  std::map<std::string, bool *> flags;
  std::map<std::string, OptionHandler> values;
  std::function<Status(const std::string &argument)> positional;

  Status parse(const std::vector<std::string> &arguments) const;
};

/// Handlers; the field must outlive them. Text: not empty.
OptionHandler textOption(std::string &field);
OptionHandler numberOption(uint32_t &field, uint64_t least, uint64_t most);
OptionHandler numberOption(uint64_t &field, uint64_t least, uint64_t most);
OptionHandler realOption(double &field, double least, double most);
OptionHandler secondsOption(std::chrono::milliseconds &field);
OptionHandler choiceOption(std::string &field, std::vector<std::string> choices);
/// A list of channels, the first choice first.
OptionHandler channelsOption(std::string &field);

/// One of several words, or an error that lists them.
Status checkChoice(const std::string &option, const std::string &text,
                   const std::vector<std::string> &choices);
/// The parts between commas; "" has one, which is empty.
std::vector<std::string> splitList(const std::string &text, char separator = ',');
/// Whether a list of channels has one.
bool namesChannel(const std::string &channels, const std::string &channel);
/// The target that programs for such channels are compiled for.
std::string targetFor(const std::string &channels);

} // namespace tandem::run

#endif // TANDEM_RUN_COMMANDLINE_H
