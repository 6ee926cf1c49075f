//===- LoopCosts.h - what stream loops would take on a machine -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_LOOPCOSTS_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_LOOPCOSTS_H

#include "StreamGroups.h"
#include "tandem/Analysis/CostModel.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// Prices candidates for one machine and target.
class LoopPricer {
public:
  virtual ~LoopPricer() = default;

  /// The machine's name.
  virtual StringRef getName() const = 0;

  /// Seconds of one run of a loop, with the digits of its types and its schedule. The loop may be
  /// in no function. Failure, silently, if it has no price.
  virtual FailureOr<double> price(fusion::StreamLoopOp candidate) = 0;

  /// The part of the baseline's time that a candidate must gain: below, rounding, neighbours and
  /// what the model leaves out are more.
  static constexpr double kLeastGain = CostModel::kLeastGain;
  /// ... of slices that travel by one-sided messages, or by others.
  virtual double getLeastGain(bool oneSided) const = 0;
};

/// Null, with `error`, if the machine file cannot be read or has fewer devices than the world has
/// ranks.
std::unique_ptr<LoopPricer> createLoopPricer(StringRef machine, const CostModel::Options &options,
                                             std::string &error);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_LOOPCOSTS_H
