//===- GpuDevice.h - parts of the GPU device --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_GPUDEVICE_H
#define TANDEM_LIB_DEVICE_GPU_GPUDEVICE_H

#include "GatedKernels.h"
#include "GpuStream.h"
#include "Kernels.h"
#include "tandem/Runtime/Kernel.h"

#include <set>

namespace tandem::gpu {

/// A matmul whose algorithm is not agreed on yet, and the memory needed to time it.
struct Candidate {
  std::string key; ///< equal for equal problems
  std::shared_ptr<ProductPlan> plan;
  /// Bytes of a, b, out and bias.
  uint64_t bytes[4] = {};
  std::shared_ptr<Scratch> scales; ///< that the plan reads until it gets those of a run; or null
};

/// A loaded kernel of the program; docs/kernels.md describes its two entry points.
struct ProgramKernel {
  ModuleHandle module = nullptr;
  FunctionHandle rows = nullptr, strided = nullptr;
};

/// A loaded image of the embedder.
struct LoadedImage {
  ModuleHandle module = nullptr;
  FunctionHandle function = nullptr;
};

/// What prepared operations share.
struct Toolbox {
  ~Toolbox();
  std::shared_ptr<DeviceState> state;
  const Log *log = nullptr; ///< of the device
  std::unique_ptr<Kernels> kernels;
  std::unique_ptr<Blas> blas;        ///< null until the first matmul
  std::mutex mutex;                  ///< guards the fields below and the creation of `blas`
  std::vector<Candidate> candidates; ///< since the last agreement
  std::map<std::string, std::string> choices; ///< algorithms by key
  /// Of ordered products, the algorithms that keepOrdered keeps, by key.
  std::map<std::string, std::vector<std::string>> orderedAlgorithms;
  std::map<std::string, ProgramKernel> programKernels; ///< by their code
  std::map<std::shared_ptr<const ExternalKernel>, LoadedImage> images;

  std::once_flag askedForGated;
  std::unique_ptr<GatedKernels> gated; ///< null: none, and whyNoGated says why
  std::string whyNoGated;

  Driver &driver() const { return *state->driver; }
  /// Kernels of gated matmuls, opened when they are first needed; null, with the reason in `why`,
  /// if there are none.
  GatedKernels *gatedKernels(std::string &why);
  Expected<Blas *> matrixLibrary();
  /// Compiles and loads `code` (PTX, a code object), once.
  Expected<ProgramKernel> loadProgramKernel(const std::string &code);
  /// Loads the kernel's image, once.
  Expected<FunctionHandle> loadImage(const std::shared_ptr<const ExternalKernel> &kernel);
};

/// Bytes at whose multiples the rows of ordered products begin.
constexpr int64_t kRowBytes = 16;

/// Elements from row to row of a matrix whose rows begin at multiples of kRowBytes.
inline int64_t alignedRow(int64_t columns, DType type) {
  int64_t unit = kRowBytes / sizeOf(type);
  return (columns + unit - 1) / unit * unit;
}

/// Chooses the candidates' algorithms by timing them. For each problem, the first rank that has it
/// decides for all. With TANDEM_ALGORITHMS=FILE, looks in the file first; rank 0 of the world adds
/// new choices to it. Collective.
Status agreeOnAlgorithms(Toolbox &tools, Bootstrap &bootstrap);
/// Selects the algorithm of this name. If this rank's library lacks it, keeps the first one and
/// logs a warning.
void selectAlgorithm(ProductPlan &plan, const std::string &algorithm, const Log &log);
/// Drops the algorithms of an ordered product that add in another order than the canonical one
/// does, by running them on random numbers: then the rest give the same bits. An algorithm's order
/// is that of every element, so part of the result is compared. Unsupported if none is left.
Status keepOrdered(Toolbox &tools, Blas &blas, const Product &product, const Candidate &candidate);
/// The algorithm of the plan that is fastest on scratch memory; the others have run there too.
Expected<unsigned> fastest(Toolbox &tools, const Candidate &candidate);
/// Runs each plan once on scratch memory to load its kernels: loading one later, while a kernel
/// waits for a peer, would wait for that kernel.
Status warmUp(Toolbox &tools, const Candidate &candidate);

/// Device::capture().
Expected<std::unique_ptr<Graph>> captureGraph(const Toolbox &tools,
                                              const std::vector<Stream *> &streams,
                                              std::unique_ptr<Graph> previous,
                                              const std::function<Status()> &body);

/// Device::captureInto().
Status captureIntoForeign(const Toolbox &tools, Stream &main, const std::vector<Stream *> &streams,
                          const Device::CapturedParts &parts);

using Tools = std::shared_ptr<Toolbox>;
Expected<std::unique_ptr<Operation>> prepareMatmul(const Tools &tools, const MatmulDesc &desc);
Expected<std::unique_ptr<Operation>> prepareEpilogue(const Tools &tools, const MatmulDesc &desc,
                                                     const EpilogueDesc &epilogue);
Expected<std::unique_ptr<Operation>> prepareGatedMatmul(const Tools &tools,
                                                        const GatedMatmulDesc &desc);
/// A call of the embedder's function or image.
Expected<std::unique_ptr<Operation>> prepareCall(const Tools &tools, const CallDesc &desc);
/// A launch of the program's code; Unsupported if none fits this GPU.
Expected<std::unique_ptr<Operation>> prepareLaunch(const Tools &tools, const LaunchDesc &desc);

/// Runs a plan from one operand to another.
template <typename Plan>
std::unique_ptr<Operation> runPlan(Tools tools, Plan plan, const Operand &dst, const Operand &src) {
  return makeGpuOperation([tools = std::move(tools), plan = std::move(plan), to = dst.slot,
                           from = src.slot](GpuStream &stream, const Frame &frame) {
    return plan.run(*tools->kernels, stream.native(), frame.pointers[to], frame.pointers[from]);
  });
}

} // namespace tandem::gpu

#endif // TANDEM_LIB_DEVICE_GPU_GPUDEVICE_H
