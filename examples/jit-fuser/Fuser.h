//===- Fuser.h - runs recorded tensors through Tandem --------------- -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cuts what is needed into groups, compiles each group once for its structure, shapes and mesh, and
// runs it. All ranks record the same ops, so they cut and run the same groups.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_EXAMPLES_JITFUSER_FUSER_H
#define TANDEM_EXAMPLES_JITFUSER_FUSER_H

#include "Tensor.h"

#include <map>
#include <mutex>
#include <set>
#include <tandem-c/Runtime.h>
#include <utility>

namespace fuser {

/// A group ends before its `ops + 1`-th op, or when the results of its ops have more bytes on a
/// rank: a limit that depends on shapes. It also ends at a tensor that the host reads.
struct Limits {
  size_t ops = 64;
  int64_t bytes = int64_t(256) << 20;
};

/// The programs of a process, by the text of their fusion and the target. Thread-safe: the ranks of
/// a process share it.
class ProgramCache {
public:
  /// `machine`: of the machine file by whose costs schedules are chosen; empty: by fixed rules.
  explicit ProgramCache(std::string target, std::string machine = "")
      : target(std::move(target)), machine(std::move(machine)) {}
  /// Throws std::runtime_error with the compiler's diagnostics.
  const std::string &get(const tandem::builder::Fusion &fusion, const std::string &text);

private:
  std::string target, machine;
  std::mutex mutex;
  std::map<std::string, std::string> programs;
};

struct Statistics {
  size_t groups = 0;    ///< that have run
  size_t instances = 0; ///< programs that this rank has prepared
  size_t ops = 0;       ///< of all groups
};

class Context;

/// One rank.
class Fuser : public Recorder {
public:
  /// `options` as for tandem_context_create. With `ownAttention`, causal attention is the kernel of
  /// Kernels.h, else Tandem's op. Throws std::runtime_error.
  Fuser(const tandem_context_options &options, uint32_t rank, int64_t ranks, ProgramCache &programs,
        Limits limits, bool ownAttention);
  ~Fuser() override;

  /// A tensor with data: `whole` has all elements; this rank keeps its part.
  Tensor input(const std::vector<float> &whole, Shape shape, int split);
  Tensor table(const std::string &name, int64_t rows, int64_t columns,
               double (*element)(int64_t row, int64_t column, int64_t columns)) override;
  /// Enqueues the groups that compute tensors that are not yet, and waits for them. Collective.
  /// Other tensors on the way are not kept: computing them later repeats their ops.
  void evaluate(const std::vector<Tensor> &tensors);
  /// A computed tensor without the ops that made it: gradients end there, and they are freed.
  Tensor detach(const Tensor &x);
  /// All elements, on every rank. Collective.
  std::vector<float> read(const Tensor &x);
  const Statistics &statistics() const { return counts; }

private:
  struct Instance;
  std::vector<Tensor> needed(const std::vector<Tensor> &roots) const;
  /// The position behind the group that starts at `begin`.
  size_t cut(const std::vector<Tensor> &nodes, size_t begin) const;
  void run(const std::vector<Tensor> &group, const std::vector<Tensor> &results);
  Instance &prepare(const tandem::builder::Fusion &fusion);
  int64_t localBytes(const Node &node) const;

  std::shared_ptr<Context> context;
  uint32_t rank;
  ProgramCache &programs;
  Limits limits;
  std::map<std::string, std::unique_ptr<Instance>> instances;
  /// Of runs that have not ended: what to wait for, and the memory they use.
  std::set<tandem_instance *> inFlight;
  std::vector<std::shared_ptr<Buffer>> held;
  std::map<std::string, Tensor> tables;
  Statistics counts;
};

} // namespace fuser

#endif // TANDEM_EXAMPLES_JITFUSER_FUSER_H
