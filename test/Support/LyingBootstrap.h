//===- LyingBootstrap.h - a rank that sends other bytes ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_SUPPORT_LYINGBOOTSTRAP_H
#define TANDEM_TEST_SUPPORT_LYINGBOOTSTRAP_H

#include "tandem/Runtime/Bootstrap.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <memory>
#include <string>

namespace tandem::test {

/// What is sent in place of the truth.
enum class Lie {
  Zeros,    ///< all bytes
  Ones,     ///< all bits
  Nines,    ///< for each digit
  AllNines, ///< for each byte: one long number
  NoDigits, ///< spaces for digits
  OneMore,  ///< of 8 bytes: a larger number, by one
  Million,  ///< of 8 bytes: that number
  Huge,     ///< of 8 bytes: 2^62
  Last
};

/// Changes what this rank gives to exchange number `at`. Every rank gets it, this one too, so its
/// later exchanges have the sizes that the others expect. `exchanges` becomes their number.
class LyingBootstrap final : public Bootstrap {
public:
  LyingBootstrap(std::unique_ptr<Bootstrap> truth, unsigned at, Lie lie,
                 unsigned *exchanges = nullptr)
      : truth(std::move(truth)), at(at), lie(lie), exchanges(exchanges) {}

  uint32_t rank() const override { return truth->rank(); }
  uint32_t worldSize() const override { return truth->worldSize(); }
  uint32_t localRank() const override { return truth->localRank(); }
  uint32_t localSize() const override { return truth->localSize(); }
  std::string host() const override { return truth->host(); }
  Status barrier() override { return truth->barrier(); }
  Status health() override { return truth->health(); }
  void giveUp(const Status &reason) override { truth->giveUp(reason); }

  Status allGather(const void *mine, size_t bytes, void *all) override {
    std::string said(static_cast<const char *>(mine), mine ? bytes : 0);
    if (count++ == at)
      change(said);
    if (exchanges)
      *exchanges = count;
    return truth->allGather(said.data(), bytes, all);
  }

private:
  void change(std::string &said) const {
    uint64_t number = 0;
    bool isNumber = said.size() == sizeof number;
    if (isNumber)
      std::memcpy(&number, said.data(), sizeof number);
    switch (lie) {
    case Lie::Zeros:
      std::fill(said.begin(), said.end(), '\0');
      return;
    case Lie::Ones:
      std::fill(said.begin(), said.end(), '\xff');
      return;
    case Lie::AllNines:
      std::fill(said.begin(), said.end(), '9');
      return;
    case Lie::Nines:
    case Lie::NoDigits:
      for (char &c : said)
        if (std::isdigit(static_cast<unsigned char>(c)))
          c = lie == Lie::Nines ? '9' : ' ';
      return;
    case Lie::OneMore:
      ++number;
      break;
    case Lie::Million:
      number = 1'000'000;
      break;
    default:
      number = uint64_t(1) << 62;
      break;
    }
    if (isNumber)
      std::memcpy(said.data(), &number, sizeof number);
  }

  std::unique_ptr<Bootstrap> truth;
  unsigned at;
  Lie lie;
  unsigned *exchanges;
  unsigned count = 0;
};

} // namespace tandem::test

#endif // TANDEM_TEST_SUPPORT_LYINGBOOTSTRAP_H
