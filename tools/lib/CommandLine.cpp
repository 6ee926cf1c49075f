//===- CommandLine.cpp - options of tools -----------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandLine.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

using namespace tandem;
using namespace tandem::run;

static Status wrong(std::string message) {
  return Status(Code::InvalidArgument, std::move(message));
}

Status CommandLine::parse(const std::vector<std::string> &arguments) const {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string &argument = arguments[i];
    if (argument.size() < 2 || argument[0] != '-') {
      TANDEM_RETURN_IF_ERROR(positional(argument));
      continue;
    }
    if (auto flag = flags.find(argument); flag != flags.end()) {
      *flag->second = true;
      continue;
    }
    size_t equals = argument.compare(0, 2, "--") ? std::string::npos : argument.find('=');
    std::string option = argument.substr(0, equals);
    auto value = values.find(option);
    if (value == values.end())
      return wrong(fmt::format("unknown option \"{}\"; --help lists them", argument));
    if (equals == std::string::npos && ++i == arguments.size())
      return wrong(option + ": expected a value");
    TANDEM_RETURN_IF_ERROR(value->second(
        option, equals == std::string::npos ? arguments[i] : argument.substr(equals + 1)));
  }
  return Status::success();
}

OptionHandler run::textOption(std::string &field) {
  return [&field](const std::string &option, const std::string &value) {
    field = value;
    return value.empty() ? wrong(option + ": expected a value") : Status::success();
  };
}

static Expected<uint64_t> number(const std::string &option, const std::string &text, uint64_t least,
                                 uint64_t most) {
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    return wrong(fmt::format("{}: expected a number from {} to {}, found \"{}\"", option, least,
                             most, text));
  return value;
}

template <typename T>
static OptionHandler makeNumberOption(T &field, uint64_t least, uint64_t most) {
  return [&field, least, most](const std::string &option, const std::string &value) {
    TANDEM_ASSIGN_OR_RETURN(uint64_t found, number(option, value, least, most));
    field = static_cast<T>(found);
    return Status::success();
  };
}

OptionHandler run::numberOption(uint32_t &field, uint64_t least, uint64_t most) {
  return makeNumberOption(field, least, most);
}

OptionHandler run::numberOption(uint64_t &field, uint64_t least, uint64_t most) {
  return makeNumberOption(field, least, most);
}

/// NaN where the text is none.
static double realOf(const std::string &text) {
  char *end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  return text.empty() || *end ? std::strtod("nan", nullptr) : value;
}

OptionHandler run::realOption(double &field, double least, double most) {
  return [&field, least, most](const std::string &option, const std::string &text) {
    double value = realOf(text);
    if (!(value >= least && value <= most))
      return wrong(fmt::format("{}: expected a number from {} to {}, found \"{}\"", option, least,
                               most, text));
    field = value;
    return Status::success();
  };
}

OptionHandler run::secondsOption(std::chrono::milliseconds &field) {
  return [&field](const std::string &option, const std::string &text) {
    double value = realOf(text);
    if (!(value >= 0.1 && value <= 86400))
      return wrong(
          fmt::format("{}: expected seconds from 0.1 to 86400, found \"{}\"", option, text));
    field = std::chrono::milliseconds(static_cast<int64_t>(value * 1000));
    return Status::success();
  };
}

Status run::checkChoice(const std::string &option, const std::string &text,
                        const std::vector<std::string> &choices) {
  if (std::find(choices.begin(), choices.end(), text) != choices.end())
    return Status::success();
  return wrong(
      fmt::format("{}: expected one of {}, found \"{}\"", option, fmt::join(choices, ", "), text));
}

OptionHandler run::choiceOption(std::string &field, std::vector<std::string> choices) {
  return
      [&field, choices = std::move(choices)](const std::string &option, const std::string &value) {
        field = value;
        return checkChoice(option, value, choices);
      };
}

OptionHandler run::channelsOption(std::string &field) {
  return [&field](const std::string &option, const std::string &value) {
    for (const std::string &name : splitList(value))
      TANDEM_RETURN_IF_ERROR(checkChoice(option, name, {"ucx", "local", "ccl", "peer"}));
    field = value;
    return Status::success();
  };
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
  return std::find(parts.begin(), parts.end(), channel) != parts.end();
}

std::string run::targetFor(const std::string &channels) {
  // What a channel can do decides; a GPU runs programs of the host's channels too, staged.
  std::string first = splitList(channels)[0];
  if (first == "ccl")
    return "cuda-nccl";
  return first == "peer" ? "cuda-peer" : "cpu-" + first;
}
