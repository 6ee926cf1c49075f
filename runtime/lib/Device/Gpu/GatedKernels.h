//===- GatedKernels.h - matmul kernels that wait for signals ----*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the GPU device asks of the kernels of gated matmuls (docs/gated.md). The kernels are built
// separately from the device; a build may lack them.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_GATEDKERNELS_H
#define TANDEM_LIB_DEVICE_GPU_GATEDKERNELS_H

#include "ChannelInterface.h"
#include "Gated/KernelLibrary.h"

#include "tandem/Program/Epilogue.h"
#include "tandem/Program/Gated.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tandem::gpu {

struct Toolbox;

/// out [M, N] = a [M, K] * w, accumulated in f32. Strides count elements.
struct GatedShape {
  DType type = DType::BF16; ///< of a and w
  DType outType = DType::BF16;
  int64_t m = 0, n = 0, k = 0;
  int64_t strideA = 0, strideW = 0, strideOut = 0; ///< from row to row; rows are contiguous
  bool transposeW = false; ///< w is [N, K], as weights of torch are; else [K, N]

  /// In the order of computation. The slices of K of the same rows follow each other, from 0 to the
  /// end. The first Block::gates gates must be open; never decreases.
  using Block = program::GatedBlock;
  std::vector<Block> blocks;
  uint32_t numGates = 0;
  /// SMs that the kernel's grid leaves to others.
  uint32_t leftSms = 0;
  /// The blocks go to places of their own: all have as many rows and all of K, and no gates.
  bool hasTargets = false;
  /// Rows of a that lie in a matrix of their own; not with targets. None: rows is 0.
  struct OwnRows {
    int64_t firstRow = 0, rows = 0, stride = 0;
  } own;
  /// out = activation(alpha * a w + bias + beta * residual). Not with targets. The bias is a row of
  /// out's type, and the residual has its type and strides.
  struct Function {
    program::Activation activation = program::Activation::None;
    float alpha = 1, beta = 0;
    bool hasBias = false, hasResidual = false;
  };
  std::optional<Function> function;
};

/// One launch.
struct GatedCall {
  const void *a = nullptr, *w = nullptr; ///< a: where row 0 is, or would be if it were not own
  const void *own = nullptr;             ///< the first of GatedShape::own, if it has rows
  void *out = nullptr;                   ///< null with targets
  const void *bias = nullptr, *residual = nullptr; ///< if the function has them
  std::vector<gated::Target>
      targets;                     ///< one per block, if GatedShape::hasTargets; `block` is not set
  std::vector<gated::Gate> gates;  ///< GatedShape::numGates
  const uint64_t *epoch = nullptr; ///< device memory; null outside a graph
  /// Of an abort (KernelArguments.h): in host memory, not 0 to end the kernel's waits; in device
  /// memory, what it sets before it ends then, and looks at before it signals.
  const uint64_t *abortFlag = nullptr;
  uint64_t *stopped = nullptr;
  /// Host memory: a waiting kernel writes `marker` there, and all ones when it goes on.
  uint64_t *progress = nullptr;
  uint64_t marker = 0;
};

/// A kernel chosen for a shape. Outlives its launches.
class GatedPlan {
public:
  virtual ~GatedPlan();
  /// Enqueues one kernel; also inside of a capture. One thread at a time per stream.
  virtual Status launch(StreamHandle stream, const GatedCall &call) = 0;
  /// Thread blocks, each of which has an SM for itself.
  virtual unsigned blocks() const = 0;
  /// For logs: "128x256, cluster 2x1, cooperative".
  virtual std::string description() const = 0;
};

class GatedKernels {
public:
  virtual ~GatedKernels();
  /// Why no kernel computes the shape; empty: one does.
  virtual std::string whyNot(const GatedShape &shape) const = 0;
  /// Only if whyNot() is empty. May run kernels without gates on scratch memory to choose a
  /// configuration.
  virtual Expected<std::unique_ptr<GatedPlan>> prepare(const GatedShape &shape) = 0;
};

/// The kernels of this build for the device; null: there are none, and `why` says so.
/// `tools` outlives them.
std::unique_ptr<GatedKernels> createGatedKernels(Toolbox &tools, std::string &why);
/// In place of createGatedKernels() for devices that have not been asked for them yet: tests.
using GatedFactory = std::unique_ptr<GatedKernels> (*)(Driver &driver, std::string &why);
/// Null: none. Returns the factory before.
GatedFactory setGatedFactory(GatedFactory factory);

} // namespace tandem::gpu

#endif // TANDEM_LIB_DEVICE_GPU_GATEDKERNELS_H
