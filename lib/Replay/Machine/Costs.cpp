//===- Costs.cpp - formulas over a machine's numbers ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Replay/Machine.h"

#include "tandem/Program/CollectiveRoute.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace tandem::machine {

double Curve::at(double bytes) const {
  if (bytes <= points.front().first)
    return points.front().second;
  for (size_t i = 1; i < points.size(); ++i) {
    auto [x1, y1] = points[i];
    if (bytes > x1)
      continue;
    auto [x0, y0] = points[i - 1];
    // A first point at 0 bytes counts as 1.
    double low = std::log2(std::max(x0, 1.0)), high = std::log2(std::max(x1, 1.0));
    double part = high > low ? (std::log2(std::max(bytes, 1.0)) - low) / (high - low) : 1;
    return y0 + part * (y1 - y0);
  }
  return points.back().second;
}

double Curve::most() const {
  double most = points.front().second;
  for (const auto &point : points)
    most = std::max(most, point.second);
  return most;
}

void Curve::scale(double factor) {
  for (auto &point : points)
    point.second *= factor;
}

size_t Machine::choose(const std::vector<double> &seconds) const {
  if (seconds.size() < 2)
    return 0;
  double most = *std::min_element(seconds.begin() + 1, seconds.end()) * (1 + margins.tolerance);
  auto first =
      std::find_if(seconds.begin() + 1, seconds.end(), [&](double one) { return one <= most; });
  double gain = seconds[0] - *first;
  bool isWorth = gain >= std::max(margins.seconds, margins.gainOfCopies * seconds[0]);
  return isWorth ? static_cast<size_t>(first - seconds.begin()) : 0;
}

Status Machine::checkRanks(uint32_t ranks) const {
  if (nodes == 0 || devicesPerNode == 0 || ranks <= uint64_t(nodes) * devicesPerNode)
    return Status();
  return Status(Code::InvalidArgument,
                fmt::format("the program is for {} ranks, machine \"{}\" has {} devices", ranks,
                            name, uint64_t(nodes) * devicesPerNode));
}

namespace {

/// Seconds = startup + operations * slope.
struct Line {
  double startup = 0, slope = 0;
  double at(double operations) const { return startup + operations * slope; }
};

RowAlignment denseRows(DType dtype, double n, double k) {
  return {alignmentOf(sizeOf(dtype) * static_cast<uint64_t>(k)),
          alignmentOf(sizeOf(dtype) * static_cast<uint64_t>(n))};
}

/// Rows or columns of whole tiles.
double inTiles(double extent, double tile) {
  return tile > 0 && extent > tile ? std::ceil(extent / tile) * tile : extent;
}

/// Least squares of the relative error; through the origin if the startup would be negative.
Line fit(const std::vector<MatmulPoint> &points) {
  // sum over points of ((startup + f * slope) / t - 1)^2, with u = 1 / t and v = f / t.
  double uu = 0, uv = 0, vv = 0, u1 = 0, v1 = 0;
  for (const MatmulPoint &point : points) {
    double u = 1 / point.seconds, v = 2 * point.m * point.n * point.k * u;
    uu += u * u;
    uv += u * v;
    vv += v * v;
    u1 += u;
    v1 += v;
  }
  double determinant = uu * vv - uv * uv;
  Line line;
  if (determinant > 1e-6 * uu * vv)
    line = {(u1 * vv - v1 * uv) / determinant, (v1 * uu - u1 * uv) / determinant};
  if (!(line.startup > 0 && line.slope > 0))
    line = {0, vv > 0 ? v1 / vv : 0};
  return line;
}

/// The mean of `of` over the points, by inverse distance in log2 of the shape (Shepard): exact at
/// points that have no close neighbour, reasonable far away, and needs no grid of measurements. 0
/// without points.
template <typename Point, typename Of>
double nearby(const std::vector<Point> &points, double m, double n, double k, Of of) {
  double sum = 0, weights = 0;
  double lm = std::log2(m), ln = std::log2(n), lk = std::log2(k);
  for (const Point &point : points) {
    double dm = lm - std::log2(point.m), dn = ln - std::log2(point.n), dk = lk - std::log2(point.k);
    double squared = dm * dm + dn * dn + dk * dk;
    double weight = 1 / (squared * squared + 1e-9);
    sum += weight * of(point);
    weights += weight;
  }
  return weights > 0 ? sum / weights : 0;
}

} // namespace

double Unaligned::slowdown(const RowAlignment &rows) const {
  auto l = static_cast<double>(rows.left), r = static_cast<double>(rows.right);
  return rows.right == kCacheLine  ? left.at(l)
         : rows.left == kCacheLine ? 1
                                   : std::sqrt(both.at(l) * both.at(r));
}

double Machine::gatedMatmulSeconds(DType dtype, double m, double n, double k,
                                   const RowAlignment &rows, double left) const {
  double efficiency =
      std::exp(nearby(gatedMatmuls, std::max(m, 1.0), std::max(n, 1.0), std::max(k, 1.0),
                      [](const GatedPoint &point) { return std::log(point.efficiency); }));
  return matmulSeconds(dtype, 1, m, n, k, rows) / efficiency * (sms / std::max(sms - left, 1.0));
}

double Machine::matmulSeconds(DType dtype, double batch, double m, double n, double k) const {
  return matmulSeconds(dtype, batch, m, n, k, denseRows(dtype, n, k));
}

