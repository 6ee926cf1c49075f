//===- Builder.h - fusions built in C++ -------------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds the text of a fusion, which tandem_compile compiles: meshes, inputs with axes, ops whose
// result shapes are inferred, outputs. Needs neither LLVM nor MLIR nor a library: all of it is in
// headers, in C++17 with or without exceptions and RTTI, because libtandem_compiler.so exports only
// the C API. Builder/Compile.h calls that API.
//
//   Mesh tp("tp", {{"x", 4}});
//   Fusion f("layer");
//   Value x = f.input("x", DType::F32, {64, 32}, tp.axes({didx("x"), none()}));
//   Value w = f.input("w", DType::F32, {32, 16}, tp.replicated(2));
//   f.output("y", f.map("tanh", {f.matmul(x, w)}), tp.axes({stream("x"), none()}));
//   if (!f.ok())
//     ... f.diagnostics() ...
//
// A mistake gives a Diagnostic with the caller's file and line and the op's operands, and the op an
// invalid Value. Ops that get an invalid value give invalid ones, without a diagnostic of their
// own. Nothing throws (but std::bad_alloc) or asserts. The text contains the callers' lines, so
// that diagnostics of the compiler name them, too. A Fusion is for one thread at a time.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_COMPILER_BUILDER_H
#define TANDEM_COMPILER_BUILDER_H

#include "tandem/Compiler/Builder/Types.h"
#include "tandem/Dialect/Fusion/IR/Shapes.h"

