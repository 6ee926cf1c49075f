//===- Passes.td - passes on the fusion dialect -*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_FUSION_TRANSFORMS_PASSES_TD
#define TANDEM_DIALECT_FUSION_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

// Every pass that changes something says what, on request: as debug output (`-debug-only=<pass>`, in a build of LLVM
// that has it) and as remarks at the ops.
def LogOption : Option<"log", "log", "bool", /*default=*/"false", "say what was done, as remarks at the ops">;

// What a pass prices its choices for.
defvar PricerOptions = [
  Option<"machine", "machine", "std::string", /*default=*/"",
         "machine file (a name of machines/, or a path) by which to choose; empty: fixed rules">,
  Option<"workers", "workers", "int64_t", /*default=*/"4", "size of the pool of worker streams">,
  Option<"collectives", "collectives", "bool", /*default=*/"true",
         "the target's channels have collectives; else they become messages">,
  Option<"oneSided", "one-sided", "bool", /*default=*/"true", "the target's channels have one-sided messages">
];

def FusionSpecialize : Pass<"fusion-specialize", "::mlir::ModuleOp"> {
  let summary = "Make `?` mesh sizes and extents numbers";
  let description = [{
    Mesh sizes come from `mesh` and are put in everywhere. Extents come from `shape`, else from `fusion.shape` on the
    argument, and go forward and backward through all ops, to a fixed point. What is `?` afterwards is an error at the
    place that names it, as are a size that does not divide an extent and a shape that contradicts one.

    Before, with `mesh=x=4 shape=arg0=8x64`:
    ```mlir
    #tp = #tandem.mesh<"tp", ["x" = ?]>
    func.func @f(%0: tensor<?x64xf32, #fusion.axes<#tp, [didx("x"), -]>>) -> tensor<?x64xf32, #fusion.axes<#tp, [stream, -]>> {
      %1 = fusion.reshard %0 : tensor<?x64xf32, ...> -> tensor<?x64xf32, ...>
    ```
    After:
    ```mlir
    #tp = #tandem.mesh<"tp", ["x" = 4]>
    func.func @f(%0: tensor<8x64xf32, #fusion.axes<#tp, [didx("x"), -]>>) -> tensor<8x64xf32, #fusion.axes<#tp, [stream, -]>> {
      %1 = fusion.reshard %0 : tensor<8x64xf32, ...> -> tensor<8x64xf32, ...>
    ```
  }];
  let dependentDialects = ["::tandem::fusion::FusionDialect"];
  let options = [
    ListOption<"mesh", "mesh", "std::string", "sizes of mesh axes: `axis=size` or `mesh.axis=size`">,
    ListOption<"shape", "shape", "std::string", "shapes of arguments, by position or `fusion.name`: `arg0=8x64`">,
    Option<"entry", "entry", "std::string", /*default=*/"", "the function whose arguments `shape` names; empty: all">,
    LogOption
  ];
  let statistics = [
    Statistic<"numExtents", "extents", "number of `?` extents made numbers">
  ];
}

def FusionEraseDeadOps : Pass<"fusion-erase-dead-ops", "::mlir::func::FuncOp"> {
  let summary = "Erase what nothing is computed from";
  let description = [{
    Ops without side effects (all that a fusion holds, `fusion.call` too) whose results nobody uses, directly or through
    other such ops. Their messages would be sent, and their axes would decide those of other values.

    Before:
    ```mlir
    %1 = fusion.reshard %0 : tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<8x4xf32, #fusion.axes<#tp, [-, -]>>
    %2 = math.exp %1 : tensor<8x4xf32, #fusion.axes<#tp, [-, -]>>
    return %0 : tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>>
    ```
    After:
    ```mlir
    return %0 : tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>>
    ```
  }];
  let options = [LogOption];
  let statistics = [
    Statistic<"numErased", "erased", "number of ops erased">
  ];
}

