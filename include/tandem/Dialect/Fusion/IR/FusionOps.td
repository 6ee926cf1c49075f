//===- FusionOps.td - fusion operations -*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_FUSION_IR_FUSIONOPS_TD
#define TANDEM_DIALECT_FUSION_IR_FUSIONOPS_TD

include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "tandem/Dialect/Fusion/IR/FusionAttrs.td"
include "tandem/Dialect/Fusion/IR/FusionInterfaces.td"

// A discardable attribute of an op belongs to a dialect; any other name is an error.
def Fusion_KnownAttributes : NativeOpTrait<"KnownAttributes"> {
  let cppNamespace = "::tandem::fusion";
}

// Every element of the result is an element of the one operand.
def Fusion_SelectsElements : NativeOpTrait<"SelectsElements"> {
  let cppNamespace = "::tandem::fusion";
}

class Fusion_Op<string mnemonic, list<Trait> traits = [], list<Trait> effects = [Pure]>
    : Op<Fusion_Dialect, mnemonic, !listconcat(traits, effects, [Fusion_KnownAttributes])> {
  let hasVerifier = 1;
}

// An op that runs without communication. Its verifier checks shapes and types; its *placement constraints* bind only
// after `fusion-insert-reshards` (before, axes that do not fit are how a program asks for a reshard) and are checked by
// `fusion-verify`.
class Fusion_LocalOp<string mnemonic, list<Trait> traits = [], list<Trait> effects = [Pure]>
    : Fusion_Op<mnemonic, !listconcat(traits, [DeclareOpInterfaceMethods<Fusion_TensorOpInterface>]), effects>;

def Fusion_Tensor : RankedTensorOf<[F32, F16, BF16, F8E4M3FN, F8E5M2, F64, I32, I64, I16, I8, I1]>;

def Fusion_ReshardOp : Fusion_Op<"reshard", [Fusion_SelectsElements]> {
  let summary = "The same value with other axes; the only op that communicates";
  let description = [{
    The two axes attributes alone decide what is communicated: an all-gather, an all-reduce, and so on. The annotation
    `schedule` names the schedule of the reshard's stream loop; `fusion-form-loops` moves it to the loop.
    `fusion-insert-reshards` writes a reshard of several rows of the table (`docs/fusion.md`, "Kinds of reshard") as one
    reshard per row. Each is marked `part`: it is neither merged with others nor shared.

    Constraints:
    - reshard_c1: operand and result have the same shape and element type.
    - reshard_c2: the result has axes.
    - reshard_c3: the result is partial only where the operand is, over the same mesh axes and by the same reduction.

    Placement constraints:
    - reshard_c4: it is at most one row of the table, unless its schedule takes several at once.

    Example:
    ```mlir
    %1 = fusion.reshard %0 {schedule = #fusion.schedule<NAME>}
        : tensor<8x64xf32, #fusion.axes<#tp, [didx("x"), -]>>
       -> tensor<8x64xf32, #fusion.axes<#tp, [stream, -]>>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$input, OptionalAttr<Fusion_ScheduleAttr>:$schedule,
                       UnitAttr:$part);
  let results = (outs Fusion_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Fusion_MatmulOp : Fusion_LocalOp<"matmul"> {
  let summary = "Matrix product of the last two dimensions, as in NumPy";
  let description = [{
    result[..., M, N] = op(lhs)[..., M, K] * op(rhs)[..., K, N] (+ bias[N]), accumulated in f32. `transpose_a` reads lhs as
    [..., K, M], `transpose_b` reads rhs as [..., N, K]. The bias is added once, after any reduction over devices.
    An operand of rank 1 is a vector [K], as in NumPy. The result of a left vector has no M, that of a right vector has
    no N.

    Constraints:
    - matmul_c1: operands have rank 1 or more; their element types are equal and floating point, and that of the result
      is the same. f16 and bf16 factors may also have an f32 result, which is not rounded: partial sums (of a weight
      gradient) travel in f32.
      Factors of f8E4M3FN and f8E5M2 may differ; their result is f32, f16 or bf16 (docs/operators.md).
    - matmul_c2: the contracted extents are equal.
    - matmul_c3: batch extents are equal or 1, and the result has the broadcast batch extents, then M, then N.
    - matmul_c4: bias has rank 1, extent N and the result's element type. There is none if rhs is a vector.
    - matmul_c7: a vector is not transposed.

    Placement constraints:
    - matmul_c5: no operand is partial, with one exception. A partial sum may be multiplied by an operand that is
      replicated over the same mesh axes; the product is then partial. The bias is never partial. With a bias, the result
      is not partial either.
    - matmul_c6: operands and result are over one mesh. The device digits of a dimension are the same in the result and
      in the operands. Contracting device digits makes the result partial over their mesh axes.

    Example:
    ```mlir
    %y = fusion.matmul %x, %w : tensor<64x32xf32, #a>, tensor<32x16xf32, #b> -> tensor<64x16xf32, #c>
    %z = fusion.matmul %x, %w bias %b {transpose_b} : ..., tensor<16xf32> -> ...
    %s = fusion.matmul %x, %v : tensor<64x32xf32, #a>, tensor<32xf32, #d> -> tensor<64xf32, #e>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$lhs, Fusion_Tensor:$rhs, Optional<Fusion_Tensor>:$bias,
                       UnitAttr:$transpose_a, UnitAttr:$transpose_b);
  let results = (outs Fusion_Tensor:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs (`bias` $bias^)? attr-dict `:` type($lhs) `,` type($rhs) (`,` type($bias)^)? `->` type($result)
  }];
  let extraClassDeclaration = [{
    /// Whether an operand has rank 1: no M in lhs, or no N in rhs.
    bool isLhsVector() { return getLhs().getType().getRank() == 1; }
    bool isRhsVector() { return getRhs().getType().getRank() == 1; }
    /// Dimension number of K in lhs and in rhs.
    int64_t lhsK(); int64_t rhsK();
  }];
}