namespace tandem::builder {
inline namespace TANDEM_VERSION_NAMESPACE {

class Fusion;

/// A tensor of a fusion: an index into it, cheap to copy. It is valid as long as the Fusion, which
/// must not move.
class Value {
public:
  Value() = default;
  /// Whether it was made without an error.
  bool valid() const { return node >= 0; }
  friend bool operator==(Value a, Value b) {
    return a.owner == b.owner && a.node == b.node && a.result == b.result;
  }
  friend bool operator!=(Value a, Value b) { return !(a == b); }

private:
  friend class Fusion;
  Value(const Fusion *owner, int node, int result) : owner(owner), node(node), result(result) {}
  const Fusion *owner = nullptr;
  int node = -1, result = 0;
};

/// An operand of an elementwise op: a value, or a number of the other operands' type.
struct Operand {
  Operand(Value value) : value(value) {}
  Operand(double number) : number(number), isNumber(true) {}
  Operand(int number) : Operand(static_cast<double>(number)) {}
  Value value;
  double number = 0;
  bool isNumber = false;
};

struct MatmulOptions {
  bool transposeA = false, transposeB = false;
  std::optional<Value> bias = std::nullopt; ///< [N], of the result's type; added once
  /// F32 keeps the sums of f16 and bf16 factors unrounded. None: the factors' type; f32 if these
  /// have 8 bits.
  std::optional<DType> result = std::nullopt;
};

struct ScaledMatmulOptions {
  bool transposeA = false, transposeB = false;
  std::optional<Value> bias = std::nullopt; ///< f32[N], added to the scaled product
  DType result = DType::BF16;
  /// f32[], multiplied last. For results of 8 bits: 448 / (the largest number to expect).
  std::optional<Value> resultScale = std::nullopt;
};

struct GroupedMatmulOptions {
  bool transposeB = false;
  std::optional<DType> result = std::nullopt; ///< as of MatmulOptions
};

struct AttentionOptions {
  std::optional<double> scale = std::nullopt; ///< none: 1 / sqrt(D)
  bool causal = false;
  int64_t zigzag = 0;   ///< devices of the zigzag order of tokens; 0: usual order
  int64_t keyCount = 0; ///< rows read the first keys only; 0: all
};

struct CallOptions {
  std::string config; ///< text that the kernel gets
  /// The cost for one index of each parallel dimension. No bytes: each element moves once.
  std::optional<double> flops = std::nullopt, bytes = std::nullopt;
  bool strided = false; ///< the kernel takes any strides
  /// What it does with memory that is no operand: "reads", "writes"; "": nothing.
  std::string effects = {};
};

/// A fusion that is being built: one function. Semantics of the ops:
/// docs/reference/FusionDialect.md.
class Fusion {
public:
  explicit Fusion(std::string name) : functionName(std::move(name)) {}
  Fusion(const Fusion &) = delete;
  Fusion &operator=(const Fusion &) = delete;

  /// An argument; its name is unique among arguments. Without axes the compiler decides them.
  Value input(const std::string &name, DType dtype, std::vector<int64_t> shape,
              std::optional<Axes> axes = std::nullopt, Location at = Location::here());
  /// A result; its name is unique among results. With axes, the value gets them here: by a reshard
  /// if it already has others or other uses.
  void output(const std::string &name, Value value, std::optional<Axes> axes = std::nullopt,
              Location at = Location::here());

  /// One number in every element. Needs known extents.
  Value constant(double number, DType dtype, std::vector<int64_t> shape,
                 Location at = Location::here());

  /// An elementwise op of `arith` or `math`: "add", "arith.addf", "math.exp", ... (the list:
  /// Builder/Elementwise.h). Element types are equal. Shapes are broadcast as in NumPy. If an
  /// operand has axes, the others are resharded to them, and the result has them.
  Value map(const std::string &op, const std::vector<Operand> &operands,
            Location at = Location::here());
  Value add(Operand a, Operand b, Location at = Location::here()) { return map("add", {a, b}, at); }
  Value sub(Operand a, Operand b, Location at = Location::here()) { return map("sub", {a, b}, at); }
  Value mul(Operand a, Operand b, Location at = Location::here()) { return map("mul", {a, b}, at); }
  Value div(Operand a, Operand b, Location at = Location::here()) { return map("div", {a, b}, at); }
  /// Truth values (i1) of "eq", "ne", "lt", "le", "gt" or "ge". NaN is only "ne".
  Value compare(const std::string &predicate, Operand a, Operand b, Location at = Location::here());
  /// a where `condition` (i1) is true, else b.
  Value select(Value condition, Operand a, Operand b, Location at = Location::here());
  /// Elements converted: floating point is rounded to nearest even, or towards 0 to an integer.
  Value cast(Value value, DType dtype, Location at = Location::here());

  /// [..., M, K] x [..., K, N], batch dimensions as in NumPy; a vector has no M, or no N.
  Value matmul(Value lhs, Value rhs, const MatmulOptions &options = {},
               Location at = Location::here());
  /// [M, K] x [K, N], scaled and rounded once: cast((lhs @ rhs) * lhsScale * rhsScale (+ bias)
  /// (* resultScale)). Scales are f32: of each row of lhs, [M], and each column of rhs, [N], or one
  /// number each, []. Results of 8 bits are saturated. Elementwise ops after the product do it
  /// (docs/operators.md); like torch's `_scaled_mm`.
  Value scaledMatmul(Value lhs, Value rhs, Value lhsScale, Value rhsScale,
                     const ScaledMatmulOptions &options = {}, Location at = Location::here());
  /// x[..., M, K], w[G, K, N] (transposeB: [G, N, K]) and ends[..., G] of i32 give [..., M, N]:
  /// rows are sorted by group, and each is multiplied by the matrix of its group
  /// (docs/operators.md).
  Value groupedMatmul(Value x, Value w, Value ends, const GroupedMatmulOptions &options = {},
                      Location at = Location::here());
  /// q[..., M, D], k[..., N, D], v[..., N, E] give [..., M, E].
  Value attention(Value query, Value key, Value value, const AttentionOptions &options = {},
                  Location at = Location::here());
  /// Over distinct dimensions, ascending; with keepDims they stay with extent 1.
  Value reduce(Reduction kind, Value value, std::vector<int64_t> dims, bool keepDims = false,
               Location at = Location::here());
  /// Dimension i becomes dimension `dims[i]` of `shape`; extent 1 is repeated.
  Value broadcast(Value value, std::vector<int64_t> shape, std::vector<int64_t> dims,
                  Location at = Location::here());
  /// Dimension i of the result is dimension `permutation[i]`.
  Value permute(Value value, std::vector<int64_t> permutation, Location at = Location::here());
  /// The same elements in row-major order. One extent may be kUnknown: it follows from the others.
  Value reshape(Value value, std::vector<int64_t> shape, Location at = Location::here());
  /// result[i] = value[offset + step * i], `extents` of them. No steps: all 1.
  Value slice(Value value, std::vector<int64_t> offsets, std::vector<int64_t> extents,
              std::vector<int64_t> steps = {}, Location at = Location::here());
  /// One after another along `dim`.
  Value concat(const std::vector<Value> &values, int64_t dim, Location at = Location::here());

  /// A kernel of the embedder, which the runtime knows by the name `callee` (docs/kernels.md).
  /// `dims` says which dimensions it computes index by index, "s_, _ -> s_" for a norm of rows with
  /// a weight. `result` has the type, with axes or without.
  Value call(const std::string &callee, const std::vector<Value> &inputs, Type result,
             const std::string &dims, const CallOptions &options = {},
             Location at = Location::here());
  /// One with several results: "bs_, b__, b__ -> bs_, bs" for attention that also gives the
  /// logarithms of its sums.
  std::vector<Value> call(const std::string &callee, const std::vector<Value> &inputs,
                          const std::vector<Type> &results, const std::string &dims,
                          const CallOptions &options = {}, Location at = Location::here());

  /// The same value with other axes, by a schedule if one is given: the op that communicates.
  Value reshard(Value value, Axes axes, std::optional<Schedule> schedule = std::nullopt,
                Location at = Location::here());
  /// The value with axes, which it must not have yet: its op makes it so, or a reshard after an
  /// elementwise op, whose operands have the axes of the result.
  Value withAxes(Value value, Axes axes, Location at = Location::here());
  /// The schedule of the reshards that the value's op needs; returns it.
  Value withSchedule(Value value, const Schedule &schedule, Location at = Location::here());
  /// Where such a reshard goes: "before" or "after" the op; returns the value.
  Value withGather(Value value, const std::string &side, Location at = Location::here());
  /// A name for diagnostics and timelines; returns the value.
  Value named(Value value, const std::string &name);

  /// Of a valid value; else an empty type.
  const Type &type(Value value) const;
  const std::vector<int64_t> &shape(Value value) const { return type(value).shape; }

  bool ok() const { return found.empty(); }
  const std::vector<Diagnostic> &diagnostics() const { return found; }
  /// The errors, one per line.
  std::string errorText() const;
  /// The text of the fusion; "" unless ok(). Equal fusions built at equal lines have equal texts;
  /// without `locations`, equal fusions.
  std::string text(bool locations = true) const;
  const std::string &name() const { return functionName; }

private:
  /// How the types follow an op.
  enum class Form { Input, Constant, Same, Operand, Select, Cast, Arrow, Function };
  struct Node {
    std::string op;         ///< "matmul", for diagnostics
    std::string before;     ///< "fusion.matmul ", before the operands
    std::string after;      ///< " dims [0]", after them
    std::string attributes; ///< "{...}" without braces
    std::vector<Value> operands;
    std::vector<Type> results;
    Form form = Form::Arrow;
    std::string name;
    Location at;
    bool isUsed = false;
    size_t separator = 0; ///< operands before the word "bias"; 0: none
  };
  /// A kernel that is called: its types have ranks and element types only.
  struct Declaration {
    std::string name, text;
  };
  struct Result {
    std::string name;
    Value value;
    Location at;
  };

  /// What an op gives after an error.
  Value error() const;
  Value error(const char *op, const std::vector<Value> &operands, std::string message, Location at);
  /// Declares a kernel, once for all extents; what is wrong if it is declared otherwise, or empty.
  std::string declare(const std::string &callee, const std::vector<Value> &inputs,
                      const std::vector<Type> &results);
  /// Whether all operands are values of this fusion; reports those that are not.
  bool areUsable(const char *op, const std::vector<Value> &operands, Location at);
  Value add(Node node);
  Value make(const char *op, Form form, std::string before, std::vector<Value> operands,
             std::string after, Type result, Location at);
  bool checkAxes(const char *op, const std::vector<Value> &operands, const Axes &axes, size_t rank,
                 Location at);
  /// The operands of an elementwise op as values of one type; those before `first` are conditions.
  bool unify(const char *op, const std::vector<Operand> &given, size_t first, Type *common,
             std::vector<Value> *operands, Location at);
  Value fit(const char *op, const Operand &operand, const Type &wanted, Location at);
  /// The inferred shape. False, and its error reported, if there is none.
  bool infer(const char *op, const std::vector<Value> &operands, fusion::shapes::Inferred inferred,
             std::vector<int64_t> &shape, Location at);
  bool checkExtents(const char *op, Value value, const std::vector<int64_t> &shape, Location at);
  /// The element type of a product of the first two operands, as wanted or by default.
  bool productType(const char *op, const std::vector<Value> &operands, std::optional<DType> wanted,
                   DType &result, Location at);
  Value annotate(const char *op, Value value, const std::string &attribute, Location at);
  std::string describe(Value value) const;
  std::string operandText(Value value) const;
  std::string typeText(const Type &type) const;
  std::string locationText(const std::string &name, Location at, bool isWanted) const;
  std::string nodeText(size_t index, bool locations) const;
  Node &nodeOf(Value value) { return nodes[static_cast<size_t>(value.node)]; }
  const Node &nodeOf(Value value) const { return nodes[static_cast<size_t>(value.node)]; }

  std::string functionName;
  std::vector<Node> nodes;
  std::vector<Result> results;
  std::vector<Declaration> declarations;
  std::vector<Mesh> meshes;
  std::vector<Diagnostic> found;
};

} // namespace TANDEM_VERSION_NAMESPACE
} // namespace tandem::builder

#include "tandem/Compiler/Builder/Ops.h"

#endif // TANDEM_COMPILER_BUILDER_H
