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

/// The options of a tool, over CLI11. Options accept "--key=value" and "--key value"; the last one
/// wins. Errors name the option, the expected value and the one found. Fields must outlive the
/// parser; `value` is the value's name in --help.
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
  CLI::Option *seconds(const std::string &name, std::chrono::milliseconds &field, const char *help);
  CLI::Option *choice(const std::string &name, std::string &field,
                      const std::vector<std::string> &choices, const char *help);
  /// A list of channels, the first choice first.
  CLI::Option *channels(const std::string &name, std::string &field, const char *help);
  /// Comma-separated and repeatable.
  CLI::Option *list(const std::string &name, std::vector<std::string> &field, const char *value,
                    const char *help);
  /// A value parsed by `take`; errors are prefixed with the option's name.
  CLI::Option *custom(const std::string &name, const char *value, const char *help,
                      std::function<Status(const std::string &value)> take);

  /// Sets the fields. Returns the text of --help or --version if requested, else "".
  Expected<std::string> parse(std::vector<std::string> arguments);
};

/// An error "OPTION: WHY" for the first of `options` that is given.
Status refuseOptions(const std::vector<CLI::Option *> &options, const std::string &why);

/// Success if `text` is one of `choices`, else an error that lists them.
Status checkChoice(const std::string &text, const std::vector<std::string> &choices);
/// The parts between separators; "" has one empty part.
std::vector<std::string> splitList(const std::string &text, char separator = ',');
/// Whether a list of channels contains `channel`.
bool namesChannel(const std::string &channels, const std::string &channel);

} // namespace tandem::run

#endif // TANDEM_RUN_COMMANDLINE_H
