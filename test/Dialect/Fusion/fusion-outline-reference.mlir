// RUN: tandem-opt %s -fusion-outline-reference | FileCheck %s
// RUN: tandem-opt %s -fusion-outline-reference -fusion-outline-reference | FileCheck %s
// RUN: tandem-opt %s -fusion-outline-reference -fusion-propagate-axes -fusion-insert-reshards -fusion-verify | FileCheck %s --check-prefix=LATER

#tp = #tandem.mesh<"tp", ["x" = 4]>
// CHECK-DAG: #one = #tandem.mesh<"one", []>

// The function itself stays; the twin follows it.
// CHECK-LABEL: func.func @layer(
// CHECK-SAME:    tensor<64x32xf32, #fusion.axes<#tp, [-, didx("x")]>> {fusion.name = "x"}
// CHECK-LABEL: func.func private @layer__reference(
// CHECK-SAME:    %arg0: tensor<64x32xf32, #fusion.axes<#one, [-, -]>> {fusion.name = "x"}
// CHECK-SAME:    %arg1: tensor<32x16xf32, #fusion.axes<#one, [-, -]>>
// CHECK-SAME:    -> (tensor<64xf32, #fusion.axes<#one, [-]>> {fusion.name = "y"})
// CHECK-SAME:    attributes {fusion.reference_of = @layer}
// Neither partial values nor reshards are left, and undecided values are decided.
// CHECK-NEXT:    %[[C:.*]] = arith.constant dense<2.000000e+00> : tensor<64x16xf32, #fusion.axes<#one, [-, -]>>
// CHECK-NEXT:    %[[M:.*]] = fusion.matmul %arg0, %arg1 : {{.*}} -> tensor<64x16xf32, #fusion.axes<#one, [-, -]>>
// CHECK-NEXT:    %[[P:.*]] = arith.mulf %[[M]], %[[C]] : tensor<64x16xf32, #fusion.axes<#one, [-, -]>>
// CHECK-NEXT:    %[[R:.*]] = fusion.reduce sum %[[P]] dims [1] : {{.*}} -> tensor<64xf32, #fusion.axes<#one, [-]>>
// CHECK-NEXT:    return %[[R]] : tensor<64xf32, #fusion.axes<#one, [-]>>
// LATER-LABEL: func.func private @layer__reference(
// LATER-NOT:     fusion.reshard
// LATER:         return
func.func @layer(%0: tensor<64x32xf32, #fusion.axes<#tp, [-, didx("x")]>> {fusion.name = "x"}, %1: tensor<32x16xf32>)
    -> (tensor<64xf32, #fusion.axes<#tp, [didx("x") * stream]>> {fusion.name = "y"}) {
  %c = arith.constant dense<2.0> : tensor<64x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
  %2 = fusion.matmul %0, %1 : tensor<64x32xf32, #fusion.axes<#tp, [-, didx("x")]>>, tensor<32x16xf32> -> tensor<64x16xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>
  %3 = fusion.reshard %2 : tensor<64x16xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>> -> tensor<64x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
  %4 = arith.mulf %3, %c : tensor<64x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
  %5 = fusion.reduce sum %4 dims [1] : tensor<64x16xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<64xf32, #fusion.axes<#tp, [didx("x") * stream]>>
  return %5 : tensor<64xf32, #fusion.axes<#tp, [didx("x") * stream]>>
}

// No twin for what is private, has no body, or no axes.
// CHECK-NOT: private{{.*}}reference
// CHECK: func.func private @helper
// CHECK-NOT: private{{.*}}reference
// CHECK: func.func private @kernel
// CHECK-NOT: private{{.*}}reference
// CHECK: func.func @plain
// CHECK-NOT: reference
func.func private @helper(%0: tensor<4xf32, #fusion.axes<#tp, [-]>>) {
  return
}
func.func private @kernel(tensor<4xf32, #fusion.axes<#tp, [-]>>)
func.func @plain(%0: tensor<4xf32>) {
  return
}
