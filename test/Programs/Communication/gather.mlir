// RUN: tandem-opt %s --fusion-specialize --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: tandem-compile %s --target=cpu-local -o %t.tsp && tandem-compile --dump %t.tsp --rank=2 | FileCheck %s --check-prefix=RANK2
// RUN: tandem-compile --dump %t.tsp --rank=0 | FileCheck %s --check-prefix=RANK0

// Each device has rows, one device gets all, column by column: a gather per slice. The others write nothing.

// HOSTIR: scf.for
// HOSTIR: hostir.collective gather %{{.+}} to %{{.+}} root %c2 via %{{.+}} : memref<3x2xf32, {{.+}}> to memref<4x3x2xf32, {{.+}}>
//
// RANK2: s1 collective c0 gather arg1:f32[4,3,2]{{.*}} <- arg0:f32[3,2]{{.*}} root 2
// RANK0: s1 collective c0 gather none <- arg0:f32[3,2]{{.*}} root 2

#tp = #tandem.mesh<"tp", ["x" = 4]>
#root = #tandem.mesh<"root", [], devices = [2]>

func.func @gather(%t0: tensor<?x6xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "t0", fusion.shape = [12, 6]})
    -> (tensor<?x6xf32, #fusion.axes<#root, [-, stream(3)]>> {fusion.name = "t1"}) {
  %t1 = fusion.reshard %t0
      : tensor<?x6xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<?x6xf32, #fusion.axes<#root, [-, stream(3)]>>
  return %t1 : tensor<?x6xf32, #fusion.axes<#root, [-, stream(3)]>>
}
