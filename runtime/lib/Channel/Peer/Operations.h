//===- Operations.h - puts and signals by the GPU ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CHANNEL_PEER_OPERATIONS_H
#define TANDEM_CHANNEL_PEER_OPERATIONS_H

#include "PeerMemory.h"

namespace tandem::peer {

/// An abort writes this value into the rank's own signals. It is above every epoch, and its
/// difference to any epoch is positive as a signed number.
inline constexpr uint64_t kReleased = uint64_t(1) << 62;

using PeerMemoryRef = std::shared_ptr<PeerMemory>;

/// `kernels`: of the device; outlives the operations.
Expected<std::unique_ptr<Operation>> preparePut(PeerMemoryRef peers, const gpu::Kernels &kernels,
                                                const Put &put);
Expected<std::unique_ptr<Operation>> prepareSignal(PeerMemoryRef peers, const gpu::Kernels &kernels,
                                                   const Signal &signal);
Expected<std::unique_ptr<Operation>> prepareWaitSignal(PeerMemoryRef peers, uint32_t self,
                                                       const gpu::Kernels &kernels,
                                                       const WaitSignal &wait);

} // namespace tandem::peer

#endif // TANDEM_CHANNEL_PEER_OPERATIONS_H
