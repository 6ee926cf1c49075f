//===- Proof.cpp - proof that a rank has the job's secret -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Proof.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <sys/random.h>
#include <sys/types.h>

#include <sha2.h> // libmd; needs sys/types.h

using namespace tandem;
using namespace tandem::bootstrap;

Nonce bootstrap::makeNonce() {
  Nonce nonce{};
  while (::getrandom(nonce.data(), nonce.size(), 0) != ssize_t(nonce.size()))
    if (errno != EINTR)
      std::abort(); // no kernel that we run on lacks it
  return nonce;
}

static Proof hash(std::string_view first, std::string_view second) {
  SHA2_CTX context;
  Proof result;
  SHA256Init(&context);
  for (std::string_view part : {first, second})
    SHA256Update(&context, reinterpret_cast<const uint8_t *>(part.data()), part.size());
  SHA256Final(result.data(), &context);
  return result;
}

static std::string_view bytesOf(const Proof &proof) {
  return {reinterpret_cast<const char *>(proof.data()), proof.size()};
}

Proof bootstrap::hmac(std::string_view key, std::string_view message) {
  std::string inner(SHA256_BLOCK_LENGTH, '\0');
  if (key.size() <= inner.size())
    std::copy(key.begin(), key.end(), inner.begin());
  else
    inner.replace(0, SHA256_DIGEST_LENGTH, bytesOf(hash(key, {})));
  std::string outer = inner;
  for (size_t i = 0; i < inner.size(); ++i) {
    inner[i] = static_cast<char>(inner[i] ^ 0x36);
    outer[i] = static_cast<char>(outer[i] ^ 0x5c);
  }
  return hash(outer, bytesOf(hash(inner, message)));
}

bool bootstrap::equal(const Proof &a, const Proof &b) {
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}
