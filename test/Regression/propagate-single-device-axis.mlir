// RUN: tandem-opt %s -fusion-propagate-axes -fusion-insert-reshards="gather=after" -fusion-verify | FileCheck %s

// A mesh axis of one device on a dimension that is repeated, and in another operand on the contracted one: it stood in
// two dimensions of one operand afterwards. Likewise an axis that one operand is partial over and another is split by.
#m = #tandem.mesh<"m", ["x" = 2, "z" = 1]>

// CHECK-LABEL: @repeated
// CHECK: fusion.matmul {{.*}} -> tensor<4x8x6xf32, #fusion.axes<#m, [-, -, didx("x")], partial = ["z"]>>
func.func @repeated(%0: tensor<4x8x2xf32, #fusion.axes<#m, [-, -, didx("z")]>>, %1: tensor<1x2x6xf32, #fusion.axes<#m, [didx("z"), -, didx("x")]>>) {
  %2 = fusion.matmul %0, %1 : tensor<4x8x2xf32, #fusion.axes<#m, [-, -, didx("z")]>>, tensor<1x2x6xf32, #fusion.axes<#m, [didx("z"), -, didx("x")]>> -> tensor<4x8x6xf32>
  return
}

// CHECK-LABEL: @partial_beside
// CHECK: %[[R:.*]] = fusion.reshard %arg0 : {{.*}} -> tensor<8x4xf32, #fusion.axes<#m, [didx("x"), -]>>
// CHECK: fusion.concat %[[R]], %arg1 dim 1 : {{.*}} -> tensor<8x8xf32, #fusion.axes<#m, [didx("x"), -]>>
func.func @partial_beside(%0: tensor<8x4xf32, #fusion.axes<#m, [-, -], partial = ["x"]>>, %1: tensor<8x4xf32, #fusion.axes<#m, [didx("x"), -]>>) {
  %2 = fusion.concat %0, %1 dim 1 : (tensor<8x4xf32, #fusion.axes<#m, [-, -], partial = ["x"]>>, tensor<8x4xf32, #fusion.axes<#m, [didx("x"), -]>>) -> tensor<8x8xf32>
  return
}
