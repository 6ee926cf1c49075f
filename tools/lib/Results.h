//===- Results.h - results of all ranks, do they agree ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUN_RESULTS_H
#define TANDEM_RUN_RESULTS_H

#include "RankContext.h"
#include "Verify.h"
#include "tandem/Runtime/Bootstrap.h"

#include "KernelLibrary.h"
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tandem::run {

/// Who holds what of every argument. Collective.
Expected<std::vector<Placement>> gatherPlacements(const Program &program, Bootstrap &bootstrap);

/// Reads `count` bytes of this rank's result number `argument`, from byte `offset` on.
using ReadResult =
    std::function<Status(uint32_t argument, uint64_t offset, uint64_t count, void *to)>;

/// The logical results, in order, from every rank's memory. Collective; only rank 0 gets them, and
/// only it needs memory for more than pieces. Replicas are sent only where a hash of 64 bits finds
/// that they differ. An error of rank 0's is no other rank's.
Expected<std::vector<Tensor>> gatherResults(const Program &program,
                                            const std::vector<Placement> &placements,
                                            const ReadResult &read, Bootstrap &bootstrap);

/// Writes what `poison` writes to a tensor (Inputs.h).
Status poison(BoundMemory &memory, DType type);

/// The logical inputs, in order.
std::vector<Tensor> makeInputs(uint64_t seed, const Program &program);

struct ResultReport {
  std::string name;
  DType dtype = DType::F32;
  Comparison comparison;
};

/// What the oracle says to a program's inputs.
struct Reference {
  std::vector<Tensor> results;
  std::vector<Path> paths;
};
Expected<Reference> computeReference(const ProgramFile &file, std::vector<Tensor> &inputs,
                                     const KernelList &kernels = {},
                                     std::optional<int64_t> extent = {});

/// Compares every result; `reports` (one each) keep the largest error so far. An error says what is
/// wrong first, where, and who holds it.
Status judge(const Program &program, const std::vector<Placement> &placements,
             const std::vector<Tensor> &results, const Reference &reference,
             std::vector<ResultReport> &reports);

} // namespace tandem::run

#endif // TANDEM_RUN_RESULTS_H
