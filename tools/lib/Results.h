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
#include <fmt/format.h>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace tandem::run {

/// Who holds what of every argument. Collective.
Expected<std::vector<Placement>> gatherPlacements(const Program &program, Bootstrap &bootstrap);

/// Reads `count` bytes of this rank's result number `argument`, from byte `offset` on.
using ReadResult =
    std::function<Status(uint32_t argument, uint64_t offset, uint64_t count, void *to)>;

/// Calls `work`; if memory runs out in it, the error says for what, and how much the tensors alone
/// need.
template <typename Work> Status withMemory(const std::string &what, uint64_t bytes, Work work) {
  auto none = [&] {
    return Status(Code::OutOfMemory, fmt::format("no memory for {}: {} bytes", what, bytes));
  };
  try {
    return work();
  } catch (const std::bad_alloc &) {
    return none();
  } catch (const std::length_error &) { // more than any address space
    return none();
  }
}

/// Tells all ranks how a step went on this one. Collective: an error on all ranks, or on none.
using AgreeOnStep = std::function<Status(const Status &mine)>;

struct Gathered {
  std::vector<Tensor> results; ///< logical, in order; only rank 0 gets them
  Status problem;              ///< rank 0: what is wrong with them
};

/// The logical results from every rank's memory. Collective; only rank 0 needs memory for more than
/// pieces. All ranks have memory for a result before any of it is sent: they `agree` on that, as
/// a rank that has none would not take part in the exchange. Replicas are sent only where a hash of
/// 64 bits finds that they differ. An error: they have not agreed, or this rank cannot go on.
Expected<Gathered> gatherResults(const Program &program, const std::vector<Placement> &placements,
                                 const ReadResult &read, Bootstrap &bootstrap,
                                 const AgreeOnStep &agree);

/// Writes what `poison` writes to a tensor (Inputs.h).
Status poison(BoundMemory &memory, DType type);

/// The logical inputs, in order.
std::vector<Tensor> makeInputs(uint64_t seed, const Program &program);

struct ResultReport {
  std::string name;
  DType dtype = DType::F32;
  Comparison comparison;
};

/// What the reference says to a program's inputs.
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
