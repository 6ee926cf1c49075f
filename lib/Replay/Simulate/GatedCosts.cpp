//===- GatedCosts.cpp - what gated matmuls take, by tiles ---*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandCosts.h"

#include "tandem/Program/BuiltinKernels.h"
#include "tandem/Program/Gated.h"
#include "tandem/Program/stream_program_generated.h"

#include <algorithm>
#include <cmath>

namespace tandem::simulate {

using replay::Command;
using replay::CommandId;
using replay::Kind;
using replay::Rank;
using replay::View;

/// Tiles with which kernels of gated matmuls are built (Tiles.txt). A cluster computes
/// `clusterRows` of them below each other. `rate`: elements of the result per second, relative to
/// tiles of 128 x 256, from the times of waves in docs/gated.md.
static constexpr struct {
  double rows, columns, clusterRows, rate;
} kTiles[] = {{128, 256, 2, 1},   {128, 192, 1, 0.97}, {128, 128, 2, 0.9}, {256, 192, 2, 1.04},
              {128, 96, 2, 0.79}, {128, 64, 2, 0.6},   {64, 128, 1, 0.57}};

CommandCosts::GatedKernel CommandCosts::tiled(const Rank &rank, CommandId head) const {
  // Rows are counted once, with their first slices of K. All parts have the same columns.
  // `lateOfPart`: rows of the last part if they wait. Slices of K of the same rows follow each
  // other.
  double rows = 0, area = 0, columns = 0, late = 0, lateOfPart = 0;
  DType dtype = DType::BF16;
  machine::RowAlignment alignment; // the least of all parts
  GatedKernel kernel;
  for (CommandId c = head + 1; c <= head + world.commands[head].aux; ++c) {
    const Command &part = world.commands[c];
    kernel.waits |= part.kind == Kind::WaitSignal;
    if (part.kind != Kind::Matmul)
      continue;
    const View *out = world.operand(rank, part, 0), *a = world.operand(rank, part, 1);
    const Layout &left = world.layoutOf(*a);
    columns = static_cast<double>(world.layoutOf(*out).shape[1]);
    auto [ofLeft, ofRight] = alignmentsOf(world, *out, *a, *world.operand(rank, part, 2)).factors;
    alignment = {std::min(alignment.left, ofLeft), std::min(alignment.right, ofRight)};
    dtype = left.dtype;
    auto rowsOfPart = static_cast<double>(left.shape[0]);
    if (!(part.flags & static_cast<uint8_t>(sp::CommandFlags::accumulate))) {
      rows += rowsOfPart;
      late += lateOfPart;
    }
    lateOfPart = kernel.waits ? rowsOfPart : 0;
    area += areaOf(world, rank, part);
  }
  if (!(rows > 0 && area > 0 && columns > 0))
    return kernel;
  auto left = static_cast<double>(world.commands[head].value);
  kernel.sms = std::max(machine.sms - left, 1.0);
  kernel.depth = area / rows;
  // The machine file has the time of the tiles that are the best for the whole product. `prepare`
  // takes those that are the best for this and the rows that come late (GatedKernels.cpp).
  late = std::min(late + lateOfPart, std::ceil(rows / 2));
  double best = 0, bestOfWhole = 0, whole = 0;
  for (const auto &tile : kTiles) {
    GatedKernel one = kernel;
    one.tileRows = tile.rows * tile.clusterRows;
    one.tilesPerRow = std::ceil(columns / tile.columns) * tile.clusterRows;
    one.wave = tile.rows * tile.columns / tile.rate;
    double ofWhole = one.waves(rows) * one.wave;
    double seconds = ofWhole + one.waves(late) * one.wave;
    if (bestOfWhole == 0 || ofWhole < bestOfWhole)
      bestOfWhole = ofWhole;
    if (best > 0 && seconds >= best)
      continue;
    best = seconds;
    whole = ofWhole;
    kernel = one;
  }
  double seconds = machine.gatedMatmulSeconds(dtype, rows, columns, kernel.depth, alignment, left) *
                   whole / bestOfWhole;
  kernel.unit = seconds / area;
  kernel.wave = seconds / kernel.waves(rows);
  return kernel;
}

const CommandCosts::GatedKernel &CommandCosts::gatedKernel(const Rank &rank, const Command &part) {
  auto [found, added] = gated.try_emplace(part.partner);
  if (added)
    found->second = tiled(rank, part.partner);
  return found->second;
}

double CommandCosts::GatedKernel::waves(double rows) const {
  return std::ceil(std::ceil(rows / tileRows) * tilesPerRow / sms);
}

CommandCosts::GatedRows CommandCosts::gatedRows(const Rank &rank, const Command &part) {
  const Layout &left = world.layoutOf(*world.operand(rank, part, 1));
  return {static_cast<double>(left.shape[0]),
          static_cast<double>(left.shape[1]) / gatedKernel(rank, part).depth};
}

double areaOf(const replay::World &world, const Rank &rank, const Command &matmul) {
  const Layout &left = world.layoutOf(*world.operand(rank, matmul, 1));
  return static_cast<double>(left.shape[0]) * static_cast<double>(left.shape[1]);
}

} // namespace tandem::simulate