def Fusion_GroupedMatmulOp : Fusion_LocalOp<"grouped_matmul"> {
  let summary = "Matrix products of groups of rows, one matrix per group";
  let description = [{
    Rows are sorted by group (an expert of a mixture), and `ends` says where each group ends:
    result[b, m, :] = x[b, m, :] * w[g], where g is the first group with m < ends[b, g]. Rows from the last end on are 0.
    Equivalent to `torch._grouped_mm(x, w, offs=ends)` with batch dimensions b. `transpose_b` reads w as [G, N, K].
    Products are accumulated in f32. Group sizes are known at run time only and may be 0
    ([groups](../operators.md#groups-of-different-sizes)).

    | operand | shape |
    |---|---|
    | x | [b..., M, K] |
    | w | [G, K, N] |
    | ends | [b..., G], i32, ascending, at most M |
    | result | [b..., M, N] |

    Other numbers in `ends` are clamped to the previous end and to M, so no memory outside of the operands is accessed.

    Constraints:
    - grouped_matmul_c1: x has rank 2 or more, w rank 3, ends one dimension less than x.
    - grouped_matmul_c2: elements of x and w are equal and f32, f16 or bf16; the result's are those or f32. Factors of
      f8E4M3FN and f8E5M2 may differ; their result is f32, f16 or bf16 (docs/operators.md). `ends` is i32.
    - grouped_matmul_c3: the contracted extents are equal.
    - grouped_matmul_c4: ends has the batch extents of x, then G. The result has them, then M, then N.

    Placement constraints:
    - grouped_matmul_c5: nothing is partial, with one exception. A contracted dimension K with device digits makes the
      result partial over their mesh axes.
    - grouped_matmul_c6: M and G have no device digits: each device has all groups of its batch indices. A batch dimension
      and N have the same device digits in the result and in the operands. M has no stream digits in the result; those of
      M and G in operands have no effect.

    Example:
    ```mlir
    %y = fusion.grouped_matmul %x, %w, %ends
        : tensor<4x64x32xbf16, #slices>, tensor<8x32x16xbf16, #columns>, tensor<4x8xi32, #slices_of_ends>
       -> tensor<4x64x16xbf16, #result>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$x, Fusion_Tensor:$w, Fusion_Tensor:$ends, UnitAttr:$transpose_b);
  let results = (outs Fusion_Tensor:$result);
  let assemblyFormat = [{
    $x `,` $w `,` $ends attr-dict `:` type($x) `,` type($w) `,` type($ends) `->` type($result)
  }];
}

def Fusion_AttentionOp : Fusion_LocalOp<"attention"> {
  let summary = "softmax(scale * q * k^T) * v";
  let description = [{
    q[..., M, D], k[..., N, D], v[..., N, E] give result[..., M, E]: row i is the mean of the rows of v, weighted by
    exp(scale * q[i] . k[j]). Without `scale` it is 1 / sqrt(D). Scores and sums are computed in f32.
    Without keys (N is 0) the result is 0.

    Slices of N (keys and values that arrive one after another, as in ring attention) are folded into a running maximum,
    a running sum and an unscaled result, which the last slice divides by the sum.

    `causal`: row i reads rows j of v only up to its own token. Slices of keys that a device's rows do not read cost
    nothing. In the usual order of tokens the last device then has most to do. With `zigzag` = Z the tokens are cut into
    2Z chunks, and dimensions M and N hold the chunks in the order 0, 2Z-1, 1, 2Z-2, ...: a device of Z has one from each
    end, so that all have equal work. The program's inputs are in this order, and its result too.

    `key_count`: rows read the first `key_count` keys. The others are padding (`fusion-pad-extents`).

    Constraints:
    - attention_c1: q, k and v have equal ranks of 2 or more and equal batch extents, D and N fit, D is not 0. The result
      is [..., M, E].
    - attention_c2: element types are equal and f32, f16 or bf16.
    - attention_c3: `scale` is finite and greater than 0.
    - attention_c4: with `causal`, M equals N. `zigzag` is greater than 0, needs `causal`, and 2 `zigzag` divides M. `key_count`
      is 1 to N, and not with `causal`.

    Placement constraints:
    - attention_c5: nothing is partial. D and N have no device digits; N may have stream digits. Other dimensions keep
      their device digits.

    Example:
    ```mlir
    %y = fusion.attention %q, %k, %v {causal, zigzag = 8 : i64}
        : tensor<32x8192x128xbf16, #rows>, tensor<32x8192x128xbf16, #slices>, tensor<32x8192x128xbf16, #slices>
       -> tensor<32x8192x128xbf16, #rows>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$query, Fusion_Tensor:$key, Fusion_Tensor:$value,
                       OptionalAttr<F64Attr>:$scale, UnitAttr:$causal, OptionalAttr<I64Attr>:$zigzag,
                       OptionalAttr<I64Attr>:$key_count);
  let results = (outs Fusion_Tensor:$result);
  let assemblyFormat = [{
    $query `,` $key `,` $value attr-dict `:` type($query) `,` type($key) `,` type($value) `->` type($result)
  }];
}

def Fusion_ReduceOp : Fusion_LocalOp<"reduce"> {
  let summary = "Sum, maximum or minimum over dimensions";
  let description = [{
    Sums of f16 and bf16 are accumulated in f32 and rounded once. The reduction of a `didx` dimension is `partial`.
    With `keep_dims` the reduced dimensions stay, with extent 1 (like `keepdims` of NumPy).

    Constraints:
    - reduce_c1: dims are distinct, ascending, in range.
    - reduce_c2: the result has the remaining dimensions in order, or with `keep_dims` all dimensions, and the same
      element type. A sum is not of i1, and no reduction is of i16.

    Placement constraints:
    - reduce_c3: the operand is partial only if both reductions are the same.
    - reduce_c4: the device digits of the remaining dimensions are equal. The result is partial over exactly the mesh
      axes of the reduced dimensions' device digits, and those over which the operand is.

    Example:
    ```mlir
    %1 = fusion.reduce sum %0 dims [1] : tensor<4x8x16xf32, #a> -> tensor<4x16xf32, #b>
    %2 = fusion.reduce max %0 dims [2] {keep_dims} : tensor<4x8x16xf32, #a> -> tensor<4x8x1xf32, #c>
    ```
  }];
  let arguments = (ins Mesh_ReduceKindAttr:$kind, Fusion_Tensor:$input, DenseI64ArrayAttr:$dims,
                       UnitAttr:$keep_dims);
  let results = (outs Fusion_Tensor:$result);
  let assemblyFormat = "custom<Kind>($kind) $input `dims` $dims attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
}

def Fusion_BroadcastOp : Fusion_LocalOp<"broadcast", [Fusion_SelectsElements]> {
  let summary = "New dimensions, and repetition of dimensions of extent 1";
  let description = [{
    Operand dimension i becomes result dimension `dims[i]`. Result dimensions that `dims` does not name are new. A `?` in
    the result takes the extent of its operand dimension. If that extent is written as 1, another op may determine the
    `?` (for example an addition to a larger tensor); otherwise it is 1.

    Constraints:
    - broadcast_c1: dims has one entry per operand dimension, strictly ascending, in the result's range.
    - broadcast_c2: an operand extent equals the extent of its result dimension, or is 1.
    - broadcast_c3: operand and result have the same element type.

    Placement constraints:
    - broadcast_c4: a dimension that is not repeated keeps its device digits, and both are partial alike.

    Example:
    ```mlir
    %1 = fusion.broadcast %0 dims [1, 3] : tensor<8x16xf32, #a> -> tensor<1x8x1x16xf32, #b>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$input, DenseI64ArrayAttr:$dims);
  let results = (outs Fusion_Tensor:$result);
  let assemblyFormat = "$input `dims` $dims attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
}

def Fusion_PermuteOp : Fusion_LocalOp<"permute", [Fusion_SelectsElements]> {
  let summary = "Dimensions in another order";
  let description = [{
    Result dimension i is operand dimension `permutation[i]`.

    Constraints:
    - permute_c1: `permutation` has each of 0 ... rank-1 once.
    - permute_c2: result extents are the permuted operand extents; element types are equal.

    Placement constraints:
    - permute_c3: the result's device digits are the permuted operand's, and both are partial alike.

    Example:
    ```mlir
    %1 = fusion.permute %0 [1, 0] : tensor<8x16xf32, #a> -> tensor<16x8xf32, #b>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$input, DenseI64ArrayAttr:$permutation);
  let results = (outs Fusion_Tensor:$result);
  let assemblyFormat = "$input $permutation attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Fusion_ReshapeOp : Fusion_LocalOp<"reshape", [Fusion_SelectsElements]> {
  let summary = "Dimensions split and merged; row-major order of the elements is kept";
  let description = [{
    Constraints:
    - reshape_c1: operand and result have the same number of elements and element type.
    - reshape_c2: dimensions split or merge in groups whose extents multiply to the same number (dynamic extents: at most
      one per group, and alone in one of the two sides).

    Placement constraints:
    - reshape_c3: no element changes its device, and both are partial alike.

    Example:
    ```mlir
    %1 = fusion.reshape %0 : tensor<8x16xf32, #a> -> tensor<128xf32, #b>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$input);
  let results = (outs Fusion_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def Fusion_SliceOp : Fusion_LocalOp<"slice", [Fusion_SelectsElements]> {
  let summary = "A box of a tensor, with steps";
  let description = [{
    result[i, ...] = input[offset + step * i, ...] in each dimension. Example: offset 1 and step 2 select 1, 3, 5, ...

    Constraints:
    - slice_c1: offsets and steps have one entry per dimension; offsets are not negative, steps are positive.
    - slice_c2: every selected element lies inside the operand (where extents are known).
    - slice_c3: operand and result have the same rank and element type.

    Placement constraints:
    - slice_c4: a dimension that is cut has no device digit. The other dimensions keep theirs. Operand and result are
      partial alike.

    Example:
    ```mlir
    %1 = fusion.slice %0 offsets [0, 8] steps [1, 1] : tensor<8x16xf32, #a> -> tensor<8x4xf32, #b>
    ```
  }];
  let arguments = (ins Fusion_Tensor:$input, DenseI64ArrayAttr:$offsets, DenseI64ArrayAttr:$steps);
  let results = (outs Fusion_Tensor:$result);
  let assemblyFormat = "$input `offsets` $offsets `steps` $steps attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
}

def Fusion_ConcatOp : Fusion_LocalOp<"concat"> {
  let summary = "Tensors one after another along a dimension";
  let description = [{
    Equivalent to `torch.cat`.

    Constraints:
    - concat_c1: at least one operand; dim is in range.
    - concat_c2: all have the same rank and element type. Along `dim` the result has the sum of the extents; the other
      extents are equal.

    Placement constraints:
    - concat_c3: dimension `dim` has no device digit. The other dimensions have the same device digits in all operands and
      in the result. All are partial alike.

    Example:
    ```mlir
    %2 = fusion.concat %0, %1 dim 0 : (tensor<8x16xf32, #a>, tensor<4x16xf32, #a>) -> tensor<12x16xf32, #a>
    ```
  }];
  let arguments = (ins Variadic<Fusion_Tensor>:$inputs, I64Attr:$dim);
  let results = (outs Fusion_Tensor:$result);
  let assemblyFormat = "$inputs `dim` $dim attr-dict `:` functional-type($inputs, $result)";
  let hasFolder = 1;
}

def Fusion_CallOp : Fusion_LocalOp<"call", [DeclareOpInterfaceMethods<SymbolUserOpInterface>],
                                   [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "A local kernel that the embedder supplies";
  let description = [{
    Each device calls the kernel on its own pieces; in a stream loop, slice by slice. `dims` has one character for each
    dimension of each operand and of each result. A letter is a *parallel* dimension: the kernel computes its indices
    independently, in the same way. Dimensions with the same letter are the same dimension. `_` is needed whole. Only
    parallel dimensions may be split over devices or streams.

    | kernel | dims |
    |---|---|
    | softmax, norm over the columns, with a weight | `"s_, _ -> s_"` |
    | attention per batch and head | `"bh__, bh__, bh__ -> bh__"` |
    | dropout, with a seed | `"sc, -> sc"` |
    | rows of a table | `"_c, s -> sc"` |
    | attention and the logarithm of its sums | `"bs_, b__, b__ -> bs_, bs"` |

    The kernel is a function of its operands, of `config` (text that it gets as it is), and of the places of its slice in
    the parallel dimensions. It is registered with the runtime under the callee's name ([kernels.md](../kernels.md)). It
    gets dense buffers; with `strided`, views with any strides, without copies.

    `effects` says what the kernel does with memory that is no operand:

    | effects | the kernel | example |
    |---|---|---|
    | none | does nothing with it. Equal calls may become one; a call without a used result is erased | norm, attention |
    | `"reads"` | reads memory that only `"writes"` calls change. Equal calls may become one if none of those is between them | dropout by the seed of a generator |
    | `"writes"` | reads and writes it. Each device computes its part by one call, also if no result is used. These calls run in the order of the text, never in slices | a generator that goes on, statistics, a cache |

    `flops` and `bytes` are its cost for one index of each parallel dimension, for schedules and the simulator. Without
    `bytes`, each element of operands and results moves once.

    Constraints:
    - call_c1: `callee` names a `func.func` declaration whose type has the same shapes and element types.
    - call_c2: there is a result. `dims` has a part for each operand and, after `->`, one for each result, with one
      character for each dimension: a lower-case letter or `_`.
    - call_c3: dimensions with the same letter have equal extents. A tensor has a letter once. All results have the same
      letters in the same order, and operands have no others.
    - call_c4: `flops` and `bytes` are not negative.
    - call_c6: `effects` is "reads" or "writes".
    - call_c7: the callee's name does not begin with `tandem.`: these are the runtime's own kernels.

    Placement constraints:
    - call_c5: no operand or result is partial. Only parallel dimensions have device digits, those with the same letter
      the same ones. Of the results, only parallel dimensions have stream digits; those of other dimensions of operands
      have no effect. With `effects = "writes"`, results have no stream digits, and
      no digit is kept outside of a device digit: a device has one range of indices.

    Example:
    ```mlir
    %1 = fusion.call @rms_norm(%0, %w) dims "s_, _ -> s_" {config = "eps=1e-5"}
        : (tensor<8x16xf32, #a>, tensor<16xf32, #b>) -> tensor<8x16xf32, #a>
    %2:2 = fusion.call @dropout(%1) dims "sc -> sc, sc" {effects = "writes"}
        : (tensor<8x16xf32, #a>) -> (tensor<8x16xf32, #a>, tensor<8x16xi8, #a>)
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<Fusion_Tensor>:$inputs, StrAttr:$dims,
                       OptionalAttr<StrAttr>:$config, OptionalAttr<F64Attr>:$flops, OptionalAttr<F64Attr>:$bytes,
                       UnitAttr:$strided, OptionalAttr<StrAttr>:$effects);
  let results = (outs Variadic<Fusion_Tensor>:$outputs);
  let assemblyFormat = [{
    $callee `(` $inputs `)` `dims` $dims attr-dict `:` functional-type($inputs, $outputs)
  }];
  let extraClassDeclaration = [{
    /// The dimensions of each result, then of each operand: the number of a parallel dimension, in order of its
    /// appearance in a result, or -1 if it is needed whole. Failure, without a message, if `dims` does not fit.
    ::llvm::FailureOr<::llvm::SmallVector<::llvm::SmallVector<int64_t>>> getParallelDims();
    /// Whether calls keep the order of the text, and each device makes one.
    bool isOrdered() { return getEffects() == "writes"; }
  }];
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

def Fusion_StreamLoopOp : Op<Fusion_Dialect, "stream_loop",
    [IsolatedFromAbove, SingleBlock, RecursiveMemoryEffects, RecursivelySpeculatable]> {
  let summary = "Reshards and the compute that runs with them, slice by slice";
  let description = [{
    `fusion-form-loops` makes it, `fusion-select-schedule` gives it a schedule, and `convert-fusion-to-hostir` lowers it
    as a whole. The stream digits of the values in the body are the digits of the loop: iteration i processes slice i of
    each value. Without stream digits, the ops run one after another. Ops of the body without the loop's digits run once,
    before or after the loop.

    Stream digits state how a value is iterated over, not where it is. They may therefore change at the boundary: an
    operand and its block argument may differ in them, and so may a yielded value and its result. So the slices of one
    loop are chosen without changes to its neighbours.

    `from` is the source of the schedule: `annotation` (kept, or an error), `cost` (the least price), `tuned` (measured)
    or `fallback`. `candidates` are what `fusion-select-schedule` has priced, for reports: the chosen one, the plainest,
    the fastest others. `signature` is a hash of the loop as it was formed, under which measured choices are stored.
    `thresholds` are sizes of the machine file (section `selection`) by which schedules choose their form, unless all
    are the usual ones.

    Constraints:
    - stream_loop_c1: there is one block argument per operand, and the two differ in stream digits at most.
    - stream_loop_c2: there is one yielded value per result, and the two differ in stream digits at most.
    - stream_loop_c3: the yielded values are distinct and are results of ops of the body.
    - stream_loop_c4: the body consists of reshards without a schedule, ops that compute locally, and constants.
    - stream_loop_c5: a schedule comes with its source.
    - stream_loop_c6: each threshold is a known one and a positive number.

    Example:
    ```mlir
    %y = fusion.stream_loop schedule <NAME> from fallback (%x, %w)
        : (tensor<8x4xf32, #rows>, tensor<4x2xf32, #whole>) -> tensor<8x2xf32, #whole> {
    ^bb0(%x0: tensor<8x4xf32, #rows>, %w0: tensor<4x2xf32, #whole>):
      %g = fusion.reshard %x0 : tensor<8x4xf32, #rows> -> tensor<8x4xf32, #slices>
      %p = fusion.matmul %g, %w0 : tensor<8x4xf32, #slices>, tensor<4x2xf32, #whole> -> tensor<8x2xf32, #slices>
      fusion.yield %p : tensor<8x2xf32, #slices>
    }
    ```
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$inputs, OptionalAttr<Fusion_ScheduleAttr>:$schedule,
                       OptionalAttr<Fusion_ScheduleSourceAttr>:$source,
                       OptionalAttr<TypedArrayAttrBase<Mesh_PricedCandidateAttr, "priced candidates">>:$candidates,
                       OptionalAttr<StrAttr>:$signature, OptionalAttr<DictionaryAttr>:$thresholds);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    (`schedule` $schedule^ `from` `` $source)? ` ` `(` $inputs `)` attr-dict `:` functional-type($inputs, $results) $body
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The reshards of the body, in order.
    ::llvm::SmallVector<::tandem::fusion::ReshardOp> getReshards();

  private:
    ::llvm::LogicalResult verifyBoundary(::mlir::TypeRange outside, ::mlir::TypeRange inside,
                                         ::llvm::StringRef what, ::llvm::StringRef partner);

  public:
  }];
}

def Fusion_YieldOp : Op<Fusion_Dialect, "yield", [Pure, Terminator, HasParent<"StreamLoopOp">]> {
  let summary = "Ends the body of a stream loop with its results";
  let description = [{
    Example:
    ```mlir
    fusion.yield %p : tensor<8x2xf32, #slices>
    ```
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif // TANDEM_DIALECT_FUSION_IR_FUSIONOPS_TD
