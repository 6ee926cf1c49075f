//===- Nodes.cpp - nodes of CUDA graphs ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Nodes.h"

#include <cstring>

namespace tandem::gpu {

Status CudaNodes::frontier(CUstream stream, std::vector<NodeHandle> &nodes) const {
  nodes.clear();
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUgraphNode *found = nullptr;
  const CUgraphEdgeData *edges = nullptr; // asked for, or edges of a special kind are an error
  size_t count = 0;
  TANDEM_RETURN_IF_ERROR(api.status(
      api.cuStreamGetCaptureInfo_v3(stream, &status, nullptr, nullptr, &found, &edges, &count),
      "cuStreamGetCaptureInfo"));
  if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    return Status(Code::Unsupported, "the stream is not being captured");
  nodes.assign(found, found + count);
  return Status();
}

Status CudaNodes::dependencies(CUgraphNode node, std::vector<NodeHandle> &nodes) const {
  nodes.clear();
  size_t count = 0;
  TANDEM_RETURN_IF_ERROR(
      api.status(api.cuGraphNodeGetDependencies_v2(node, nullptr, nullptr, &count),
                 "cuGraphNodeGetDependencies"));
  if (count == 0)
    return Status();
  std::vector<CUgraphNode> found(count);
  std::vector<CUgraphEdgeData> edges(count);
  TANDEM_RETURN_IF_ERROR(
      api.status(api.cuGraphNodeGetDependencies_v2(node, found.data(), edges.data(), &count),
                 "cuGraphNodeGetDependencies"));
  nodes.assign(found.begin(), found.end());
  return Status();
}

Status CudaNodes::setLaunch(CUgraphExec executable, CUgraphNode node, CUfunction function,
                            const Grid &grid, void **arguments) const {
  CUDA_KERNEL_NODE_PARAMS parameters;
  std::memset(&parameters, 0, sizeof parameters);
  parameters.func = function;
  parameters.gridDimX = grid.x;
  parameters.gridDimY = grid.y;
  parameters.gridDimZ = 1;
  parameters.blockDimX = grid.threads;
  parameters.blockDimY = parameters.blockDimZ = 1;
  parameters.kernelParams = arguments;
  return api.status(api.cuGraphExecKernelNodeSetParams(executable, node, &parameters),
                    "cuGraphExecKernelNodeSetParams");
}

Status CudaNodes::setCopy(CUgraphExec executable, CUgraphNode node, CUdeviceptr dst,
                          CUdeviceptr src, uint64_t bytes, CUcontext context) const {
  // The types of memory must stay those of the capture.
  CUDA_MEMCPY3D parameters;
  TANDEM_RETURN_IF_ERROR(
      api.status(api.cuGraphMemcpyNodeGetParams(node, &parameters), "cuGraphMemcpyNodeGetParams"));
  parameters.srcXInBytes = parameters.dstXInBytes = 0;
  parameters.srcDevice = src;
  parameters.dstDevice = dst;
  parameters.WidthInBytes = bytes;
  return api.status(api.cuGraphExecMemcpyNodeSetParams(executable, node, &parameters, context),
                    "cuGraphExecMemcpyNodeSetParams");
}

Status CudaNodes::setLike(CUgraphExec executable, CUgraphNode node, CUgraphNode other,
                          CUcontext context) const {
  CUgraphNodeType mine = CU_GRAPH_NODE_TYPE_EMPTY, theirs = CU_GRAPH_NODE_TYPE_EMPTY;
  TANDEM_RETURN_IF_ERROR(api.status(api.cuGraphNodeGetType(node, &mine), "cuGraphNodeGetType"));
  TANDEM_RETURN_IF_ERROR(api.status(api.cuGraphNodeGetType(other, &theirs), "cuGraphNodeGetType"));
  if (mine == theirs && mine == CU_GRAPH_NODE_TYPE_KERNEL) {
    CUDA_KERNEL_NODE_PARAMS parameters, before;
    TANDEM_RETURN_IF_ERROR(
        api.status(api.cuGraphKernelNodeGetParams(node, &before), "cuGraphKernelNodeGetParams"));
    TANDEM_RETURN_IF_ERROR(api.status(api.cuGraphKernelNodeGetParams(other, &parameters),
                                      "cuGraphKernelNodeGetParams"));
    // Attributes of a launch, such as its clusters, stay those of the captured kernel.
    if (parameters.func != before.func || parameters.kern != before.kern)
      return Status(Code::Unsupported, "a library runs another kernel at other addresses");
    return api.status(api.cuGraphExecKernelNodeSetParams(executable, node, &parameters),
                      "cuGraphExecKernelNodeSetParams");
  }
  if (mine == theirs && mine == CU_GRAPH_NODE_TYPE_MEMSET) {
    CUDA_MEMSET_NODE_PARAMS parameters;
    TANDEM_RETURN_IF_ERROR(api.status(api.cuGraphMemsetNodeGetParams(other, &parameters),
                                      "cuGraphMemsetNodeGetParams"));
    return api.status(api.cuGraphExecMemsetNodeSetParams(executable, node, &parameters, context),
                      "cuGraphExecMemsetNodeSetParams");
  }
  if (mine == theirs && mine == CU_GRAPH_NODE_TYPE_MEMCPY) {
    CUDA_MEMCPY3D parameters;
    TANDEM_RETURN_IF_ERROR(api.status(api.cuGraphMemcpyNodeGetParams(other, &parameters),
                                      "cuGraphMemcpyNodeGetParams"));
    return api.status(api.cuGraphExecMemcpyNodeSetParams(executable, node, &parameters, context),
                      "cuGraphExecMemcpyNodeSetParams");
  }
  return Status(Code::Unsupported, "a library's work has other nodes at other addresses");
}

} // namespace tandem::gpu
