// RUN: tandem-opt %s --fusion-specialize --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: tandem-compile %s --target=cpu-local -o %t.tsp && tandem-compile --dump %t.tsp --rank=2 | FileCheck %s --check-prefix=RANK2
// RUN: tandem-compile %s --target=cpu-ucx -o %t.tsp && tandem-compile --dump %t.tsp --rank=2 | FileCheck %s --check-prefix=UCX

// Terms of all devices, reduced to one of them. All numbers are negative, as a maximum that begins with 0 would be wrong.

// HOSTIR: hostir.reduce max
// HOSTIR: hostir.collective reduce %{{.+}} to %{{.+}} root %c2 via %{{.+}} {reduction = #tandem<reduce_kind max>} : memref<2x3xf32{{.*}}> to memref<2x3xf32{{.*}}>
//
// RANK2: collective c0 reduce max arg1:f32[2,3] <- {{.*}} root 2
//
// UCX: accumulate max

#tp = #tandem.mesh<"tp", ["x" = 4]>
#root = #tandem.mesh<"root", [], devices = [2]>

func.func @reduce(%t0: tensor<?x4x3xf32, #fusion.axes<#tp, [didx("x"), -, -]>> {fusion.name = "t0", fusion.shape = [8, 4, 3]})
    -> (tensor<4x3xf32, #fusion.axes<#root, [stream(2), -]>> {fusion.name = "t1"}) {
  %positive = math.absf %t0 : tensor<?x4x3xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
  %negative = arith.negf %positive : tensor<?x4x3xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
  %term = fusion.reduce max %negative dims [0]
      : tensor<?x4x3xf32, #fusion.axes<#tp, [didx("x"), -, -]>> -> tensor<4x3xf32, #fusion.axes<#tp, [-, -], partial = max ["x"]>>
  %t1 = fusion.reshard %term
      : tensor<4x3xf32, #fusion.axes<#tp, [-, -], partial = max ["x"]>> -> tensor<4x3xf32, #fusion.axes<#root, [stream(2), -]>>
  return %t1 : tensor<4x3xf32, #fusion.axes<#root, [stream(2), -]>>
}
