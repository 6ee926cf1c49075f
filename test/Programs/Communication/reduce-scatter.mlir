// RUN: tandem-opt %s --fusion-specialize --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: tandem-compile %s --target=cpu-ucx -o %t.tsp && tandem-compile --dump %t.tsp --rank=2 | FileCheck %s --check-prefix=UCX

// As reduce, and each device gets its rows.

// HOSTIR: hostir.collective reduce_scatter %{{.+}} to %{{.+}} via %{{.+}} {reduction = #tandem<reduce_kind max>} : memref<4x3x2xf32{{.*}}> to memref<3x2xf32{{.*}}>
// UCX: accumulate max

#tp = #tandem.mesh<"tp", ["x" = 4]>

func.func @reduce_scatter(%t0: tensor<?x?x4xf32, #fusion.axes<#tp, [didx("x"), -, -]>> {fusion.name = "t0", fusion.shape = [8, 12, 4]})
    -> (tensor<?x4xf32, #fusion.axes<#tp, [didx("x"), stream(2)]>> {fusion.name = "t1"}) {
  %positive = math.absf %t0 : tensor<?x?x4xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
  %negative = arith.negf %positive : tensor<?x?x4xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
  %term = fusion.reduce max %negative dims [0]
      : tensor<?x?x4xf32, #fusion.axes<#tp, [didx("x"), -, -]>> -> tensor<?x4xf32, #fusion.axes<#tp, [-, -], partial = max ["x"]>>
  %t1 = fusion.reshard %term
      : tensor<?x4xf32, #fusion.axes<#tp, [-, -], partial = max ["x"]>> -> tensor<?x4xf32, #fusion.axes<#tp, [didx("x"), stream(2)]>>
  return %t1 : tensor<?x4xf32, #fusion.axes<#tp, [didx("x"), stream(2)]>>
}
