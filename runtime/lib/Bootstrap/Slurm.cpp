//===- Slurm.cpp - Slurm's compressed lists ---------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Runtime/Environment.h"

#include <charconv>
#include <fmt/format.h>

using namespace tandem;

namespace {

constexpr size_t kMaxEntries = 65536;

bool parseNumber(std::string_view text, uint32_t &value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

Status malformed(std::string_view what, std::string_view text) {
  return Status(Code::InvalidArgument, fmt::format("malformed {} \"{}\"", what, text));
}

Status tooMany() {
  return Status(Code::InvalidArgument, fmt::format("more than {} entries", kMaxEntries));
}

/// Splits `text` at the commas outside brackets.
bool splitOutsideBrackets(std::string_view text, std::vector<std::string_view> &parts) {
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      parts.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    } else if (text[i] == '[') {
      if (++depth > 1)
        return false;
    } else if (text[i] == ']') {
      if (--depth < 0)
        return false;
    }
  }
  return depth == 0;
}

/// Appends the hosts of one entry; `prefix` is the part before the first bracket.
Status expand(const std::string &prefix, std::string_view rest, std::vector<std::string> &hosts) {
  size_t open = rest.find('[');
  if (open == std::string_view::npos) {
    if (hosts.size() == kMaxEntries)
      return tooMany();
    hosts.push_back(prefix + std::string(rest));
    return hosts.back().empty() ? malformed("node list", rest) : Status::success();
  }
  size_t close = rest.find(']', open);
  std::string head = prefix + std::string(rest.substr(0, open));
  std::string_view ranges = rest.substr(open + 1, close - open - 1), tail = rest.substr(close + 1);
  std::vector<std::string_view> parts;
  splitOutsideBrackets(ranges, parts);
  for (std::string_view part : parts) {
    size_t dash = part.find('-');
    std::string_view low = part.substr(0, dash);
    std::string_view high = dash == std::string_view::npos ? low : part.substr(dash + 1);
    uint32_t from = 0, to = 0;
    if (!parseNumber(low, from) || !parseNumber(high, to) || to < from)
      return malformed("range of nodes", part);
    // Leading zeros matter: n[08-10] is n08, n09, n10.
    for (uint32_t i = from;; ++i) {
      TANDEM_RETURN_IF_ERROR(expand(fmt::format("{}{:0{}}", head, i, low.size()), tail, hosts));
      if (i == to)
        break;
    }
  }
  return Status::success();
}

} // namespace

Expected<std::vector<std::string>> tandem::parseSlurmNodeList(std::string_view text) {
  std::vector<std::string_view> entries;
  if (!splitOutsideBrackets(text, entries))
    return malformed("node list", text);
  std::vector<std::string> hosts;
  for (std::string_view entry : entries)
    TANDEM_RETURN_IF_ERROR(expand("", entry, hosts));
  return hosts;
}

Expected<std::vector<uint32_t>> tandem::parseSlurmTasksPerNode(std::string_view text) {
  std::vector<std::string_view> entries;
  splitOutsideBrackets(text, entries);
  std::vector<uint32_t> result;
  for (std::string_view entry : entries) {
    uint32_t tasks = 0, times = 1;
    size_t open = entry.find("(x");
    bool good = parseNumber(entry.substr(0, open), tasks) && tasks > 0;
    if (open != std::string_view::npos)
      good = good && entry.back() == ')' &&
             parseNumber(entry.substr(open + 2, entry.size() - open - 3), times);
    if (!good)
      return malformed("task count", entry);
    if (times > kMaxEntries - result.size())
      return tooMany();
    result.insert(result.end(), times, tasks);
  }
  return result;
}
