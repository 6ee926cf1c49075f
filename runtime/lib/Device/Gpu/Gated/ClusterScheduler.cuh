//===- ClusterScheduler.cuh - persistent kernels of clusters ---*- CUDA -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What gated and grouped matmuls share: how a grid of clusters takes clusters of tiles, and how it
// is launched.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_GATED_CLUSTERSCHEDULER_CUH
#define TANDEM_LIB_DEVICE_GPU_GATED_CLUSTERSCHEDULER_CUH

#include <cutlass/cutlass.h>

#include <cutlass/device_kernel.h>
#include <cutlass/gemm/kernel/gemm_universal.hpp>

namespace tandem::gpu::gated {

using namespace cute;

/// A static scheduler of CUTLASS. The grid is a row of clusters: cluster c takes the c-th cluster
/// of tiles, then the one a grid further. `Scheduler` has Arguments, Params,
/// to_underlying_arguments() and get_current_work(), which finds cluster of tiles `next`.
template <class Scheduler, class ClusterShape>
class ClusterScheduler
    : public cutlass::gemm::kernel::detail::StaticPersistentTileScheduler<Scheduler> {
public:
  static constexpr bool IsDynamicPersistent = false;
  using Pipeline = cutlass::PipelineEmpty;
  using PipelineStorage = typename Pipeline::SharedStorage;
  using ThrottlePipeline = cutlass::PipelineEmpty;
  using ThrottlePipelineStorage = typename ThrottlePipeline::SharedStorage;
  struct CLCResponse {};
  struct SharedStorage {
    CUTLASS_DEVICE PipelineStorage pipeline() { return {}; }
    CUTLASS_DEVICE ThrottlePipelineStorage throttle_pipeline() { return {}; }
    CUTLASS_DEVICE CLCResponse *data() { return nullptr; }
  };
  using WorkTileInfo = typename cutlass::gemm::kernel::detail::StaticPersistentTileScheduler<
      Scheduler>::WorkTileInfo;
  static constexpr int clusterM = size<0>(ClusterShape{}), clusterN = size<1>(ClusterShape{});

  template <class Arguments> static bool can_implement(const Arguments &) { return true; }
  template <class ProblemShape, class Accumulator, class Arguments>
  static size_t get_workspace_size(const Arguments &, ProblemShape,
                                   const cutlass::KernelHardwareInfo &, uint32_t, uint32_t = 1,
                                   uint32_t = 1) {
    return 0;
  }

  CUTLASS_DEVICE ClusterScheduler()
      : next(int(blockIdx.x) / clusterM), step(int(gridDim.x) / clusterM) {}

  template <class Cluster> CUTLASS_DEVICE WorkTileInfo initial_work_tile_info(Cluster) {
    return self().get_current_work();
  }
  CUTLASS_DEVICE void advance_to_next_work(uint32_t count = 1) { next += step * int(count); }
  CUTLASS_DEVICE auto fetch_next_work(WorkTileInfo) {
    advance_to_next_work();
    return cute::make_tuple(self().get_current_work(), true);
  }
  template <class P, class S> CUTLASS_DEVICE auto fetch_next_work(WorkTileInfo work, P &, S) {
    return fetch_next_work(work);
  }

  template <class Params>
  CUTLASS_HOST_DEVICE static bool compute_epilogue(const WorkTileInfo &, const Params &) {
    return true;
  }
  template <class Params>
  CUTLASS_HOST_DEVICE static bool requires_separate_reduction(const Params &) {
    return false;
  }
  template <class Params, class Accumulators>
  CUTLASS_DEVICE static void fixup(const Params &, const WorkTileInfo &, Accumulators &, uint32_t,
                                   uint32_t) {}

protected:
  int next = 0, step = 1;

private:
  CUTLASS_DEVICE Scheduler &self() { return static_cast<Scheduler &>(*this); }
};

/// Per GPU and cheap, so it is not remembered.
template <class Gemm> cudaError_t allowSharedMemory() {
  return cudaFuncSetAttribute(cutlass::device_kernel<Gemm>,
                              cudaFuncAttributeMaxDynamicSharedMemorySize, Gemm::SharedStorageSize);
}

/// Enqueues a kernel of `clusters` clusters, after allowSharedMemory(). Null, or the error.
template <class Gemm, int clusterM, int clusterN>
const char *launchClusters(typename Gemm::Params &params, int clusters, void *stream) {
  cudaLaunchAttribute cluster;
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = clusterM;
  cluster.val.clusterDim.y = clusterN;
  cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(clusters * clusterM, clusterN);
  config.blockDim = Gemm::get_block_shape();
  config.dynamicSmemBytes = Gemm::SharedStorageSize;
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &cluster;
  config.numAttrs = 1;
  void *pointers[] = {&params};
  cudaError_t error = cudaLaunchKernelExC(
      &config, reinterpret_cast<const void *>(cutlass::device_kernel<Gemm>), pointers);
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

} // namespace tandem::gpu::gated

#endif // TANDEM_LIB_DEVICE_GPU_GATED_CLUSTERSCHEDULER_CUH
