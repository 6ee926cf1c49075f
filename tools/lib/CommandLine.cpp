//===- CommandLine.cpp - options of tools -----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandLine.h"

#include "tandem-c/Version.h"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <utility>

using namespace tandem;
using namespace tandem::run;

static Status wrong(std::string message) {
  return Status(Code::InvalidArgument, std::move(message));
}

CommandLine::CommandLine(const std::string &tool, const std::string &description)
    : CLI::App(description, tool) {
  set_help_flag("-h,--help", "print this text");
  set_version_flag("--version", fmt::format("{} {}", tool, TANDEM_VERSION_STRING),
                   "print the version");
}

CLI::Option *CommandLine::custom(const std::string &name, const char *value, const char *help,
                                 std::function<Status(const std::string &)> take) {
  auto check = [name, take = std::move(take)](const std::string &text) {
    Status status = take(text);
    if (!status.ok())
      throw CLI::ValidationError(name, status.message());
  };
  return add_option_function<std::string>(name, check, help)->type_name(value)->take_last();
}

CLI::Option *CommandLine::text(const std::string &name, std::string &field, const char *value,
                               const char *help) {
  return custom(name, value, help, [&field](const std::string &text) {
    field = text;
    return text.empty() ? wrong("expected a value") : Status::success();
  });
}

/// A reader of whole numbers into a field of any width.
template <typename T> static auto readNumber(T &field, uint64_t least, uint64_t most) {
  return [&field, least, most](const std::string &text) {
    uint64_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
      return wrong(fmt::format("expected a number from {} to {}, found \"{}\"", least, most, text));
    field = static_cast<T>(value);
    return Status::success();
  };
}

CLI::Option *CommandLine::number(const std::string &name, uint32_t &field, uint64_t least,
                                 uint64_t most, const char *value, const char *help) {
  return custom(name, value, help, readNumber(field, least, most));
}

CLI::Option *CommandLine::number(const std::string &name, uint64_t &field, uint64_t least,
                                 uint64_t most, const char *value, const char *help) {
  return custom(name, value, help, readNumber(field, least, most));
}

/// NaN where the text is no number.
static double realOf(const std::string &text) {
  char *end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  return text.empty() || *end ? std::numeric_limits<double>::quiet_NaN() : value;
}

CLI::Option *CommandLine::seconds(const std::string &name, std::chrono::milliseconds &field,
                                  const char *help) {
  return custom(name, "SECONDS", help, [&field](const std::string &text) {
    double found = realOf(text);
    if (!(found >= 0.1 && found <= 86400))
      return wrong(fmt::format("expected seconds from 0.1 to 86400, found \"{}\"", text));
    field = std::chrono::milliseconds(static_cast<int64_t>(found * 1000));
    return Status::success();
  });
}

CLI::Option *CommandLine::choice(const std::string &name, std::string &field,
                                 const std::vector<std::string> &choices, const char *help) {
  std::string value = fmt::format("{}", fmt::join(choices, "|"));
  return custom(name, value.c_str(), help, [&field, choices](const std::string &text) {
    field = text;
    return checkChoice(text, choices);
  });
}

/// "peer" of "node:peer".
static std::string withoutLinkClass(const std::string &channel) {
  for (const char *prefix : {"node:", "network:"})
    if (channel.rfind(prefix, 0) == 0)
      return channel.substr(std::strlen(prefix));
  return channel;
}

CLI::Option *CommandLine::channels(const std::string &name, std::string &field, const char *help) {
  return custom(name, "ucx|local|ccl|peer[,...]", help, [&field](const std::string &text) {
    for (const std::string &channel : splitList(text))
      TANDEM_RETURN_IF_ERROR(
          checkChoice(withoutLinkClass(channel), {"ucx", "local", "ccl", "peer"}));
    field = text;
    return Status::success();
  });
}

CLI::Option *CommandLine::list(const std::string &name, std::vector<std::string> &field,
                               const char *value, const char *help) {
  return add_option(name, field, help)->type_name(value)->delimiter(',')->allow_extra_args(false);
}

Expected<std::string> CommandLine::parse(std::vector<std::string> arguments) {
  std::reverse(arguments.begin(), arguments.end());
  try {
    CLI::App::parse(std::move(arguments));
  } catch (const CLI::CallForHelp &) {
    return help();
  } catch (const CLI::CallForVersion &version) {
    return std::string(version.what()) + "\n";
  } catch (const CLI::ExtrasError &) {
    std::string extra = remaining().front();
    return wrong(fmt::format("{} \"{}\"; --help lists all options",
                             extra[0] == '-' ? "unknown option" : "unexpected argument", extra));
  } catch (const CLI::ParseError &error) {
    return wrong(error.what());
  }
  return std::string();
}

Status run::refuseOptions(const std::vector<CLI::Option *> &options, const std::string &why) {
  for (const CLI::Option *option : options)
    if (option->count() > 0)
      return wrong(fmt::format("{}: {}", option->get_name(), why));
  return Status::success();
}

Status run::checkChoice(const std::string &text, const std::vector<std::string> &choices) {
  if (std::find(choices.begin(), choices.end(), text) != choices.end())
    return Status::success();
  return wrong(fmt::format("expected one of {}, found \"{}\"", fmt::join(choices, ", "), text));
}

std::vector<std::string> run::splitList(const std::string &text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool run::namesChannel(const std::string &channels, const std::string &channel) {
  std::vector<std::string> parts = splitList(channels);
  return std::any_of(parts.begin(), parts.end(),
                     [&](const std::string &part) { return withoutLinkClass(part) == channel; });
}
