//===- GpuDevice.h - parts of the GPU device --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_GPUDEVICE_H
#define TANDEM_LIB_DEVICE_GPU_GPUDEVICE_H

#include "GpuStream.h"
#include "Kernels.h"

#include <set>

namespace tandem::gpu {

/// A matmul whose algorithm is still to be agreed upon, with what it needs to be run on nothing.
struct Candidate {
  std::string key; ///< equal for equal problems
  std::shared_ptr<ProductPlan> plan;
  /// Bytes of a, b, out and bias.
  uint64_t bytes[4] = {};
};

/// A kernel of the program's, loaded; see docs/kernels.md for its two entries.
struct PtxKernel {
  ModuleHandle module = nullptr;
  FunctionHandle rows = nullptr, strided = nullptr;
};

/// What prepared operations share.
struct Toolbox {
  ~Toolbox();
  std::shared_ptr<DeviceState> state;
  std::unique_ptr<Kernels> kernels;
  std::unique_ptr<Blas> blas;                  ///< null until the first matmul
  std::mutex mutex;                            ///< guards what follows, and the making of `blas`
  std::vector<Candidate> candidates;           ///< since the last agreement
  std::map<std::string, std::string> choices;  ///< algorithms by key
  std::map<std::string, PtxKernel> ptxKernels; ///< by their text

  Driver &driver() const { return *state->driver; }
  Expected<Blas *> matrixLibrary();
  /// Compiles and loads `text`, once.
  Expected<PtxKernel> loadPtx(const std::string &text);
};

/// Decides by timing which algorithm the candidates use; rank 0 of those that have a problem
/// decides for all. With TANDEM_ALGORITHMS=FILE it looks there first, and rank 0 of the world
/// writes down what is new. Collective.
Status agreeOnAlgorithms(Toolbox &tools, Bootstrap &bootstrap);
/// Selects the algorithm of this name; another library's is not there: the first one then stays,
/// and a line on stderr says so.
void selectAlgorithm(ProductPlan &plan, const std::string &algorithm);
/// Runs each plan once on memory of no meaning, so that its kernels are loaded: loading one while a
/// kernel waits for a peer would wait for that kernel.
Status warmUp(Toolbox &tools, const Candidate &candidate);

/// Device::capture().
Expected<std::unique_ptr<Graph>> captureGraph(const std::shared_ptr<DeviceState> &state,
                                              const std::vector<Stream *> &streams,
                                              std::unique_ptr<Graph> previous,
                                              const std::function<Status()> &body);

using Tools = std::shared_ptr<Toolbox>;
Expected<std::unique_ptr<Operation>> prepareMatmul(const Tools &tools, const MatmulDesc &desc);
/// A launch of expression code, by the interpreter.
/// A launch of what fits this GPU best.
Expected<std::unique_ptr<Operation>> prepareLaunch(const Tools &tools, const LaunchDesc &desc);

} // namespace tandem::gpu

#endif // TANDEM_LIB_DEVICE_GPU_GPUDEVICE_H
