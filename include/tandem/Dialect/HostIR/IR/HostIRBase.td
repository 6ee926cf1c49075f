//===- HostIRBase.td - hostir dialect -*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_HOSTIR_IR_HOSTIRBASE_TD
#define TANDEM_DIALECT_HOSTIR_IR_HOSTIRBASE_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def HostIR_Dialect : Dialect {
  let name = "hostir";
  let cppNamespace = "::tandem::hostir";
  let summary = "Host programs over buffers, streams and channels, one text for all ranks";
  let description = [{
    The `hostir` dialect states *how* a fusion runs: buffers, streams, collectives, sends and receives, puts and
    signals, matmuls. A `hostir.program` is SPMD: one text for all ranks. Only `hostir.device_index` and
    `hostir.in_mesh` differ by rank. Buffers are memrefs of local shape; loops and conditions are `scf` and `arith`.
    Every asynchronous op names its stream and, if it communicates, its channel. There is no hidden current stream.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect",
                           "::tandem::MeshDialect"];
  let hasRegionArgAttrVerify = 1;
  let hasOperationAttrVerify = 1;
  let hasConstantMaterializer = 1;
  let extraClassDeclaration = [{
    void registerTypesAndAttributes();
    void registerOps();
  }];
}

class HostIR_Type<string name, string typeMnemonic> : TypeDef<HostIR_Dialect, name> {
  let mnemonic = typeMnemonic;
}

/// All commands write this shared side-effect resource, so MLIR keeps their order.
def HostIR_IssueOrder : Resource<"::tandem::hostir::IssueOrder">;

def HostIR_Stream : HostIR_Type<"Stream", "stream"> {
  let summary = "An in-order queue of commands";
}

def HostIR_Channel : HostIR_Type<"Channel", "channel"> {
  let summary = "An ordered communication path between the devices of a group";
}

def HostIR_SymmetricAttr : AttrDef<HostIR_Dialect, "Symmetric"> {
  let mnemonic = "symmetric";
  let summary = "Memory space that peers may access directly; kept by views";
}

def HostIR_CollectiveKind : I32EnumAttr<"CollectiveKind", "kind of collective", [
    I32EnumAttrCase<"AllGather", 0, "all_gather">,
    I32EnumAttrCase<"AllReduce", 1, "all_reduce">,
    I32EnumAttrCase<"ReduceScatter", 2, "reduce_scatter">,
    I32EnumAttrCase<"AllToAll", 3, "all_to_all">,
    I32EnumAttrCase<"Broadcast", 4, "broadcast">,
    I32EnumAttrCase<"Reduce", 5, "reduce">,
    I32EnumAttrCase<"Gather", 6, "gather">,
    I32EnumAttrCase<"Scatter", 7, "scatter">]> {
  let cppNamespace = "::tandem::hostir";
  let genSpecializedAttr = 0;
}
def HostIR_CollectiveKindAttr : EnumAttr<HostIR_Dialect, HostIR_CollectiveKind, "collective_kind">;

def HostIR_Capability : I32EnumAttr<"Capability", "capability of a channel", [
    I32EnumAttrCase<"TwoSided", 0, "two_sided">,
    I32EnumAttrCase<"OneSided", 1, "one_sided">,
    I32EnumAttrCase<"Collectives", 2, "collectives">]> {
  let cppNamespace = "::tandem::hostir";
  let genSpecializedAttr = 0;
}
def HostIR_CapabilityAttr : EnumAttr<HostIR_Dialect, HostIR_Capability, "capability">;

def HostIR_ExchangeProtocol : I32EnumAttr<"ExchangeProtocol", "how the kernel of an exchange tells peers of arrivals", [
    I32EnumAttrCase<"Simple", 0, "simple">,
    I32EnumAttrCase<"Block", 1, "block">,
    I32EnumAttrCase<"LL", 2, "ll">]> {
  let cppNamespace = "::tandem::hostir";
  let genSpecializedAttr = 0;
}
def HostIR_ExchangeProtocolAttr : EnumAttr<HostIR_Dialect, HostIR_ExchangeProtocol, "exchange_protocol">;

def HostIR_ExchangeKind : I32EnumAttr<"ExchangeKind", "what an exchange does", [
    I32EnumAttrCase<"AllGather", 0, "all_gather">,
    I32EnumAttrCase<"ReduceScatter", 1, "reduce_scatter">,
    I32EnumAttrCase<"OneShotAllReduce", 2, "one_shot_all_reduce">,
    I32EnumAttrCase<"TwoShotAllReduce", 3, "two_shot_all_reduce">,
    I32EnumAttrCase<"Push", 4, "put_all">]> {
  let cppNamespace = "::tandem::hostir";
  let genSpecializedAttr = 0;
}
def HostIR_ExchangeKindAttr : EnumAttr<HostIR_Dialect, HostIR_ExchangeKind, "exchange_kind">;

#endif // TANDEM_DIALECT_HOSTIR_IR_HOSTIRBASE_TD
