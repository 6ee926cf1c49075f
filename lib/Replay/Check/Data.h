//===- Data.h - what a program computes ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CHECK_DATA_H
#define TANDEM_CHECK_DATA_H

#include "CheckImpl.h"
#include "Field.h"

#include <functional>

namespace tandem::check {

using field::Value;
using Values = std::vector<Value>;

/// Calls f(first, count, step) for runs of a layout's elements, in row-major order: so many
/// elements, `step` apart, the first at so many elements from the view's address.
template <typename F> void forEachRun(const Layout &layout, F &&f) {
  int64_t extents[kMaxRank], strides[kMaxRank];
  unsigned dims = 0;
  for (unsigned d = 0; d < layout.rank; ++d) {
    if (layout.shape[d] == 0)
      return;
    if (layout.shape[d] == 1)
      continue;
    if (dims > 0 && strides[dims - 1] == layout.strides[d] * layout.shape[d]) {
      extents[dims - 1] *= layout.shape[d];
      strides[dims - 1] = layout.strides[d];
      continue;
    }
    extents[dims] = layout.shape[d];
    strides[dims++] = layout.strides[d];
  }
  if (dims == 0)
    return f(int64_t(0), int64_t(1), int64_t(1));
  int64_t index[kMaxRank] = {}, at = 0;
  while (true) {
    f(at, extents[dims - 1], strides[dims - 1]);
    unsigned d = dims - 1;
    for (; d > 0; --d) {
      at += strides[d - 1];
      if (++index[d - 1] < extents[d - 1])
        break;
      at -= extents[d - 1] * strides[d - 1];
      index[d - 1] = 0;
    }
    if (d == 0)
      return;
  }
}

/// Calls f(local element, logical element) for what a rank holds, in the order of the local ones.
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

/// A piece of memory whose elements are numbers of the field. Addresses are in bytes.
class DataMemory {
public:
  DataMemory() = default;
  /// `narrow`: elements of two bytes occur. What nobody writes is a value of its own, by `salt`.
  DataMemory(uint64_t bytes, bool narrow, uint64_t salt);

  /// The elements of a view, in row-major order.
  void read(uint64_t address, const Layout &layout, Values &out) const;
  void write(uint64_t address, const Layout &layout, const Value *values);
  Value read(uint64_t address, DType dtype) const;
  /// Whether nobody has written there.
  bool isPoison(uint64_t address, Value value) const;

private:
  Value poison(uint64_t slot) const { return field::hash(salt, slot); }

  uint64_t salt = 0;
  unsigned shift = 2; ///< log2 of the bytes of a slot
  /// Of an element of 4 bytes in slots of 2, the second slot is kTail.
  Values slots;
};

/// What a run is for.
struct DataMode {
  bool oracle = false;  ///< partial inputs are whole
  bool rounded = false; ///< sums of floats depend on their order: shows which copies round alike
  uint64_t order = 0;   ///< of the values
};

/// a + b, of floats or of whole numbers.
inline Value sum(DataMode mode, Value a, Value b) {
  return mode.rounded ? field::addRounded(a, b) : field::add(a, b);
}
/// a (op) b.
inline Value combine(DataMode mode, DType dtype, ReduceOp op, Value a, Value b) {
  if (op == ReduceOp::Sum)
    return dtype == DType::I32 ? field::add(a, b) : sum(mode, a, b);
  return op == ReduceOp::Max ? field::max(mode.order, a, b) : field::min(mode.order, a, b);
}

/// Whether a kernel compares values.
bool usesOrder(const replay::Kernel &kernel);

/// Kernel `kernel` for `count` elements: `inputs` and `outputs` are its operands.
void evaluateKernel(DataMode mode, const replay::Kernel &kernel, size_t count,
                    const std::vector<Values> &inputs, std::vector<Values> &outputs);

/// out[m, n] = sum over k of a[m, k] * b[n, k], all row-major.
void multiply(DataMode mode, const Value *a, const Value *b, Value *out, int64_t m, int64_t n,
              int64_t k);

/// What holds `term` of an input; where it is not partial, or by `mode`, the logical value.
Value inputTerm(DataMode mode, const replay::Argument &info, uint32_t argument, uint64_t element,
                uint32_t term);

/// Strides of a matmul's factor, in elements of it dense, by the dimensions of the result's batch;
/// 0 where it has none.
std::vector<int64_t> batchStrides(const Layout &factor, const Layout &out);

/// One run of all ranks of a world that ends.
class DataRun : public InstantDriver {
public:
  DataRun(const World &world, DataMode mode);
  void run();

  const DataMemory &memory(uint32_t rank, replay::Space space, uint32_t argument) const;
  /// What has been executed, in this order; of a message the receive.
  const std::vector<CommandId> &executed() const { return order; }

  void begin(CommandId command) override;
  void beginTransfer(CommandId send, CommandId recv) override;
  void beginCollective(uint32_t collective) override;

  const DataMode mode;

private:
  struct RankMemory {
    std::vector<DataMemory> arguments;
    DataMemory arena, symmetric;
  };
  DataMemory &memory(uint32_t rank, const replay::View &view);
  void fillInput(uint32_t rank, uint32_t argument);
  void execute(uint32_t rank, CommandId id);
  /// Of a command's operands, which are of one type.
  DType typeOf(uint32_t rank, const replay::Command &command) const;
  /// Operand k; of a rank that has none: no values.
  void read(uint32_t rank, const replay::Command &command, uint32_t k, Values &out);
  void write(uint32_t rank, const replay::Command &command, uint32_t k, const Values &values);
  void matmul(uint32_t rank, const replay::Command &command);
  void reduceDims(uint32_t rank, const replay::Command &command);
  void launch(uint32_t rank, const replay::Command &command);

  std::vector<RankMemory> ranks;
  std::vector<CommandId> order;
  Values left, right, result; ///< scratch
};

/// Multiply-adds and elements of one run of a world.
double dataSteps(const World &world);

/// Section 5. For programs in which nothing else is wrong. Gives what was decided, in words; sets
/// `decided` if everything was.
std::string checkData(const World &world, const CheckOptions &options, Findings &findings,
                      bool &decided);

/// Reports what `run` has computed otherwise than `oracle`.
void compareResults(const World &world, const DataRun &run, const DataRun &oracle,
                    Findings &findings);
/// Reports copies of a result that have not one value in `run`.
void compareCopies(const World &world, const DataRun &run, Findings &findings);

} // namespace tandem::check

#endif // TANDEM_CHECK_DATA_H
