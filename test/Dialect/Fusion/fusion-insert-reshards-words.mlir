// RUN: tandem-opt %s -fusion-insert-reshards -fusion-verify | FileCheck %s
// RUN: tandem-opt %s -fusion-insert-reshards="gather=after" -fusion-verify | FileCheck %s --check-prefixes=CHECK,AFTER

// The user's word on the reshards of one op: where they go, and their schedule. A word is not for what stays on its
// device, and it is gone afterwards.
#tp = #tandem.mesh<"tp", ["x" = 4]>
!rows = tensor<64x32xf32, #fusion.axes<#tp, [didx("x"), -]>>
!whole = tensor<64x32xf32, #fusion.axes<#tp, [-, -]>>
!out = tensor<64x16xf32, #fusion.axes<#tp, [stream(4), -]>>
!w = tensor<32x16xf32, #fusion.axes<#tp, [-, -]>>

// CHECK-NOT: fusion.gather
// CHECK-LABEL: @where
// CHECK-NEXT:    %[[M:.*]] = fusion.matmul %arg0, %arg1
// CHECK-NEXT:    fusion.reshard %[[M]] {schedule = #fusion.schedule<exchange>} : {{.*}} -> tensor<64x16xf32, #fusion.axes<#tp, [stream(4), -]>>
// CHECK-NEXT:    %[[G:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<64x32xf32, #fusion.axes<#tp, [stream(4), -]>>
// CHECK-NEXT:    fusion.matmul %[[G]], %arg1
// CHECK-NEXT:    return
func.func @where(%0: !rows, %1: !w) {
  %2 = fusion.matmul %0, %1 {fusion.gather = "after", fusion.schedule = #fusion.schedule<exchange>} : !rows, !w -> !out
  %3 = fusion.matmul %0, %1 {fusion.gather = "before"} : !rows, !w -> !out
  return
}

// A reshard that serves several ops takes the word of any of them; another word is another reshard. The weight is cut
// without one.
// CHECK-LABEL: @schedule
// CHECK-NEXT:    %[[G:.*]] = fusion.reshard %arg0 {schedule = #fusion.schedule<exchange>} : {{.*}} -> tensor<64x32xf32, #fusion.axes<#tp, [-, -]>>
// CHECK-NEXT:    %[[C:.*]] = fusion.reshard %arg1 : {{.*}} -> tensor<32x16xf32, #fusion.axes<#tp, [-, didx("x")]>>
// CHECK-NEXT:    fusion.matmul %[[G]], %[[C]]
// CHECK-NEXT:    fusion.matmul %[[G]], %[[C]]
// CHECK-NEXT:    %[[P:.*]] = fusion.reshard %arg0 {schedule = #fusion.schedule<pipeline>}
// CHECK-NEXT:    fusion.matmul %[[P]], %[[C]]
// CHECK-NEXT:    return
func.func @schedule(%0: !rows, %1: !w) {
  %2 = fusion.matmul %0, %1 {fusion.gather = "before"} : !rows, !w -> tensor<64x16xf32, #fusion.axes<#tp, [-, didx("x")]>>
  %3 = fusion.matmul %0, %1 {fusion.gather = "before", fusion.schedule = #fusion.schedule<exchange>} : !rows, !w -> tensor<64x16xf32, #fusion.axes<#tp, [-, didx("x")]>>
  %4 = fusion.matmul %0, %1 {fusion.gather = "before", fusion.schedule = #fusion.schedule<pipeline>} : !rows, !w -> tensor<64x16xf32, #fusion.axes<#tp, [-, didx("x")]>>
  return
}

// The schedule of a matmul is that of its reduction, which the text has written, unless that names its own. Its other
// uses are not meant.
// CHECK-LABEL: @reduction
// CHECK-NEXT:    %[[M:.*]] = fusion.matmul %arg0, %arg1
// CHECK-NEXT:    fusion.reshard %[[M]] {schedule = #fusion.schedule<exchange>} : {{.*}} -> tensor<64x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
// CHECK-NEXT:    fusion.reshard %[[M]] {schedule = #fusion.schedule<pipeline>} : {{.*}} -> tensor<64x16xf32, #fusion.axes<#tp, [-, -]>>
// CHECK-NEXT:    return
func.func @reduction(%0: tensor<64x32xf32, #fusion.axes<#tp, [-, didx("x")]>>, %1: tensor<32x16xf32, #fusion.axes<#tp, [didx("x"), -]>>) {
  %2 = fusion.matmul %0, %1 {fusion.schedule = #fusion.schedule<exchange>} : tensor<64x32xf32, #fusion.axes<#tp, [-, didx("x")]>>, tensor<32x16xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<64x16xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>
  %3 = fusion.reshard %2 : tensor<64x16xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>> -> tensor<64x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
  %4 = fusion.reshard %2 {schedule = #fusion.schedule<pipeline>} : tensor<64x16xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>> -> tensor<64x16xf32, #fusion.axes<#tp, [-, -]>>
  return
}

// AFTER-LABEL: @modes
// AFTER-NEXT: fusion.matmul %arg0, %arg1
// AFTER-NEXT: fusion.reshard
func.func @modes(%0: !rows, %1: !w) {
  %2 = fusion.matmul %0, %1 : !rows, !w -> !out
  return
}
