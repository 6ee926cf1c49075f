// RUN: tandem-opt %s --fusion-specialize --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: tandem-compile %s --target=cpu-local -o %t.tsp && tandem-compile --dump %t.tsp --rank=2 | FileCheck %s --check-prefix=RANK2

// Rows become columns: an all-to-all per slice of the third dimension.

// HOSTIR: scf.for
// HOSTIR: hostir.collective all_to_all %{{.+}} to %{{.+}} via %{{.+}} : memref<4x2x3x2xf32, {{.+}}> to memref<4x2x3x2xf32, {{.+}}>
//
// RANK2: s1 collective c0 all_to_all arg1:f32[4,2,3,2]{{.*}} <- arg0:f32[4,2,3,2]

#tp = #tandem.mesh<"tp", ["x" = 4]>

func.func @all_to_all(%t0: tensor<?x?x4xf32, #fusion.axes<#tp, [didx("x"), -, -]>> {fusion.name = "t0", fusion.shape = [8, 12, 4]})
    -> (tensor<?x?x4xf32, #fusion.axes<#tp, [-, didx("x"), stream(2)]>> {fusion.name = "t1"}) {
  %t1 = fusion.reshard %t0
      : tensor<?x?x4xf32, #fusion.axes<#tp, [didx("x"), -, -]>> -> tensor<?x?x4xf32, #fusion.axes<#tp, [-, didx("x"), stream(2)]>>
  return %t1 : tensor<?x?x4xf32, #fusion.axes<#tp, [-, didx("x"), stream(2)]>>
}
