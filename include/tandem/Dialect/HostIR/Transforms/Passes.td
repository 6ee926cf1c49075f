//===- Passes.td - passes over the hostir dialect -*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_HOSTIR_TRANSFORMS_PASSES_TD
#define TANDEM_DIALECT_HOSTIR_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

class HostIR_Pass<string argument> : Pass<argument, "::tandem::hostir::ProgramOp"> {
  Option logOption = Option<"log", "log", "bool", /*default=*/"false",
                            "emit remarks about the effect of the pass">;
  let options = [logOption];
}

def LocalizeBuffers : HostIR_Pass<"hostir-localize-buffers"> {
  let summary = "Shrink buffers of which each iteration uses only one slice";
  let description = [{
    If only a loop's own matmuls read a gathered tensor, each iteration needs one slice of it. The pass replaces such a
    buffer of the main stream by one slice-sized buffer in each block that uses it: loop bodies and the peeled own slice.

    A buffer qualifies if its accesses form parts that follow each other in the text, where each part
    - is in one block (with nested blocks) and on one stream, and
    - first writes one whole box of the buffer; its later accesses stay in that box.

    A buffer also qualifies if all its accesses are one part that writes piece after piece, even conditionally, provided
    that different runs of the block use disjoint boxes. A piece's offset may depend on inner loops and the rank if their
    bounds keep it inside the box. Other streams may use the slice if the block's syncs order them after the first access,
    and the first access's stream after them. `log` gives the reason for each buffer that stays whole.

    Before:
    ```mlir
    %g = hostir.alloc on %main : memref<4x8x16xf32>
    scf.for %i = %c0 to %c4 step %c1 {
      %s = hostir.worker_stream %i
      %slot = memref.subview %g[%i, 0, 0] [1, 8, 16] [1, 1, 1] : ...
      hostir.group via %ch on %s { hostir.recv %slot from %i : ... }
      hostir.matmul %slot, %w to %c on %s : ...
    }
    ```
    After:
    ```mlir
    scf.for %i = %c0 to %c4 step %c1 {
      %s = hostir.worker_stream %i
      %slot = hostir.alloc on %s : memref<1x8x16xf32>
      hostir.group via %ch on %s { hostir.recv %slot from %i : ... }
      hostir.matmul %slot, %w to %c on %s : ...
      hostir.dealloc %slot on %s : memref<1x8x16xf32>
    }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::memref::MemRefDialect"];
  let statistics = [
    Statistic<"numLocalized", "localized", "buffers replaced by slices">,
    Statistic<"numKept", "kept", "buffers kept whole">
  ];
}

def FuseLaunches : Pass<"hostir-fuse-launches", "::mlir::ModuleOp"> {
  let summary = "Fuse elementwise launches that are connected by buffers";
  let description = [{
    Connected launches of one block and one stream become one launch of one kernel, in place of the last of them.
    Intermediate buffers that no other command uses disappear: their elements stay in registers. Other intermediate buffers
    become outputs of the kernel. Equal kernels are merged and unused kernels removed. The unsharded reference is left
    alone, so that an error in this pass is not in both programs.

    A launch is fused with the launch that writes its input if
    - it reads the same elements in the same order,
    - no other operands of the two share a written buffer, unless they are the same view,
    - no command in between accesses the first launch's outputs or writes its inputs,
    - no command in between signals its completion to another stream or rank,
    - the kernel stays within `max-operands` and `max-ops`.

    Kernels compute in f32, so f16 and bf16 intermediates in registers are not rounded; `arith.truncf` still rounds.

    Before:
    ```mlir
    %t = hostir.alloc on %s : memref<8xf32>
    hostir.launch @add ins(%a, %b : memref<8xf32>, memref<8xf32>) outs(%t : memref<8xf32>) on %s
    hostir.launch @tanh ins(%t : memref<8xf32>) outs(%c : memref<8xf32>) on %s
    ```
    After:
    ```mlir
    hostir.launch @addf_tanh ins(%a, %b : memref<8xf32>, memref<8xf32>) outs(%c : memref<8xf32>) on %s
    ```
  }];
  let options = [
    Option<"maxOperands", "max-operands", "int64_t", /*default=*/"24", "most operands of a kernel">,
    Option<"maxOps", "max-ops", "int64_t", /*default=*/"256", "most operations of a kernel">,
    Option<"log", "log", "bool", /*default=*/"false", "emit remarks about the effect of the pass">
  ];
  let statistics = [
    Statistic<"numFused", "fused", "launches merged into another">,
    Statistic<"numBuffers", "buffers", "buffers removed">
  ];
}

def FuseEpilogues : HostIR_Pass<"hostir-fuse-epilogues"> {
  let summary = "Let matmuls write where the launch after them does";
  let description = [{
    If only the next launch reads the result of a matmul, the matmul writes it to the launch's output, and the launch
    computes in place. That saves a buffer. A device may then run both as one command: an epilogue of the matmul
    (docs/kernels.md, "Epilogues of matmuls").

    The same holds for a gated matmul whose whole result the launch reads, if the output has the same type.

    The launch has one output, of the matmul's element type and shape. Both ops are in one block and on one stream, and no op
    between them has an effect. The launch reads the result through the view that the matmul writes. Neither reads the output
    otherwise. The unsharded reference is left alone.

    Before:
    ```mlir
    %t = hostir.alloc on %s : memref<8x4xf32>
    hostir.matmul %x, %w to %t on %s : ...
    hostir.launch @relu ins(%t : memref<8x4xf32>) outs(%y : memref<8x4xf32>) on %s
    ```
    After:
    ```mlir
    hostir.matmul %x, %w to %y on %s : ...
    hostir.launch @relu ins(%y : memref<8x4xf32>) outs(%y : memref<8x4xf32>) on %s
    ```
  }];
  let statistics = [Statistic<"numFused", "fused", "launches that compute in place">];
}

def ExpandCollectives : HostIR_Pass<"hostir-expand-collectives"> {
  let summary = "Expand collectives to sends and receives on channels without collectives";
  let description = [{
    Expands every `hostir.collective` whose channel lacks `collectives`. `channels-without-collectives` names channels
    (`*`: all) that lose this capability on the target and get `two_sided` instead.

    With G the group's size:
    - all_gather: ring of G-1 steps; step i forwards the slice received in step i-1.
    - reduce_scatter: ring of G-1 steps; each adds its own slice to the received partial sum and sends the result on.
    - all_reduce: reduce_scatter and all_gather of G chunks along a dimension that G divides, else over the flattened
      contiguous buffer, else along the largest dimension. The remainder (less than G rows) is gathered and reduced in the
      same order on every rank, so that all ranks have the same bits.
    - all_to_all: pairwise exchange with the peers at distance 1, 2, ..., G-1.
    - broadcast, reduce, gather, scatter: a binomial tree of ceil(log2 G) rounds from the root.
    - G = 1: a copy.

    Each ring step is one group of a send and a receive. Reductions are computed in f32 (i32: modulo 2^32) and rounded to
    the buffer's type before each send: G-1 roundings in a ring, ceil(log2 G) in a tree. Messages have the same order on
    all ranks, so the k-th send from a to b matches b's k-th receive.

    Before:
    ```mlir
    hostir.collective all_gather %a to %b via %ch on %s : memref<16xf32> to memref<4x16xf32>
    ```
    After:
    ```mlir
    %me = hostir.device_index #tp, "x"
    // %right, %left: the neighbours of %me
    %own = memref.subview %b[%me, 0] [1, 16] [1, 1] : ...
    hostir.copy %a to %own on %s : ...
    scf.for %i = %c0 to %c3 step %c1 {
      // %from = (me - i) mod 4, %to = (me - i - 1) mod 4
      hostir.group via %ch on %s {
        hostir.recv %b[%to] from %left     // views left out
        hostir.send %b[%from] to %right
      }
    }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::memref::MemRefDialect",
                           "::mlir::scf::SCFDialect", "::tandem::hostir::HostIRDialect"];
  let options = [
    ListOption<"channelsWithoutCollectives", "channels-without-collectives", "std::string",
               "channels that lack collectives on the target; * for all">,
    logOption
  ];
  let statistics = [
    Statistic<"numExpanded", "expanded", "collectives expanded">
  ];
}

def InsertDeallocs : HostIR_Pass<"hostir-insert-deallocs"> {
  let summary = "Insert deallocs at the end of each buffer's live range";
  let description = [{
    Gives each alloc without one a `hostir.dealloc`, in its block and on its stream, at the first place where that stream
    is ordered after every access. For the main stream this is after the syncs that join the workers. If its own stream is
    never ordered so, the stream of the last access is used; if neither is, the pass fails.

    Before:
    ```mlir
    %b = hostir.alloc on %main : memref<16xf32>
    hostir.sync %s after %main
    hostir.copy %a to %b on %s : memref<16xf32> to memref<16xf32>
    hostir.sync %main after %s
    ```
    After: the same, then
    ```mlir
    hostir.dealloc %b on %main : memref<16xf32>
    ```
  }];
  let statistics = [Statistic<"numInserted", "inserted", "deallocs inserted">];
}

def PlanBuffers : HostIR_Pass<"hostir-plan-buffers"> {
  let summary = "Assign every buffer an offset in the arena";
  let description = [{
    Writes `offset` on every alloc, `pitch` on allocs of worker streams with a varying index, and `arena_bytes` and
    `symmetric_bytes` on the program. Offsets are multiples of 64 bytes. Symmetric buffers have a separate arena.

    Two buffers may share memory if every access of one happens before every access of the other. Only streams and
    `hostir.sync` order accesses, not the text. A buffer of `worker_stream %i` has one slot per worker, since iterations i
    and i + workers run on one stream (one slot per iteration if there are fewer iterations than workers). Buffers of one
    worker stream in one loop share its slots if their live ranges do not overlap.

    Peers also write symmetric memory: two symmetric buffers share memory only if signals between all ranks of the group
    come between them (docs/architecture.md).

    The pass fails if a loop may reuse a buffer while its previous live range has not ended, and if an access is not
    ordered after its alloc.

    Before:
    ```mlir
    hostir.program @p(...) {
      ...
      scf.for %i = %c0 to %c8 step %c1 {
        %s = hostir.worker_stream %i
        %b = hostir.alloc on %s : memref<100xf32>
    ```
    After:
    ```mlir
    hostir.program @p(...) attributes {arena_bytes = 1792 : i64, symmetric_bytes = 0 : i64} {
      ...
      scf.for %i = %c0 to %c8 step %c1 {
        %s = hostir.worker_stream %i
        %b = hostir.alloc on %s {offset = 0 : i64, pitch = 448 : i64} : memref<100xf32>
    ```
  }];
  let statistics = [
    Statistic<"bytesUnshared", "bytes-unshared", "bytes without sharing">,
    Statistic<"bytesPlanned", "bytes-planned", "bytes of both arenas">
  ];
}

def Verify : HostIR_Pass<"hostir-verify"> {
  let summary = "Verify the post-conditions of the hostir stage";
  let description = [{
    The properties that `translate-to-stream-program` relies on, beyond those that each op verifies:

    - verify_c1: only ops of `hostir`, `scf` and `arith` and views of memrefs remain.
    - verify_c2: streams come from `main_stream` and `worker_stream`, channels from `channel`, and buffers are views of
      arguments or allocs.
    - verify_c3: channels of one name are equal.
    - verify_c4: no collective remains on a channel without collectives.
    - verify_c5: every alloc lies inside its arena.
    - verify_c6: every alloc has exactly one dealloc, in its block, and no use after it.
    - verify_c7: accesses are ordered after their buffer's alloc and before its dealloc.
    - verify_c8: worker commands are ordered after the start of the main stream, and the end of the main stream after
      all worker commands.
    - verify_c9: every result is written somewhere; no command writes an input.
    - verify_c10: in a deterministic program, no collective adds floats: libraries choose the order.
  }];
  let options = [];
}

#endif // TANDEM_DIALECT_HOSTIR_TRANSFORMS_PASSES_TD
