//===- ExchangeAccess.h - what threads of an exchange touch ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_PROGRAM_EXCHANGEACCESS_H
#define TANDEM_LIB_PROGRAM_EXCHANGEACCESS_H

#include "tandem/Program/FusedExchange.h"

#include <optional>

namespace tandem::program {

/// Exact for views of equal strides whose dimensions are nested, such as slices of a matrix; else
/// whether bytes between the first and the last of both may be the same.
bool mayOverlap(const PlacedView &a, const PlacedView &b);

/// What one thread reads for element i: of a reduction, in each term.
struct ExchangeReads {
  PlacedView whole;  ///< all terms
  Layout element;    ///< of one term
  bool apart = true; ///< no two elements of `whole` are the same
  int64_t terms = 1, termStride = 0;
};
Expected<ExchangeReads> readsOf(const ExchangePart &part);

/// The term whose element i is element i of `written`, so that one thread writes and reads it.
std::optional<int64_t> termOf(const PlacedView &written, const ExchangeReads &reads);

} // namespace tandem::program

#endif // TANDEM_LIB_PROGRAM_EXCHANGEACCESS_H
