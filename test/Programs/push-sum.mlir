// RUN: tandem-compile %s --entry=reduce_scatter_sum --dump --rank=1 | FileCheck %s --check-prefix=RANK1
// RUN: tandem-compile %s --entry=reduce_scatter_sum -o %t.tsp && tandem-check %t.tsp --queues=1 | FileCheck %s --check-prefix=PROVEN
// RUN: tandem-compile %s --entry=reduce_scatter_sum_epilogue --dump --rank=1 | FileCheck %s --check-prefix=STORED
// RUN: tandem-compile %s --entry=reduce_scatter_sum_epilogue -o %t.tsp && tandem-check %t.tsp --queues=1 --sms=132 | FileCheck %s --check-prefix=PROVEN
// RUN: tandem-compile %s --entry=all_reduce_sum -o %t.tsp && tandem-check %t.tsp --queues=1 | FileCheck %s --check-prefix=PROVEN
// RUN: tandem-compile %s --entry=reduce_scatter_sum_nodes -o %t.tsp && tandem-check %t.tsp --queues=1 | FileCheck %s --check-prefix=PROVEN
// RUN: tandem-compile %s --entry=sum_of_three --dump --rank=1 | FileCheck %s --check-prefix=THREE
// RUN: tandem-compile %s --entry=sum_of_three -o %t.tsp && tandem-check %t.tsp --queues=1 | FileCheck %s --check-prefix=PROVEN
// RUN: tandem-compile %s --entry=sum_reduced -o %t.tsp && tandem-check %t.tsp --queues=1 | FileCheck %s --check-prefix=PROVEN

// The schedule `push` with `sum = matmul`. Two devices: the matmul of each own slice waits for what the other device has computed of it, and adds that.
//
// RANK1: symmetric 2x3072, signals [2,2]
// RANK1: s0 matmul buf[[P:[0-9]+]]:f32[12,16] =
// RANK1: s1 put c0 sym[[G:[0-9]+]]+1536:f32[12,16] <- buf[[P]]:f32[12,16] to 0
// RANK1-NEXT: s1 signal c0 slot 1 value 1 to 0
// RANK1: s0 matmul
// RANK1: s1 signal c0 slot 1 value 2 to 0
// RANK1: s0 wait_signal c0 slot 0 value 1
// RANK1-NEXT: s0 matmul arg2:f32[12,16] = {{.*}} + sym[[G]]:f32[12,16]
// RANK1-NEXT: s0 wait_signal c0 slot 0 value 2
// RANK1-NEXT: s0 matmul arg2+768:f32[12,16] = {{.*}} + sym[[G]]+768:f32[12,16]
// RANK1-NOT: reduce
//
// PROVEN: no error

#tp = #tandem.mesh<"tp", ["x" = 2]>

