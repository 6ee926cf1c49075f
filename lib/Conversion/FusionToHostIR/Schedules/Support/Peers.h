//===- Peers.h - order of a device's peers -*- C++ -*-===//
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

/// The order in which the devices of an axis exchange. At distance d, device r exchanges with r - d
/// and r + d (rotated), or with r ^ d (xor). Example: at distance 1 of 4, device 0 exchanges with 3
/// and 1 (rotated), or with 1 (xor).
enum class PeerOrder { Rotated, Xor };

/// This device and its peers along mesh axes, by distance; distance 0 is the device itself. In step
/// d all devices use distance d, so each receives from one device.
class Peers {
public:
  /// `xor`: of a number of devices that is a power of two.
  Peers(ProgramBuilder &program, Location loc, MeshAttr mesh, ArrayRef<StringAttr> axes,
        PeerOrder order = PeerOrder::Rotated);

  ProgramBuilder &program;
  Location loc;
  int64_t devices; ///< of the group, with this one
  Value me;        ///< this device's position in the group

  /// The devices that this one sends to, and receives from, at `distance`.
  Value getTarget(Value distance) const;
  Value getSource(Value distance) const;

  /// The lowest coordinate of the run of `count` devices at distances `first`, `first` + 1, ...,
  /// modulo the number of devices: the first source, or the last target.
  Value getFirstSource(int64_t first, int64_t count) const;
  Value getFirstTarget(int64_t first, int64_t count) const;

  /// Whether the devices at these distances are adjacent, modulo the number of devices.
  static bool areNeighbours(PeerOrder order, int64_t first, int64_t count);

  using PieceFn = function_ref<LogicalResult(Value first, int64_t count, bool isFirst)>;
  /// Emits `body` for the run of `count` coordinates from `first`: once, or twice on devices where
  /// the run wraps past the last coordinate.
  LogicalResult forEachPiece(Value first, int64_t count, PieceFn body) const;

private:
  Value rotate(Value coordinate, Value by) const;

  PeerOrder order;
};

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_FUSIONTOHOSTIR_SCHEDULES_SUPPORT_PEERS_H
