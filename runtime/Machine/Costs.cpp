//===- Costs.cpp - formulas over a machine's numbers ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Runtime/Machine.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace tandem::machine {

std::string_view toString(Cost cost) {
  static constexpr std::string_view names[kNumCosts] = {
      "kernel", "matmul", "copy", "message", "collective", "event", "signal", "wait_signal"};
  return names[static_cast<size_t>(cost)];
}

double Curve::at(double bytes) const {
  if (bytes <= points.front().first)
    return points.front().second;
  for (size_t i = 1; i < points.size(); ++i) {
    auto [x1, y1] = points[i];
    if (bytes > x1)
      continue;
    auto [x0, y0] = points[i - 1];
    // A first point at 0 bytes stands for 1.
    double low = std::log2(std::max(x0, 1.0)), high = std::log2(std::max(x1, 1.0));
    double part = high > low ? (std::log2(std::max(bytes, 1.0)) - low) / (high - low) : 1;
    return y0 + part * (y1 - y0);
  }
  return points.back().second;
}

void Curve::scale(double factor) {
  for (auto &point : points)
    point.second *= factor;
}

Status Machine::checkRanks(uint32_t ranks) const {
  if (nodes == 0 || devicesPerNode == 0 || ranks <= uint64_t(nodes) * devicesPerNode)
    return Status();
  return Status(Code::InvalidArgument,
                fmt::format("the program is for {} ranks, machine \"{}\" has {} devices", ranks,
                            name, uint64_t(nodes) * devicesPerNode));
}

double Machine::matmulSeconds(DType dtype, double batch, double m, double n, double k) const {
  double operations = 2 * batch * m * n * k;
  if (operations <= 0)
    return 0;
  // Batches are more rows: libraries run them as one grid.
  double rows = batch * m;
  const std::vector<MatmulPoint> &points = matmuls[static_cast<size_t>(dtype)];
  // Shepard's inverse-distance weights, of the rate's logarithm: exact at the points, between the
  // neighbours' rates elsewhere, and no grid is asked of whoever measured.
  double sum = 0, weights = 0;
  double lm = std::log2(rows), ln = std::log2(n), lk = std::log2(k);
  for (const MatmulPoint &point : points) {
    double dm = lm - std::log2(point.m), dn = ln - std::log2(point.n), dk = lk - std::log2(point.k);
    double squared = dm * dm + dn * dn + dk * dk;
    double weight = 1 / (squared * squared + 1e-9);
    sum += weight * std::log(point.rate());
    weights += weight;
  }
  double rate = weights > 0 ? std::exp(sum / weights) : 0;
  double bytes = sizeOf(dtype) * (rows * k + k * n + rows * n);
  double reading = memorySeconds(MemoryWork::Elementwise, bytes);
  return rate > 0 ? std::max(operations / rate, reading) : reading;
}

double Machine::memorySeconds(MemoryWork work, double bytes) const {
  return bytes / memory[static_cast<size_t>(work)];
}

double Machine::messageSeconds(const Transport &transport, const LinkClass &link,
                               double bytes) const {
  return transport.startup.at(bytes) + link.latency +
         bytes / std::min(transport.bandwidth, link.bandwidth);
}

namespace {

/// Bytes that pass a device's port, and steps, in a ring and in a tree of `g` members; `s` = bytes
/// of a slice.
struct Shape {
  double ringSteps, ringBytes;
  double treeSteps, treeBytes; ///< treeSteps < 0: there is none
};

Shape shapeOf(CollectiveKind kind, double g, double s) {
  double depth = std::ceil(std::log2(g));
  switch (kind) {
  case CollectiveKind::AllReduce:
    // A reduce-scatter and an all-gather of g-ths; a tree sends the whole up and down.
    return {2 * (g - 1), 2 * (g - 1) / g * s, 2 * depth, 2 * s};
  case CollectiveKind::AllGather:
  case CollectiveKind::ReduceScatter:
    return {g - 1, (g - 1) * s, -1, 0};
  case CollectiveKind::AllToAll:
    // Direct: every pair at once.
    return {1, (g - 1) * s, -1, 0};
  case CollectiveKind::Broadcast:
  case CollectiveKind::Reduce:
    // Pipelined through the ring, so each port sees the slice once.
    return {g - 1, s, depth, s};
  case CollectiveKind::Gather:
  case CollectiveKind::Scatter:
    // Through the root's port.
    return {1, (g - 1) * s, -1, 0};
  }
  return {0, 0, -1, 0};
}

} // namespace

CollectiveCost Machine::collectiveCost(CollectiveKind kind, uint32_t group, uint32_t groupNodes,
                                       double bytes) const {
  CollectiveCost cost;
  cost.latency = collectives.startup;
  cost.seconds = cost.latency;
  if (group <= 1)
    return cost;
  double g = group, n = groupNodes, local = std::max(1.0, g / n);
  Shape shape = shapeOf(kind, g, bytes);
  auto evaluate = [&](double steps, double through, bool tree) {
    CollectiveCost c;
    c.tree = tree;
    // Of the steps of a ring, one a node crosses the network; of a tree, the upper levels.
    double across = 0;
    if (n > 1)
      across = tree ? steps * std::ceil(std::log2(n)) / std::ceil(std::log2(g)) : steps / local;
    across = std::min(across, steps);
    c.latency = collectives.startup + (steps - across) * collectives.step +
                across * collectives.networkStep;
    bool atRoot = kind == CollectiveKind::Gather || kind == CollectiveKind::Scatter;
    c.nodeBytes = local > 1 ? through : 0;
    // Devices of a node have a network port each and share what leaves it, unless one is the root.
    if (n > 1)
      c.networkBytes = kind == CollectiveKind::AllToAll ? (g - local) * bytes
                       : atRoot ? (g - local) * bytes
                                : through * (n - 1) / n * g / (g - 1) / local;
    double time = local > 1 ? c.nodeBytes / collectives.bandwidth.at(c.nodeBytes) : 0;
    if (n > 1)
      time = std::max(time, c.networkBytes / collectives.networkBandwidth);
    c.seconds = c.latency + time;
    return c;
  };
  cost = evaluate(shape.ringSteps, shape.ringBytes, false);
  if (shape.treeSteps >= 0) {
    CollectiveCost tree = evaluate(shape.treeSteps, shape.treeBytes, true);
    if (tree.seconds < cost.seconds)
      cost = tree;
  }
  return cost;
}

} // namespace tandem::machine