func.func @reduce_scatter_sum(
    %x: tensor<48x24xf32, #fusion.axes<#tp, [-, didx("x")]>> {fusion.name = "x"},
    %w: tensor<24x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "w"})
    -> (tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "y"}) {
  %p = fusion.matmul %x, %w
      : tensor<48x24xf32, #fusion.axes<#tp, [-, didx("x")]>>, tensor<24x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
     -> tensor<48x16xf32, #fusion.axes<#tp, [stream("x") * stream(2), -], partial = ["x"]>>
  %y = fusion.reshard %p {schedule = #fusion.schedule<push, sum = matmul>}
      : tensor<48x16xf32, #fusion.axes<#tp, [stream("x") * stream(2), -], partial = ["x"]>>
     -> tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
  return %y : tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
}

// The kernel that computes the other device's rows stores them there. Then the matmul of the own rows adds.
//
// STORED: s0 gated_matmul 3 parts leaves 0 SMs
// STORED-NEXT: s0   matmul
// STORED-NEXT: s0   put {{.*}} to 0
// STORED-NEXT: s0   signal
// STORED-NEXT: s0 wait_signal c0 slot 0 value 1
// STORED-NEXT: s0 matmul arg2:f32[24,16] = {{.*}} + sym
// STORED-NOT: reduce

func.func @reduce_scatter_sum_epilogue(
    %x: tensor<48x24xf32, #fusion.axes<#tp, [-, didx("x")]>> {fusion.name = "x"},
    %w: tensor<24x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "w"})
    -> (tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "y"}) {
  %p = fusion.matmul %x, %w
      : tensor<48x24xf32, #fusion.axes<#tp, [-, didx("x")]>>, tensor<24x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
     -> tensor<48x16xf32, #fusion.axes<#tp, [stream("x"), -], partial = ["x"]>>
  %y = fusion.reshard %p {schedule = #fusion.schedule<push, by = epilogue, sum = matmul>}
      : tensor<48x16xf32, #fusion.axes<#tp, [stream("x"), -], partial = ["x"]>>
     -> tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
  return %y : tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
}

// Columns, and an elementwise op behind the sum.

func.func @reduce_scatter_sum_columns(
    %x: tensor<48x24xf32, #fusion.axes<#tp, [-, didx("x")]>> {fusion.name = "x"},
    %w: tensor<24x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "w"})
    -> (tensor<48x16xf32, #fusion.axes<#tp, [-, didx("x")]>> {fusion.name = "y"}) {
  %p = fusion.matmul %x, %w
      : tensor<48x24xf32, #fusion.axes<#tp, [-, didx("x")]>>, tensor<24x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
     -> tensor<48x16xf32, #fusion.axes<#tp, [-, stream("x") * stream(2)], partial = ["x"]>>
  %s = fusion.reshard %p {schedule = #fusion.schedule<push, sum = matmul, streams = 2>}
      : tensor<48x16xf32, #fusion.axes<#tp, [-, stream("x") * stream(2)], partial = ["x"]>>
     -> tensor<48x16xf32, #fusion.axes<#tp, [-, didx("x")]>>
  %y = math.tanh %s : tensor<48x16xf32, #fusion.axes<#tp, [-, didx("x")]>>
  return %y : tensor<48x16xf32, #fusion.axes<#tp, [-, didx("x")]>>
}

// An all-reduce, and what follows it.

func.func @all_reduce_sum(
    %x: tensor<48x24xf32, #fusion.axes<#tp, [-, didx("x")]>> {fusion.name = "x"},
    %w: tensor<24x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "w"},
    %r: tensor<48x16xf32, #fusion.axes<#tp, [stream("x") * stream(3), -]>> {fusion.name = "r"})
    -> (tensor<48x16xf32, #fusion.axes<#tp, [stream("x") * stream(3), -]>> {fusion.name = "y"}) {
  %p = fusion.matmul %x, %w
      : tensor<48x24xf32, #fusion.axes<#tp, [-, didx("x")]>>, tensor<24x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
     -> tensor<48x16xf32, #fusion.axes<#tp, [stream("x") * stream(3), -], partial = ["x"]>>
  %s = fusion.reshard %p {schedule = #fusion.schedule<push, sum = matmul>}
      : tensor<48x16xf32, #fusion.axes<#tp, [stream("x") * stream(3), -], partial = ["x"]>>
     -> tensor<48x16xf32, #fusion.axes<#tp, [stream("x") * stream(3), -]>>
  %y = arith.addf %s, %r : tensor<48x16xf32, #fusion.axes<#tp, [stream("x") * stream(3), -]>>
  return %y : tensor<48x16xf32, #fusion.axes<#tp, [stream("x") * stream(3), -]>>
}

// Batches of matrices, whose own ones are no block of memory, over one of two mesh axes.

#pod = #tandem.mesh<"pod", ["node" = 2, "x" = 2]>

func.func @reduce_scatter_sum_nodes(
    %x: tensor<2x48x24xf32, #fusion.axes<#pod, [-, -, didx("node") * didx("x")]>> {fusion.name = "x"},
    %w: tensor<24x16xf32, #fusion.axes<#pod, [didx("node") * didx("x"), -]>> {fusion.name = "w"})
    -> (tensor<2x48x16xf32, #fusion.axes<#pod, [-, didx("x"), -], partial = ["node"]>> {fusion.name = "y"}) {
  %p = fusion.matmul %x, %w
      : tensor<2x48x24xf32, #fusion.axes<#pod, [-, -, didx("node") * didx("x")]>>, tensor<24x16xf32, #fusion.axes<#pod, [didx("node") * didx("x"), -]>>
     -> tensor<2x48x16xf32, #fusion.axes<#pod, [-, stream("x"), -], partial = ["node", "x"]>>
  %y = fusion.reshard %p {schedule = #fusion.schedule<push, sum = matmul>}
      : tensor<2x48x16xf32, #fusion.axes<#pod, [-, stream("x"), -], partial = ["node", "x"]>>
     -> tensor<2x48x16xf32, #fusion.axes<#pod, [-, didx("x"), -], partial = ["node"]>>
  return %y : tensor<2x48x16xf32, #fusion.axes<#pod, [-, didx("x"), -], partial = ["node"]>>
}

// Sums of products. The first product of an own slice adds what the other device has computed of the whole sum. The order of the
// text counts, not that of the additions.
//
// THREE: s0 matmul [[A:buf[0-9]+]]:f32[12,16] = arg0
// THREE-NEXT: s0 matmul [[A]]:f32[12,16] += arg2
// THREE-NEXT: s0 matmul [[A]]:f32[12,16] += arg4
// THREE: s1 put c0 {{.*}} <- [[A]]:f32[12,16] to 0
// THREE: s0 wait_signal c0 slot 0 value 1
// THREE-NEXT: s0 matmul arg6:f32[12,16] = {{.*}} + sym
// THREE-NEXT: s0 matmul arg6:f32[12,16] +=
// THREE-NEXT: s0 matmul arg6:f32[12,16] +=
// THREE-NEXT: s0 wait_signal c0 slot 0 value 2
// THREE-NEXT: s0 matmul arg6+768:f32[12,16] = {{.*}} + sym
// THREE-NOT: launch
// THREE-NOT: reduce

!x = tensor<48x24xf32, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<24x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
!p = tensor<48x16xf32, #fusion.axes<#tp, [stream("x") * stream(2), -], partial = ["x"]>>
!y = tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
!s = tensor<48x16xf32, #fusion.axes<#tp, [stream("x") * stream(2), -]>>

func.func @sum_of_three(
    %x0: !x {fusion.name = "x0"}, %w0: !w {fusion.name = "w0"}, %x1: !x {fusion.name = "x1"}, %w1: !w {fusion.name = "w1"},
    %x2: !x {fusion.name = "x2"}, %w2: !w {fusion.name = "w2"}) -> (!y {fusion.name = "y"}) {
  %p0 = fusion.matmul %x0, %w0 : !x, !w -> !p
  %p1 = fusion.matmul %x1, %w1 : !x, !w -> !p
  %p2 = fusion.matmul %x2, %w2 : !x, !w -> !p
  %later = arith.addf %p1, %p2 : !p
  %sum = arith.addf %later, %p0 : !p
  %y = fusion.reshard %sum {schedule = #fusion.schedule<push, sum = matmul>} : !p -> !y
  return %y : !y
}

func.func @sum_reduced(
    %x0: !x {fusion.name = "x0"}, %w0: !w {fusion.name = "w0"}, %x1: !x {fusion.name = "x1"}, %w1: !w {fusion.name = "w1"})
    -> (!s {fusion.name = "y"}) {
  %p0 = fusion.matmul %x0, %w0 : !x, !w -> !p
  %p1 = fusion.matmul %x1, %w1 : !x, !w -> !p
  %sum = arith.addf %p0, %p1 : !p
  %y = fusion.reshard %sum {schedule = #fusion.schedule<push, sum = matmul>} : !p -> !s
  return %y : !s
}
