//===- Varying.h - arguments of a varying extent ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CORE_VARYING_H
#define TANDEM_LIB_CORE_VARYING_H

#include "tandem/Program/Program.h"
#include "tandem/Runtime/Device.h"

namespace tandem::core {

/// Lets a program that was compiled for the largest extent run with a smaller one. An argument that
/// is smaller in a run has a *place*: memory of the full size, which the program accesses instead
/// of the caller's. Before a run, inputs are copied to their places, in which all else is 0; after
/// it, results are copied from theirs. Addresses of places never change, so a captured graph serves
/// all extents. An argument of full size is accessed where the caller has it.
class VaryingArguments {
public:
  /// Null if no extent of the program varies. Up to `runs` runs may be in flight.
  static Expected<std::unique_ptr<VaryingArguments>> create(Device &device, const Program &program,
                                                            size_t runs);

  /// Bytes of device memory that it needs; 0 if no extent varies.
  static uint64_t bytesOf(const Program &program);

  int64_t extent() const { return current; }
  /// For later runs. An error unless 0 <= extent <= bound.
  Status setExtent(int64_t extent);
  /// Argument `i` of a run with the current extent, as the caller sees it: without masks.
  const ArgumentInfo &argument(uint32_t i) const { return arguments[i]; }
  /// The memory that the program accesses, if the caller bound `bound`.
  void *address(uint32_t i, void *bound) const { return isStaged(i) ? places[i]->data() : bound; }

  /// Enqueue the copies of run `number`, below `runs`; the earlier one of this number has ended.
  /// `bound`: the caller's memory, per argument.
  Status before(size_t number, Stream &stream, const std::vector<void *> &bound, ErrorSink &errors);
  Status after(size_t number, Stream &stream);

private:
  /// The copies of one of the runs that may be in flight.
  struct Copies {
    Frame frame;
    std::vector<void *> pointers;
    int64_t extent = -1; ///< the copies below are for this one
    /// By argument; null or empty: nothing to do.
    std::vector<std::unique_ptr<Operation>> moves;
    std::vector<std::vector<std::unique_ptr<Operation>>> clears;
  };

  VaryingArguments(Device &device, const Program &program, size_t runs)
      : device(device), program(program), copies(runs) {}
  Status allocate();
  Status prepare(Copies &copies);
  Status prepareClear(const ArgumentInfo &whole, uint32_t i,
                      std::vector<std::unique_ptr<Operation>> &clears);
  /// Whether the program accesses the argument's place.
  bool isStaged(uint32_t i) const;
  uint32_t numArguments() const { return static_cast<uint32_t>(arguments.size()); }
  uint32_t zeroSlot() const { return 2 * numArguments(); }

  Device &device;
  const Program &program;
  int64_t bound = 0, current = 0;
  std::vector<ArgumentInfo> arguments; ///< with the current extent
  std::vector<std::unique_ptr<Memory>> places;
  std::vector<std::unique_ptr<Memory>> ones; ///< what is copied to the places of masks
  std::unique_ptr<Memory> zeros;
  uint64_t zeroBytes = 0;
  /// By argument: the extent up to which its place may be other than 0.
  std::vector<int64_t> filled;
  std::vector<Copies> copies;
};

} // namespace tandem::core

#endif // TANDEM_LIB_CORE_VARYING_H
