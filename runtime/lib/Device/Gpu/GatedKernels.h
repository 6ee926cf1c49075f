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

/// out [M, N] = a [M, K] * w, accumulated in f32. Rows of a and out are contiguous. With targets,
/// blocks have no gates.
struct GatedShape {
  GatedMatmulDesc desc;    ///< its addresses and gates are the launch's
  bool transposeW = false; ///< w is stored [N, K], as weights of torch are; else [K, N]
  /// Extents, strides, own rows, and the numbers of gates and targets. The others are the plan's
  /// and the launch's.
  gated::Matmul matmul{};

  DType type() const { return desc.whole.a.layout.dtype; } ///< of a and w
  DType outType() const { return desc.whole.out.layout.dtype; }
};

/// A kernel chosen for a shape. Outlives its launches.
class GatedPlan {
public:
  virtual ~GatedPlan();
  /// All but the addresses of a launch: of matrices, gates, targets, and what waits look at.
  virtual const gated::Matmul &matmul() const = 0;
  /// Enqueues one kernel; also inside of a capture. One thread at a time per stream.
  virtual Status launch(StreamHandle stream, const gated::Matmul &call) = 0;
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
