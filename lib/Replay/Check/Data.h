//===- Data.h - what a program computes ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs all ranks on numbers of a finite field (docs/semantics.md, section 5). A run keeps all
// elements of the inputs, or only those at some indices of each dimension. Dropped elements do not
// exist; a sum runs over the kept ones.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CHECK_DATA_H
#define TANDEM_CHECK_DATA_H

#include "CheckImpl.h"
#include "Field.h"

#include <map>
#include <optional>

namespace tandem::check {

using field::Value;
using Values = std::vector<Value>;

/// Not a value of the field. Adding it changes nothing: it is 0 modulo the prime.
inline constexpr Value kMissing = field::kPrime;

/// The position of a logical element in a rank's shard, if it is there. The shard has at most
/// kMaxRank dimensions.
std::optional<uint64_t> localOf(const Shard &shard, DType dtype, uint64_t logical);

/// Whether a view repeats elements: a dimension has stride 0.
bool repeats(const Layout &layout);

/// The kept elements of a view by row-major index, ascending.
struct Elements {
  std::vector<uint64_t> index;
  Values value;

  size_t size() const { return index.size(); }
  void add(uint64_t i, Value v) {
    index.push_back(i);
    value.push_back(v);
  }
  /// The value at index `i`; null if dropped.
  const Value *find(uint64_t i) const;
  /// Sorts by index.
  void sort();
};

/// Indices kept per dimension: `most`, but `mostOfDense` for dimensions of extent `dense`, or for
/// one dimension of one input.
struct Density {
  uint64_t most = ~uint64_t(0), dense = 0, mostOfDense = 0;
  uint32_t argument = kNone, dim = 0;

  /// Whether all indices are kept.
  bool isComplete() const { return most == ~uint64_t(0); }
  uint64_t of(uint32_t a, uint32_t d, uint64_t extent) const {
    bool isDense = argument == kNone ? extent == dense : a == argument && d == dim;
    return isDense ? mostOfDense : most;
  }
};

/// The kept indices of a dimension: all if there are at most `most`, else one random index in each
/// of `most` equal pieces. Equal for all tensors.
std::vector<uint64_t> keptIndices(uint64_t extent, uint64_t most);

/// A range of memory whose elements are numbers of the field. Addresses in bytes.
class DataMemory {
public:
  /// Keeps few elements.
  DataMemory() = default;
  /// Keeps all elements. `widths`: bit s is set if there are elements of s bytes. Unwritten memory
  /// has distinct values that depend on `salt`.
  DataMemory(uint64_t bytes, unsigned widths, uint64_t salt);

  /// The kept elements of a view; only index 0 of dimensions with stride 0.
  Elements read(uint64_t address, const Layout &layout) const;
  /// Replaces the kept elements of the view.
  void write(uint64_t address, const Layout &layout, const Elements &from);
  /// kMissing if dropped.
  Value at(uint64_t address, DType dtype) const;

private:
  struct Element {
    uint64_t address;
    Value value;
  };
  Value poison(uint64_t slot) const { return field::hash(salt, slot); }
  void writeKept(uint64_t address, const Layout &layout, const Elements &from);

  bool isComplete = false;
  bool isUniform = false; ///< every element is as wide as a slot
  unsigned shift = 0;     ///< log2 of the bytes of a slot
  uint64_t salt = 0;
  /// If all elements are kept. Slots after an element's first are kTail.
  Values slots;
  /// If few are kept: by address.
  std::vector<Element> elements;
};

/// The purpose of a run.
struct DataMode {
  bool reference = false; ///< partial inputs hold the logical values
  /// Sums of floats depend on their order, and values on where they are rounded: what differs in
  /// the last bit differs.
  bool rounded = false;
  uint64_t order = 0; ///< selects the order of values
};

/// a (op) b.
Value combine(DataMode mode, DType dtype, ReduceOp op, Value a, Value b);
/// a + b, of floats.
inline Value sum(DataMode mode, Value a, Value b) {
  return mode.rounded ? field::addRounded(a, b) : field::add(a, b);
}

/// Whether a value is rounded when it is written: sums are f32.
inline bool isNarrowFloat(DType dtype) {
  return dtype == DType::F16 || dtype == DType::BF16 || isFp8(dtype);
}

/// What a program that distinguishes roundings keeps of a value that it writes as `dtype`.
inline Value stored(DataMode mode, DType dtype, Value a) {
  return mode.rounded && isNarrowFloat(dtype) ? field::roundTo(static_cast<uint64_t>(dtype), a) : a;
}

/// Whether a kernel compares values.
bool usesOrder(const replay::Kernel &kernel);

/// Evaluates a kernel for `count` elements of its operands.
void evaluateKernel(DataMode mode, const replay::Kernel &kernel, size_t count,
                    const std::vector<Values> &inputs, std::vector<Values> &outputs);

/// out[n] = sum over k of a[k] * b[n, k], in order of k.
void multiply(DataMode mode, const Value *a, const Value *b, Value *out, int64_t n, int64_t k);

/// Steps per kept element if few are kept, since each needs a search.
inline constexpr double kElementSteps = 40;

/// Indices of an element in the parallel dimensions of one operand of a call, in order of its
/// dimensions.
using CallIndices = std::vector<uint64_t>;
/// What a kernel of the embedder sees of an operand, by its parallel indices.
using CallDigests = std::map<CallIndices, uint64_t>;

/// One run of all ranks of a program that finishes.
class DataRun : public InstantDriver {
public:
  /// `budget`: in elements, if few are kept.
  DataRun(const World &world, DataMode mode, const Density &density = {}, double budget = 0);
  void run();

