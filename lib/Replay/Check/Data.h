//===- Data.h - what a program computes ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs all ranks with numbers of a field as elements (docs/semantics.md, section 5). A run keeps
// all elements of the inputs, or those at some indices of each dimension: what is not kept does not
// exist, and a sum runs over what does.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CHECK_DATA_H
#define TANDEM_CHECK_DATA_H

#include "CheckImpl.h"
#include "Field.h"

#include <optional>

namespace tandem::check {

using field::Value;
using Values = std::vector<Value>;

/// No value of the field. Added to a value, it changes nothing: it is 0 modulo the prime.
inline constexpr Value kMissing = field::kPrime;

/// Calls f(local element, logical element) for all that a rank holds, in the order of the local
/// ones.
template <typename F> void forEachElement(const replay::Shard &shard, F &&f) {
  std::vector<int64_t> index(shard.shape.size(), 0);
  int64_t count = shard.present ? 1 : 0, at = shard.offset;
  for (int64_t extent : shard.shape)
    count *= extent;
  for (int64_t local = 0; local < count; ++local) {
    f(static_cast<uint64_t>(local), static_cast<uint64_t>(at));
    for (size_t d = shard.shape.size(); d-- > 0;) {
      at += shard.strides[d];
      if (++index[d] < shard.shape[d])
        break;
      at -= shard.shape[d] * shard.strides[d];
      index[d] = 0;
    }
  }
}

/// Where an element of a logical tensor is in a rank's piece of it; nothing if it is elsewhere. The
/// shard has at most kMaxRank dimensions.
std::optional<uint64_t> localOf(const replay::Shard &shard, DType dtype, uint64_t logical);

/// Whether elements of a view are in one place: a dimension has stride 0.
bool repeats(const Layout &layout);

/// Elements of a view that are kept, by their row-major index in its shape, ascending.
struct Elements {
  std::vector<uint64_t> index;
  Values value;

  size_t size() const { return index.size(); }
  void add(uint64_t i, Value v) {
    index.push_back(i);
    value.push_back(v);
  }
  /// The value at index `i`; null if it is not kept.
  const Value *find(uint64_t i) const;
  /// Makes the indices ascend.
  void sort();
};

/// How many indices of a dimension are kept: `most`, but `mostOfDense` of dimensions of extent
/// `dense`, or of one dimension of one input.
struct Density {
  uint64_t most = ~uint64_t(0), dense = 0, mostOfDense = 0;
  uint32_t argument = kNone, dim = 0;

  /// Whether all indices of all dimensions are kept.
  bool isComplete() const { return most == ~uint64_t(0); }
  uint64_t of(uint32_t a, uint32_t d, uint64_t extent) const {
    bool isDense = argument == kNone ? extent == dense : a == argument && d == dim;
    return isDense ? mostOfDense : most;
  }
};

/// A piece of memory whose elements are numbers of the field. Addresses are in bytes.
class DataMemory {
public:
  /// Few elements are kept.
  DataMemory() = default;
  /// All are. `widths`: bit s is set if there are elements of s bytes. Memory that is not written
  /// has values of its own, by `salt`.
  DataMemory(uint64_t bytes, unsigned widths, uint64_t salt);

  /// The kept elements of a view. Of dimensions with stride 0, only index 0.
  Elements read(uint64_t address, const Layout &layout) const;
  /// Removes what else is kept of the view.
  void write(uint64_t address, const Layout &layout, const Elements &from);
  /// kMissing where none is kept.
  Value at(uint64_t address, DType dtype) const;

private:
  struct Element {
    uint64_t address;
    Value value;
  };
  Value poison(uint64_t slot) const { return field::hash(salt, slot); }
  void writeKept(uint64_t address, const Layout &layout, const Elements &from);