def FusionPropagateAxes : Pass<"fusion-propagate-axes", "::mlir::func::FuncOp"> {
  let summary = "Give every value its axes";
  let description = [{
    An undecided value gets, in this order:

    1. the axes that its decided operands lead to if the op runs locally. A split operand wins over a replicated one (a
       slice costs nothing);
    2. those that its consumers ask for, as far as their results say it;
    3. where operands do not fit each other, what the op can run on when one of them is resharded. A mesh axis on two
       dimensions stays on the contraction that all operands have, else on a dimension of the result (of a matmul's rhs
       before lhs: the weight of a layer stays, its input is gathered), else on the contraction of one operand. Of two
       splits of one dimension the finer one wins, else the larger operand's; of two meshes the larger operand's. A
       dimension that is cut or concatenated is whole, and a sum that a bias is added to is reduced. With a `machine`,
       a mesh axis stays on another of the dimensions if the op and the reshards before it take at least 6 % less then
       (tokens are sent to their experts, not weights to the tokens);
    4. the axes of the other operand of an elementwise op, if that is split and not partial;
    5. a contracted dimension: the digits that it has in the other operand;
    6. the result of an op that needs a partial operand whole: where the operands are once they are reduced. A mesh axis
       that the reduction sets free splits the dimension on which what is computed from the result has it (a decided
       user or sibling, a reshard), so that the reduction is a reduce-scatter; else it is an all-reduce;
    7. what nothing determines is replicated on the function's mesh.

    Arguments and results of the function are partial only where the text says so: an argument is never decided so, and
    what is returned is reduced before. A broadcast that repeats its operand needs it whole, too: it is less then.

    Operands of an elementwise op have one type, so the pass itself inserts a reshard where they differ from what its
    result is; if that is open, two different splits are an error at the op, with notes at both sources, back to the
    values of the text that they come from. A reshape keeps the digits that fit its result: other slices end, and its
    operand is gathered along other mesh axes. Values that the pass has decided take the stream digits of what is
    computed from them.
    Every value is decided once and an op visited once per decision: linear.

    Before:
    ```mlir
    %1 = fusion.matmul %0, %w : tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>>, tensor<4x2xf32, #fusion.axes<#tp, [-, -]>>
        -> tensor<8x2xf32>
    ```
    After:
    ```mlir
    %1 = fusion.matmul %0, %w : tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>>, tensor<4x2xf32, #fusion.axes<#tp, [-, -]>>
        -> tensor<8x2xf32, #fusion.axes<#tp, [didx("x"), -]>>
    ```
  }];
  let dependentDialects = ["::tandem::fusion::FusionDialect"];
  let options = [LogOption] # PricerOptions;
  let statistics = [
    Statistic<"numForward", "forward", "number of values decided by their operands">,
    Statistic<"numBackward", "backward", "number of values decided by their consumers">,
    Statistic<"numReplicated", "replicated", "number of values that nothing determined">
  ];
}

def FusionInsertReshards : Pass<"fusion-insert-reshards", "::mlir::func::FuncOp"> {
  let summary = "Make every op local, or one reshard";
  let description = [{
    If an op's operands do not fit its result, this pass inserts reshards on one side of the op:

    - `gather=before`: operands are brought to the axes that the result needs; they get the result's stream digits too.
    - `gather=after`: the op runs on its operands as they are, or, if they do not fit each other, on the axes that
      `fusion-propagate-axes` would choose.
    - `gather=cost`: the side on which op and reshards take less time on a machine; `log` prints both times.

    Some cases do not depend on the option. A contraction of dimensions that are split alike runs first; its partial result
    is resharded, and a bias is added afterwards. A `reduce` or `slice` onto another mesh runs first unless a hint says
    "before", so fewer bytes move. A value that must be reduced before an op is reduced to where the op's result is.

    With `gather=cost` an all-reduce becomes a reduce-scatter and an all-gather if that takes less: the reduce-scatter can
    overlap the op that produces the partial sums. A reshard that combines several kinds is written as a sequence, and each
    part states its `row`. (A reshard whose schedule takes several kinds at once stays whole.) A reshard without a kind is an error.

    Two attributes of an op are hints for its reshards; the pass erases them. `fusion.gather`, "before" or "after",
    overrides the option. `fusion.schedule` is the schedule of the op's reshards that communicate, also of the reduction of
    its partial result, wherever that reduction is. A hint without effect is a warning at the op (not on a mesh of one
    device).

    Before:
    ```mlir
    %2 = fusion.matmul %0, %1 : tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>>, tensor<4x2xf32, #fusion.axes<#tp, [-, -]>>
        -> tensor<8x2xf32, #fusion.axes<#tp, [stream, -]>>
    ```
    After:
    ```mlir
    %2 = fusion.reshard %0 : tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<8x4xf32, #fusion.axes<#tp, [stream, -]>>
    %3 = fusion.matmul %2, %1 : tensor<8x4xf32, #fusion.axes<#tp, [stream, -]>>, tensor<4x2xf32, #fusion.axes<#tp, [-, -]>>
        -> tensor<8x2xf32, #fusion.axes<#tp, [stream, -]>>
    ```
  }];
  let dependentDialects = ["::tandem::fusion::FusionDialect"];
  let options = [
    Option<"gather", "gather", "::tandem::fusion::GatherMode",
           /*default=*/"::tandem::fusion::GatherMode::Before", "where a reshard goes that could stand on either side",
           [{::llvm::cl::values(
             clEnumValN(::tandem::fusion::GatherMode::Before, "before", "operands are resharded"),
             clEnumValN(::tandem::fusion::GatherMode::After, "after", "the result is resharded"),
             clEnumValN(::tandem::fusion::GatherMode::Cost, "cost", "what takes less on `machine`"))}]>,
    LogOption
  ] # PricerOptions;
  let statistics = [
    Statistic<"numBefore", "before", "number of reshards inserted before an op">,
    Statistic<"numAfter", "after", "number of reshards inserted behind an op">,
    Statistic<"numWrittenOut", "written-out", "number of reshards written out as a sequence">,
    Statistic<"numSplit", "split", "number of all-reduces split by price">
  ];
}

