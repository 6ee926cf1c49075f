//===- FusionAttrs.td - fusion attributes -*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_FUSION_IR_FUSIONATTRS_TD
#define TANDEM_DIALECT_FUSION_IR_FUSIONATTRS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/TensorEncoding.td"
include "tandem/Dialect/Fusion/IR/FusionBase.td"

class Fusion_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Fusion_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

//===----------------------------------------------------------------------===//
// Enums
//===----------------------------------------------------------------------===//

def Fusion_ReduceKind : I32EnumAttr<"ReduceKind", "how terms are combined", [
    I32EnumAttrCase<"Sum", 0, "sum">,
    I32EnumAttrCase<"Max", 1, "max">,
    I32EnumAttrCase<"Min", 2, "min">]> {
  let cppNamespace = "::tandem::fusion";
  let genSpecializedAttr = 0;
}
def Fusion_ReduceKindAttr : EnumAttr<Fusion_Dialect, Fusion_ReduceKind, "reduce_kind">;

def Fusion_ScheduleKind : I32EnumAttr<"ScheduleKind", "how a reshard group becomes a stream loop", [
    I32EnumAttrCase<"Pipeline", 0, "pipeline">,
    I32EnumAttrCase<"Exchange", 1, "exchange">,
    I32EnumAttrCase<"Ring", 2, "ring">,
    I32EnumAttrCase<"Push", 3, "push">,
    I32EnumAttrCase<"Hierarchical", 4, "hierarchical">]> {
  let cppNamespace = "::tandem::fusion";
  let genSpecializedAttr = 0;
}

def Fusion_PeerOrder : I32EnumAttr<"PeerOrder", "in which order a device turns to its peers", [
    I32EnumAttrCase<"Rotated", 0, "rotated">,
    I32EnumAttrCase<"Xor", 1, "xor">]> {
  let cppNamespace = "::tandem::fusion";
  let genSpecializedAttr = 0;
}

//===----------------------------------------------------------------------===//
// Mesh
//===----------------------------------------------------------------------===//

def Fusion_MeshAttr : Fusion_Attr<"Mesh", "mesh"> {
  let summary = "A named grid of devices";
  let description = [{
    Axes are listed outermost first; a size may be `?` until `fusion-specialize` makes it a number. Devices are world ranks,
    `0 ... n-1` in row-major order unless `devices` lists them. A mesh may be a part of the world; ranks outside it run
    nothing of it. A mesh without axes is one device.

    Constraints:
    - mesh_c1: axis names are unique and not empty.
    - mesh_c2: axis sizes are positive or `?`.
    - mesh_c3: if `devices` is given, all sizes are known and it has exactly as many entries as the mesh has devices.
    - mesh_c4: the entries of `devices` are distinct and not negative.
    - mesh_c5: the mesh has at most 2^31 - 1 devices.

    Example:
    ```mlir
    #tp = #fusion.mesh<"tp", ["x" = 8]>
    #pod = #fusion.mesh<"pod", ["node" = 2, "gpu" = 4]>
    #part = #fusion.mesh<"part", ["x" = 2], devices = [3, 1]>
    ```
  }];
  let parameters = (ins
    "::mlir::StringAttr":$name,
    ArrayRefParameter<"MeshAxis", "axes, outermost first">:$axes,
    ArrayRefParameter<"int64_t", "world ranks in row-major order; empty: 0 ... n-1">:$devices);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Index of the axis called `axis`, or -1.
    int64_t axisIndex(::mlir::StringRef axis) const;
    /// Size of the axis called `axis` (ShapedType::kDynamic if `?`); the axis must exist.
    int64_t axisSize(::mlir::StringRef axis) const;
    /// Number of devices, or ShapedType::kDynamic if a size is `?`.
    int64_t numDevices() const;
    bool isStatic() const { return !::mlir::ShapedType::isDynamic(numDevices()); }
    /// World rank of the device at a row-major position.
    int64_t worldRank(int64_t position) const;
    /// Row-major position of a world rank, or -1 if the rank is outside the mesh.
    int64_t position(int64_t worldRank) const;
    /// Coordinates (one per axis) of a row-major position.
    ::llvm::SmallVector<int64_t> coordinates(int64_t position) const;
  }];
}

//===----------------------------------------------------------------------===//
// Axes
//===----------------------------------------------------------------------===//

def Fusion_DimAxesAttr : Fusion_Attr<"DimAxes", "dim"> {
  let summary = "How one dimension's index is read as mixed-radix digits, outermost first";
  let description = [{
    Written inside `#fusion.axes` as a product of digits, `-` if there is none. `didx("x")` has the size of the mesh axis,
    and so have `stream("x")` and `serial("x")`, which are no digits of its devices; `stream(n)` and `serial(n)` have the
    size n, bare `stream` all that is left of the extent. What the digits leave over is serial and innermost.
    `stream("x")` and `serial("x")` stand for their numbers: over a mesh that has them, they are read as these.
  }];
  let parameters = (ins ArrayRefParameter<"Digit", "digits, outermost first">:$digits);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    bool hasDevice() const;
    bool hasStream() const;
  }];
}

