//===- IRMutator.cpp - mutations of text, token by token --------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Changed bytes seldom parse. So most mutations keep tokens whole: one is replaced by another of
// the input, moved or dropped, a number is changed, lines are copied, exchanged or dropped.
//
//===----------------------------------------------------------------------===//

#include <algorithm>
#include <cctype>
#include <cstring>
#include <random>
#include <string>
#include <vector>

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);

namespace {

using Random = std::minstd_rand;

size_t below(Random &random, size_t count) { return count ? random() % count : 0; }

bool isWordPart(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || std::strchr("_.$%#@!^", c);
}

/// Words and single characters; spaces are tokens too.
std::vector<std::string> tokensOf(const std::string &text) {
  std::vector<std::string> tokens;
  bool joins = false;
  for (char c : text) {
    bool part = c != '\0' && isWordPart(c);
    // `8x4xf32` is three words.
    if (part && joins && !(c == 'x' && std::isdigit(static_cast<unsigned char>(tokens.back()[0]))))
      tokens.back() += c;
    else
      tokens.emplace_back(1, c);
    joins = part && tokens.back() != "x";
  }
  return tokens;
}

std::vector<std::string> linesOf(const std::string &text) {
  std::vector<std::string> lines(1);
  for (char c : text) {
    lines.back() += c;
    if (c == '\n')
      lines.emplace_back();
  }
  return lines;
}

std::string join(const std::vector<std::string> &parts) {
  std::string text;
  for (const std::string &part : parts)
    text += part;
  return text;
}

bool isNumber(const std::string &token) {
  return !token.empty() &&
         std::all_of(token.begin(), token.end(), [](unsigned char c) { return std::isdigit(c); });
}

std::string mutateTokens(const std::string &text, Random &random) {
  std::vector<std::string> tokens = tokensOf(text);
  auto any = [&] { return below(random, tokens.size()); };
  static const char *const kNumbers[] = {"0", "1", "2",  "3",  "4",  "5",
                                         "7", "8", "16", "64", "-1", "?"};
  switch (random() % 6) {
  case 0: { // another number
    std::vector<size_t> numbers;
    for (size_t i = 0; i < tokens.size(); ++i)
      if (isNumber(tokens[i]) || tokens[i] == "?")
        numbers.push_back(i);
    if (!numbers.empty())
      tokens[numbers[below(random, numbers.size())]] = kNumbers[below(random, std::size(kNumbers))];
    break;
  }
  case 1: { // one token in place of another of the same first letter
    size_t at = any();
    std::vector<size_t> alike;
    for (size_t i = 0; i < tokens.size(); ++i)
      if (tokens[i] != tokens[at] && tokens[i].size() > 1 && tokens[at].size() > 1 &&
          (tokens[i][0] == tokens[at][0] || random() % 16 == 0))
        alike.push_back(i);
    if (!alike.empty())
      tokens[at] = tokens[alike[below(random, alike.size())]];
    break;
  }
  case 2:
    tokens[any()] = tokens[any()];
    break;
  case 3:
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(any()));
    break;
  case 4:
    std::swap(tokens[any()], tokens[any()]);
    break;
  default: { // a run of tokens once more
    size_t begin = any(), count = 1 + below(random, std::min<size_t>(12, tokens.size() - begin));
    std::vector<std::string> run(tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                                 tokens.begin() + static_cast<std::ptrdiff_t>(begin + count));
    tokens.insert(tokens.begin() + static_cast<std::ptrdiff_t>(random() % 2 ? begin : any()),
                  run.begin(), run.end());
  }
  }
  return join(tokens);
}

std::string mutateLines(const std::string &text, Random &random) {
  std::vector<std::string> lines = linesOf(text);
  size_t at = below(random, lines.size()), other = below(random, lines.size());
  switch (random() % 3) {
  case 0:
    lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at));
    break;
  case 1:
    std::swap(lines[at], lines[other]);
    break;
  default:
    lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at), std::string(lines[other]));
  }
  return join(lines);
}

size_t put(const std::string &text, uint8_t *data, size_t most) {
  size_t size = std::min(text.size(), most);
  std::copy_n(text.begin(), size, data);
  return size;
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  Random random(seed + 1);
  if (size == 0 || random() % 4 == 0)
    return LLVMFuzzerMutate(data, size, most); // also words of the dictionary
  std::string text(reinterpret_cast<char *>(data), size);
  for (unsigned times = 1 + random() % 3; times > 0 && !text.empty(); --times)
    text = random() % 5 ? mutateTokens(text, random) : mutateLines(text, random);
  return put(text, data, most);
}

/// Lines of one input among those of another.
extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *data1, size_t size1,
                                            const uint8_t *data2, size_t size2, uint8_t *out,
                                            size_t most, unsigned seed) {
  Random random(seed + 1);
  std::vector<std::string> lines = linesOf({reinterpret_cast<const char *>(data1), size1}),
                           others = linesOf({reinterpret_cast<const char *>(data2), size2});
  size_t begin = below(random, others.size()),
         count = 1 + below(random, std::min<size_t>(8, others.size() - begin));
  auto at = lines.begin() + static_cast<std::ptrdiff_t>(below(random, lines.size()));
  if (random() % 2 && at != lines.end())
    at = lines.erase(at);
  lines.insert(at, others.begin() + static_cast<std::ptrdiff_t>(begin),
               others.begin() + static_cast<std::ptrdiff_t>(begin + count));
  return put(join(lines), out, most);
}
