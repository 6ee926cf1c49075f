//===- Grouped.h - grouped matmuls of NVIDIA Hopper -------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The built-in kernel "tandem.grouped_matmul" of device cuda (docs/operators.md). Its code is in
// libtandem_gated.so, next to the gated matmuls, because it takes minutes to compile.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DEVICE_GPU_GROUPED_H
#define TANDEM_LIB_DEVICE_GPU_GROUPED_H

#include "Driver.h"

#include "tandem-c/Kernel.h"

#include <cstddef>
#include <string>

namespace tandem::gpu {

/// Why it cannot run on the device; empty: it can. The operands are y, x, w and ends; their `data`
/// is not read. Per problem, of which there are as many as the leading dimensions of y say:
///
///   y[m, :] = x[m, :] * w[g], where g is the first group with m < ends[g]; 0 if there is none.
///
/// - y [..., M, N], x [..., M, K], w [G, N, K] if `config` contains "transpose_b", else [G, K, N],
///   with contiguous rows. Sums: as GroupedLibrary.h says. N, K and all strides are multiples of 8.
///   The leading dimensions are those of one array: the stride of each is the product of the stride
///   and extent of the next one.
/// - x and w are both f16 or both bf16, y is of their type or f32. Or x is f8E4M3FN or f8E5M2, w
///   f8E4M3FN and [G, N, K], and y f32, f16 or bf16; K and the strides of x and w are then
///   multiples of 16.
/// - ends [..., G] is i32, each problem's G values contiguous.
///
/// The device has compute capability 9.0, and the library is there.
std::string whyNotGroupedMatmul(const DeviceInfo &device, const char *config,
                                const tandem_kernel_operand *operands, size_t count);

/// Loads the kernel to the current GPU, which may wait for kernels that run there; without it the
/// first groupedMatmul() does. Errors as of groupedMatmul().
Status loadGroupedMatmul(const char *config, const tandem_kernel_operand *operands, size_t count);

/// Enqueues one kernel on a stream of the current GPU, also inside a capture. It reads `ends` when
/// it runs. A value counts as the largest one up to it, clamped to [0, M], so no value makes it
/// touch other memory. Needs no memory of its own, so streams may run it at the same time.
///
/// InvalidArgument if an address is not a multiple of 16 bytes (of 4 for `ends`), Unsupported for
/// what whyNotGroupedMatmul() says, except that of the device, Io if CUDA fails.
Status groupedMatmul(StreamHandle stream, const char *config, const tandem_kernel_operand *operands,
                     size_t count);

} // namespace tandem::gpu

#endif // TANDEM_LIB_DEVICE_GPU_GROUPED_H
