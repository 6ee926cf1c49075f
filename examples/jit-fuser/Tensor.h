//===- Tensor.h - recorded tensors ---------------------------------- -*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations are recorded, not run: a tensor is the op that makes it. Fuser.h runs what is needed.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_EXAMPLES_JITFUSER_TENSOR_H
#define TANDEM_EXAMPLES_JITFUSER_TENSOR_H

#include <memory>
#include <tandem/Compiler/Builder.h>

namespace fuser {

using tandem::builder::Location;
using Shape = std::vector<int64_t>;

enum class Op {
  Leaf,
  Map,
  Matmul,
  Sum,
  Max,
  Broadcast,
  Permute,
  Reshape,
  Rotate,
  Attention,
  Reshard
};

/// Where a tensor's elements are: split in one dimension over all ranks, or whole on each.
struct Placement {
  int split = -1;       ///< the dimension, or -1
  bool partial = false; ///< each rank has a partial sum, until somebody needs the sum
};

struct Node;
using Tensor = std::shared_ptr<const Node>;

/// The memory of a computed tensor on one rank.
struct Buffer;

struct Node {
  Op op = Op::Leaf;
  uint64_t id = 0; ///< in the order of recording, which is the same on all ranks
  std::vector<Tensor> operands;
  Shape shape;
  Placement placement;
  std::string name;            ///< of a Map: "add"; of Attention: the kernel to call, "" for the op
  std::vector<double> numbers; ///< of a Map: behind its tensors, the operand that is a number
  bool isNumberFirst = false;  ///< of a Map: before its tensors
  Shape dims;                  ///< reduced, permuted, or those of the result
  bool transposeA = false, transposeB = false, causal = false, isBack = false;
  Location at;                          ///< of the program that recorded it
  mutable std::shared_ptr<Buffer> data; ///< once computed
};

/// Records ops. Throws std::invalid_argument, with the caller's line, if shapes do not fit.
class Recorder {
public:
  explicit Recorder(int64_t ranks) : ranks(ranks) {}
  virtual ~Recorder() = default;

  Tensor map(const char *name, std::vector<Tensor> operands, Location at = Location::here());
  /// With a number as the last, or the first, operand.
  Tensor map(const char *name, Tensor operand, double number, Location at = Location::here());
  Tensor map(const char *name, double number, Tensor operand, Location at = Location::here());
  Tensor matmul(Tensor a, Tensor b, bool transposeA = false, bool transposeB = false,
                Location at = Location::here());
  /// Over `dims`, which stay with extent 1.
  Tensor sum(Tensor x, Shape dims, Location at = Location::here());
  Tensor max(Tensor x, Shape dims, Location at = Location::here());
  /// Dimension i becomes dims[i] of `shape`.
  Tensor broadcast(Tensor x, Shape shape, Shape dims, Location at = Location::here());
  Tensor permute(Tensor x, Shape permutation, Location at = Location::here());
  Tensor reshape(Tensor x, Shape shape, Location at = Location::here());
  /// The halves a, b of the last dimension as -b, a; the other way round as b, -a.
  Tensor rotate(Tensor x, bool isBack = false, Location at = Location::here());
  /// softmax(q k^T / sqrt(depth)) v on [heads, tokens, depth]
  Tensor attention(Tensor q, Tensor k, Tensor v, bool causal, Location at = Location::here());
  /// The same tensor, split in dimension `split` (-1: whole).
  Tensor shard(Tensor x, int split, Location at = Location::here());

  int64_t numRanks() const { return ranks; }
  /// A matrix of constants, made once for each name and shape, whole on every rank.
  virtual Tensor table(const std::string &name, int64_t rows, int64_t columns,
                       double (*element)(int64_t row, int64_t column, int64_t columns)) = 0;

protected:
  Tensor record(Node node);
  std::string attentionKernel; ///< of causal attention; empty: Tandem's own
  uint64_t recorded = 0;
  int64_t ranks;
};

/// A mesh of all ranks, and the axes of a placement on it.
tandem::builder::Mesh meshOf(int64_t ranks);
tandem::builder::Axes axesOf(int split, size_t rank, int64_t ranks);

/// Builds a node's op on these operands.
tandem::builder::Value emit(tandem::builder::Fusion &fusion, const Node &node,
                            const std::vector<tandem::builder::Value> &operands, int64_t ranks);

/// d(loss)/d(x) for each x; `loss` has one element. Gradients have the placement of their tensors.
std::vector<Tensor> gradients(Recorder &recorder, const Tensor &loss,
                              const std::vector<Tensor> &of);

} // namespace fuser

#endif // TANDEM_EXAMPLES_JITFUSER_TENSOR_H
