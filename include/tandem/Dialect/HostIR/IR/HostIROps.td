//===- HostIROps.td - hostir operations -*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_HOSTIR_IR_HOSTIROPS_TD
#define TANDEM_DIALECT_HOSTIR_IR_HOSTIROPS_TD

include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "tandem/Dialect/HostIR/IR/HostIRBase.td"
include "tandem/Dialect/Mesh/IR/Mesh.td"

class HostIR_Op<string mnemonic, list<Trait> traits = []> : Op<HostIR_Dialect, mnemonic, traits>;

/// An op issued on a stream. It also writes the resource `IssueOrder`, so no pass deletes, merges or moves it.
class HostIR_Command<string mnemonic, list<Trait> traits = []>
    : HostIR_Op<mnemonic, !listconcat(traits, [MemoryEffects<[MemWrite<HostIR_IssueOrder>]>])>;

/// A local buffer, or a view of one.
def HostIR_Buffer : ConfinedType<MemRefOf<[F32, F16, BF16, F8E4M3FN, F8E5M2, F64, I32, I64, I16, I8, I1]>, [
    CPred<"::llvm::cast<::mlir::MemRefType>($_self).hasStaticShape()">,
    CPred<"::tandem::hostir::hasStaticStrides(::llvm::cast<::mlir::MemRefType>($_self))">,
    CPred<"::tandem::hostir::isBufferSpace(::llvm::cast<::mlir::MemRefType>($_self))">],
    "memref of f32, f16, bf16, f8E4M3FN, f8E5M2, f64, i32, i64, i16, i8 or i1 with static shape and strides in default or symmetric memory",
    "::mlir::MemRefType">;

//===----------------------------------------------------------------------===//
// Program and kernels
//===----------------------------------------------------------------------===//

class HostIR_FunctionOp<string mnemonic, list<Trait> traits> : HostIR_Op<mnemonic,
    !listconcat(traits, [FunctionOpInterface, IsolatedFromAbove, SingleBlock])> {
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
  }];
}

