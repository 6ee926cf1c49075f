//===- Passes.td - passes on the fusion dialect -*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_FUSION_TRANSFORMS_PASSES_TD
#define TANDEM_DIALECT_FUSION_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

// Every pass that changes something reports each change on request: as debug output (`-debug-only=<pass>`, in a build of
// LLVM that has it) and as remarks at the ops.
def LogOption : Option<"log", "log", "bool", /*default=*/"false", "report each change as a remark at the op">;

// The machine and the target that a pass prices its choices for.
defvar PricerOptions = [
  Option<"machine", "machine", "std::string", /*default=*/"",
         "machine file (a name of machines/, or a path) by which to choose; empty: fixed rules">,
  Option<"workers", "workers", "int64_t", /*default=*/"4", "size of the pool of worker streams">,
  Option<"collectives", "collectives", "bool", /*default=*/"true",
         "the target's channels have collectives; else they become messages">,
  Option<"oneSided", "one-sided", "bool", /*default=*/"true", "the target's channels have one-sided messages">
];

def FusionScalarsToTensors : Pass<"fusion-scalars-to-tensors", "::mlir::func::FuncOp"> {
  let summary = "Scalars become tensors without dimensions";
  let description = [{
    All later passes compute on tensors only. Arguments, results, constants and elementwise ops of a scalar element type
    become tensors of rank 0, and `tensor.splat` becomes `fusion.broadcast`. A scalar operand next to tensors (the condition
    of `arith.select`) is repeated. The program's description of such an argument states rank 0.

    Before:
    ```mlir
    func.func @f(%x: tensor<8x4xf32, #rows>, %s: f32) -> tensor<8x4xf32, #rows> {
      %0 = tensor.splat %s : tensor<8x4xf32, #rows>
      %1 = arith.mulf %x, %0 : tensor<8x4xf32, #rows>
    ```
    After:
    ```mlir
    func.func @f(%x: tensor<8x4xf32, #rows>, %s: tensor<f32>) -> tensor<8x4xf32, #rows> {
      %0 = fusion.broadcast %s dims [] : tensor<f32> -> tensor<8x4xf32, #rows>
      %1 = arith.mulf %x, %0 : tensor<8x4xf32, #rows>
    ```
  }];
  let dependentDialects = ["::tandem::fusion::FusionDialect"];
  let options = [LogOption];
  let statistics = [
    Statistic<"numArguments", "arguments", "number of scalar arguments">
  ];
}