  const DataMemory &argument(uint32_t rank, uint32_t argument) const {
    return ranks[rank].arguments[argument];
  }
  double steps() const { return done; }
  /// The executed commands in order; for messages, the receives.
  const std::vector<CommandId> &executed() const { return order; }
  /// Per command that computes or moves data: whether every operand has kept elements.
  enum Seen : uint8_t { Nothing, Blind, Touched };
  const std::vector<uint8_t> &seen() const { return sight; }
  /// Number of elements computed from operands that keep different indices.
  uint64_t unknowns() const { return numUnknown; }
  /// The program cannot be sampled, or the budget is exceeded: no conclusion.
  bool failed() const { return isFailed || (!isComplete && done > budget); }

  void begin(CommandId command) override;
  void beginTransfer(CommandId send, CommandId recv) override;
  void beginCollective(uint32_t collective) override;

  const DataMode mode;
  const bool isComplete; ///< keeps all elements

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
  /// Operand k; empty if the rank has none.
  Elements read(uint32_t rank, const replay::Command &command, uint32_t k);
  /// ... with all indices of repeated dimensions.
  Elements readAll(uint32_t rank, const replay::Command &command, uint32_t k);
  /// ... of a command that moves it. Fails for a materialised broadcast, which has all indices on
  /// the ranks but only some in the reference.
  Elements readMoved(uint32_t rank, const replay::Command &command, uint32_t k);
  void write(uint32_t rank, const replay::Command &command, uint32_t k, const Elements &from);
  void writeView(uint32_t rank, const replay::View &view, const Elements &from);
  /// A value that differs from all others.
  Value unknown(uint64_t a, uint64_t b);
  void accumulate(Elements &into, const Elements &from, DType dtype, ReduceOp op) const;
  void matmul(uint32_t rank, const replay::Command &command);
  void groupedMatmul(uint32_t rank, const replay::Command &command);
  void addBias(uint32_t rank, const replay::Command &command, bool noFactors, Elements &result);
  void reduceDims(uint32_t rank, const replay::Command &command);
  void launch(uint32_t rank, const replay::Command &command);
  void call(uint32_t rank, const replay::Command &command);
  /// `dims`: of the result. Per input: its digests, and which parallel dimensions it has.
  void callResult(uint32_t rank, const replay::Command &command, uint32_t result,
                  const int8_t *dims, const replay::CallPlace *places,
                  const std::vector<CallDigests> &digests,
                  const std::vector<std::vector<int8_t>> &numbers);

  const Density density;
  const double budget;
  std::vector<RankMemory> ranks;
  std::vector<CommandId> order;
  double done = 0;
  CommandId current = kNone; ///< the command being executed
  bool readNothing = false;  ///< an operand has no kept elements
  std::vector<uint8_t> sight;
  uint64_t numUnknown = 0;
  bool isFailed = false;
};

/// Multiply-adds and elements of one run.
double dataSteps(const World &world);

/// Why the results of `other` cannot be compared with those of `world`; empty: they can.
std::string whatDiffers(const World &world, const World &other);

/// Section 5, for programs without other errors. Returns the conclusion as text; sets `decided` if
/// it covers everything.
std::string checkData(const World &world, const CheckOptions &options, Findings &findings,
                      bool &decided);

/// Reports results of `run` that differ from `reference`, a run with the same kept indices.
void compareResults(const World &world, const DataRun &run, const DataRun &reference,
                    Findings &findings);
/// Reports replicas of a result with different values in `run`, at the indices kept in `reference`.
void compareCopies(const World &world, const DataRun &run, const DataRun &reference,
                   Findings &findings);
/// Reports results of `run` that differ from those of `other`, both rounded, at the indices kept in
/// `reference`. The programs have the same arguments.
void compareBits(const World &world, const DataRun &run, const World &otherWorld,
                 const DataRun &other, const DataRun &reference, Findings &findings);

} // namespace tandem::check

#endif // TANDEM_CHECK_DATA_H
