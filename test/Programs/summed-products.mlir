// RUN: tandem-compile %s --entry=sum_pushed --mesh x=4 --dump --rank=1 | FileCheck %s --check-prefix=PUSHED
// RUN: tandem-compile %s --entry=sum_pushed --mesh x=4 --deterministic=bitwise --dump --rank=1 | FileCheck %s --check-prefix=WRITTEN
// RUN: tandem-compile %s --entry=sum_in_ring --mesh x=4 --dump --rank=1 | FileCheck %s --check-prefix=RING
// RUN: tandem-compile %s --entry=sum_not_of_products --mesh x=2 --dump --rank=1 | FileCheck %s --check-prefix=OTHER

// Sums of products before a reduction, as the backward pass of layers with one input has: all are in its loop, and each but
// the first is added to the slice of the first one. `push-sum.mlir` has those that matmuls add up.

#tp = #tandem.mesh<"tp", ["x" = ?]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#partial = #fusion.axes<#tp, [stream("x") * stream(2), -], partial = ["x"]>
!x = tensor<48x24xf32, #columns>
!w = tensor<24x16xf32, #rows>
!p = tensor<48x16xf32, #partial>
!y = tensor<48x16xf32, #rows>

// Any number of devices: the own slices are computed where the last sum reads them. A deterministic program rounds as its
// text says.
//
// PUSHED: s0 matmul sym{{.*}}:f32[6,16] = arg0
// PUSHED-NEXT: s0 matmul sym{{.*}}:f32[6,16] += arg2
// PUSHED-NOT: copy
// PUSHED-NOT: launch
// PUSHED: reduce sum arg4
//
// WRITTEN: launch {{.*}}addf
func.func @sum_pushed(
    %x0: !x {fusion.name = "x0"}, %w0: !w {fusion.name = "w0"}, %x1: !x {fusion.name = "x1"}, %w1: !w {fusion.name = "w1"})
    -> (!y {fusion.name = "y"}) {
  %p0 = fusion.matmul %x0, %w0 : !x, !w -> !p
  %p1 = fusion.matmul %x1, %w1 : !x, !w -> !p
  %sum = arith.addf %p0, %p1 : !p
  %y = fusion.reshard %sum {schedule = #fusion.schedule<push>} : !p -> !y
  return %y : !y
}

// On a ring all products are added to the sum that has arrived.
//
// RING: recv
// RING: matmul {{.*}} += arg0
// RING-NEXT: matmul {{.*}} += arg2
// RING-NOT: launch
func.func @sum_in_ring(
    %x0: !x {fusion.name = "x0"}, %w0: !w {fusion.name = "w0"}, %x1: !x {fusion.name = "x1"}, %w1: !w {fusion.name = "w1"})
    -> (!y {fusion.name = "y"}) {
  %p0 = fusion.matmul %x0, %w0 : !x, !w -> !p
  %p1 = fusion.matmul %x1, %w1 : !x, !w -> !p
  %sum = arith.addf %p0, %p1 : !p
  %y = fusion.reshard %sum {schedule = #fusion.schedule<ring, sum = "matmul">} : !p -> !y
  return %y : !y
}

// A product that something else reads too, and one that is changed before it is added, are not.
//
// OTHER: launch {{.*}}addf
func.func @sum_not_of_products(
    %x0: !x {fusion.name = "x0"}, %w0: !w {fusion.name = "w0"}, %x1: !x {fusion.name = "x1"}, %w1: !w {fusion.name = "w1"})
    -> (!y {fusion.name = "y"}) {
  %p0 = fusion.matmul %x0, %w0 : !x, !w -> !p
  %p1 = fusion.matmul %x1, %w1 : !x, !w -> !p
  %twice = arith.addf %p0, %p0 : !p
  %sum = arith.addf %twice, %p1 : !p
  %y = fusion.reshard %sum {schedule = #fusion.schedule<push>} : !p -> !y
  return %y : !y
}
