//===- CommandLine.h - options of tools -------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUN_COMMANDLINE_H
#define TANDEM_RUN_COMMANDLINE_H

#include "tandem/Program/Status.h"

#include <CLI/App.hpp>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace tandem::run {

/// The options of a tool, over CLI11. Options with a value take "--key=value" and "--key value";
/// the last one given counts. Errors name the option, what was expected and what was found. Fields
/// must outlive the parser; `value` is the name of the value in --help.
class CommandLine : public CLI::App {
public:
  /// With --help and --version.
  CommandLine(const std::string &tool, const std::string &description);

  /// Any text but "".
  CLI::Option *text(const std::string &name, std::string &field, const char *value,
                    const char *help);
  CLI::Option *number(const std::string &name, uint32_t &field, uint64_t least, uint64_t most,
                      const char *value, const char *help);
  CLI::Option *number(const std::string &name, uint64_t &field, uint64_t least, uint64_t most,
                      const char *value, const char *help);
  CLI::Option *real(const std::string &name, double &field, double least, double most,
                    const char *value, const char *help);
  CLI::Option *seconds(const std::string &name, std::chrono::milliseconds &field, const char *help);
  CLI::Option *choice(const std::string &name, std::string &field,
                      const std::vector<std::string> &choices, const char *help);
  /// A list of channels, the first choice first.
  CLI::Option *channels(const std::string &name, std::string &field, const char *help);
  /// Commas separate; may be given several times.
  CLI::Option *list(const std::string &name, std::vector<std::string> &field, const char *value,
                    const char *help);
  /// A value that `take` reads; its error is put behind the option's name.
  CLI::Option *custom(const std::string &name, const char *value, const char *help,
                      std::function<Status(const std::string &value)> take);

  /// Sets the fields. Gives the text that --help or --version asks for, else "".
  Expected<std::string> parse(std::vector<std::string> arguments);
};

/// An error for the first of several options that is given and may not be: "OPTION: WHY".
Status refuseOptions(const std::vector<CLI::Option *> &options, const std::string &why);

/// Nothing if `text` is one of several words, else an error that lists them.
Status checkChoice(const std::string &text, const std::vector<std::string> &choices);
/// The parts between commas; "" has one, which is empty.
std::vector<std::string> splitList(const std::string &text, char separator = ',');
/// Whether a list of channels has one.
bool namesChannel(const std::string &channels, const std::string &channel);
/// The target that programs for such channels are compiled for.
std::string targetFor(const std::string &channels);

} // namespace tandem::run

#endif // TANDEM_RUN_COMMANDLINE_H
