//===- Pricer.h - what a candidate would take on a machine ------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The one cost model of the compiler: a candidate is lowered as the pipeline would lower it, and
// its commands are simulated. The passes that choose see this interface only. Its implementation
// needs the whole compiler behind them, so `registerTandemDialects` attaches it to the fusion
// dialect. docs/simulator.md, "The compiler's cost model".
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_ANALYSIS_PRICER_H
#define TANDEM_ANALYSIS_PRICER_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectInterface.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Support/LLVM.h"

#include <memory>

namespace tandem {

/// One more than the largest world rank of any mesh of the function's values, whose extents and
/// mesh sizes are known.
int64_t getWorldSize(func::FuncOp func);

/// What the commands of an op and of the ops inside of it depend on: operations, attributes, types
/// and data flow, but no names and no locations. Two ops of one context with equal signatures have
/// equal prices.
std::string getSignature(Operation *op);

/// Prices candidates for one machine and target. One thread at a time.
class Pricer {
public:
  struct Options {
    std::string machine;     ///< name or path of a machine file
    int64_t workers = 4;     ///< size of the pool of worker streams
    bool collectives = true; ///< the channels have them; else they become messages
    bool oneSided = true;    ///< the channels have one-sided messages
    int64_t ranks = 1;       ///< of the world
  };

  virtual ~Pricer();

  /// The machine's name.
  virtual StringRef getMachineName() const = 0;

  /// The pass from which on a function is lowered.
  enum class From {
    PropagateAxes, ///< sizes are known, types may be open
    FormLoops,     ///< ops are local or reshards
  };

  /// Seconds of one run of `func`. It is lowered by the passes of the pipeline, on a copy: what is
  /// open is chosen as in a program. Failure, silently, if it cannot be lowered. A function that
  /// differs from an earlier one in names and locations alone costs a look-up.
  virtual FailureOr<double> price(func::FuncOp func, From from) = 0;

  /// Seconds of one run of a loop with a schedule. It may be in no function.
  virtual FailureOr<double> price(fusion::StreamLoopOp loop) = 0;

  /// The part of the baseline's time that a candidate must gain: below, rounding, neighbours and
  /// what the model leaves out are more. On 4 H200 reduce-scatters that were predicted to gain 5 %
  /// are 1 to 5 % slower than the unoverlapped baseline, and all-gathers that were predicted to
  /// gain 7 % gain it.
  static constexpr double kLeastGain = 0.06;
  /// ... and the seconds that an all-reduce must gain to become two reshards: short ones are priced
  /// too low. On 2 H200 all that were predicted to gain up to 45 us lost (up to 17 %), and all that
  /// were predicted to gain 57 us or more gained.
  static constexpr double kLeastSplitGain = 50e-6;
  /// ... of slices that travel by one-sided messages, or by others. The machine file states it for
  /// what takes SMs beside a matmul, where the model errs most.
  virtual double getLeastGain(bool oneSided) const = 0;
};

/// Makes pricers. An interface of the fusion dialect.
class PricerInterface : public mlir::DialectInterface::Base<PricerInterface> {
public:
  explicit PricerInterface(mlir::Dialect *dialect) : Base(dialect) {}

  /// Null, with `error`, if the machine file cannot be read or has fewer devices than the world has
  /// ranks.
  virtual std::unique_ptr<Pricer> create(const Pricer::Options &options,
                                         std::string &error) const = 0;
};

/// A pricer of the implementation that is registered; null, with `error`, as above or if there is
/// none.
std::unique_ptr<Pricer> createPricer(MLIRContext *context, const Pricer::Options &options,
                                     std::string &error);

} // namespace tandem

#endif // TANDEM_ANALYSIS_PRICER_H