double Machine::matmulSeconds(DType dtype, double batch, double m, double n, double k,
                              const RowAlignment &rowsBegin) const {
  if (2 * batch * m * n * k <= 0)
    return 0;
  // Factors of 8 bits are as slow as bf16, to which they can be converted.
  if (isFp8(dtype) && matmuls[static_cast<size_t>(dtype)].empty())
    return matmulSeconds(DType::BF16, batch, m, n, k, rowsBegin);
  // An unmeasured type, such as f64, costs as much as f32 with twice the work.
  if (matmuls[static_cast<size_t>(dtype)].empty() && dtype != DType::F32)
    return 2 * matmulSeconds(DType::F32, batch, m, n, k, rowsBegin);
  const std::vector<MatmulPoint> &measured = matmuls[static_cast<size_t>(dtype)];
  const Unaligned &slower = unaligned[static_cast<size_t>(dtype)];
  double tile = matmulTile[static_cast<size_t>(dtype)];
  // As if tiles were whole and rows aligned.
  std::vector<MatmulPoint> points;
  for (const MatmulPoint &p : measured)
    points.push_back({inTiles(p.m, tile), inTiles(p.n, tile), p.k,
                      p.seconds / slower.slowdown(denseRows(dtype, p.n, p.k))});
  // A batch adds rows: libraries run it as one grid.
  double rows = batch * inTiles(m, tile), columns = inTiles(n, tile);
  // A line through the points (startup + operations / rate), corrected by the deviations of the
  // nearest points.
  Line line = fit(points);
  double deviation = nearby(points, rows, columns, k, [&](const MatmulPoint &point) {
    return std::log(point.seconds / line.at(2 * point.m * point.n * point.k));
  });
  double seconds = line.at(2 * rows * columns * k) * std::exp(deviation);
  double bytes = sizeOf(dtype) * (batch * m * (k + n) + k * n);
  double reading = memorySeconds(MemoryWork::Elementwise, bytes);
  return std::max(seconds * slower.slowdown(rowsBegin), reading);
}

double Machine::memorySeconds(MemoryWork work, double bytes) const {
  return bytes / memory[static_cast<size_t>(work)].at(bytes);
}

double Machine::uncachedSeconds(double bytes) const {
  const Curve &curve = memory[static_cast<size_t>(MemoryWork::Elementwise)];
  return bytes / std::min(curve.at(bytes), curve.at(std::numeric_limits<double>::infinity()));
}

double slowdown(double contention, double busy, double cores) {
  if (busy <= 1 || cores <= 1)
    return 1;
  return 1 + (contention - 1) * std::min(1.0, (busy - 1) / (cores - 1));
}

double Machine::messageSeconds(const Transport &transport, const LinkClass &link, double bytes,
                               double share) const {
  return transport.startup.at(bytes) + link.latency +
         bytes / (share * std::min(transport.bandwidth, link.bandwidth.at(bytes)));
}

CollectiveCost Machine::collectiveCost(CollectiveKind kind, uint32_t group, uint32_t groupNodes,
                                       double bytes) const {
  CollectiveCost cost;
  cost.latency = collectives.startup;
  cost.seconds = cost.latency;
  if (group <= 1)
    return cost;
  double g = group, n = groupNodes, local = std::max(1.0, g / n);
  program::CollectiveRoute route = program::collectiveRoute(kind, g, bytes);
  auto evaluate = [&](double steps, double through, bool tree) {
    CollectiveCost c;
    c.tree = tree;
    // Steps across the network: one per node in a ring; the upper levels of a tree.
    double across = 0;
    if (n > 1)
      across = tree ? steps * std::ceil(std::log2(n)) / std::ceil(std::log2(g)) : steps / local;
    across = std::min(across, steps);
    c.latency = collectives.startup + (steps - across) * collectives.step +
                across * collectives.networkStep;
    bool atRoot = kind == CollectiveKind::Gather || kind == CollectiveKind::Scatter;
    c.nodeBytes = local > 1 ? through : 0;
    // Each device of a node has its own network port, unless all data passes the root's.
    if (n > 1)
      c.networkBytes = kind == CollectiveKind::AllToAll ? (g - local) * bytes
                       : atRoot ? (g - local) * bytes
                                : through * (n - 1) / n * g / (g - 1) / local;
    double rate = collectives.bandwidth.at(c.nodeBytes) *
                  (kind == CollectiveKind::AllReduce ? collectives.allReduce.at(c.nodeBytes) : 1);
    double time = local > 1 ? c.nodeBytes / rate : 0;
    if (n > 1)
      time = std::max(time, c.networkBytes / collectives.networkBandwidth);
    c.seconds = c.latency + time;
    return c;
  };
  cost = evaluate(route.ringSteps, route.ringBytes, false);
  if (route.treeSteps >= 0) {
    CollectiveCost tree = evaluate(route.treeSteps, route.treeBytes, true);
    if (tree.seconds < cost.seconds)
      cost = tree;
  }
  return cost;
}

program::CapabilitySet Machine::capabilities() const {
  using program::Capability;
  program::CapabilitySet set;
  set.add(Capability::GatedMatmul, hasGatedMatmuls());
  set.add(Capability::EpilogueStore, hasEpiloguePush());
  for (auto protocol : {program::ExchangeProtocol::Simple, program::ExchangeProtocol::Block,
                        program::ExchangeProtocol::LL})
    set.add(program::capabilityOf(protocol), hasExchangeKernel && exchange.prices(protocol));
  set.add(Capability::StoresBesideCompute, exchange.besideCompute > 0);
  set.add(Capability::LinkPerPair, node.topology == Topology::Mesh);
  return set;
}

} // namespace tandem::machine
