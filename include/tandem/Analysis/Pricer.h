//===- Pricer.h - the price of a candidate on a machine ---------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The compiler's one cost model: a candidate is lowered by the real passes and its commands are
// simulated. Passes see only this interface. The implementation needs the whole compiler, so
// `registerTandemDialects` attaches it to the fusion dialect. See docs/simulator.md, "The
// compiler's cost model".
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_ANALYSIS_PRICER_H
#define TANDEM_ANALYSIS_PRICER_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectInterface.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Program/Capabilities.h"
#include "tandem/Support/LLVM.h"

#include <memory>

namespace tandem {

/// One more than the largest world rank in any mesh of the function's values. All extents and mesh
/// sizes must be known.
int64_t getWorldSize(func::FuncOp func);

/// The operations, attributes, types and data flow of an op and its regions, without names and
/// locations. Ops of one context with equal signatures have equal prices. `byContent`: it is the
/// same in all contexts and processes, however ops are printed; else it has addresses.
std::string getSignature(Operation *op, bool byContent = false);

/// How a candidate differs from a plainer one: for how much it must gain.
struct Difference {
  program::CapabilitySet uses; ///< of its plan
  bool isSliced = false;       ///< it has slices, and the plainer one has none
  bool gathers = false;        ///< the loop reduces nothing
};

/// Prices candidates for one machine and target. One thread at a time.
class Pricer {
public:
  struct Options {
    std::string machine;     ///< name or path of a machine file
    int64_t workers = 4;     ///< size of the pool of worker streams
    bool collectives = true; ///< the channels have them; else they become messages
    bool oneSided = true;    ///< the channels have one-sided messages
    int64_t ranks = 1;       ///< of the world
    /// `fusion.deterministic` of the functions; empty: none.
    std::string deterministic = "";
  };

  virtual ~Pricer();

  /// The machine's name.
  virtual StringRef getMachineName() const = 0;

  /// The capabilities of the machine's devices and links.
  virtual program::CapabilitySet getCapabilities() const = 0;
  /// What candidates must gain on this machine.
  virtual const program::Margins &getMargins() const = 0;

  /// The first pass that lowers a function.
  enum class From {
    PropagateAxes, ///< sizes are known; types may be undecided
    FormLoops,     ///< ops are local or reshards
  };

  /// Seconds of one run of `func`, lowered on a copy with the usual choices. Failure, without
  /// diagnostics, if it cannot be lowered. Cached by getSignature.
  virtual FailureOr<double> price(func::FuncOp func, From from) = 0;

  /// Seconds of one run of a program with one loop. `lower` makes host IR of it: a program that is
  /// called "candidate"; null if that fails. Cached by `signature`.
  virtual FailureOr<double> price(Operation *loop, StringRef signature,
                                  function_ref<OwningOpRef<ModuleOp>()> lower) = 0;

  /// Whether a candidate of `seconds` is to be taken instead of a plainer one of `plain` seconds:
  /// whether it gains more than the model may be wrong.
  virtual bool isWorth(double seconds, double plain, const Difference &difference) const = 0;
};

/// Creates pricers; an interface of the fusion dialect.
class PricerInterface : public mlir::DialectInterface::Base<PricerInterface> {
public:
  explicit PricerInterface(mlir::Dialect *dialect) : Base(dialect) {}

  /// Null, with `error`, if the machine file cannot be read or has fewer devices than the world has
  /// ranks.
  virtual std::unique_ptr<Pricer> create(const Pricer::Options &options,
                                         std::string &error) const = 0;
};

/// Creates a pricer with the registered implementation. Null, with `error`, as above or if none is
/// registered.
std::unique_ptr<Pricer> createPricer(MLIRContext *context, const Pricer::Options &options,
                                     std::string &error);

} // namespace tandem

#endif // TANDEM_ANALYSIS_PRICER_H
