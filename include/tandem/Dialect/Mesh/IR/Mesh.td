//===- Mesh.td - device meshes -*- tablegen -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_MESH_IR_MESH_TD
#define TANDEM_DIALECT_MESH_IR_MESH_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def Mesh_Dialect : Dialect {
  let name = "tandem";
  let cppNamespace = "::tandem";
  let summary = "Device meshes, reductions and choices, shared by the fusion and hostir dialects";
  let description = [{
    Attributes for the `fusion` dialect (which values are computed) and the `hostir` dialect (how). The dialect has no ops
    and no types. The `fusion` dialect still reads the older spellings `#fusion.mesh<...>` and `#fusion<reduce_kind ...>`.
  }];
  let useDefaultAttributePrinterParser = 1;
}

def Mesh_ReduceKind : I32EnumAttr<"ReduceKind", "how partial results are combined", [
    I32EnumAttrCase<"Sum", 0, "sum">,
    I32EnumAttrCase<"Max", 1, "max">,
    I32EnumAttrCase<"Min", 2, "min">]> {
  let cppNamespace = "::tandem";
  let genSpecializedAttr = 0;
}
def Mesh_ReduceKindAttr : EnumAttr<Mesh_Dialect, Mesh_ReduceKind, "reduce_kind">;

def Mesh_MeshAttr : AttrDef<Mesh_Dialect, "Mesh"> {
  let mnemonic = "mesh";
  let summary = "A named grid of devices";
  let description = [{
    Like a `jax.sharding.Mesh`. Axes are listed outermost first; a size may be `?` until `fusion-specialize` makes it a
    number. Devices are world ranks, `0 ... n-1` in row-major order unless `devices` lists them. A mesh may cover a part of
    the world; ranks outside it run none of its commands. A mesh without axes is one device.

    Constraints:
    - mesh_c1: axis names are unique and not empty.
    - mesh_c2: axis sizes are positive or `?`.
    - mesh_c3: if `devices` is given, all sizes are known and it has exactly as many entries as the mesh has devices.
    - mesh_c4: the entries of `devices` are distinct and not negative.
    - mesh_c5: the mesh has at most 2^31 - 1 devices.

    Example:
    ```mlir
    #tp = #tandem.mesh<"tp", ["x" = 8]>
    #pod = #tandem.mesh<"pod", ["node" = 2, "gpu" = 4]>
    #part = #tandem.mesh<"part", ["x" = 2], devices = [3, 1]>
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
    int64_t axisIndex(::llvm::StringRef axis) const;
    /// Size of the axis called `axis` (ShapedType::kDynamic if `?`); the axis must exist.
    int64_t axisSize(::llvm::StringRef axis) const;
    /// Number of devices, or ShapedType::kDynamic if a size is `?`.
    int64_t numDevices() const;
    bool isStatic() const { return !::mlir::ShapedType::isDynamic(numDevices()); }
    /// World rank of the device at a row-major position. Example: 3 for position 0 and devices = [3, 1].
    int64_t worldRank(int64_t position) const;
    /// Row-major position of a world rank, or -1 outside the mesh. Example: 1 for rank 1 and devices = [3, 1].
    int64_t position(int64_t worldRank) const;
    /// Coordinates (one per axis) of a row-major position: position 5 of ["node" = 2, "gpu" = 4] is [1, 1].
    ::llvm::SmallVector<int64_t> coordinates(int64_t position) const;
  }];
}

def Mesh_PricedCandidateAttr : AttrDef<Mesh_Dialect, "PricedCandidate"> {
  let mnemonic = "candidate";
  let summary = "A way to run a loop, and its price";
  let description = [{
    `what` is a `#fusion.candidate`: a schedule with its options and slices. The price is the simulated time in nanoseconds.

    Example:
    ```mlir
    #tandem.candidate<#fusion.candidate<NAME, slices = 4, dim = 0, pieces = 8>, 812300>
    ```
  }];
  let parameters = (ins "::mlir::Attribute":$what, "int64_t":$nanoseconds);
  let assemblyFormat = "`<` $what `,` $nanoseconds `>`";
}

def Mesh_ChoiceAttr : AttrDef<Mesh_Dialect, "Choice"> {
  let mnemonic = "choice";
  let summary = "How a loop of reshards and compute is run, and what else was considered";
  let description = [{
    `fusion-select-schedule` makes the choice and `convert-fusion-to-hostir` writes it to the program, for reports and
    certificates: no pass decides by it. It has the kinds of the loop's reshards, where they were written, the schedule,
    who chose it (`annotation`, `cost`, `tuned` or `fallback`), and the priced candidates: the chosen one, the plainest
    one, and the fastest others. With candidates, `loop` identifies equal loops, for `tandem.bench --tune`.

    Example:
    ```mlir
    #tandem.choice<"all-gather" at ["layer.mlir:7:8"], #fusion.candidate<NAME, slices = 8, dim = 0> from "cost",
                   [<#fusion.candidate<NAME, slices = 8, dim = 0>, 812300>, <#fusion.candidate<NAME>, 1215000>],
                   loop "51f2a0c98d7be334">
    ```
  }];
  let parameters = (ins
    StringRefParameter<"kinds of the reshards">:$reshards,
    "::mlir::ArrayAttr":$locations,
    "::mlir::Attribute":$what,
    StringRefParameter<"who chose it">:$source,
    OptionalArrayRefParameter<"PricedCandidateAttr", "may be none">:$candidates,
    OptionalParameter<"::mlir::StringAttr", "hash of the loop's signature">:$loop);
  let assemblyFormat = [{
    `<` $reshards `at` $locations `,` $what `from` $source (`,` `[` $candidates^ `]`)? (`,` `loop` $loop^)? `>`
  }];
}

def Mesh_ShardedEncoding : AttrInterface<"ShardedEncoding"> {
  let cppNamespace = "::tandem";
  let description = [{
    A tensor encoding that splits a tensor over the devices of a mesh, such as `#fusion.axes`. `hostir` verifies the shape
    of a program's arguments through it.
  }];
  let methods = [
    InterfaceMethod<"The mesh over whose devices the tensor is split.", "::tandem::MeshAttr", "getMesh">,
    InterfaceMethod<[{
      Shape of one device's shard of a tensor of type `type`, whose encoding this is. Fails if it depends on an unknown
      extent or mesh size. Example: 48x8 as `[didx("x"), -]` with "x" = 4 is 12x8.
    }], "::llvm::FailureOr<::llvm::SmallVector<int64_t>>", "getLocalShape", (ins "::mlir::RankedTensorType":$type)>
  ];
}

#endif // TANDEM_DIALECT_MESH_IR_MESH_TD
