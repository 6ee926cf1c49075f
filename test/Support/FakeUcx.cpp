//===- FakeUcx.cpp - UCX as if built for CUDA and ROCm ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The UCX of this machine, which also says that it moves memory of GPUs. That of FakeCuda is host
// memory. TANDEM_UCX_LIBRARY names it; functions that are not here are found in libucp, on which it
// depends. A message in host memory ends the process, except with TANDEM_UCX_GPU_DIRECT=0.
// TANDEM_FAKE_UCX_DESTROY="hang 1", or "stop 1", "kill 1": a fault of rank 1 where it destroys its
// worker.
//
//===----------------------------------------------------------------------===//

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <string>
#include <ucp/api/ucp.h>
#include <unistd.h>

namespace {

template <typename F> F *real(const char *name, F *) {
  static void *const library = ::dlopen("libucp.so.0", RTLD_NOW);
  return reinterpret_cast<F *>(::dlsym(library, name));
}
#define REAL(name) real(#name, &::name)

ucp_request_param_t onHost(const ucp_request_param_t *param) {
  bool isGpu =
      (param->op_attr_mask & UCP_OP_ATTR_FIELD_MEMORY_TYPE) &&
      (param->memory_type == UCS_MEMORY_TYPE_CUDA || param->memory_type == UCS_MEMORY_TYPE_ROCM);
  const char *direct = std::getenv("TANDEM_UCX_GPU_DIRECT");
  if (!isGpu && !(direct && *direct == '0')) {
    std::fprintf(stderr, "fake UCX: expected a message in memory of a GPU\n");
    std::abort();
  }
  ucp_request_param_t other = *param;
  other.memory_type = UCS_MEMORY_TYPE_HOST;
  return other;
}

} // namespace

extern "C" {

void ucp_worker_destroy(ucp_worker_h worker) {
  const char *fault = std::getenv("TANDEM_FAKE_UCX_DESTROY");
  const char *rank = std::getenv("TANDEM_RANK");
  auto meets = [&](const char *kind) {
    return fault && rank && std::string(fault) == std::string(kind) + " " + rank;
  };
  if (meets("stop"))
    ::raise(SIGSTOP);
  if (meets("kill"))
    ::raise(SIGKILL);
  while (meets("hang"))
    ::pause();
  REAL(ucp_worker_destroy)(worker);
}

ucs_status_t ucp_context_query(ucp_context_h context, ucp_context_attr_t *attributes) {
  ucs_status_t status = REAL(ucp_context_query)(context, attributes);
  if (attributes->field_mask & UCP_ATTR_FIELD_MEMORY_TYPES)
    attributes->memory_types |= UCS_BIT(UCS_MEMORY_TYPE_CUDA) | UCS_BIT(UCS_MEMORY_TYPE_ROCM);
  return status;
}

ucs_status_ptr_t ucp_tag_send_nbx(ucp_ep_h to, const void *data, size_t count, ucp_tag_t tag,
                                  const ucp_request_param_t *param) {
  ucp_request_param_t other = onHost(param);
  return REAL(ucp_tag_send_nbx)(to, data, count, tag, &other);
}

ucs_status_ptr_t ucp_tag_recv_nbx(ucp_worker_h worker, void *data, size_t count, ucp_tag_t tag,
                                  ucp_tag_t mask, const ucp_request_param_t *param) {
  ucp_request_param_t other = onHost(param);
  return REAL(ucp_tag_recv_nbx)(worker, data, count, tag, mask, &other);
}

} // extern "C"