def FusionSpecialize : Pass<"fusion-specialize", "::mlir::ModuleOp"> {
  let summary = "Replace `?` mesh sizes and extents by numbers";
  let description = [{
    Mesh sizes come from `mesh`. Extents of arguments come from `shape`, else from `fusion.shape` on the argument. Other
    extents follow forward and backward through all ops, to a fixed point. A `?` that remains is an error at its argument
    or op. So is a shape that contradicts another.

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
    ListOption<"devices", "devices", "int64_t",
               "devices of the meshes with `?` that have as many; empty: 0, 1, ...">,
    ListOption<"shape", "shape", "std::string", "shapes of arguments, by position or `fusion.name`: `arg0=8x64`">,
    Option<"bound", "bound", "int64_t", /*default=*/"0",
           "the largest extent of the `?` of arguments that `shape` does not fill (it may have `?` too); 0: these are errors">,
    Option<"entry", "entry", "std::string", /*default=*/"", "the function whose arguments `shape` names; empty: all">,
    Option<"deterministic", "deterministic", "std::string", /*default=*/"",
           "`bitwise`, `batch` or `tp`: replaces `fusion.deterministic` of all functions; empty: keeps it">,
    LogOption
  ];
  let statistics = [
    Statistic<"numExtents", "extents", "number of `?` extents made numbers">
  ];
}

def FusionEraseDeadOps : Pass<"fusion-erase-dead-ops", "::mlir::func::FuncOp"> {
  let summary = "Erase ops whose results have no use";
  let description = [{
    Erases ops without side effects (all ops of a fusion, `fusion.call` too) whose results are used by no op, or only by
    other such ops. Otherwise their messages would be sent, and their axes would decide the axes of other values.

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

def FusionSplitSums : Pass<"fusion-split-sums", "::mlir::func::FuncOp"> {
  let summary = "Sums over devices whose bits do not depend on the number of devices";
  let description = [{
    In a function with `fusion.deterministic = "tp"`, what devices add up is a sum of 8 slices, however many devices there
    are. Slices are computed in f32 and added in one tree: neighbours, then neighbours of these. A device has the slices of a
    subtree and adds them; devices then exchange the sums of their subtrees, and add the rest.

    Before (on 2 devices; types without axes):
    ```mlir
    %0 = fusion.matmul %x, %w : tensor<8x64xbf16>, tensor<64x8xbf16> -> tensor<8x8xbf16>            // partial = ["x"]
    %1 = fusion.reshard %0 : tensor<8x8xbf16> -> tensor<8x8xbf16>                                  // [didx("x"), -]
    ```
    After:
    ```mlir
    %0 = fusion.matmul %xs, %ws : tensor<8x8x8xbf16>, tensor<8x8x8xbf16> -> tensor<8x8x8xf32>        // [didx("x"), -, -]
    %1 = fusion.reshape %0 : tensor<8x8x8xf32> -> tensor<4x2x8x8xf32>
    %2 = fusion.reduce sum %1 dims [1] : tensor<4x2x8x8xf32> -> tensor<4x8x8xf32>
    ...                                                                                            // 2 terms
    %5 = fusion.reshard %4 : tensor<2x8x8xf32> -> tensor<2x8x8xf32>                                // [-, didx("x"), -]
    %6 = fusion.reduce sum %5 dims [0] : tensor<2x8x8xf32> -> tensor<8x8xf32>
    %7 = arith.truncf %6 : tensor<8x8xf32> to tensor<8x8xbf16>
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
  let options = [LogOption];
  let statistics = [Statistic<"numSplit", "split", "sums that were split">];
}

def FusionNarrowProducts : Pass<"fusion-narrow-products", "::mlir::func::FuncOp"> {
  let summary = "Products of 8-bit factors in bf16, if they are rounded to that or less";
  let description = [{
    This is for devices whose matmuls can scale what they write. A product in f32 becomes bf16 if it is only scaled (by one
    number, by rows or by columns) and clamped before it is rounded to bf16 or to 8 bits. Then the matmul can do what
    follows it (`hostir-fuse-epilogues`), and rounds once. Where it cannot, as after a grouped product, the value is
    rounded twice, and half as many bytes are written. Partial sums stay in f32: a reshard follows them. So do the
    unsharded reference and deterministic functions.

    Before:
    ```mlir
    %0 = fusion.matmul %x, %w : tensor<8x4xf8E4M3FN>, tensor<4x8xf8E4M3FN> -> tensor<8x8xf32>
    %s = fusion.broadcast %scale dims [] : tensor<f32> -> tensor<8x8xf32>
    %1 = arith.mulf %0, %s : tensor<8x8xf32>
    %2 = arith.truncf %1 : tensor<8x8xf32> to tensor<8x8xbf16>
    ```
    After:
    ```mlir
    %0 = fusion.matmul %x, %w : tensor<8x4xf8E4M3FN>, tensor<4x8xf8E4M3FN> -> tensor<8x8xbf16>
    %3 = arith.extf %0 : tensor<8x8xbf16> to tensor<8x8xf32>
    %1 = arith.mulf %3, %s : tensor<8x8xf32>
    %2 = arith.truncf %1 : tensor<8x8xf32> to tensor<8x8xbf16>
    ```
  }];
  let options = [LogOption];
  let statistics = [
    Statistic<"numNarrowed", "narrowed", "number of products that became bf16">
  ];
}

def FusionPropagateAxes : Pass<"fusion-propagate-axes", "::mlir::func::FuncOp"> {
  let summary = "Give every value its axes";
  let description = [{
    An undecided value gets, in this order:

    1. the axes that follow from its decided operands if the op runs locally. A split operand wins over a replicated one
       (a slice costs nothing);
    2. the axes that its consumers need, if they follow from the consumers' results;
    3. if the operands do not fit each other, the axes on which the op can run once one operand is resharded.
       - A mesh axis that splits two dimensions stays on the contraction that all operands have; else on a dimension of
         the result (for a matmul, rhs before lhs: a layer's weight stays, its input is gathered); else on the
         contraction of one operand.
       - Of two splits of one dimension the finer one wins, else that of the larger operand. Of two meshes, that of the
         larger operand wins.
       - A dimension that is cut or concatenated becomes whole. A sum to which a bias is added is reduced.
       - With a `machine`, a mesh axis stays on another of these dimensions if the op and the reshards before it then
         take at least 6 % less time (tokens are sent to their experts, not weights to the tokens);
    4. the axes of the other operand of an elementwise op, if that is split and not partial;
    5. for a contracted dimension: its digits in the other operand;
    6. for the result of an op that cannot take a partial operand: the place of the operands after their reduction. The
       reduction sets a mesh axis free. If a later value (a decided user or sibling, a reshard) has this axis on a
       dimension, the axis splits that dimension and the reduction is a reduce-scatter; else it is an all-reduce;
    7. if nothing determines the axes: replicated on the function's mesh.

    Arguments and results of the function are partial only if the text says so. A partial value is reduced before it is
    returned. It is also reduced before a broadcast repeats it, because fewer bytes move.

    Operands of an elementwise op have one type, so this pass inserts reshards for operands that differ from the result.
    If the result is undecided, two different splits are an error at the op, with notes at the values of the text that
    they come from. A reshape keeps the digits that fit its result: other slices end, and its operand is gathered along
    other mesh axes. A value that this pass has decided takes the stream digits of its users.
    The pass is linear: it decides every value once and visits an op once per decision.

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

    - `gather=before`: operands get the axes that the result needs, and the result's stream digits.
    - `gather=after`: the op runs on its operands as they are. If these do not fit each other, it runs on the axes that
      `fusion-propagate-axes` would choose.
    - `gather=cost`: the side on which op and reshards take less time on a machine; `log` prints both times.

    Some cases do not depend on the option. A contraction of dimensions that are split alike runs first; its partial result
    is resharded, and a bias is added afterwards. An op whose result is smaller than its operand (`reduce`, `slice`) runs
    before a reshard to another mesh, so fewer bytes move; the hint "before" overrides this. A value that must be reduced
    before an op is reduced to where the op's result is.

    With `gather=cost` an all-reduce becomes a reduce-scatter and an all-gather if that takes less: the reduce-scatter can
    overlap the op that produces the partial sums. A reshard that combines several kinds is written as a sequence. Each
    part is marked `part`, and timelines show its row. (A reshard whose schedule takes several kinds at once stays whole.)
    A reshard without a kind is an error.

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
  let summary = "Fold ops on constants and on tensors without elements";
  let description = [{
    An extent of 0 is ordinary: an empty batch, an expert that gets no token. A value that is computed from no elements is
    known, so it becomes a constant and no later pass, channel or device processes it:

    - a result without elements is a constant;
    - a `reduce` over no elements is the identity of its reduction, a `matmul` that contracts no elements is 0 or its bias;
    - a `concat` leaves out operands without elements;
    - an elementwise op, `reshape`, `permute`, `broadcast`, `slice` or `reshard` of constants is a constant.

    Types do not change. Ops without a use are erased.

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

def FusionBoundExtents : Pass<"fusion-bound-extents", "::mlir::func::FuncOp"> {
  let summary = "Make results right for any extent up to the bound";
  let description = [{
    `fusion-specialize` with a `bound` gives the bound to extents that vary from run to run, and marks them
    (`fusion.varying`). A run of N indices reads 0 after index N of its inputs. Its results must be right up to index N.

    This pass marks the varying dimensions of all arguments and results, and of each `fusion.call`, whose kernel sees the
    extent of the run. Where an op combines all indices of such a
    dimension, it gets the neutral element after index N: 0 in a sum or matmul, the lowest value in a maximum, the highest in
    a minimum. A value that is known to be 0 there stays as it is. Attention without `causal` does not see the keys after
    index N. The mask that decides is an argument that the runtime binds (`fusion.mask`). An op that needs an exact
    extent, such as a concatenation along the dimension, is an error.

    The unsharded reference is made after this pass. See docs/families.md.

    Before:
    ```mlir
    func.func @f(%0: tensor<1024x8xf32> {fusion.varying = array<i64: 0>}) -> tensor<8xf32> {
      %1 = math.exp %0 : tensor<1024x8xf32>
      %2 = fusion.reduce sum %1 dims [0] : tensor<1024x8xf32> -> tensor<8xf32>
    ```
    After:
    ```mlir
    func.func @f(%0: tensor<1024x8xf32> {fusion.varying = array<i64: 0>},
                 %mask: tensor<1024xi1> {fusion.mask, fusion.varying = array<i64: 0>}) -> tensor<8xf32> {
      %1 = math.exp %0 : tensor<1024x8xf32>
      %2 = fusion.broadcast %mask dims [0] : tensor<1024xi1> -> tensor<1024x8xi1>
      %3 = arith.select %2, %1, %zero : tensor<1024x8xi1>, tensor<1024x8xf32>
      %4 = fusion.reduce sum %3 dims [0] : tensor<1024x8xf32> -> tensor<8xf32>
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::tandem::fusion::FusionDialect"];
  let options = [LogOption];
  let statistics = [
    Statistic<"numFilled", "filled", "number of operands that are filled">
  ];
}

def FusionPadExtents : Pass<"fusion-pad-extents", "::mlir::func::FuncOp"> {
  let summary = "Pad extents that the devices do not divide";
  let description = [{
    Afterwards all digits divide their extents, so no later pass or schedule knows of other cases. Dimensions that ops
    join (all rows of a chain of layers) get one extent: the least multiple of all their digits, but innermost slices,
    which may be shorter. The embedder's buffers are not padded: `fusion.extents` on an argument or result says which
    part of it they hold, and the program copies that part. On the last devices it is shorter or empty. The padding of
    arguments is 0.

    Where padding would change a result, it is filled with 0: in a sum of values that are not known to be 0 there. An op
    that needs the extent as written gets its operand whole and without padding: a maximum over the dimension, a
    concatenation along it, a reshape that cuts it. See docs/extents.md.

    Before, with "x" = 4:
    ```mlir
    func.func @f(%0: tensor<10x8xf32, #fusion.axes<#tp, [didx("x"), -]>>) -> tensor<10x8xf32, #fusion.axes<#tp, [-, -]>> {
      %1 = fusion.reshard %0 : tensor<10x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<10x8xf32, #fusion.axes<#tp, [-, -]>>
    ```
    After:
    ```mlir
    func.func @f(%0: tensor<12x8xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.extents = array<i64: 10, 8>})
        -> (tensor<12x8xf32, #fusion.axes<#tp, [-, -]>> {fusion.extents = array<i64: 10, 8>}) {
      %1 = fusion.reshard %0 : tensor<12x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<12x8xf32, #fusion.axes<#tp, [-, -]>>
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::tandem::fusion::FusionDialect"];
  let options = [LogOption];
  let statistics = [
    Statistic<"numPadded", "padded", "number of groups of dimensions that were padded">,
    Statistic<"numFilled", "filled", "number of operands that are filled">
  ];
}

def FusionOutlineReference : Pass<"fusion-outline-reference", "::mlir::ModuleOp"> {
  let summary = "Make the unsharded reference of each function";
  let description = [{
    For each public function on tensors with axes, makes a private copy `@name__reference`. In the copy every tensor is whole
    on a mesh of one device, and there are no reshards. No value is partial: reductions and contractions in the copy give
    the complete result.

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
    func.func private @f__reference(%0: tensor<8x4xf32, #fusion.axes<#one, [-, -]>>) -> tensor<8x4xf32, #fusion.axes<#one, [-, -]>>
        attributes {fusion.reference_of = @f} {
      return %0 : ...
    }
    ```
  }];
  let dependentDialects = ["::tandem::fusion::FusionDialect"];
  let options = [LogOption];
  let statistics = [
    Statistic<"numReferences", "references", "number of references made">
  ];
}

def FusionVerify : Pass<"fusion-verify", "::mlir::func::FuncOp"> {
  let summary = "Check the post-condition of a stage of the fusion dialect";
  let description = [{
    An encoding's own verifier checks one type; this pass checks the function.

    - always: the passes know every op on tensors, with elements of f32, f16, bf16, f8E4M3FN,
      f8E5M2, f64, i32, i64, i16, i8 or i1.
      Kernels compute every elementwise op; constants have one value for all elements. An op with partial operands commutes with
      their reduction.
    - `propagated`: every tensor is decided.
    - `resharded`: every op but `fusion.reshard` runs on one mesh and without communication. Every reshard is one row of
      the table.

    The pass changes nothing. For example, with `stage=propagated`
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
