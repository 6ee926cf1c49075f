//===- Suite.h - the programs of a bench ------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_BENCH_SUITE_H
#define TANDEM_BENCH_SUITE_H

#include "Options.h"

#include <memory>
#include <string>
#include <vector>

namespace tandem::bench {

/// What a program is to the others of its row.
enum class Role : uint8_t { Sequence, Matmul, Communication, Fused, Link, Probe };
std::string toString(Role role);
/// Whether programs of a target are for GPUs.
bool isGpuTarget(const std::string &target);

struct Variant {
  Role role = Role::Fused;
  std::string name;    ///< "sequence", "matmul", "push:streams=2", ...
  std::string bytes;   ///< of the .tsp; empty where refused
  std::string refused; ///< why there is no program
};

/// Of a shape; rings that show what a link can do; a probe of a calibration; candidates of the
/// loops of a program.
enum class RowKind : uint8_t { Shape, Links, Probe, Tuning };

/// Programs that are timed by turns.
struct Row {
  RowKind kind = RowKind::Shape;
  Case shape;        ///< if it is of one
  std::string label; ///< of a Tuning
  /// Of a Tuning, each is called "SIGNATURE CANDIDATE"; those of a loop begin with the predicted
  /// best.
  std::vector<Variant> variants;
};

/// Rows, made or read one by one, on rank 0.
class Suite {
public:
  virtual ~Suite();
  virtual uint32_t ranks() const = 0;
  virtual std::string target() const = 0;
  /// Whether rows are probes; else the first one measures links.
  virtual bool isProbes() const = 0;
  /// Whether rows are for --tune.
  virtual bool isTuning() const { return false; }
  virtual size_t numRows() const = 0;
  /// An error: a file of a stage is gone or damaged.
  virtual Expected<Row> row(size_t index) = 0;
  /// What a row is called, without making it; "" for links.
  virtual std::string label(size_t index) const = 0;
  /// Bytes that a rank passes on in the row of links.
  virtual uint64_t linkBytes() const = 0;
};

/// The text of a module with one function: x [M, K] and w [K, N] to y [M, N] over a mesh of `ranks`
/// devices, with the axes and schedule that are asked for. An error where the schedule says what
/// this number of ranks cannot have.
Expected<std::string> fusedText(const Case &shape, uint32_t ranks, const Schedule &schedule);
/// A rank's matmul alone; the inputs of a gather are whole, the result of a reduction stays terms.
std::string matmulText(const Case &shape, uint32_t ranks);
/// The communication alone, as one collective.
std::string communicationText(const Case &shape, uint32_t ranks);

/// Compiles a text. What the compiler refuses is a variant that says why.
Variant compileVariant(Role role, const std::string &name, const std::string &text,
                       const std::string &target, const std::string &machine, uint32_t ranks);
/// Compiles all rows.
std::unique_ptr<Suite> compileSuite(const Options &options, uint32_t ranks);
/// Reads what writeSuite wrote. Errors name the file and the field.
Expected<std::unique_ptr<Suite>> readSuite(const std::string &folder);
/// Writes programs and their list, bench.json, into a folder of its own, which is made anew; one
/// that holds anything but an earlier stage is an error, and so is it if no program could be
/// compiled. Says what was written.
Expected<std::string> writeSuite(Suite &suite, const std::string &folder);

/// A row as bytes, for the other ranks.
std::string packRow(const Row &row);
Expected<Row> unpackRow(const std::string &bytes);

} // namespace tandem::bench

#endif // TANDEM_BENCH_SUITE_H
