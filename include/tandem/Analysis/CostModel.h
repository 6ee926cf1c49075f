//===- CostModel.h - what ops would take on a machine -----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Prices ops of the fusion dialect, one slice of a stream loop at a time, with the numbers of a
// machine file and the formulas that the simulator uses. docs/simulator.md, "The compiler's cost
// model".
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_ANALYSIS_COSTMODEL_H
#define TANDEM_ANALYSIS_COSTMODEL_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Analysis/Pricer.h"
#include "tandem/Dialect/Fusion/IR/FusionOps.h"
#include "tandem/Dialect/Fusion/IR/Reshard.h"
#include "tandem/Support/LLVM.h"

#include <memory>

namespace tandem {

/// What one slice of one op is on one rank.
struct LoopItem {
  enum class Kind {
    Compute,    ///< `seconds` on the device
    Collective, ///< `collective` among `group` devices of `groupNodes` nodes
    Messages    ///< `bytes` out and `bytes` in, in one group; `copied` stay on the device
  };
  /// Numbers as in the stream program.
  enum class Collective : uint8_t {
    AllGather,
    AllReduce,
    ReduceScatter,
    AllToAll,
    Broadcast,
    Reduce,
    Gather,
    Scatter
  };
  Kind kind = Kind::Compute;
  double seconds = 0;
  /// Of a matmul: what it multiplies, its rows (batches are more rows) and its other extents.
  Type element;
  double rows = 0, columns = 0, contracted = 0;
  /// Of a matmul: seconds a multiplication, at least. That of the matmul which the slices are of: a
  /// short one may run quicker than its share of a long one, which is throttled, but not many of
  /// them, one after the other.
  double leastRate = 0;
  Collective collective = Collective::AllGather;
  uint32_t group = 1, groupNodes = 1;
  /// Of Collective: of one slice, as in the stream program.
  double bytes = 0;
  double copied = 0;
  /// Of Compute: so many commands alike, one after another.
  uint32_t repeat = 1;
  /// A slice has one owner, so it may travel point to point: from it in a gather, to it in a
  /// reduction.
  bool oneOwner = false;
  /// It adds to a result of the whole loop, on the main stream.
  bool accumulates = false;

  bool communicates() const { return kind != Kind::Compute; }
  bool reduces() const {
    return kind == Kind::Collective &&
           (collective == Collective::AllReduce || collective == Collective::ReduceScatter ||
            collective == Collective::Reduce);
  }
  bool isMatmul() const { return static_cast<bool>(element); }
};

/// The work of a stream loop, or of an op that is not streamed (one slice).
struct LoopWork {
  int64_t slices = 1;
  SmallVector<LoopItem> items; ///< in the order of an iteration
};

/// Bytes of what one device holds; 0 where that is not known.
double getLocalBytes(RankedTensorType type);

/// The commands of one rank, as far as they have been added.
class LoopPlan {
public:
  LoopPlan(LoopPlan &&);
  ~LoopPlan();

private:
  friend class CostModel;
  struct Implementation;
  explicit LoopPlan(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation;
};

/// The machine, and what of it the program's target may use.
class CostModel {
public:
  struct Options {
    int64_t workers = 4;     ///< size of the pool of worker streams
    bool collectives = true; ///< the channels have them; else they become messages
    bool oneSided = true;    ///< the channels have one-sided messages
    int64_t ranks = 1;       ///< of the world
  };

  /// `machine`: a name or path of a machine file. Null, with `error`, if it cannot be read or has
  /// fewer devices than the world has ranks.
  static std::shared_ptr<const CostModel> load(StringRef machine, const Options &options,
                                               std::string &error);
  ~CostModel();

  /// The machine's name.
  StringRef getName() const;
  const Options &getOptions() const;

  /// The part below which a gain is none: rounding, neighbours and what the model leaves out are
  /// more. On 4 H200 reduce-scatters that are predicted to gain 5 % are 1 to 5 % slower than the
  /// sequence, all-gathers that are predicted to gain 7 % do.
  static constexpr double kLeastGain = 0.06;
  /// ... of slices that go by one-sided messages, or by others. Of what takes SMs beside a matmul
  /// the machine says it: the model errs most there.
  double getLeastGain(bool oneSided) const;

  /// Turning `from` into `to`, one of `slices` iterations.
  /// `oneOwner`: each slice of a gather comes from one device, or of a reduce-scatter goes to one.
  LoopItem getReshard(RankedTensorType from, RankedTensorType to, int64_t slices,
                      bool oneOwner) const;

  /// The same data movement in messages between pairs of devices; a reduction as it is.
  static LoopItem inMessages(const LoopItem &item);

  /// An op that runs locally, on operands and results of these types, one of `slices` iterations
  /// over its result or, if `accumulated` is given, over that operand. No item for what is a view.
  std::optional<LoopItem> getCompute(Operation *op, ArrayRef<RankedTensorType> operands,
                                     RankedTensorType result, int64_t slices,
                                     std::optional<unsigned> accumulated = std::nullopt) const;

  /// An elementwise kernel that reads and writes so many bytes.
  LoopItem getElementwise(double bytes) const;

  /// The work of one iteration if there were `count` of them, each with a part of the rows.
  LoopWork cut(const LoopWork &work, int64_t count) const;

  LoopPlan startPlan() const;
  /// Appends the commands of a schedule. `streams`: as in a schedule's attribute, 0 for all
  /// workers.
  void addPipeline(LoopPlan &plan, const LoopWork &work, int64_t streams) const;
  /// Of work that begins with its one communication, whose slices have one owner each.
  /// `copiesOwn`: the own slices, too, are written where the others arrive.
  void addExchange(LoopPlan &plan, const LoopWork &work, int64_t streams, bool copiesOwn) const;
  /// Of work that ends with its one reduction, of slices that each go to their owner.
  void addExchangeReduce(LoopPlan &plan, const LoopWork &work, int64_t streams) const;

  /// One-sided copies on a stream of their own. `streams`: that compute, 0 and 1: the main stream.
  /// `merge`: how many devices' slices are computed at once, in the order of the loop; empty: one.
  /// A gather as for addExchange; `copiesAll`: what has arrived is copied to where it belongs.
  void addPushGather(LoopPlan &plan, const LoopWork &work, int64_t streams, ArrayRef<int64_t> merge,
                     bool copiesAll) const;
  /// Of work that ends with its one reduction, of slices that each go to their owner.
  void addPushReduce(LoopPlan &plan, const LoopWork &work, int64_t streams,
                     ArrayRef<int64_t> merge) const;

  /// Seconds from the start of the plan to its end.
  double predict(const LoopPlan &plan) const;

private:
  /// One command each for the slices of `count` devices.
  SmallVector<LoopItem> together(ArrayRef<LoopItem> items, int64_t count) const;

  struct Implementation;
  explicit CostModel(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation;
};

} // namespace tandem

#endif // TANDEM_ANALYSIS_COSTMODEL_H
