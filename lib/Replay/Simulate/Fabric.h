//===- Fabric.h - the resources of a machine ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_SIMULATE_FABRIC_H
#define TANDEM_LIB_SIMULATE_FABRIC_H

#include "Sharing.h"

#include "tandem/Replay/Machine.h"
#include "tandem/Replay/Simulate.h"
#include "tandem/Replay/World.h"

#include <map>

namespace tandem::simulate {

/// Devices, ports, links and cores as resources of a Sharing. Units of work: seconds alone for
/// compute, bytes for links.
class Fabric {
public:
  Fabric(const machine::Machine &machine, uint32_t ranks, Sharing &sharing);

  /// The resources of a kernel on `rank`.
  Sharing::Use compute(uint32_t rank, machine::Cost kind) const;
  /// Appends a message's resources per byte; returns its largest rate in bytes per second.
  double path(uint32_t from, uint32_t to, replay::Reach reach, double bytes, machine::Mover mover,
              std::vector<Sharing::Use> &uses);
  /// Appends a collective's resources per second of its time alone. It moves the given bytes
  /// through each member's ports.
  void collective(const std::vector<uint32_t> &group, double nodeBytes, double networkBytes,
                  std::vector<Sharing::Use> &uses) const;

  /// Takes SMs for a collective or message (negative: gives back).
  void takeSms(uint32_t rank, double sms, double now);
  /// Takes SMs for the thread blocks of a fused exchange (negative: gives back).
  void takeBlocks(uint32_t rank, double blocks, double now);
  /// SMs that a gated matmul leaves, so that blocks on them do not slow it down (negative: it has
  /// ended).
  void leaveSms(uint32_t rank, double sms, double now);
  /// Counts copies by copy engines to or from a device.
  void countCopy(uint32_t rank, int more, double now);

  void utilisation(double seconds, std::vector<Utilisation> &result) const;

private:
  struct Device {
    Sharing::Resource compute, out, in, networkOut, networkIn;
    double sms = 0;              ///< taken by collectives and messages
    double blocks = 0, left = 0; ///< taken by fused exchanges; left by gated matmuls
    int copies = 0;
  };
  struct Node {
    Sharing::Resource cores, core; ///< `core`: the whole switch, or the shared medium
  };

  void updateCompute(uint32_t rank, double now);
  const Node &nodeOf(uint32_t rank) const { return nodes[machine.nodeOf(rank)]; }
  Sharing::Resource pair(uint32_t from, uint32_t to);
  void report(const std::string &engine, std::vector<Sharing::Resource> used, double seconds,
              std::vector<Utilisation> &result) const;

  const machine::Machine &machine;
  Sharing &sharing;
  std::vector<Device> devices;
  std::vector<Node> nodes;
  Sharing::Resource networkCore = Sharing::kNone;
  std::map<std::pair<uint32_t, uint32_t>, Sharing::Resource> pairs; ///< of a mesh
};

} // namespace tandem::simulate

#endif // TANDEM_LIB_SIMULATE_FABRIC_H