def HostIR_ProgramOp : HostIR_FunctionOp<"program", [NoTerminator]> {
  let summary = "A host program, one text for all ranks";
  let description = [{
    Arguments are the fusion's inputs, then its results (marked `hostir.result`), as local buffers of the embedder.
    Argument attributes: `hostir.name` (its name in tools) and `hostir.type` (the logical tensor type with its axes,
    which gives each rank's shard). `hostir.parts` says that a result is several of the embedder's buffers, one after
    another: a list of name and type of each. Example: `memref<4x8xf32>` with four parts of `tensor<8xf32>`; row i is
    buffer i. Each command reads or writes one of them. `workers` is the size of the pool of worker streams. `reference_of` marks
    an unsharded reference and names its program. `hostir-plan-buffers` writes `arena_bytes` and `symmetric_bytes`.
    `choices` says how loops of the fusion are run, for reports. In a `deterministic` program the order in which floats
    are added is a property of the program (docs/semantics.md): matmuls add in the order of K, reductions in that of
    the reduced dimensions, and there are no collectives that add floats (verify_c10).

    Constraints:
    - program_c1: arguments are memrefs of static shape, and the function type has no results.
    - program_c2: `hostir.type`, where present, is a tensor type whose local shape (its shape, if it has no axes) and
      element type are the argument's.
    - program_c3: results follow inputs.
    - program_c4: workers is 1 ... 1024.
    - program_c5: arena sizes are not negative.
    - program_c6: deterministic is "bitwise", "batch" or "tp".
    - program_c7: `hostir.parts` is on a result without `hostir.type`, and lists two or more dictionaries with
      `hostir.type`; their local shapes have equally many elements, together as many as the argument, and its element
      type.

    Example:
    ```mlir
    hostir.program @copy(%in: memref<4xf32> {hostir.name = "x"}, %out: memref<4xf32> {hostir.result})
        attributes {workers = 2 : i64} {
      %main = hostir.main_stream
      hostir.copy %in to %out on %main : memref<4xf32> to memref<4xf32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<StrAttr>:$sym_visibility,
                       OptionalAttr<DictArrayAttr>:$arg_attrs, OptionalAttr<DictArrayAttr>:$res_attrs,
                       DefaultValuedAttr<I64Attr, "4">:$workers,
                       OptionalAttr<FlatSymbolRefAttr>:$reference_of,
                       OptionalAttr<I64Attr>:$arena_bytes, OptionalAttr<I64Attr>:$symmetric_bytes,
                       OptionalAttr<TypedArrayAttrBase<Mesh_ChoiceAttr, "choices">>:$choices,
                       OptionalAttr<StrAttr>:$deterministic);
}

def HostIR_KernelOp : HostIR_FunctionOp<"kernel", []> {
  let hasRegionVerifier = 1;
  let summary = "An elementwise kernel, written for one element";
  let description = [{
    Arguments are one element of each input, the yielded values one element of each output. The body is straight-line
    `arith` and `math` on scalars. `hostir.launch` applies it to every element.

    Constraints:
    - kernel_c1: argument and result types are f32, f16, bf16, f8E4M3FN, f8E5M2, f64, i32, i64, i16, i8 or i1
      scalars.
    - kernel_c2: the body holds only `arith` and `math` ops without regions and `hostir.exp_difference`, and ends in
      `hostir.yield`.

    Example:
    ```mlir
    hostir.kernel @residual(%a: f32, %b: f32) -> f32 {
      %0 = arith.addf %a, %b : f32
      hostir.yield %0 : f32
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<StrAttr>:$sym_visibility,
                       OptionalAttr<DictArrayAttr>:$arg_attrs, OptionalAttr<DictArrayAttr>:$res_attrs);
}

def HostIR_ExpDifferenceOp : HostIR_Op<"exp_difference", [Pure, SameOperandsAndResultType, HasParent<"KernelOp">]> {
  let summary = "exp(scale * (a - m))";
  let description = [{
    The weights of a softmax: m is the largest number so far, and `scale` is greater than 0. To the checker, exp alone is
    an unknown function. Of this operation it knows that it is exp(scale * a) / exp(scale * m), so that it can prove that
    a result does not depend on m; and it proves that a is at most m, so that no weight is greater than 1.

    Example:
    ```mlir
    %1 = hostir.exp_difference %a, %m scale %s : f32
    ```
  }];
  let arguments = (ins AnyTypeOf<[F32, F64]>:$value, AnyTypeOf<[F32, F64]>:$maximum, AnyTypeOf<[F32, F64]>:$scale);
  let results = (outs AnyTypeOf<[F32, F64]>:$result);
  let assemblyFormat = "$value `,` $maximum `scale` $scale attr-dict `:` type($result)";
}

def HostIR_YieldOp : HostIR_Op<"yield", [Pure, Terminator, HasParent<"KernelOp">]> {
  let summary = "The outputs of a kernel";
  let description = [{
    Constraints:
    - yield_c1: operand types are the kernel's result types.

    Example:
    ```mlir
    hostir.yield %0 : f32
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "$values attr-dict `:` type($values)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Rank-dependent numbers
//===----------------------------------------------------------------------===//

def HostIR_DeviceIndexOp : HostIR_Op<"device_index", [Pure]> {
  let summary = "This device's coordinate on a mesh axis";
  let description = [{
    Undefined on ranks outside the mesh.

    Constraints:
    - device_index_c1: the mesh has the axis and its sizes are known.

    Example:
    ```mlir
    %me = hostir.device_index #tp, "x"
    ```
  }];
  let arguments = (ins Mesh_MeshAttr:$mesh, StrAttr:$axis);
  let results = (outs Index:$index);
  let assemblyFormat = "$mesh `,` $axis attr-dict";
  let hasVerifier = 1;
}

def HostIR_InMeshOp : HostIR_Op<"in_mesh", [Pure]> {
  let summary = "Whether this rank belongs to a mesh";
  let description = [{
    Defined on every rank. Use it to guard ops that need a coordinate, such as `hostir.device_index`.

    Example:
    ```mlir
    %mine = hostir.in_mesh #part
    ```
  }];
  let arguments = (ins Mesh_MeshAttr:$mesh);
  let results = (outs I1:$member);
  let assemblyFormat = "$mesh attr-dict";
}

def HostIR_TranslatePositionOp : HostIR_Op<"translate_position", [Pure]> {
  let summary = "Convert a position in one mesh to a position in another";
  let description = [{
    The position in mesh `to` of the device at `position` of mesh `from`, or -1 if it is not in `to`. Positions are
    row-major over the mesh's axes. Equivalent to MPI_Group_translate_ranks.

    Constraints:
    - translate_position_c1: the sizes of both meshes are known.
    - translate_position_c2: a constant position is in `from`.

    Example:
    ```mlir
    %peer = hostir.translate_position %i from #part to #all
    ```
  }];
  let arguments = (ins Index:$position, Mesh_MeshAttr:$from, Mesh_MeshAttr:$to);
  let results = (outs Index:$translated);
  let assemblyFormat = "$position `from` $from `to` $to attr-dict";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def HostIR_ChannelOp : HostIR_Op<"channel", [Pure]> {
  let summary = "A channel among the devices along mesh axes";
  let description = [{
    Each device's group is the devices that differ from it only in the named axes, in row-major order over the axes as
    listed (the first is outermost). Peers and roots are positions in that group. Example: over `["gpu"]` of
    `["node" = 2, "gpu" = 4]`, rank 5 is position 1 of the group of ranks 4 to 7. Channels with different names are
    ordered independently. Two ops with the same name are one channel and must be equal (`hostir-verify`). `link`
    ("node" or "network") is the link class of the channel. Without it, the class is "node" if each group is on one host, else
    "network" ([operations](../operations.md#launchers)).

    Constraints:
    - channel_c1: the mesh has the axes, each named once; its sizes are known.
    - channel_c2: at least one capability, each named once.
    - channel_c3: `link` is "node" or "network", if it is there.

    Example:
    ```mlir
    %ch = hostir.channel "gather" over #tp ["x"] can [two_sided]
    ```
  }];
  let arguments = (ins StrAttr:$name, Mesh_MeshAttr:$mesh, StrArrayAttr:$axes,
                       TypedArrayAttrBase<HostIR_CapabilityAttr, "capabilities">:$capabilities,
                       DefaultValuedStrAttr<StrAttr, "">:$link_class);
  let results = (outs HostIR_Channel:$channel);
  let assemblyFormat = [{
    $name `over` $mesh $axes `can` custom<Capabilities>($capabilities) (`link` $link_class^)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Number of devices of a group.
    int64_t groupSize();
    bool can(::tandem::hostir::Capability capability);
  }];
}

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

def HostIR_MainStreamOp : HostIR_Op<"main_stream", [Pure]> {
  let summary = "The embedder's stream";
  let description = [{
    Example:
    ```mlir
    %main = hostir.main_stream
    ```
  }];
  let results = (outs HostIR_Stream:$stream);
  let assemblyFormat = "attr-dict";
}

def HostIR_WorkerStreamOp : HostIR_Op<"worker_stream", [Pure]> {
  let summary = "Worker stream number i modulo the size of the pool";
  let description = [{
    Example:
    ```mlir
    %s = hostir.worker_stream %i
    ```
  }];
  let arguments = (ins Index:$index);
  let results = (outs HostIR_Stream:$stream);
  let assemblyFormat = "$index attr-dict";
}

def HostIR_SyncOp : HostIR_Command<"sync"> {
  let summary = "Order a stream's later commands after another stream's earlier ones";
  let description = [{
    Records an event on `signaler` and makes `waiter` wait for it, like cudaEventRecord and cudaStreamWaitEvent.
    Synchronising a stream with itself is a no-op.

    Example:
    ```mlir
    hostir.sync %s after %main
    ```
  }];
  let arguments = (ins HostIR_Stream:$waiter, HostIR_Stream:$signaler);
  let assemblyFormat = "$waiter `after` $signaler attr-dict";
  let hasCanonicalizeMethod = 1;
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

def HostIR_AllocOp : HostIR_Op<"alloc"> {
  let summary = "Allocate a buffer in stream order";
  let description = [{
    Like cudaMallocAsync: later commands of `stream` may use the buffer, and commands of other streams ordered after it.
    Contents are undefined. In a loop each iteration has a separate buffer. `hostir-plan-buffers` writes `offset` (bytes
    in the arena or symmetric arena) and, for buffers of worker streams, `pitch`: worker i's slot is at
    offset + i * pitch.

    Constraints:
    - alloc_c1: static shape, identity layout, default or symmetric memory space.
    - alloc_c2: offset and pitch are multiples of 64, and pitch is not negative. With a pitch, offset may be negative if
      the workers whose slots would lie before the arena never use the buffer.

    Example:
    ```mlir
    %b = hostir.alloc on %s : memref<16x32xf32>
    ```
  }];
  let arguments = (ins HostIR_Stream:$stream, OptionalAttr<I64Attr>:$offset, OptionalAttr<I64Attr>:$pitch);
  let results = (outs Res<HostIR_Buffer, "", [MemAlloc]>:$buffer);
  let builders = [
    OpBuilder<(ins "MemRefType":$type, "Value":$stream),
              [{ build($_builder, $_state, type, stream, IntegerAttr(), IntegerAttr()); }]>,
    OpBuilder<(ins "ArrayRef<int64_t>":$shape, "Type":$element, "Value":$stream),
              [{ build($_builder, $_state, MemRefType::get(shape, element), stream); }]>,
  ];
  let assemblyFormat = "`on` $stream attr-dict `:` type($buffer)";
  let hasVerifier = 1;
}

def HostIR_DeallocOp : HostIR_Command<"dealloc"> {
  let summary = "Free a buffer in stream order";
  let description = [{
    Constraints:
    - dealloc_c1: the buffer is the result of a `hostir.alloc`.

    Example:
    ```mlir
    hostir.dealloc %b on %s : memref<16x32xf32>
    ```
  }];
  let arguments = (ins Arg<HostIR_Buffer, "", [MemFree]>:$buffer, HostIR_Stream:$stream);
  let assemblyFormat = "$buffer `on` $stream attr-dict `:` type($buffer)";
  let hasVerifier = 1;
}

def HostIR_CopyOp : HostIR_Command<"copy"> {
  let summary = "Elementwise copy";
  let description = [{
    Constraints:
    - copy_c1: equal shapes and element types.

    Example:
    ```mlir
    hostir.copy %a to %b on %s : memref<16xf32> to memref<16xf32, strided<[2]>>
    ```
  }];
  let arguments = (ins Arg<HostIR_Buffer, "", [MemRead]>:$source, Arg<HostIR_Buffer, "", [MemWrite]>:$target,
                       HostIR_Stream:$stream);
  let assemblyFormat = "$source `to` $target `on` $stream attr-dict `:` type($source) `to` type($target)";
  let hasVerifier = 1;
}

include "tandem/Dialect/HostIR/IR/HostIRCommunicationOps.td"

//===----------------------------------------------------------------------===//
// Compute
//===----------------------------------------------------------------------===//

def HostIR_MatmulOp : HostIR_Command<"matmul"> {
  let summary = "Matrix product into a buffer";
  let description = [{
    output[..., M, N] (+)= op(lhs)[..., M, K] * op(rhs)[..., K, N] (+ bias); batch dimensions broadcast as in NumPy;
    accumulated in f32. With `accumulate` the product is added to the output. With an f32 output, a sum of many f16 or
    bf16 products is not rounded after each product. The bias is a row [N], or has the output's shape: a residual, or what
    other devices have computed of the same sum.

    Constraints:
    - matmul_c1: rank 2 or more; the operands' element types are equal and floating point, and the output's is the same.
      f16 and bf16 operands may also have an f32 output. Operands of f8E4M3FN and f8E5M2 may differ; their output is f32,
      f16 or bf16.
    - matmul_c2: the contracted extents are equal.
    - matmul_c3: the output has the broadcast batch extents, then M, then N.
    - matmul_c4: a bias of rank 1 has extent N, and the element type of the factors or of the output. With operands of 8 bits
      it has that of the output, or f16 or bf16 where the output is f32.
    - matmul_c5: another bias has the shape and element type of the output, and there is no `accumulate`.

    Example:
    ```mlir
    hostir.matmul %a, %b to %c on %s : memref<16x32xf32>, memref<32x8xf32> to memref<16x8xf32>
    hostir.matmul %a, %b bias %v to %c on %s {accumulate, transpose_b} : ...
    hostir.matmul %a, %b bias %partial to %c on %s
        : memref<16x32xf32>, memref<32x8xf32>, memref<16x8xf32> to memref<16x8xf32>
    ```
  }];
  let arguments = (ins Arg<HostIR_Buffer, "", [MemRead]>:$lhs, Arg<HostIR_Buffer, "", [MemRead]>:$rhs,
                       Arg<Optional<HostIR_Buffer>, "", [MemRead]>:$bias,
                       Arg<HostIR_Buffer, "", [MemRead, MemWrite]>:$output, HostIR_Stream:$stream,
                       UnitAttr:$transpose_a, UnitAttr:$transpose_b, UnitAttr:$accumulate);
  let assemblyFormat = [{
    $lhs `,` $rhs (`bias` $bias^)? `to` $output `on` $stream attr-dict
    `:` type($lhs) `,` type($rhs) (`,` type($bias)^)? `to` type($output)
  }];
  let hasVerifier = 1;
}

def HostIR_GatedMatmulOp : HostIR_Command<"gated_matmul", [RecursiveMemoryEffects, NoTerminator, SingleBlock, NoRegionArguments]> {
  let summary = "A matmul whose kernel waits for signals before blocks of rows, or stores rows to peers";
  let description = [{
    Means the same as its contents without the region (docs/gated.md). A device with gated kernels runs it as one
    kernel, which holds all SMs but `reserve` of them while it waits. The matmuls are the parts of one product
    lhs [M, K] * rhs -> output [M, N]: their rows cover M, and slices of K of the same rows follow each other, where all but
    the first accumulate. Blocks are computed in the order of the text, each after the waits before it. The first blocks may
    be rows of another matrix than the others, as a device's own rows are.

    A put after a matmul sends the rows that it has computed, its *staged* rows, to a peer. The kernel stores them to
    the peer directly. Their memory on this rank is undefined afterwards.

    Constraints:
    - gated_matmul_c1: the body holds only `hostir.wait_signal`, `hostir.matmul`, `hostir.put` and `hostir.signal` on the
      op's stream, allocs and deallocs, views, `arith` and `scf`, and at least one matmul.
    - gated_matmul_c2: the matmuls have operands of rank 2, no bias and no `transpose_a`; their element types and
      `transpose_b` are equal.
    - gated_matmul_c3: `reserve` is not negative and less than 2^32.
    - gated_matmul_c4: the source of a put is in an allocated buffer that only matmuls of gated matmuls write and only
      puts of gated matmuls read.

    Example:
    ```mlir
    hostir.gated_matmul on %main reserve 2 {
      hostir.matmul %own, %w to %d0 on %main : memref<16x32xf32>, memref<32x8xf32> to memref<16x8xf32>
      hostir.wait_signal %slot >= %value via %ch on %main
      hostir.matmul %rows, %w to %d1 on %main : memref<16x32xf32>, memref<32x8xf32> to memref<16x8xf32>
    }
    hostir.gated_matmul on %main reserve 0 {
      hostir.matmul %theirs, %w to %staged on %main : memref<16x32xf32>, memref<32x8xf32> to memref<16x8xf32>
      hostir.put %staged to %place at %peer via %ch on %main : memref<16x8xf32> to memref<16x8xf32, #hostir.symmetric>
      hostir.signal %slot = %value at %peer via %ch on %main
      hostir.matmul %own, %w to %place on %main
          : memref<16x32xf32>, memref<32x8xf32> to memref<16x8xf32, #hostir.symmetric>
    }
    ```
  }];
  let arguments = (ins HostIR_Stream:$stream, I64Attr:$reserved);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`on` $stream `reserve` $reserved attr-dict-with-keyword $body";
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def HostIR_PeerExchangeOp : HostIR_Command<"peer_exchange", [AttrSizedOperandSegments]> {
  let summary = "A small all-gather, reduce-scatter or all-reduce by one kernel of each device";
  let description = [{
    Like an all-reduce of torch's symmetric memory: each device stores what the others need to their memory, signals, waits,
    and adds what has arrived (docs/fused-exchange.md). With G the group's size and s... a shape (operands may be strided):

    | kind | inputs | outputs | scratch |
    |---|---|---|---|
    | all_gather, of one or more values | s... | G,s... | |
    | reduce_scatter | G,s... | s... | G,s... |
    | one_shot_all_reduce | s... | s... | G,s... |
    | two_shot_all_reduce: cuts dimension `cut` into G parts | s... | s... | G, one part |
    | put_all, of one or more values: to the outputs of all peers | s... | s... | |

    Sums are added in the order of the devices, in f32 for f16 and bf16, and rounded once. `copies` get the same as the
    outputs, which must be in symmetric memory where peers store to them. With copies, the part of a two_shot_all_reduce that
    this device has added is only in the copy. The exchange has `slot` and the slots after it for itself: G of them, or 2 G with
    two shots. They are raised to `value` (1 if absent), which is relative to the run; an exchange in a loop has another one each time. A put_all
    waits for nothing: it stores all values to one peer after the other, and raises a slot to `value` + i after value i.
    `hostir.wait_signal` awaits it. `protocol` is `simple`, `block` or `ll` and does not change the meaning: a signal when all thread blocks have
    stored, one for each block, or a flag in each word of data (LL). A device without such a kernel runs the copies, puts,
    signals, waits and reductions that the op stands for.

    Constraints:
    - peer_exchange_c1: shapes and element types are as above; only an all_gather or put_all has several values.
    - peer_exchange_c2: peers store to symmetric memory: outputs of all_gather, two_shot_all_reduce and put_all, and the scratch.
    - peer_exchange_c3: only all_gather and two_shot_all_reduce have copies, one for each output; the reductions have a scratch.
    - peer_exchange_c4: the channel has one-sided messages; `blocks` is from 1 to 1024, `slot` not negative.
    - peer_exchange_c5: a constant value is 1 or more.

    Example:
    ```mlir
    hostir.peer_exchange one_shot_all_reduce %x to %y scratch %slots slot 0 blocks 4 via %ch on %main
        : memref<16xf32> to memref<16xf32> scratch memref<8x16xf32, #hostir.symmetric>
    ```
  }];
  let arguments = (ins HostIR_ExchangeKindAttr:$kind,
                       Arg<Variadic<HostIR_Buffer>, "", [MemRead]>:$inputs,
                       Arg<Variadic<HostIR_Buffer>, "", [MemRead, MemWrite]>:$outputs,
                       Arg<Variadic<HostIR_Buffer>, "", [MemWrite]>:$copies,
                       Arg<Optional<HostIR_Buffer>, "", [MemRead, MemWrite]>:$scratch, Optional<Index>:$value,
                       DefaultValuedAttr<I64Attr, "0">:$cut, I64Attr:$slot, I64Attr:$blocks,
                       DefaultValuedAttr<HostIR_ExchangeProtocolAttr, "::tandem::hostir::ExchangeProtocol::Simple">:$protocol,
                       HostIR_Channel:$channel, HostIR_Stream:$stream,
                       OptionalAttr<Mesh_ReduceKindAttr>:$reduction);
  let assemblyFormat = [{
    `` $kind $inputs `to` $outputs (`copies` $copies^)? (`scratch` $scratch^)? (`cut` $cut^)? `slot` $slot
    (`value` $value^)? `blocks` $blocks (`protocol` `` $protocol^)? `via` $channel `on` $stream attr-dict
    `:` type($inputs) `to` type($outputs) (`copies` type($copies)^)? (`scratch` type($scratch)^)?
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    bool isTwoShot() { return getKind() == ExchangeKind::TwoShotAllReduce; }
    bool isAllGather() { return getKind() == ExchangeKind::AllGather; }
    bool isPush() { return getKind() == ExchangeKind::Push; }
    bool reduces() { return !isAllGather() && !isPush(); }
  }];
}

def HostIR_AccumulateOp : HostIR_Command<"accumulate"> {
  let summary = "target = target (op) source";
  let description = [{
    Constraints:
    - accumulate_c1: equal shapes and element types.

    Example:
    ```mlir
    hostir.accumulate sum %a into %b on %s : memref<16xf32> to memref<16xf32>
    ```
  }];
  let arguments = (ins Mesh_ReduceKindAttr:$kind, Arg<HostIR_Buffer, "", [MemRead]>:$source,
                       Arg<HostIR_Buffer, "", [MemRead, MemWrite]>:$target, HostIR_Stream:$stream);
  let assemblyFormat = "`` $kind $source `into` $target `on` $stream attr-dict `:` type($source) `to` type($target)";
  let hasVerifier = 1;
}

def HostIR_ReduceOp : HostIR_Command<"reduce"> {
  let summary = "Reduction over dimensions of a buffer";
  let description = [{
    Constraints:
    - reduce_c1: dims are distinct, ascending, in range.
    - reduce_c2: the target has the remaining dimensions in order and the same element type.

    Example:
    ```mlir
    hostir.reduce sum %a to %b dims [0] on %s : memref<8x16xf32> to memref<16xf32>
    ```
  }];
  let arguments = (ins Mesh_ReduceKindAttr:$kind, Arg<HostIR_Buffer, "", [MemRead]>:$source,
                       Arg<HostIR_Buffer, "", [MemWrite]>:$target, DenseI64ArrayAttr:$dims, HostIR_Stream:$stream);
  let assemblyFormat = [{
    `` $kind $source `to` $target `dims` $dims `on` $stream attr-dict `:` type($source) `to` type($target)
  }];
  let hasVerifier = 1;
}

def HostIR_LaunchOp : HostIR_Command<"launch", [AttrSizedOperandSegments, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Run an elementwise kernel over whole buffers";
  let description = [{
    Constraints:
    - launch_c1: `kernel` names a `hostir.kernel` whose arguments and results have the element types of the buffers.
    - launch_c2: at least one output; all buffers have one shape.

    Example:
    ```mlir
    hostir.launch @residual ins(%a, %b : memref<16xf32>, memref<16xf32>) outs(%c : memref<16xf32>) on %s
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Arg<Variadic<HostIR_Buffer>, "", [MemRead]>:$inputs,
                       Arg<Variadic<HostIR_Buffer>, "", [MemWrite]>:$outputs, HostIR_Stream:$stream);
  let assemblyFormat = [{
    $kernel (`ins` `(` $inputs^ `:` type($inputs) `)`)? `outs` `(` $outputs `:` type($outputs) `)` `on` $stream attr-dict
  }];
  let hasVerifier = 1;
}

def HostIR_CallOp : HostIR_Command<"call", [AttrSizedOperandSegments]> {
  let summary = "Run a kernel of the embedder";
  let description = [{
    The runtime calls what the embedder has registered under the name `kernel`. It is a function of the inputs, `config`
    and the places of the buffers, and writes every element of the outputs. `effects` is that of `fusion.call`.

    `dims` has a number for each dimension of each output, then of each input: that of a parallel dimension, whose indices
    are computed independently, or -1. `offsets` and `extents` are one each per parallel dimension: the index in the
    logical tensor of the buffers' first element, and the extent of the logical tensor. `flops` and `bytes` are the cost
    for one index of each parallel dimension.

    Constraints:
    - call_c1: `dims` has as many numbers as outputs and inputs have dimensions, -1 or a parallel dimension.
    - call_c2: there is an output. Each has the parallel dimensions 0, 1, ... in this order. Dimensions with the same
      number have equal extents.
    - call_c3: there are an offset and an extent for each parallel dimension. A constant offset is not negative, and the
      outputs' part from there on is inside of the extent.
    - call_c4: without `strided`, buffers are dense.
    - call_c5: `effects` is "reads" or "writes".

    Example:
    ```mlir
    hostir.call "rms_norm" ins(%x, %w : memref<4x16xf32>, memref<16xf32>) outs(%y : memref<4x16xf32>)
        dims [0, -1, 0, -1, -1] at [%row] of [32] on %s {config = "eps=1e-5"}
    ```
  }];
  let arguments = (ins StrAttr:$kernel, Arg<Variadic<HostIR_Buffer>, "", [MemRead]>:$inputs,
                       Arg<Variadic<HostIR_Buffer>, "", [MemWrite]>:$outputs, DenseI64ArrayAttr:$dims,
                       Variadic<Index>:$offsets, DenseI64ArrayAttr:$extents, HostIR_Stream:$stream,
                       OptionalAttr<StrAttr>:$config, OptionalAttr<F64Attr>:$flops, OptionalAttr<F64Attr>:$bytes,
                       UnitAttr:$strided, OptionalAttr<StrAttr>:$effects);
  let assemblyFormat = [{
    $kernel (`ins` `(` $inputs^ `:` type($inputs) `)`)? `outs` `(` $outputs `:` type($outputs) `)`
    `dims` $dims `at` `[` $offsets `]` `of` $extents `on` $stream attr-dict
  }];
  let hasVerifier = 1;
}

#endif // TANDEM_DIALECT_HOSTIR_IR_HOSTIROPS_TD
