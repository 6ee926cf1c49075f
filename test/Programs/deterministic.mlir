// RUN: tandem-compile %s --entry=layer --mesh x=4 --target=cpu-local -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=LAYER
// RUN: tandem-compile %s --entry=layer --mesh x=4 --target=cpu-local -o %t.tsp && tandem-compile %s --entry=layer --mesh x=4 --target=cpu-local --baseline -o %t.baseline.tsp && tandem-check %t.tsp --same-bits=%t.baseline.tsp
// RUN: tandem-compile %s --entry=sums --mesh x=4 --target=cuda-nccl --dump --rank=1 | FileCheck %s --check-prefix=SUMS
// RUN: tandem-compile %s --entry=layer_any_order --mesh x=4 --target=cpu-local -o %t.any.tsp && tandem-compile %s --entry=layer_any_order --mesh x=4 --target=cpu-local --baseline -o %t.any-baseline.tsp && not tandem-check %t.any.tsp --same-bits=%t.any-baseline.tsp | FileCheck %s --check-prefix=OTHER
// RUN: not tandem-compile %s --entry=layer --mesh x=4 --deterministic=bits -o %t.tsp 2>&1 | FileCheck %s --check-prefix=OPTION
// RUN: tandem-compile %S/row-parallel.mlir --entry=row_parallel --mesh x=4 --target=cuda-nccl --deterministic=batch --dump --rank=0 | FileCheck %s --check-prefix=BATCH

// Programs whose results have the same bits with every schedule (docs/semantics.md). The exchange collects the partial
// sums of all devices and adds them in the order of the ranks.
//
// LAYER: stream program @layer version {{.*}} deterministic bitwise
// LAYER: cannot occur, {{.*}} bits-differ order-not-fixed
// LAYER: matmul
// LAYER: reduce sum
//
// Collectives that add floats become collectives that only move them, and a sum. Integers and maxima stay.
//
// SUMS: collective {{.*}} all_to_all
// SUMS: reduce sum
// SUMS: collective {{.*}} all_gather
// SUMS: collective {{.*}} all_reduce max
// SUMS: collective {{.*}} all_reduce sum
//
// OTHER: error: bits-differ: rank 0: {{[0-9]+}} of its {{[0-9]+}} elements of result "y" have other last bits than those of the other program
//
//
// OPTION: error: option deterministic: expected bitwise, batch or tp, found "bits"
//
// BATCH: deterministic batch

#tp = #tandem.mesh<"tp", ["x" = ?]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
#whole = #fusion.axes<#tp, [-, -]>

func.func @layer(
    %x: tensor<72x96xf32, #rows> {fusion.name = "x"},
    %w1: tensor<96x144xf32, #columns> {fusion.name = "w1"},
    %w2: tensor<144x96xf32, #rows> {fusion.name = "w2"})
    -> (tensor<72x96xf32, #rows> {fusion.name = "y"}) attributes {fusion.deterministic = "bitwise"} {
  %h = fusion.matmul %x, %w1 {fusion.gather = "before", fusion.schedule = #fusion.schedule<push>}
      : tensor<72x96xf32, #rows>, tensor<96x144xf32, #columns>
     -> tensor<72x144xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>>
  %a = math.tanh %h : tensor<72x144xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>>
  %p = fusion.matmul %a, %w2
      : tensor<72x144xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>>, tensor<144x96xf32, #rows>
     -> tensor<72x96xf32, #fusion.axes<#tp, [stream("x"), -], partial = ["x"]>>
  %y = fusion.reshard %p {schedule = #fusion.schedule<exchange>}
      : tensor<72x96xf32, #fusion.axes<#tp, [stream("x"), -], partial = ["x"]>> -> tensor<72x96xf32, #rows>
  return %y : tensor<72x96xf32, #rows>
}

func.func @layer_any_order(
    %x: tensor<72x96xf32, #rows> {fusion.name = "x"},
    %w1: tensor<96x144xf32, #columns> {fusion.name = "w1"},
    %w2: tensor<144x96xf32, #rows> {fusion.name = "w2"})
    -> (tensor<72x96xf32, #rows> {fusion.name = "y"}) {
  %h = fusion.matmul %x, %w1 {fusion.gather = "before", fusion.schedule = #fusion.schedule<push>}
      : tensor<72x96xf32, #rows>, tensor<96x144xf32, #columns>
     -> tensor<72x144xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>>
  %a = math.tanh %h : tensor<72x144xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>>
  %p = fusion.matmul %a, %w2
      : tensor<72x144xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>>, tensor<144x96xf32, #rows>
     -> tensor<72x96xf32, #fusion.axes<#tp, [stream("x"), -], partial = ["x"]>>
  %y = fusion.reshard %p {schedule = #fusion.schedule<exchange>}
      : tensor<72x96xf32, #fusion.axes<#tp, [stream("x"), -], partial = ["x"]>> -> tensor<72x96xf32, #rows>
  return %y : tensor<72x96xf32, #rows>
}

func.func @sums(%x: tensor<48x96xf32, #columns> {fusion.name = "x"}, %i: tensor<96xi32, #fusion.axes<#tp, [didx("x")]>> {fusion.name = "i"})
    -> (tensor<48xf32, #fusion.axes<#tp, [-]>> {fusion.name = "sum"}, tensor<48xf32, #fusion.axes<#tp, [-]>> {fusion.name = "max"},
        tensor<i32, #fusion.axes<#tp, []>> {fusion.name = "count"}) attributes {fusion.deterministic = "bitwise"} {
  %sum = fusion.reduce sum %x dims [1] : tensor<48x96xf32, #columns> -> tensor<48xf32, #fusion.axes<#tp, [-]>>
  %max = fusion.reduce max %x dims [1] : tensor<48x96xf32, #columns> -> tensor<48xf32, #fusion.axes<#tp, [-]>>
  %count = fusion.reduce sum %i dims [0] : tensor<96xi32, #fusion.axes<#tp, [didx("x")]>> -> tensor<i32, #fusion.axes<#tp, []>>
  return %sum, %max, %count : tensor<48xf32, #fusion.axes<#tp, [-]>>, tensor<48xf32, #fusion.axes<#tp, [-]>>, tensor<i32, #fusion.axes<#tp, []>>
}
