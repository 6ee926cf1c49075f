//===- Api.h - UCX by symbol table ------------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CHANNEL_UCX_API_H
#define TANDEM_CHANNEL_UCX_API_H

#include "tandem/Program/Status.h"

#include <ucp/api/ucp.h>

namespace tandem::ucx {

/// The functions of libucp.so.0 that the channel uses.
#define TANDEM_UCP_FUNCTIONS(X)                                                                    \
  X(ucp_get_version)                                                                               \
  X(ucp_config_read)                                                                               \
  X(ucp_config_modify)                                                                             \
  X(ucp_config_release)                                                                            \
  X(ucp_init_version)                                                                              \
  X(ucp_context_query)                                                                             \
  X(ucp_cleanup)                                                                                   \
  X(ucp_worker_create)                                                                             \
  X(ucp_worker_destroy)                                                                            \
  X(ucp_worker_get_efd)                                                                            \
  X(ucp_worker_arm)                                                                                \
  X(ucp_worker_progress)                                                                           \
  X(ucp_worker_get_address)                                                                        \
  X(ucp_worker_release_address)                                                                    \
  X(ucp_worker_set_am_recv_handler)                                                                \
  X(ucp_ep_create)                                                                                 \
  X(ucp_ep_close_nbx)                                                                              \
  X(ucp_ep_flush_nbx)                                                                              \
  X(ucp_ep_rkey_unpack)                                                                            \
  X(ucp_rkey_destroy)                                                                              \
  X(ucp_rkey_pack)                                                                                 \
  X(ucp_rkey_buffer_release)                                                                       \
  X(ucp_mem_map)                                                                                   \
  X(ucp_mem_unmap)                                                                                 \
  X(ucp_tag_send_nbx)                                                                              \
  X(ucp_tag_recv_nbx)                                                                              \
  X(ucp_put_nbx)                                                                                   \
  X(ucp_am_send_nbx)                                                                               \
  X(ucp_request_cancel)                                                                            \
  X(ucp_request_free)                                                                              \
  X(ucs_status_string)

/// Pointers to these functions under their own names: `api.ucp_tag_send_nbx(...)`.
struct Api {
#define X(name) decltype(&::name) name = nullptr;
  TANDEM_UCP_FUNCTIONS(X)
#undef X

  /// Opens libucp.so.0 (or the library in TANDEM_UCX_LIBRARY) once per process and never closes it,
  /// since UCX keeps threads and hooks. Unsupported, with the loader's message, if it is missing,
  /// lacks a function, or is older than 1.12.
  static Expected<const Api *> get();

  /// "<what>: <UCX's text>" for an error, success for UCS_OK.
  Status status(ucs_status_t status, const char *what) const;
};

} // namespace tandem::ucx

#endif // TANDEM_CHANNEL_UCX_API_H
