// RUN: tandem-opt %s --fusion-specialize --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: tandem-compile %s --target=cpu-local -o %t.tsp && tandem-compile --dump %t.tsp --rank=2 | FileCheck %s --check-prefix=RANK2

// An input that is partial already, columns that each device gets, and what one of them gets of all.

// HOSTIR: hostir.collective reduce_scatter {{.*}} {reduction = #tandem<reduce_kind max>}
// HOSTIR: hostir.collective gather {{.*}} root %c2
//
// RANK2: collective c0 reduce_scatter max
// RANK2: collective c0 gather arg1:f32[4,5,3]{{.*}} root 2

#tp = #tandem.mesh<"tp", ["x" = 4]>
#root = #tandem.mesh<"root", [], devices = [2]>

func.func @partial(%t0: tensor<5x?xf32, #fusion.axes<#tp, [-, -], partial = max ["x"]>> {fusion.name = "t0", fusion.shape = [5, 12]})
    -> (tensor<5x?xf32, #fusion.axes<#root, [-, -]>> {fusion.name = "t1"}) {
  %columns = fusion.reshard %t0
      : tensor<5x?xf32, #fusion.axes<#tp, [-, -], partial = max ["x"]>> -> tensor<5x?xf32, #fusion.axes<#tp, [-, didx("x")]>>
  %t1 = fusion.reshard %columns {schedule = #fusion.schedule<pipeline>}
      : tensor<5x?xf32, #fusion.axes<#tp, [-, didx("x")]>> -> tensor<5x?xf32, #fusion.axes<#root, [-, -]>>
  return %t1 : tensor<5x?xf32, #fusion.axes<#root, [-, -]>>
}