def FusionFoldConstants : Pass<"fusion-fold-constants", "::mlir::func::FuncOp"> {
  let summary = "Values that are known become constants: those of constants, and of tensors without elements";
  let description = [{
    An extent of 0 is ordinary: an empty batch, an expert that gets no token. What is computed from no elements is known,
    so no later pass, channel or device sees it:

    - a result without elements is a constant;
    - a `reduce` over no elements is the identity of its reduction, a `matmul` that contracts no elements is 0 or its bias;
    - a `concat` leaves out operands without elements;
    - what elementwise ops, `reshape`, `permute`, `broadcast`, `slice` and `reshard` make of constants is a constant.

    Types stay as they are. Ops from which nothing is computed any more are erased.

    Before:
    ```mlir
    %1 = fusion.reshard %0 : tensor<8x0xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<8x0xf32, #fusion.axes<#tp, [-, -]>>
    %2 = fusion.reduce sum %1 dims [1] : tensor<8x0xf32, #fusion.axes<#tp, [-, -]>> -> tensor<8xf32, #fusion.axes<#tp, [-]>>
    ```
    After:
    ```mlir
    %2 = arith.constant dense<0.0> : tensor<8xf32, #fusion.axes<#tp, [-]>>
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::tandem::fusion::FusionDialect"];
  let options = [LogOption];
  let statistics = [
    Statistic<"numFolded", "folded", "number of ops folded">
  ];
}

def FusionOutlineOracle : Pass<"fusion-outline-oracle", "::mlir::ModuleOp"> {
  let summary = "Write down what a function computes without parallel axes";
  let description = [{
    For each public function on tensors with axes a private twin `@name__oracle`, in which every tensor is whole on a
    mesh of one device and reshards are gone. Values that were partial are whole too: a reduction or contraction in the
    twin gives all of it.

    Before:
    ```mlir
    func.func @f(%0: tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>>) -> tensor<8x4xf32, #fusion.axes<#tp, [stream, -]>> {
      %1 = fusion.reshard %0 : ...
      return %1 : ...
    }
    ```
    After, in addition:
    ```mlir
    #one = #tandem.mesh<"one", []>
    func.func private @f__oracle(%0: tensor<8x4xf32, #fusion.axes<#one, [-, -]>>) -> tensor<8x4xf32, #fusion.axes<#one, [-, -]>>
        attributes {fusion.oracle_of = @f} {
      return %0 : ...
    }
    ```
  }];
  let dependentDialects = ["::tandem::fusion::FusionDialect"];
  let options = [LogOption];
  let statistics = [
    Statistic<"numOracles", "oracles", "number of twins made">
  ];
}

def FusionVerify : Pass<"fusion-verify", "::mlir::func::FuncOp"> {
  let summary = "Check what a stage of the fusion dialect promises";
  let description = [{
    An encoding's own verifier sees one type; this sees the function.

    - always: every op on tensors is one that the passes know, on elements of f32, f16, bf16, f64, i32, i64, i8
      or i1, an elementwise one also one that kernels compute (constants have one value for all elements), and makes of no partial value what its terms do not add up to.
    - `propagated`: every tensor is decided.
    - `resharded`: every op but `fusion.reshard` runs on one mesh and without communication, and every reshard is one row
      of the table, the one that its `row` names.

    Before and after are the same IR. For example, with `stage=propagated`
    ```mlir
    %1 = fusion.permute %0 [1, 0] : tensor<8x4xf32, #fusion.axes<#tp, [-, -]>> -> tensor<4x8xf32>
    ```
    is an error: `expected decided operands and results, found undecided result 0`.
  }];
  let options = [
    Option<"stage", "stage", "::tandem::fusion::VerifyStage",
           /*default=*/"::tandem::fusion::VerifyStage::Resharded", "what has run before",
           [{::llvm::cl::values(
             clEnumValN(::tandem::fusion::VerifyStage::Input, "input", "nothing"),
             clEnumValN(::tandem::fusion::VerifyStage::Propagated, "propagated", "fusion-propagate-axes"),
             clEnumValN(::tandem::fusion::VerifyStage::Resharded, "resharded", "fusion-insert-reshards"))}]>
  ];
}

#endif // TANDEM_DIALECT_FUSION_TRANSFORMS_PASSES_TD
