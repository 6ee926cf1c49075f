//===- Proof.h - proof that a rank has the job's secret ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_BOOTSTRAP_PROOF_H
#define TANDEM_BOOTSTRAP_PROOF_H

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::bootstrap {

using Nonce = std::array<uint8_t, 16>;
using Proof = std::array<uint8_t, 32>;

/// Random bytes of the kernel, never the same twice.
Nonce makeNonce();

/// HMAC-SHA256 (RFC 2104).
Proof hmac(std::string_view key, std::string_view message);

/// Compares in a time that does not depend on the contents.
bool equal(const Proof &a, const Proof &b);

} // namespace tandem::bootstrap

#endif // TANDEM_BOOTSTRAP_PROOF_H
