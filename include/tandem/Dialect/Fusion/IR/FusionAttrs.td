//===- FusionAttrs.td - fusion attributes -*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_FUSION_IR_FUSIONATTRS_TD
#define TANDEM_DIALECT_FUSION_IR_FUSIONATTRS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/TensorEncoding.td"
include "tandem/Dialect/Fusion/IR/FusionBase.td"
include "tandem/Dialect/Fusion/IR/FusionEnums.td"
include "tandem/Dialect/Mesh/IR/Mesh.td"

class Fusion_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Fusion_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

//===----------------------------------------------------------------------===//
// Axes
//===----------------------------------------------------------------------===//

def Fusion_DimAxesAttr : Fusion_Attr<"DimAxes", "dim"> {
  let summary = "One dimension's index as mixed-radix digits, outermost first";
  let description = [{
    Written inside `#fusion.axes` as a product of digits, `-` if there is none. `didx("x")` has the size of mesh axis x
    and splits over its devices. `stream("x")` and `serial("x")` have that size too, but do not split over devices.
    `stream(n)` and `serial(n)` have size n, and bare `stream` has the rest of the extent. The remaining factor is
    serial and innermost. Example: `[didx("x") * stream(2)]` with 8 rows on 4 devices maps device 1, iteration 0 to row
    2. If the mesh has a number for x, `stream("x")` is read as `stream(n)`.
  }];
  let parameters = (ins ArrayRefParameter<"Digit", "digits, outermost first">:$digits);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    bool hasDevice() const;
    bool hasStream() const;
  }];
}

def Fusion_AxesAttr : Fusion_Attr<"Axes", "axes",
    [Mesh_ShardedEncoding, DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "How a tensor's dimensions are parallelised over a mesh and over streams";
  let description = [{
    Only `didx` digits decide placement: which device holds which elements. Only `stream` digits decide iteration: which
    elements one iteration of a stream loop handles. Changing only stream digits never moves data between devices.
    `partial` lists mesh axes along which every device holds one partial sum of the value (or another partial reduction,
    if named). Along an unused mesh axis the value is replicated: all devices hold the same bits.

    Constraints:
    - axes_c1: every axis named by a digit or by `partial` is an axis of the mesh.
    - axes_c2: a mesh axis is used at most once, in a `didx` digit or in `partial`.
    - axes_c3: `stream(n)` and `serial(n)` have n >= 1, and their product fits 63 bits; bare `stream` is the last digit
      of its dimension.
    - axes_c4: there is one entry per dimension of the tensor.
    - axes_c5: the product of a dimension's known digits divides its extent (where that is known). Where device digits or
      outer slices do not, `fusion-pad-extents` makes the extent larger, so this is verified after that pass. `stream(n)` as the last
      written digit need not divide what the digits before it leave, E indices: its slices have ceil(E / n)
      indices, the last one fewer, but at least 1. Example: `stream(5)` of 48 indices has slices of 10, the last one of
      8.
    - axes_c6: a reduction is named only with a list of partial axes.

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
    /// Replicated over all of `mesh`, without streams. Example: `[-, -]` for rank 2.
    static AxesAttr getReplicated(MeshAttr mesh, int64_t rank);
    bool isPartial() const { return !getPartial().empty(); }
    bool hasStream() const;
    /// See `fusion::getLocalShape`. Example with "x" = 4: 16x6 as `[didx("x") * stream(2), -]` is 4x6.
    ::llvm::FailureOr<::llvm::SmallVector<int64_t>> getLocalShape(::mlir::RankedTensorType type) const;
    /// The same without stream digits. They become serial; trailing serial digits are dropped, adjacent ones merged.
    /// Example: `[stream(2) * serial(2) * didx("x") * stream(3)]` is `[serial(4) * didx("x")]`.
    AxesAttr getPlacement() const;
    /// The same mesh and partial list with other dims.
    AxesAttr withDims(::llvm::ArrayRef<DimAxesAttr> dims) const;
    /// The same with another (or an empty) partial list.
    AxesAttr withPartial(::llvm::ArrayRef<::mlir::StringAttr> partial, ReduceKind kind) const;
    /// The dimension that mesh axis `axis` splits, or -1. Example: 1 for "x" in `[-, didx("x")]`.
    int64_t dimOfDeviceAxis(::mlir::StringRef axis) const;
    /// Whether dimension `dim` of this extent has device digits, or slices outside of other digits, that do not divide it:
    /// fusion-pad-extents pads it. Example: 10 as `didx("x")` with "x" = 4.
    bool mustBePadded(int64_t dim, int64_t extent) const;
    /// axes_c5, for a shape that has been padded.
    ::llvm::LogicalResult verifyFits(::llvm::ArrayRef<int64_t> shape,
                                     ::llvm::function_ref<::mlir::InFlightDiagnostic()> emitError) const;
  }];
}

