//===- Nodes.h - nodes of CUDA graphs ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_CUDA_NODES_H
#define TANDEM_LIB_DEVICE_GPU_CUDA_NODES_H

#include "CudaApi.h"

#include "../Driver.h"

namespace tandem::gpu {

/// The Driver's functions on nodes. The GPU's context must be current.
struct CudaNodes {
  const CudaApi &api;

  Status frontier(CUstream stream, std::vector<NodeHandle> &nodes) const;
  Status dependencies(CUgraphNode node, std::vector<NodeHandle> &nodes) const;
  Status setLaunch(CUgraphExec executable, CUgraphNode node, CUfunction function, const Grid &grid,
                   void **arguments) const;
  Status setCopy(CUgraphExec executable, CUgraphNode node, CUdeviceptr dst, CUdeviceptr src,
                 uint64_t bytes, CUcontext context) const;
  Status setLike(CUgraphExec executable, CUgraphNode node, CUgraphNode other,
                 CUcontext context) const;
};

} // namespace tandem::gpu

#endif // TANDEM_LIB_DEVICE_GPU_CUDA_NODES_H
