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
  // What every pass can be asked: to say what it did, in remarks at the ops.
  Option logOption = Option<"log", "log", "bool", /*default=*/"false",
                            "say what was done, as remarks">;
  let options = [logOption];
}

def LocalizeBuffers : HostIR_Pass<"hostir-localize-buffers"> {
  let summary = "Give each iteration its own slice of a buffer that nobody sees as a whole";
  let description = [{
    A gathered tensor that only the loop's own matmuls read is needed slice by slice. Such a buffer of the main stream is
    replaced by one buffer of the slice's shape in each block that uses it: loop bodies and the peeled own slice.

    A buffer qualifies if its accesses fall into parts, each within one block (and what is nested in it) and on one stream;
    in each part the first access writes a box of the buffer whole, and all later accesses are of that box, or of pieces of
    it; and the parts follow each other in the text. Or all accesses are one part, of which commands may write piece after
    piece, also under conditions: then no two runs of the block have an element of their boxes in common, so that what a run
    reads it has written itself. Where a piece begins may depend on loops inside of the block and on the rank, as far as
    bounds of these show that it lies in the box. Another stream may use the slice too, if syncs of the block order it after
    the first access, and the first access's stream after it. Anything else stays as it is; `log` says why.

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
    Statistic<"numKept", "kept", "buffers left whole">
  ];
}

def FuseLaunches : Pass<"hostir-fuse-launches", "::mlir::ModuleOp"> {
  let summary = "Make one kernel of elementwise launches that feed each other";
  let description = [{
    Launches of one block and one stream that are connected by buffers become one launch of one kernel, at the place of
    the last of them. A buffer that only they use is gone: its elements stay in registers. One that others read too becomes
    an output of the kernel. Kernels that compute the same are one; kernels that nobody launches any more are removed. An
    oracle is left as it is, so that a mistake here is not in both.

    A launch joins the launch that writes what it reads if
    - it reads it through a view of the same elements in the same order,
    - no other operand of the two shares a buffer that one of them writes, unless it is the very same view,
    - nothing in between touches what the first writes or writes what it reads,
    - nothing in between tells another stream, or another rank, that the first is done,
    - the kernel stays within `max-operands` and `max-ops`.

    f16 and bf16 intermediates are no longer rounded where they would have been stored (kernels compute in f32);
    `arith.truncf` rounds as ever.

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
    Option<"log", "log", "bool", /*default=*/"false", "say what was done, as remarks">
  ];
  let statistics = [
    Statistic<"numFused", "fused", "launches that became part of another">,
    Statistic<"numBuffers", "buffers", "buffers that are gone">
  ];
}

def ExpandCollectives : HostIR_Pass<"hostir-expand-collectives"> {
  let summary = "Write collectives as sends and receives where the channel has no collectives";
  let description = [{
    Expands every `hostir.collective` whose channel cannot do `collectives`. `channels-without-collectives` names channels
    (`*`: all) from which the target takes that capability: they ask for `two_sided` instead.

    With G the group's size:
    - all_gather: ring, G-1 steps of one slice; step i forwards what came in step i-1.
    - reduce_scatter: ring, G-1 steps of one slice; a partial sum arrives, the own term is accumulated, the sum travels on.
    - all_reduce: reduce_scatter and all_gather of G chunks along one dimension (one that G divides, else of all as one
      if the buffers are contiguous, else the largest). What G does not divide, fewer than G rows, is
      gathered whole and reduced on every rank in the same order, so that all ranks hold the same bits.
    - all_to_all: exchange with the peers at distance 1, 2, ..., G-1.
    - broadcast, reduce, gather, scatter: a binomial tree of ceil(log2 G) rounds, rotated so that the root is its root.
    - G = 1: a copy.

    Each step of a ring is one group of its send and its receive. Reductions are computed in f32 (i32: exactly, modulo
    2^32) and rounded to the buffer's type where a partial result travels on: G-1 roundings in a ring, ceil(log2 G) in a
    tree. Messages follow the text's order on all ranks, so the k-th send from a to b matches b's k-th receive.

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
               "names of channels that cannot do collectives on the target; * for all">,
    logOption
  ];
  let statistics = [
    Statistic<"numExpanded", "expanded", "collectives expanded">
  ];
}

def InsertDeallocs : HostIR_Pass<"hostir-insert-deallocs"> {
  let summary = "End every buffer's life where it is surely over";
  let description = [{
    Gives a `hostir.dealloc` to every alloc that has none: in the alloc's block and on its stream, at the first place where
    that stream is ordered after every access. For a buffer of the main stream that is after the syncs that join the
    workers. Where its own stream never gets there, the stream of the last access is tried; a buffer whose life has no
    such end in its block is an error.

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
  let summary = "Give every buffer its place in the arena";
  let description = [{
    Writes `offset` on every alloc, `pitch` on those of worker streams with a varying index, and `arena_bytes` and
    `symmetric_bytes` on the program. All places are multiples of 64 bytes; symmetric buffers have an arena of their own.

    Two buffers may share memory iff every access of one happens before the other begins; the order comes from streams and
    `hostir.sync` alone, not from the text. A buffer of `worker_stream %i` has one place per worker: iterations i and
    i + workers follow each other on one stream. Buffers of one worker stream within one loop share its worker's places as
    their lives in the text allow. A loop of fewer iterations than workers has as many places as iterations.

    Symmetric memory is written by peers too. There, signals between all ranks of a group must come between the two buffers
    (docs/hostir.md).

    A buffer whose next life in a loop may begin before the last one has ended is an error, as is an access that is not
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
    Statistic<"bytesUnshared", "bytes-unshared", "bytes if no two buffers shared memory">,
    Statistic<"bytesPlanned", "bytes-planned", "bytes of both arenas">
  ];
}

def Verify : HostIR_Pass<"hostir-verify"> {
  let summary = "The post-conditions of the hostir stage";
  let description = [{
    What `translate-to-stream-program` counts on, beyond what each op verifies by itself:

    - verify_c1: only ops of `hostir`, `scf` and `arith` and views of memrefs are left.
    - verify_c2: streams come from `main_stream` and `worker_stream`, channels from `channel`, and buffers are views of
      arguments or allocs.
    - verify_c3: channels of one name are equal.
    - verify_c4: no collective is left on a channel that cannot do collectives.
    - verify_c5: every alloc has a place inside its arena.
    - verify_c6: every alloc has exactly one dealloc, in its block, and no use after it.
    - verify_c7: accesses are ordered after their buffer's alloc and before its dealloc.
    - verify_c8: what a worker runs is ordered after the start of the main stream, and the main stream ends ordered after
      all that the workers have run.
    - verify_c9: every result is written somewhere; no command writes an input.
  }];
  let options = [];
}

#endif // TANDEM_DIALECT_HOSTIR_TRANSFORMS_PASSES_TD