//===----------------------------------------------------------------------===//
// Schedule
//===----------------------------------------------------------------------===//

def Fusion_ScheduleAttr : Fusion_Attr<"Schedule", "schedule"> {
  let summary = "How a stream loop is scheduled: independent choices, and options";
  let description = [{
    As the annotation of a `fusion.reshard` it overrides the choice of `fusion-select-schedule`; on a `fusion.stream_loop`
    it is what `convert-fusion-to-hostir` emits. Chunk counts are no part of it: they are stream digits of the types.
    `order`, `by`, `compute` and `sum` are choices that all schedules have in common. The name of a schedule stands for
    the choices of a row of `tandem-c/Schedules.def`. It may be left out, and choices that are written replace those of the
    name: the attribute gets the name of the first row that has them all, and keeps what is not that row's default.
    Schedules are registered (`docs/schedules.md` describes them and their options); a value is a number, a list of
    numbers or a word. An option that is left out has its default.

    Constraints:
    - schedule_c1: a registered schedule has the name, or the choices.
    - schedule_c2: each option is one of the schedule's, at most once.
    - schedule_c3: each value is of the option's kind: a number or numbers that are large enough, or one of its words.

    Example:
    ```mlir
    #fusion.schedule<NAME>
    #fusion.schedule<NAME, merge = [1, 1, 2, 4], order = xor, streams = 2>
    #fusion.schedule<order = rotated, by = engines, compute = gated>
    ```
  }];
  let parameters = (ins
    StringRefParameter<"a registered schedule">:$name,
    "::mlir::DictionaryAttr":$options);
  let builders = [AttrBuilder<(ins "::llvm::StringRef":$name), [{
    return $_get($_ctxt, name, ::mlir::DictionaryAttr::get($_ctxt));
  }]>];
  let extraClassDeclaration = [{
    /// The value of an option of this kind; 0, empty or "" if absent.
    int64_t getInteger(::llvm::StringRef option) const;
    ::llvm::ArrayRef<int64_t> getIntegers(::llvm::StringRef option) const;
    ::llvm::StringRef getWord(::llvm::StringRef option) const;
    /// Name and options, for people: "push, streams = 2".
    std::string str() const;
  }];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Fusion_CandidateAttr : Fusion_Attr<"Candidate", "candidate"> {
  let summary = "What a loop may get: a schedule, and slices of one of its reshards";
  let description = [{
    It identifies a candidate in certificates, files of measured choices, and the options of `fusion-select-schedule`.
    It is written as a schedule with more options: `slices` along dimension `dim` of reshard number `reshard` of the loop
    (default 0); `pieces` of each slice (default 1), one of each device's shard; `per_owner` (default 1) slices for each
    device; `to_owners` = yes: each slice of a reduction goes to one device. Without `slices` the loop stays as it is.

    Constraints:
    - candidate_c1: the schedule is valid, and the others are positive numbers, or `yes`, next to `slices`.

    Example:
    ```mlir
    #fusion.candidate<NAME, streams = 2>
    #fusion.candidate<NAME, streams = 2, slices = 8, dim = 0, to_owners = yes>
    ```
  }];
  let parameters = (ins "::tandem::fusion::ScheduleAttr":$schedule, "int64_t":$slices, "int64_t":$dim,
                        "int64_t":$pieces, "int64_t":$perOwner, "bool":$toOwners, "int64_t":$reshard);
  let builders = [AttrBuilderWithInferredContext<(ins "::tandem::fusion::ScheduleAttr":$schedule), [{
    return $_get(schedule.getContext(), schedule, 0, 0, 1, 1, false, 0);
  }]>];
  let extraClassDeclaration = [{
    /// What is between the angle brackets: "push, slices = 8, dim = 0".
    std::string str() const;
    /// The attribute of such a string; null, without diagnostics, if it is none.
    static CandidateAttr fromStr(::mlir::MLIRContext *context, ::llvm::StringRef text);
  }];
  let hasCustomAssemblyFormat = 1;
}

def Fusion_ScheduleSourceAttr : EnumAttr<Fusion_Dialect, Fusion_ScheduleSource, "schedule_source">;

#endif // TANDEM_DIALECT_FUSION_IR_FUSIONATTRS_TD
