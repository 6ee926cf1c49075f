// RUN: tandem-opt %s --tandem-lower=mesh=x=4 | FileCheck %s
// RUN: tandem-compile %s --entry=mlp_push --mesh x=3 --dump --rank=0 | FileCheck %s --check-prefix=SLOTS

// Two loops of the schedule `push` in one program: what receives slices begins with the own ones, what hands them out
// ends with those, so a gather and a reduction are two loops. Each has signal slots and receive memory of its own.
//
// CHECK-LABEL: hostir.program @mlp_push(
// CHECK-SAME: symmetric_bytes = 6144
// CHECK: hostir.put
// CHECK: hostir.matmul
// CHECK: hostir.wait_signal
// CHECK: hostir.matmul
// CHECK: hostir.matmul
// CHECK: hostir.put
// CHECK: hostir.matmul
// CHECK: hostir.wait_signal
// CHECK: hostir.reduce sum
//
// SLOTS: signals [1,1,1,1,1,1]
//
// An all-reduce: a reduction, then a gather. What is gathered is a result of the program, so it is copied there.
//
// CHECK-LABEL: hostir.program @allreduce_push(
// CHECK: hostir.reduce sum {{.*}} to %[[SUM:[0-9a-z_]+]] dims
// CHECK: hostir.put %[[SUM]]
// CHECK: hostir.wait_signal
// CHECK: hostir.copy {{.*}}#hostir.symmetric> to

#tp = #tandem.mesh<"tp", ["x" = ?]>

func.func @mlp_push(
    %x: tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "x"},
    %w1: tensor<16x24xf32, #fusion.axes<#tp, [-, didx("x")]>> {fusion.name = "w1"},
    %w2: tensor<24x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "w2"})
    -> (tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "y"}) {
  %h = fusion.matmul %x, %w1 {fusion.gather = "before", fusion.schedule = #fusion.schedule<push>}
      : tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>>, tensor<16x24xf32, #fusion.axes<#tp, [-, didx("x")]>>
     -> tensor<48x24xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>>
  %a = math.tanh %h : tensor<48x24xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>>
  %p = fusion.matmul %a, %w2
      : tensor<48x24xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>>, tensor<24x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
     -> tensor<48x16xf32, #fusion.axes<#tp, [stream("x"), -], partial = ["x"]>>
  %y = fusion.reshard %p {schedule = #fusion.schedule<push>}
      : tensor<48x16xf32, #fusion.axes<#tp, [stream("x"), -], partial = ["x"]>>
     -> tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
  return %y : tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
}

func.func @allreduce_push(
    %x: tensor<48x24xf32, #fusion.axes<#tp, [-, didx("x")]>> {fusion.name = "x"},
    %w: tensor<24x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "w"})
    -> (tensor<48x16xf32, #fusion.axes<#tp, [stream("x"), -]>> {fusion.name = "y"}) {
  %p = fusion.matmul %x, %w
      : tensor<48x24xf32, #fusion.axes<#tp, [-, didx("x")]>>, tensor<24x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
     -> tensor<48x16xf32, #fusion.axes<#tp, [stream("x"), -], partial = ["x"]>>
  %s = fusion.reshard %p {schedule = #fusion.schedule<push>}
      : tensor<48x16xf32, #fusion.axes<#tp, [stream("x"), -], partial = ["x"]>>
     -> tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
  %y = fusion.reshard %s {schedule = #fusion.schedule<push>}
      : tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
     -> tensor<48x16xf32, #fusion.axes<#tp, [stream("x"), -]>>
  return %y : tensor<48x16xf32, #fusion.axes<#tp, [stream("x"), -]>>
}