  bool isComplete = false;
  bool isUniform = false; ///< all elements have the width of a slot
  unsigned shift = 0;     ///< log2 of the bytes of a slot
  uint64_t salt = 0;
  /// Where all are kept. Slots of an element after its first are kTail.
  Values slots;
  /// Where few are kept, by address.
  std::vector<Element> elements;
};

/// The purpose of a run.
struct DataMode {
  bool oracle = false;  ///< partial inputs are whole
  bool rounded = false; ///< sums of floats depend on their order: shows which copies round alike
  uint64_t order = 0;   ///< of the values
};

/// a (op) b.
Value combine(DataMode mode, DType dtype, ReduceOp op, Value a, Value b);
/// a + b, of floats.
inline Value sum(DataMode mode, Value a, Value b) {
  return mode.rounded ? field::addRounded(a, b) : field::add(a, b);
}

/// Whether a kernel compares values.
bool usesOrder(const replay::Kernel &kernel);

/// Kernel `kernel` for `count` elements: `inputs` and `outputs` are its operands.
void evaluateKernel(DataMode mode, const replay::Kernel &kernel, size_t count,
                    const std::vector<Values> &inputs, std::vector<Values> &outputs);

/// out[n] = sum over k of a[k] * b[n, k], in the order of k.
void multiply(DataMode mode, const Value *a, const Value *b, Value *out, int64_t n, int64_t k);

/// The cost of a kept element in steps where few are kept: it is searched for.
inline constexpr double kElementSteps = 40;

/// One run of all ranks of a world that ends.
class DataRun : public InstantDriver {
public:
  /// `budget`: of elements, where few are kept.
  DataRun(const World &world, DataMode mode, const Density &density = {}, double budget = 0);
  void run();

  const DataMemory &argument(uint32_t rank, uint32_t argument) const {
    return ranks[rank].arguments[argument];
  }
  double steps() const { return done; }
  /// What has been executed, in this order; of a message the receive.
  const std::vector<CommandId> &executed() const { return order; }
  /// Per command that computes or moves something: whether each operand has kept elements.
  enum Seen : uint8_t { Nothing, Blind, Touched };
  const std::vector<uint8_t> &seen() const { return sight; }
  /// Elements that were made of operands of which not the same indices are kept.
  uint64_t unknowns() const { return numUnknown; }
  /// Something that cannot be sampled, or more steps than the budget: nothing is known.
  bool failed() const { return isFailed || (!isComplete && done > budget); }

  void begin(CommandId command) override;
  void beginTransfer(CommandId send, CommandId recv) override;
  void beginCollective(uint32_t collective) override;

  const DataMode mode;
  const bool isComplete; ///< all elements are kept

private:
  struct RankMemory {
    std::vector<DataMemory> arguments;
    DataMemory arena, symmetric;
  };
  DataMemory &memory(uint32_t rank, const replay::View &view);
  const Layout &layout(uint32_t rank, const replay::Command &command, uint32_t k) const {
    return world.layoutOf(*world.operand(world.ranks[rank], command, k));
  }
  void makeMemory();
  void fillInputs(const Density &density);
  void start(CommandId command);
  void execute(uint32_t rank, const replay::Command &command);
  /// Operand k; nothing if the rank has none.
  Elements read(uint32_t rank, const replay::Command &command, uint32_t k);
  /// ... with all indices of the dimensions that the view repeats.
  Elements readAll(uint32_t rank, const replay::Command &command, uint32_t k);
  /// ... of a command that moves it. A broadcast that is written out has all its indices in the
  /// ranks and some in the oracle: that fails.
  Elements readMoved(uint32_t rank, const replay::Command &command, uint32_t k);
  void write(uint32_t rank, const replay::Command &command, uint32_t k, const Elements &from);
  void writeView(uint32_t rank, const replay::View &view, const Elements &from);
  /// A value that is equal to nothing else.
  Value unknown(uint64_t a, uint64_t b);
  void accumulate(Elements &into, const Elements &from, DType dtype, ReduceOp op) const;
  void matmul(uint32_t rank, const replay::Command &command);
  void addBias(uint32_t rank, const replay::Command &command, bool noFactors, Elements &result);
  void reduceDims(uint32_t rank, const replay::Command &command);
  void launch(uint32_t rank, const replay::Command &command);

  const double budget;
  std::vector<RankMemory> ranks;
  std::vector<CommandId> order;
  double done = 0;
  CommandId current = kNone; ///< which command reads and writes
  bool readNothing = false;  ///< it has an operand of which nothing is kept
  std::vector<uint8_t> sight;
  uint64_t numUnknown = 0;
  bool isFailed = false;
};

/// Multiply-adds and elements of one run of a world.
double dataSteps(const World &world);

/// Section 5. For programs in which nothing else is wrong. Gives what was decided, in words; sets
/// `decided` if everything was.
std::string checkData(const World &world, const CheckOptions &options, Findings &findings,
                      bool &decided);

/// Reports results of `run` that are not those of `oracle`, a run that keeps the same indices.
void compareResults(const World &world, const DataRun &run, const DataRun &oracle,
                    Findings &findings);
/// Reports copies of a result that have not one value in `run`, at the indices that `oracle` keeps.
void compareCopies(const World &world, const DataRun &run, const DataRun &oracle,
                   Findings &findings);

} // namespace tandem::check

#endif // TANDEM_CHECK_DATA_H
