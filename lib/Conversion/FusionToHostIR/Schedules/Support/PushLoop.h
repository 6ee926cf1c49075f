//===- PushLoop.h - streams, puts and signals of the schedule push -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_PUSHLOOP_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_PUSHLOOP_H

#include "OneSided.h"
#include "ScatterLoop.h"

#include "tandem/Support/LLVM.h"

namespace tandem {

/// Distances [first, first + count) that are computed at once.
struct Batch {
  int64_t first, count;
};

/// The order of peers that a schedule's option `order` asks for.
PeerOrder getPeerOrder(fusion::ScheduleAttr schedule);

/// What gathers and reductions are made of: streams that copy and never wait for a peer, one or
/// more that compute, a channel, and a signal slot for each source.
class PushLoop {
public:
  /// `epilogue`: the kernel that computes the slices pushes them. `keeps`: what arrives is also
  /// copied.
  PushLoop(const StreamLoop &loop, const fusion::SliceReshard &plan, const OwnerDigits &digits,
           Location loc, ProgramBuilder &program, bool epilogue, bool keeps);

  /// Emits `body` for the devices of the loop: after what the main stream has done, which goes on
  /// after it.
  LogicalResult overlap(function_ref<LogicalResult()> body) const;
  /// That copies to the peer at a distance (1 or more).
  Value getCopyStream(Value distance) const;
  /// For copies that nothing in the loop reads: a stream of its own, or one that has put before.
  Value getKeepStream() const;
  /// Of a piece of work by its number.
  Value getComputeStream(Value number) const;
  /// Emits `body` for all slices of the devices at once, or, if peers are pushed to at once, first
  /// for one of each device, then for the next: a slice goes to all peers before the next one.
  LogicalResult forEachTurn(function_ref<LogicalResult(SliceNumbers)> body) const;

  Peers peers;
  OneSided puts;

private:
  int64_t numBusy() const { return copyStreams + (computeStreams == 1 ? 0 : computeStreams); }

  ProgramBuilder &program;
  Location loc;
  MeshAttr mesh;
  int64_t slices, copyStreams, computeStreams;
  bool keeps; ///< the last stream keeps
};

/// Own slices go to the peers' receive memory while they are computed on; then what has arrived is.
/// `batches`: none if the slices of each device are computed alone. `blocks`: of the kernel that
/// pushes; none: copy engines do.
LogicalResult emitPushGather(const GatherLoop &gather, ProgramBuilder &program,
                             ArrayRef<Batch> batches, std::optional<int64_t> blocks);

/// How the partial sums of a reduction are computed and added.
struct PushedSums {
  bool epilogue; ///< the kernel that computes the slices stores them to their owners
  bool byMatmul; ///< of two devices: the matmuls of the local slices add what has arrived
};

/// Slices are computed in the order of the devices that get them, the local ones last. Each goes to
/// its owner's receive memory; the owner then reduces what has arrived.
LogicalResult emitPushScatter(const ScatterLoop &scatter, ProgramBuilder &program,
                              ArrayRef<Batch> batches, PushedSums sums);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_PUSHLOOP_H
