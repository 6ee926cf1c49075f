//===- Peers.h - in which order a device turns to its peers -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_PEERS_H
#define TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_PEERS_H

#include "../../ProgramBuilder.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// In which order the devices of an axis exchange with each other. At distance
/// d, device r exchanges with r - d and r + d (rotated), or with the one whose
/// number differs in the bits of d (xor).
enum class PeerOrder { Rotated, Xor };

/// The peers of a device on one mesh axis, by distance: 0 is the device itself.
/// All devices of the axis turn to the peer at distance d in step d, so each is
/// turned to by one.
class Peers {
public:
  /// `me` is this device's coordinate, of `devices`; for `xor` a power of two.
  Peers(ProgramBuilder &program, Location loc, Value me, int64_t devices, PeerOrder order)
      : program(program), loc(loc), me(me), devices(devices), order(order) {}

  /// Whom this device gives to at `distance`, and who then gives to it.
  Value getTarget(Value distance) const;
  Value getSource(Value distance) const;

  /// The lowest coordinate of the run of `count` devices at distances `first`,
  /// `first` + 1, ..., counted modulo the number of devices: the first of the
  /// sources, or the last of the targets.
  Value getFirstSource(int64_t first, int64_t count) const;
  Value getFirstTarget(int64_t first, int64_t count) const;

  /// Whether the devices at such distances are neighbours, modulo the number of
  /// devices.
  static bool areNeighbours(PeerOrder order, int64_t first, int64_t count);

  using PieceFn = function_ref<LogicalResult(Value first, int64_t count, bool isFirst)>;
  /// Emits `body` for the run of `count` coordinates from `first` on: for all
  /// of them, or, on devices where the run goes over the last coordinate, for
  /// the piece before and the one behind.
  LogicalResult forEachPiece(Value first, int64_t count, PieceFn body) const;

private:
  Value rotate(Value coordinate, Value by) const;

  ProgramBuilder &program;
  Location loc;
  Value me;
  int64_t devices;
  PeerOrder order;
};

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_PEERS_H
