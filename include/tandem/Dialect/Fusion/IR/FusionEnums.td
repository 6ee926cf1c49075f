//===- FusionEnums.td - fusion enumerations -*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A file of its own, because tablegen writes every enumeration of the files that one includes.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_FUSION_IR_FUSIONENUMS_TD
#define TANDEM_DIALECT_FUSION_IR_FUSIONENUMS_TD

include "mlir/IR/EnumAttr.td"

def Fusion_ScheduleSource : I32EnumAttr<"ScheduleSource", "where the schedule of a stream loop comes from", [
    I32EnumAttrCase<"Annotation", 0, "annotation">,
    I32EnumAttrCase<"Cost", 1, "cost">,
    I32EnumAttrCase<"Fallback", 2, "fallback">, I32EnumAttrCase<"Tuned", 3, "tuned">]> {
  let cppNamespace = "::tandem::fusion";
  let genSpecializedAttr = 0;
}

// The rows of the reshard table (docs/fusion.md), of whole values and of slices.
def Fusion_ReshardKind : I32EnumAttr<"ReshardKind", "how a value gets from one placement to another", [
    I32EnumAttrCase<"Nothing", 0, "nothing">,             // no element changes devices (stream digits may differ)
    I32EnumAttrCase<"Slice", 1, "slice">,                 // replicated -> split: every device keeps a part of its data
    I32EnumAttrCase<"AllGather", 2, "all-gather">,        // split on fromDim -> replicated
    I32EnumAttrCase<"AllReduce", 3, "all-reduce">,        // partial -> replicated
    I32EnumAttrCase<"ReduceScatter", 4, "reduce-scatter">, // partial -> split on toDim
    I32EnumAttrCase<"AllToAll", 5, "all-to-all">,  // split on fromDim -> split on toDim (or on fromDim in other blocks)
    I32EnumAttrCase<"Permute", 6, "permute">,      // every device gets the whole shard of another device (`sources`)
    I32EnumAttrCase<"SendRecv", 7, "send/recv">,   // as Permute, to another mesh
    I32EnumAttrCase<"Broadcast", 8, "broadcast">,  // one device -> replicated on another mesh
    I32EnumAttrCase<"Scatter", 9, "scatter">,      // one device -> split on toDim on another mesh
    I32EnumAttrCase<"Gather", 10, "gather">,       // split on fromDim -> one device
    I32EnumAttrCase<"Reduce", 11, "reduce">,       // partial -> one device
    I32EnumAttrCase<"OwnerMoves", 12, "owner moves">, // of slices: each moves from the device that has it to the others
    I32EnumAttrCase<"Transfer", 13, "transfer">,   // any other move: each device gets the missing parts from their owners
    I32EnumAttrCase<"Sequence", 14, "sequence">,   // several of the above in a row: `steps`
    I32EnumAttrCase<"Unsupported", 15, "unsupported">]> { // `reason` states what was found and what is accepted
  let cppNamespace = "::tandem::fusion";
  let genSpecializedAttr = 0;
}

#endif // TANDEM_DIALECT_FUSION_IR_FUSIONENUMS_TD