def Fusion_AxesAttr : Fusion_Attr<"Axes", "axes",
    [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "How a tensor's dimensions are parallelised over a mesh and over streams";
  let description = [{
    `didx` digits alone decide placement: which device holds which elements. `stream` digits alone decide iteration: which
    elements one pass of a stream loop handles; changing only them never moves data between devices. `partial` lists mesh
    axes along which every device holds one term of the value (a sum unless another reduction is named). A mesh axis that
    appears nowhere replicates: all devices along it hold the same bits.

    Constraints:
    - axes_c1: every axis named by a digit or by `partial` is an axis of the mesh.
    - axes_c2: a mesh axis is used at most once, in a `didx` digit or in `partial`.
    - axes_c3: `stream(n)` and `serial(n)` have n >= 1, and their product fits 63 bits; bare `stream` is the last digit
      of its dimension.
    - axes_c4: there is one entry per dimension of the tensor.
    - axes_c5: the product of a dimension's known digits divides its extent (where that is known). `stream(n)` as the last
      written digit need not divide what the digits before it leave, E indices: its slices have ceil(E / n) of them, the
      last one fewer, but at least 1.
    - axes_c6: a reduction is named only beside a list of partial axes.

    Example:
    ```mlir
    tensor<8192x4096xbf16, #fusion.axes<#tp, [didx("x") * stream(2), -]>>
    tensor<64x64xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>
    tensor<64x64xf32, #fusion.axes<#tp, [-, -], partial = max ["x"]>>
    tensor<64x64xf32, #fusion.axes<#any, [stream("x"), -]>>
    ```
  }];
  let parameters = (ins
    "MeshAttr":$mesh,
    ArrayRefParameter<"DimAxesAttr", "one per dimension">:$dims,
    ArrayRefParameter<"::mlir::StringAttr", "mesh axes along which the value is partial">:$partial,
    "ReduceKind":$partialKind);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Axes of a value that is replicated over all of `mesh` and not streamed.
    static AxesAttr getReplicated(MeshAttr mesh, int64_t rank);
    bool isPartial() const { return !getPartial().empty(); }
    bool hasStream() const;
    /// The same without stream digits: what a placement is. A stream digit becomes a serial one; serial digits that
    /// have nothing but serial ones after them are dropped and neighbouring serial digits are merged.
    AxesAttr getPlacement() const;
    /// The same with other dims.
    AxesAttr withDims(::llvm::ArrayRef<DimAxesAttr> dims) const;
    /// The same with another (or no) partial list.
    AxesAttr withPartial(::llvm::ArrayRef<::mlir::StringAttr> partial, ReduceKind kind) const;
    /// Dimension that mesh axis `axis` splits, or -1.
    int64_t dimOfDeviceAxis(::mlir::StringRef axis) const;
  }];
}

//===----------------------------------------------------------------------===//
// Schedule
//===----------------------------------------------------------------------===//

def Fusion_ScheduleAttr : Fusion_Attr<"Schedule", "schedule"> {
  let summary = "The user's word on how a reshard group is scheduled";
  let description = [{
    Stands on `fusion.reshard` and overrides the choice of `fusion-select-schedule`. Chunk counts are no part of it: they
    are stream digits of the types. `push` alone has a peer `order` (default `rotated`: at distance d the device d behind;
    `xor`: the one whose number differs in the bits of d) and `merge`: how many peers' slices, in the order of the loop and
    the own one among them, are computed at once. `docs/schedules.md` says what each schedule does.

    `ring` and `hierarchical`, 2 `directions` and a `channel` are reserved for schedules to come: they are read, and
    `fusion-select-schedule` refuses them at the reshard.

    Constraints:
    - schedule_c1: directions is 1 or 2.
    - schedule_c2: streams is not negative (0: the schedule's default).
    - schedule_c3: `order` and `merge` stand beside `push` alone.
    - schedule_c4: the numbers of `merge` are 1 or more.

    Example:
    ```mlir
    #fusion.schedule<pipeline>
    #fusion.schedule<exchange, streams = 3>
    #fusion.schedule<push, streams = 2, order = xor, merge = [1, 1, 2, 4]>
    ```
  }];
  let parameters = (ins
    EnumParameter<Fusion_ScheduleKind>:$kind,
    DefaultValuedParameter<"int64_t", "1", "directions at once">:$directions,
    DefaultValuedParameter<"int64_t", "0", "worker streams; 0: default">:$streams,
    StringRefParameter<"channel kind; empty: the target's default", [{""}]>:$channel,
    EnumParameter<Fusion_PeerOrder>:$order,
    OptionalArrayRefParameter<"int64_t", "peers computed at once, in the loop's order; empty: 1 each">:$merge);
  let builders = [AttrBuilder<(ins "ScheduleKind":$kind), [{
    return $_get($_ctxt, kind, 1, 0, "", PeerOrder::Rotated, ::llvm::ArrayRef<int64_t>());
  }]>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

#endif // TANDEM_DIALECT_FUSION_IR_FUSIONATTRS_TD
