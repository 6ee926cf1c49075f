//===- DataSample.h - what a program computes, at some indices ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A program over some of the indices of each dimension: what is not kept is not there, and a sum
// runs over what is (docs/semantics.md, section 5).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CHECK_DATASAMPLE_H
#define TANDEM_CHECK_DATASAMPLE_H

#include "Data.h"

namespace tandem::check {

/// Elements of a view that are kept, by their row-major index in its shape, ascending.
struct Sample {
  std::vector<uint64_t> index;
  Values value;

  size_t size() const { return index.size(); }
  void add(uint64_t i, Value v) {
    index.push_back(i);
    value.push_back(v);
  }
  /// Where index `i` is; null if it is not kept.
  const Value *find(uint64_t i) const;
  /// Makes the indices ascend.
  void sort();
};

/// What an element that is kept costs in steps: it is searched for.
inline constexpr double kElementSteps = 40;

/// How many indices of a dimension are kept: `most`, but `mostOfDense` of dimensions of extent
/// `dense`, or of one dimension of one input.
struct Density {
  uint64_t most = 0, dense = 0, mostOfDense = 0;
  uint32_t argument = kNone, dim = 0;

  uint64_t of(uint32_t a, uint32_t d, uint64_t extent) const {
    bool isDense = argument == kNone ? extent == dense : a == argument && d == dim;
    return isDense ? mostOfDense : most;
  }
};
/// The kept indices of a dimension: all, if there are not more than `most`; else one at random of
/// each of so many pieces. The same in every tensor.
std::vector<uint64_t> keptIndices(uint64_t extent, uint64_t most);

/// Memory of which a few elements are there. Addresses are in bytes.
class SampleMemory {
public:
  /// Of dimensions with stride 0, index 0 is kept.
  Sample read(uint64_t address, const Layout &layout) const;
  /// Takes away what else there is of the view.
  void write(uint64_t address, const Layout &layout, const Sample &sample);
  const Value *find(uint64_t address) const;

private:
  struct Element {
    uint64_t address;
    Value value;
  };
  std::vector<Element> elements; ///< by address
};

/// One run of all ranks of a world that ends.
class SampleRun : public InstantDriver {
public:
  SampleRun(const World &world, DataMode mode, const Density &density, double budget);
  void run();

  const SampleMemory &argument(uint32_t rank, uint32_t argument) const {
    return ranks[rank].arguments[argument];
  }
  double steps() const { return done; }
  const std::vector<CommandId> &order() const { return ran; }
  /// Per command that computes or moves something: whether each operand has kept elements.
  enum Seen : uint8_t { Nothing, Blind, Touched };
  const std::vector<uint8_t> &seen() const { return sight; }
  /// Elements that were made of operands of which not the same indices are kept.
  uint64_t unknowns() const { return numUnknown; }
  /// Something that cannot be sampled, or more steps than the budget: nothing is known.
  bool failed() const { return isFailed || done > budget; }

  void begin(CommandId command) override;
  void beginTransfer(CommandId send, CommandId recv) override;
  void beginCollective(uint32_t collective) override;

private:
  struct RankMemory {
    std::vector<SampleMemory> arguments;
    SampleMemory arena, symmetric;
  };
  SampleMemory &memory(uint32_t rank, const replay::View &view);
  const Layout &layout(uint32_t rank, const replay::Command &command, uint32_t k) const {
    return world.layoutOf(*world.operand(world.ranks[rank], command, k));
  }
  void fillInput(uint32_t rank, uint32_t argument, const Density &density);
  void execute(uint32_t rank, const replay::Command &command);
  Sample read(uint32_t rank, const replay::Command &command, uint32_t k);
  void note(const Sample &sample);
  void write(uint32_t rank, const replay::Command &command, uint32_t k, const Sample &sample);
  /// A value that is equal to nothing else.
  Value unknown(uint64_t a, uint64_t b);
  /// What a command only moves. A broadcast that is written out has all its indices in the ranks
  /// and some in the oracle: that fails.
  Sample moved(uint32_t rank, const replay::Command &command, uint32_t k);
  Sample expanded(Sample sample, const Layout &from);
  void accumulate(Sample &into, const Sample &from, DType dtype, ReduceOp op);
  void matmul(uint32_t rank, const replay::Command &command);
  void reduceDims(uint32_t rank, const replay::Command &command);
  void launch(uint32_t rank, const replay::Command &command);

  const DataMode mode;
  const double budget;
  std::vector<RankMemory> ranks;
  double done = 0;
  CommandId current = kNone; ///< which command reads and writes
  bool readNothing = false;  ///< it has an operand of which nothing is kept
  std::vector<uint8_t> sight;
  uint64_t numUnknown = 0;
  bool isFailed = false;
  std::vector<CommandId> ran;
};

/// For programs whose evaluation takes `steps`, more than the budget: compares what is kept. Gives
/// what was decided, in words.
std::string checkSample(const World &world, const CheckOptions &options, double steps,
                        Findings &findings, bool &decided);

} // namespace tandem::check

#endif // TANDEM_CHECK_DATASAMPLE_H
