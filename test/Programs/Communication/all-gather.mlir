// RUN: tandem-opt %s --fusion-specialize --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: tandem-compile %s --target=cpu-local -o %t.tsp && tandem-compile --dump %t.tsp --rank=4 | FileCheck %s --check-prefix=RANK4
// RUN: tandem-compile --dump %t.tsp --rank=2 | FileCheck %s --check-prefix=RANK2

// All rows to all devices of a mesh that neither begins at rank 0 nor is contiguous: a gather per slice of the columns. Who
// is not in the mesh does nothing.

// HOSTIR: scf.for
// HOSTIR: hostir.in_mesh
// HOSTIR: hostir.collective all_gather %{{.+}} to %{{.+}} via
//
// RANK4: group [1,3,4,5] self 2
// RANK4: s1 collective c0 all_gather
// RANK2: commands 0

#tp = #tandem.mesh<"tp", ["x" = 4], devices = [1, 3, 4, 5]>

func.func @all_gather(%t0: tensor<?x6xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "t0", fusion.shape = [12, 6]})
    -> (tensor<?x6xf32, #fusion.axes<#tp, [-, stream(3)]>> {fusion.name = "t1"}) {
  %t1 = fusion.reshard %t0
      : tensor<?x6xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<?x6xf32, #fusion.axes<#tp, [-, stream(3)]>>
  return %t1 : tensor<?x6xf32, #fusion.axes<#tp, [-, stream(3)]>>
}
