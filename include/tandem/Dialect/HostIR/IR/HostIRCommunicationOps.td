//===- HostIRCommunicationOps.td - communication of hostir -*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Collectives, messages, puts and signals. Included by HostIROps.td.
//
//===----------------------------------------------------------------------===//

def HostIR_CollectiveOp : HostIR_Command<"collective"> {
  let summary = "A collective over a channel's group";
  let description = [{
    With G the group's size and s... the slice's shape (operands may be strided):
    all_gather s... -> G,s...; all_reduce s... -> s...; reduce_scatter G,s... -> s...; all_to_all G,s... -> G,s...;
    broadcast and reduce s... -> s...; gather s... -> G,s...; scatter G,s... -> s.... Broadcast and scatter read the input
    on the root only, reduce and gather write the output on the root only. Reductions are computed in f32 for f16 and bf16.
    Input and output do not overlap.

    Constraints:
    - collective_c1: element types are equal and shapes are as above.
    - collective_c2: broadcast, reduce, gather and scatter have a root, the others have none; a constant root is in range.
    - collective_c3: only all_reduce, reduce_scatter and reduce have a `reduction` (default: sum).
    - collective_c4: the channel has collectives, or two-sided messages (then `hostir-expand-collectives` expands the
      op).

    Example:
    ```mlir
    hostir.collective all_gather %a to %b via %ch on %s : memref<16xf32> to memref<8x16xf32>
    hostir.collective reduce %a to %b root %r via %ch on %s {reduction = #tandem<reduce_kind max>} : ...
    ```
  }];
  let arguments = (ins HostIR_CollectiveKindAttr:$kind,
                       Arg<HostIR_Buffer, "", [MemRead]>:$input, Arg<HostIR_Buffer, "", [MemWrite]>:$output,
                       Optional<Index>:$root, HostIR_Channel:$channel, HostIR_Stream:$stream,
                       OptionalAttr<Mesh_ReduceKindAttr>:$reduction);
  let assemblyFormat = [{
    `` $kind $input `to` $output (`root` $root^)? `via` $channel `on` $stream attr-dict
    `:` type($input) `to` type($output)
  }];
  let hasVerifier = 1;
}

def HostIR_GroupOp : HostIR_Command<"group", [RecursiveMemoryEffects, NoTerminator, SingleBlock, NoRegionArguments]> {
  let summary = "Sends and receives posted together";
  let description = [{
    Like ncclGroupStart and ncclGroupEnd. The members are posted together, and the group completes when all have, so the
    send and the receive of one ring step do not wait for each other.

    Constraints:
    - group_c1: the body holds only sends, receives, views, `hostir.translate_position`, `arith` and `scf`.
    - group_c2: the channel has two-sided messages.

    Example:
    ```mlir
    hostir.group via %ch on %s {
      hostir.recv %slot from %left : memref<16x32xf32>
      hostir.send %own to %right : memref<16x32xf32>
    }
    ```
  }];
  let arguments = (ins HostIR_Channel:$channel, HostIR_Stream:$stream);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`via` $channel `on` $stream attr-dict-with-keyword $body";
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def HostIR_SendOp : HostIR_Command<"send"> {
  let summary = "Send a buffer to a peer";
  let description = [{
    The k-th send a -> b of a channel matches the k-th receive of b from a.

    Constraints:
    - send_c1: is inside a `hostir.group`.
    - send_c2: a constant peer is in the channel's group.

    Example:
    ```mlir
    hostir.send %own to %right : memref<16x32xf32>
    ```
  }];
  let arguments = (ins Arg<HostIR_Buffer, "", [MemRead]>:$buffer, Index:$peer);
  let assemblyFormat = "$buffer `to` $peer attr-dict `:` type($buffer)";
  let hasVerifier = 1;
}

def HostIR_RecvOp : HostIR_Command<"recv"> {
  let summary = "Receive a buffer from a peer";
  let description = [{
    Writes all of the buffer. The message has the buffer's shape and element type.

    Constraints:
    - recv_c1: is inside a `hostir.group`.
    - recv_c2: a constant peer is in the channel's group.

    Example:
    ```mlir
    hostir.recv %slot from %left : memref<16x32xf32>
    ```
  }];
  let arguments = (ins Arg<HostIR_Buffer, "", [MemWrite]>:$buffer, Index:$peer);
  let assemblyFormat = "$buffer `from` $peer attr-dict `:` type($buffer)";
  let hasVerifier = 1;
}

def HostIR_PutOp : HostIR_Command<"put"> {
  let summary = "Write into a peer's symmetric memory";
  let description = [{
    Like an NVSHMEM put: `target` is a view of this rank's symmetric memory; the put writes the same view on the peer.

    Constraints:
    - put_c1: equal shapes and element types.
    - put_c2: target is in symmetric memory.
    - put_c3: the channel has one-sided messages.
    - put_c4: a constant peer is in the channel's group.

    Example:
    ```mlir
    hostir.put %own to %slot at %peer via %ch on %s
        : memref<16xf32> to memref<16xf32, #hostir.symmetric>
    ```
  }];
  let arguments = (ins Arg<HostIR_Buffer, "", [MemRead]>:$source, HostIR_Buffer:$target, Index:$peer,
                       HostIR_Channel:$channel, HostIR_Stream:$stream);
  let assemblyFormat = [{
    $source `to` $target `at` $peer `via` $channel `on` $stream attr-dict `:` type($source) `to` type($target)
  }];
  let hasVerifier = 1;
}

def HostIR_SignalOp : HostIR_Command<"signal"> {
  let summary = "Raise a peer's signal slot after earlier puts to it are visible";
  let description = [{
    `value` is relative to the run, 1 or more. A signal never lowers a slot.

    Constraints:
    - signal_c1: the channel has one-sided messages.
    - signal_c2: a constant value is 1 or more, a constant slot not negative.
    - signal_c3: a constant peer is in the channel's group.

    Example:
    ```mlir
    hostir.signal %slot = %value at %peer via %ch on %s
    ```
  }];
  let arguments = (ins Index:$slot, Index:$value, Index:$peer, HostIR_Channel:$channel, HostIR_Stream:$stream);
  let assemblyFormat = "$slot `=` $value `at` $peer `via` $channel `on` $stream attr-dict";
  let hasVerifier = 1;
}

def HostIR_WaitSignalOp : HostIR_Command<"wait_signal"> {
  let summary = "Block a stream until a signal slot has reached a value in this run";
  let description = [{
    Constraints:
    - wait_signal_c1: a constant value is 1 or more, a constant slot not negative.

    Example:
    ```mlir
    hostir.wait_signal %slot >= %value via %ch on %s
    ```
  }];
  let arguments = (ins Index:$slot, Index:$value, HostIR_Channel:$channel, HostIR_Stream:$stream);
  let assemblyFormat = "$slot ` ` `>` `` `=` $value `via` $channel `on` $stream attr-dict";
  let hasVerifier = 1;
}
