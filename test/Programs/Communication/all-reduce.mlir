// RUN: tandem-opt %s --fusion-specialize --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: tandem-compile %s --target=cpu-ucx -o %t.tsp && tandem-compile --dump %t.tsp --rank=2 | FileCheck %s --check-prefix=UCX

// As reduce, to all.

// HOSTIR: hostir.collective all_reduce %{{.+}} to %{{.+}} via %{{.+}} {reduction = #tandem<reduce_kind max>} : memref<5x3xf32{{.*}}> to memref<5x3xf32{{.*}}>
// UCX: {{(accumulate|reduce) max}}

#tp = #tandem.mesh<"tp", ["x" = 4]>

func.func @all_reduce(%t0: tensor<?x10x3xf32, #fusion.axes<#tp, [didx("x"), -, -]>> {fusion.name = "t0", fusion.shape = [8, 10, 3]})
    -> (tensor<10x3xf32, #fusion.axes<#tp, [stream(2), -]>> {fusion.name = "t1"}) {
  %positive = math.absf %t0 : tensor<?x10x3xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
  %negative = arith.negf %positive : tensor<?x10x3xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
  %term = fusion.reduce max %negative dims [0]
      : tensor<?x10x3xf32, #fusion.axes<#tp, [didx("x"), -, -]>> -> tensor<10x3xf32, #fusion.axes<#tp, [-, -], partial = max ["x"]>>
  %t1 = fusion.reshard %term
      : tensor<10x3xf32, #fusion.axes<#tp, [-, -], partial = max ["x"]>> -> tensor<10x3xf32, #fusion.axes<#tp, [stream(2), -]>>
  return %t1 : tensor<10x3xf32, #fusion.axes<#tp, [stream(2), -]>>
}
