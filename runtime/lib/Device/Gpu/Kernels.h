//===- Kernels.h - the GPU's own kernels, from the host's side --*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plans of copies and reductions, made before their addresses are known: a loop nest with as few
// dimensions as the strides allow, and one kernel per possible alignment of the addresses.
// Immutable; run() on any thread.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_KERNELS_H
#define TANDEM_LIB_DEVICE_GPU_KERNELS_H

#include "ChannelInterface.h"

#include <vector>

namespace tandem::gpu {

/// Threads of a block.
inline constexpr unsigned kThreads = 256;

/// Loops over operands of one shape (at most kMaxNestOperands), merged where strides allow. The
/// first operand decides their order.
class Loops {
public:
  Loops() = default;
  explicit Loops(const std::vector<Layout> &layouts, bool inOrder = false);

  uint64_t total() const { return elements; }
  /// The largest power of two up to `most` such that every operand consists of whole packs of this
  /// many contiguous elements.
  unsigned pack(unsigned most) const;
  /// In units of `pack` elements. Strides count units if `inUnits`, else elements.
  Nest nest(unsigned pack, bool inUnits) const;
  /// Extent of the innermost dimension; number of dimensions around it.
  int64_t inner() const { return dims.empty() ? 1 : dims.back().extent; }
  int64_t innerStride(size_t operand) const {
    return dims.empty() ? 1 : dims.back().strides[operand];
  }
  size_t outer() const { return dims.empty() ? 0 : dims.size() - 1; }
  int64_t outerExtent(size_t d) const { return dims[d].extent; }
  int64_t outerStride(size_t operand, size_t d) const { return dims[d].strides[operand]; }

private:
  std::vector<LoopDim> dims; ///< outermost first, none of extent 1; strides in elements
  size_t operands = 0;
  uint64_t elements = 0;
};

/// dst, of f16 or bf16, from src of f8E4M3FN or f8E5M2, elementwise; exact.
class ConvertPlan {
public:
  ConvertPlan() = default;
  static Expected<ConvertPlan> make(const Kernels &kernels, const Layout &dst, const Layout &src);
  Status run(const Kernels &kernels, StreamHandle stream, void *dst, const void *src) const;

private:
  FunctionHandle function = nullptr; ///< null: nothing to convert
  Nest nest;
};

/// dst = a op b, elementwise.
class CombinePlan {
public:
  CombinePlan() = default;
  static Expected<CombinePlan> make(const Kernels &kernels, const Layout &dst, const Layout &a,
                                    const Layout &b, ReduceOp op);
  Status run(const Kernels &kernels, StreamHandle stream, void *dst, const void *a,
             const void *b) const;

private:
  std::vector<KernelVariant> variants;
  int op = 0;
};

/// dst = reduction of src over the dims of `mask`. `ordered`: see Device::prepareReduce.
class ReducePlan {
public:
  ReducePlan() = default;
  static Expected<ReducePlan> make(const Kernels &kernels, const Layout &dst, const Layout &src,
                                   uint64_t mask, ReduceOp op, bool ordered);
  Status run(const Kernels &kernels, StreamHandle stream, void *dst, const void *src) const;

private:
  struct Variant {
    unsigned bytes = 0;
    FunctionHandle function = nullptr;
    Nest kept, reduced;
  };
  std::vector<Variant> variants;
  bool blockPerOutput = false; ///< else a thread
  int op = 0;
};

} // namespace tandem::gpu

#endif // TANDEM_LIB_DEVICE_GPU_KERNELS_H
