// RUN: tandem-opt --fusion-propagate-axes %s | FileCheck %s

#tp = #tandem.mesh<"tp", ["x" = 4]>

// A truth value that is wanted with two placements is resharded.
//
// CHECK-LABEL: func.func @shared(
// CHECK: %[[C:.*]] = arith.xori
// CHECK: %[[R:.*]] = fusion.reshard %[[C]] : {{.*}} -> tensor<16x8xi1, #fusion.axes<#tp, [didx("x"), -]>>
// CHECK: arith.select %[[R]],
// CHECK: arith.select %[[C]],
func.func @shared(%x: tensor<16x8xf32, #fusion.axes<#tp, [-, -]>>, %y: tensor<16x8xf32, #fusion.axes<#tp, [-, -]>>,
                  %u: tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>)
    -> (tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>, tensor<16x8xf32, #fusion.axes<#tp, [-, -]>>) {
  %xx = fusion.permute %x [0, 1] : tensor<16x8xf32, #fusion.axes<#tp, [-, -]>> -> tensor<16x8xf32>
  %yy = fusion.permute %y [0, 1] : tensor<16x8xf32, #fusion.axes<#tp, [-, -]>> -> tensor<16x8xf32>
  %uu = fusion.permute %u [0, 1] : tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<16x8xf32>
  %c0 = arith.cmpf olt, %xx, %yy : tensor<16x8xf32>
  %c1 = arith.ori %c0, %c0 : tensor<16x8xi1>
  %c2 = arith.xori %c1, %c1 : tensor<16x8xi1>
  %z = arith.select %c2, %uu, %yy : tensor<16x8xi1>, tensor<16x8xf32>
  %k = arith.select %c2, %xx, %yy : tensor<16x8xi1>, tensor<16x8xf32>
  %q = fusion.reshard %z : tensor<16x8xf32> -> tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
  %l = fusion.reshard %k : tensor<16x8xf32> -> tensor<16x8xf32, #fusion.axes<#tp, [-, -]>>
  return %q, %l : tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>, tensor<16x8xf32, #fusion.axes<#tp, [-, -]>>
}

// An argument, too: a mask that the caller keeps.
//
// CHECK-LABEL: func.func @argument(
// CHECK: %[[R:.*]] = fusion.reshard %{{.*}} : {{.*}} -> tensor<8xi1, #fusion.axes<#tp, [didx("x")]>>
// CHECK: arith.select %[[R]],
func.func @argument(%mask: tensor<8xi1, #fusion.axes<#tp, [-]>>, %x: tensor<8xf32, #fusion.axes<#tp, [didx("x")]>>) -> tensor<8xf32> {
  %0 = fusion.permute %x [0] : tensor<8xf32, #fusion.axes<#tp, [didx("x")]>> -> tensor<8xf32>
  %1 = fusion.permute %mask [0] : tensor<8xi1, #fusion.axes<#tp, [-]>> -> tensor<8xi1>
  %2 = arith.select %1, %0, %0 : tensor<8xi1>, tensor<8xf32>
  return %2 : tensor<8xf32>
}
