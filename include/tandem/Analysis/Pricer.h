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
#include "tandem/Program/ExchangeSignals.h"
#include "tandem/Support/LLVM.h"

#include <memory>

namespace tandem {

/// One more than the largest world rank in any mesh of the function's values. All extents and mesh
/// sizes must be known.
int64_t getWorldSize(func::FuncOp func);

/// The operations, attributes, types and data flow of an op and its regions, without names and
/// locations. Ops of one context with equal signatures have equal prices.
std::string getSignature(Operation *op);

/// Stores to peers by kernels of a candidate's own (docs/fused-exchange.md, docs/gated.md).
enum class Stores : uint8_t {
  None,
  InsteadOfCollective, ///< one kernel, and all else is the same
  BesideCompute,
  FromEpilogue, ///< by the matmul that computes what is stored
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

  /// Whether the machine's devices have kernels for gated matmuls.
  virtual bool hasGatedMatmuls() const = 0;
  /// ... and whether these are known to be good at storing to peers.
  virtual bool hasEpiloguePush() const = 0;
  /// Whether it is known what signals of this kind cost in its kernel for fused exchanges.
  virtual bool hasSignals(program::ExchangeSignals signals) const = 0;

  /// Whether any two devices of a node have a link of their own (a mesh, as of MI300X); with a
  /// switch, all messages of a device share its port.
  virtual bool hasLinkPerPair() const = 0;

  /// The first pass that lowers a function.
  enum class From {
    PropagateAxes, ///< sizes are known; types may be undecided
    FormLoops,     ///< ops are local or reshards
  };

  /// Seconds of one run of `func`, lowered on a copy with the usual choices. Failure, without
  /// diagnostics, if it cannot be lowered. Cached by getSignature.
  virtual FailureOr<double> price(func::FuncOp func, From from) = 0;

  /// Seconds of one run of a loop with a schedule, also of a detached loop. `returned`: the numbers
  /// of results that the function returns. These are in the embedder's memory, which peers cannot
  /// write.
  virtual FailureOr<double> price(fusion::StreamLoopOp loop, ArrayRef<unsigned> returned = {}) = 0;

  /// Whether a candidate of `seconds` is to be taken instead of a plainer one of `plain` seconds:
  /// whether it gains more than the model may be wrong. It must gain a fraction of the time, and
  /// kLeastGainSeconds, which matters in short loops. On 4 H200, reduce-scatters of few tokens with
  /// a predicted gain of 5 % were 1 to 5 % slower than the unoverlapped baseline, and on 2 H200 one
  /// of 640 tokens was 4 % slower; in long layers, puts by copy engines gained where 3 to 9 % were
  /// predicted. `oneSided`: the candidate's messages are. `sliced`: it has slices, and the plainer
  /// one has none. `gathers`: the loop reduces nothing. Then the machine file may ask for more of
  /// transports that use SMs during a matmul, where the model is least exact. `stores`: with
  /// InsteadOfCollective, kLeastGainOfCopies and kLeastGainOfKernel are enough.
  virtual bool isWorth(double seconds, double plain, bool oneSided, bool sliced, bool gathers,
                       Stores stores = Stores::None) const = 0;
  static constexpr double kLeastGain = 0.06;
  /// Of numbers of slices whose times differ by less, the smallest is taken. On 2 H100, 2 and 4
  /// slices of a gather before two matmuls were 6 and 4 % quicker than 8, which had been predicted
  /// 0.1 % quicker than 4. On 2 H200, of four loops in which more slices were predicted 1 to 2 %
  /// quicker, they were slower in three, by 1, 2 and 6 %, and 1 % quicker in one.
  static constexpr double kAlike = 0.02;
  static constexpr double kLeastGainOfCopies = 0.03; ///< of puts without SMs, and of one kernel
  /// Of kernels that store beside a matmul, over copies that do: their price was not measured.
  static constexpr double kLeastGainOfStores = 0.1;
  static constexpr double kLeastGainSeconds = 5e-6;
  /// Of gathers by puts without SMs. On 2 H100, with up to 1024 tokens, 9 to 18 us were gained
  /// where 4 to 15 were predicted. Of reductions 1 us, where 1 was, and less than 0 on 4 H200.
  static constexpr double kLeastGainSecondsOfGathers = 3e-6;
  static constexpr double kLeastGainOfKernel = 1e-6; ///< seconds; an estimate
  /// The seconds that splitting an all-reduce into two reshards must gain: the model prices short
  /// collectives too low. On 2 H200, predicted gains up to 45 us were losses (up to 17 %);
  /// predicted gains of 57 us or more were gains.
  static constexpr double kLeastSplitGain = 50e-6;
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
