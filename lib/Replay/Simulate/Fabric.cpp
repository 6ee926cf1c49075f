//===- Fabric.cpp - the resources of a machine ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Fabric.h"

#include <algorithm>
#include <limits>

namespace tandem::simulate {

using machine::LinkClass;
using machine::Mover;
using machine::Topology;

/// Collectives leave a kernel at least this fraction of the SMs.
static constexpr double kLeastCompute = 0.05;

Fabric::Fabric(const machine::Machine &machine, uint32_t ranks, Sharing &sharing)
    : machine(machine), sharing(sharing) {
  const LinkClass &link = machine.node, &network = machine.network;
  // All ports of a mesh together.
  double ports =
      link.topology == Topology::Mesh ? std::max(1u, machine.ranksPerNode(ranks) - 1u) : 1;
  for (uint32_t r = 0; r < ranks; ++r) {
    Device device{};
    device.compute = sharing.addResource(1);
    device.out = sharing.addResource(link.bandwidth.most() * ports, link.sharing);
    device.in = sharing.addResource(link.bandwidth.most() * ports, link.sharing);
    if (machine.hasNetwork) {
      device.networkOut = sharing.addResource(network.bandwidth.most(), network.sharing);
      device.networkIn = sharing.addResource(network.bandwidth.most(), network.sharing);
    }
    devices.push_back(device);
  }
  uint32_t count = ranks ? machine.nodeOf(ranks - 1) + 1 : 0;
  for (uint32_t n = 0; n < count; ++n) {
    Node node{Sharing::kNone, Sharing::kNone};
    if (machine.cores > 0)
      node.cores = sharing.addResource(machine.cores);
    if (link.topology == Topology::Shared)
      node.core = sharing.addResource(link.bandwidth.most(), link.sharing);
    else if (link.core > 0)
      node.core = sharing.addResource(link.core);
    nodes.push_back(node);
  }
  if (machine.hasNetwork && network.core > 0)
    networkCore = sharing.addResource(network.core);
}

Sharing::Use Fabric::compute(uint32_t rank, machine::Cost kind) const {
  if (machine.cores > 0)
    return {nodeOf(rank).cores, 1, machine.contentionOf(kind)};
  return {devices[rank].compute, 1};
}

Sharing::Resource Fabric::pair(uint32_t from, uint32_t to) {
  auto [found, added] = pairs.try_emplace({from, to}, 0);
  if (added)
    found->second = sharing.addResource(machine.node.bandwidth.most(), machine.node.sharing);
  return found->second;
}

double Fabric::path(uint32_t from, uint32_t to, replay::Reach reach, double bytes, Mover mover,
                    std::vector<Sharing::Use> &uses) {
  bool across = reach == replay::Reach::Network;
  const LinkClass &link = across ? machine.network : machine.node;
  // A message that is slower alone takes a larger share of its links.
  double rate = link.bandwidth.at(bytes), demand = link.bandwidth.most() / rate;
  if (reach == replay::Reach::Self) // a copy: read and written
    rate = machine.memory[static_cast<size_t>(machine::MemoryWork::Copy)].at(2 * bytes) / 2;
  // Over the network the card moves the bytes, not a core.
  if (mover == Mover::Host && machine.cores > 0 && !across)
    uses.push_back({nodeOf(to).cores, 1 / rate});
  if (reach == replay::Reach::Self)
    return rate;
  if (across) {
    uses.push_back({devices[from].networkOut, demand});
    uses.push_back({devices[to].networkIn, demand});
    if (networkCore != Sharing::kNone)
      uses.push_back({networkCore, 1});
    return rate;
  }
  if (link.topology != Topology::Shared) {
    uses.push_back({devices[from].out, demand});
    uses.push_back({devices[to].in, demand});
  }
  if (link.topology == Topology::Mesh)
    uses.push_back({pair(from, to), demand});
  if (nodeOf(from).core != Sharing::kNone)
    uses.push_back({nodeOf(from).core, link.topology == Topology::Shared ? demand : 1});
  return rate;
}

void Fabric::collective(const std::vector<uint32_t> &group, double nodeBytes, double networkBytes,
                        std::vector<Sharing::Use> &uses) const {
  std::map<uint32_t, double> members; // by node
  for (uint32_t rank : group) {
    members[machine.nodeOf(rank)] += 1;
    if (nodeBytes > 0 && machine.node.topology != Topology::Shared) {
      uses.push_back({devices[rank].out, nodeBytes});
      uses.push_back({devices[rank].in, nodeBytes});
    }
    if (networkBytes > 0) {
      uses.push_back({devices[rank].networkOut, networkBytes});
      uses.push_back({devices[rank].networkIn, networkBytes});
    }
  }
  for (auto [node, count] : members) {
    // The time alone already includes the whole medium and all cores of the members.
    if (machine.node.topology == Topology::Shared)
      uses.push_back({nodes[node].core, machine.node.bandwidth.most()});
    if (machine.collectives.mover == Mover::Host && machine.cores > 0)
      uses.push_back({nodes[node].cores, std::min(count, machine.cores)});
  }
}

void Fabric::updateCompute(uint32_t rank, double now) {
  const Device &device = devices[rank];
  double taken = device.sms + std::max(0.0, device.blocks - device.left);
  double capacity = std::max(kLeastCompute, 1 - taken / machine.sms);
  if (device.sms > 0)
    capacity /= machine.smInterference;
  if (device.copies > 0)
    capacity /= machine.copyInterference;
  sharing.setCapacity(device.compute, capacity, now);
}

void Fabric::takeSms(uint32_t rank, double sms, double now) {
  devices[rank].sms += sms;
  updateCompute(rank, now);
}

void Fabric::takeBlocks(uint32_t rank, double blocks, double now) {
  devices[rank].blocks += blocks;
  updateCompute(rank, now);
}

void Fabric::leaveSms(uint32_t rank, double sms, double now) {
  devices[rank].left += sms;
  updateCompute(rank, now);
}

void Fabric::countCopy(uint32_t rank, int more, double now) {
  devices[rank].copies += more;
  updateCompute(rank, now);
}

void Fabric::report(const std::string &engine, std::vector<Sharing::Resource> used, double seconds,
                    std::vector<Utilisation> &result) const {
  Utilisation all{engine, 0, 0};
  for (Sharing::Resource resource : used) {
    double capacity = sharing.fullCapacity(resource) * seconds;
    double part = capacity > 0 ? sharing.consumed(resource) / capacity : 0;
    all.average += part / static_cast<double>(used.size());
    all.most = std::max(all.most, part);
  }
  if (!used.empty())
    result.push_back(all);
}

void Fabric::utilisation(double seconds, std::vector<Utilisation> &result) const {
  std::vector<Sharing::Resource> compute, out, in, networkOut, networkIn, cores, shared;
  for (const Device &device : devices) {
    compute.push_back(device.compute);
    out.push_back(device.out);
    in.push_back(device.in);
    networkOut.push_back(device.networkOut);
    networkIn.push_back(device.networkIn);
  }
  for (const Node &node : nodes) {
    cores.push_back(node.cores);
    shared.push_back(node.core);
  }
  if (machine.cores > 0)
    report("cores", cores, seconds, result);
  else
    report("compute", compute, seconds, result);
  if (machine.node.topology == Topology::Shared) {
    report("medium", shared, seconds, result);
  } else {
    report("link out", out, seconds, result);
    report("link in", in, seconds, result);
    if (machine.node.core > 0)
      report("switch", shared, seconds, result);
  }
  if (machine.hasNetwork) {
    report("network out", networkOut, seconds, result);
    report("network in", networkIn, seconds, result);
    if (networkCore != Sharing::kNone)
      report("network switch", {networkCore}, seconds, result);
  }
}

} // namespace tandem::simulate
