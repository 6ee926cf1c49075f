//===- Kernels.h - the fuser's own kernels -------------------------- -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_EXAMPLES_JITFUSER_KERNELS_H
#define TANDEM_EXAMPLES_JITFUSER_KERNELS_H

#include <tandem-c/Runtime.h>

namespace fuser {

/// The name under which programs call causal attention: q, k, v of [heads, tokens, depth] in f32.
constexpr const char *kAttention = "fuser_causal_attention";
/// Heads and queries are computed independently; keys and values are needed whole.
constexpr const char *kAttentionDims = "hq_, h__, h__ -> hq_";

/// Whether this build has the kernels for GPUs (it needs nvcc).
bool haveGpuKernels();
/// Makes the kernels known to the programs of a context.
tandem_code registerKernels(tandem_context *context);

} // namespace fuser

#endif // TANDEM_EXAMPLES_JITFUSER_KERNELS_H
