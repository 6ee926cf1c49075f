// RUN: tandem-opt %s -fusion-specialize="mesh=x=4 shape=x=24x8" | FileCheck %s

// Extents go backward, too: from a result to its operands, and so from one operand of an elementwise op to the other.

#tp = #tandem.mesh<"tp", ["x" = ?]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
// CHECK-LABEL: @bias
// CHECK: fusion.broadcast %{{.*}} dims [1] : {{.*}} -> tensor<24x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
// CHECK: return %{{.*}} : tensor<24x8xf32
func.func @bias(%x: tensor<?x8xf32, #rows> {fusion.name = "x"}, %b: tensor<8xf32>) -> tensor<?x8xf32, #rows> {
  %0 = fusion.broadcast %b dims [1] : tensor<8xf32> -> tensor<?x8xf32, #rows>
  %1 = arith.addf %x, %0 : tensor<?x8xf32, #rows>
  return %1 : tensor<?x8xf32, #rows>
}

// Scalars, dimensions of extent 1, and broadcasts of broadcasts, through ops on the way.
// CHECK-LABEL: @constants
// CHECK: fusion.broadcast %{{.*}} dims [] : tensor<f32> -> tensor<24x8xf32>
// CHECK: fusion.broadcast %{{.*}} dims [0, 1] : tensor<1x1xf32> -> tensor<24x8xf32>
// CHECK: fusion.broadcast %{{.*}} dims [] : tensor<f32> -> tensor<24xf32>
// CHECK: fusion.broadcast %{{.*}} dims [0] : tensor<24xf32> -> tensor<24x8xf32>
// CHECK: math.exp %{{.*}} : tensor<24x8xf32>
func.func @constants(%x: tensor<?x?xf32> {fusion.name = "x"}) {
  %c = arith.constant dense<0.5> : tensor<f32>
  %d = arith.constant dense<1.0> : tensor<1x1xf32>
  %0 = fusion.broadcast %c dims [] : tensor<f32> -> tensor<?x?xf32>
  %1 = fusion.broadcast %d dims [0, 1] : tensor<1x1xf32> -> tensor<?x?xf32>
  %2 = fusion.broadcast %c dims [] : tensor<f32> -> tensor<?xf32>
  %3 = fusion.broadcast %2 dims [0] : tensor<?xf32> -> tensor<?x?xf32>
  %4 = math.exp %3 : tensor<?x?xf32>
  %5 = arith.mulf %0, %1 : tensor<?x?xf32>
  %6 = arith.addf %5, %4 : tensor<?x?xf32>
  %7 = arith.mulf %x, %6 : tensor<?x?xf32>
  return
}

// Backward through permute, reshape, reduce, reshard, concat and matmul; the extents of one value come from two uses.
// CHECK-LABEL: @views
// CHECK: fusion.broadcast %{{.*}} -> tensor<8x24xf32>
// CHECK: fusion.permute %{{.*}} -> tensor<24x8xf32>
// CHECK: fusion.broadcast %{{.*}} -> tensor<12x2x8xf32>
// CHECK: fusion.reshape %{{.*}} -> tensor<24x8xf32>
// CHECK: fusion.broadcast %{{.*}} -> tensor<24x8x3xf32>
// CHECK: fusion.reduce sum %{{.*}} -> tensor<24x8xf32>
// CHECK: fusion.broadcast %{{.*}} -> tensor<24x8xf32, #fusion.axes<#tp, [-, -]>>
// CHECK: fusion.reshard %{{.*}} -> tensor<24x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
// CHECK: fusion.broadcast %{{.*}} -> tensor<24x5xf32>
// CHECK: fusion.matmul %{{.*}} -> tensor<24x8xf32>
// CHECK: fusion.broadcast %{{.*}} -> tensor<24x3xf32>
// CHECK: fusion.broadcast %{{.*}} -> tensor<24x5xf32>
// CHECK: fusion.concat %{{.*}} -> tensor<24x8xf32>
func.func @views(%x: tensor<?x?xf32, #rows> {fusion.name = "x"}, %w: tensor<5x8xf32>) {
  %c = arith.constant dense<0.5> : tensor<f32>
  %0 = fusion.broadcast %c dims [] : tensor<f32> -> tensor<?x?xf32>
  %1 = fusion.permute %0 [1, 0] : tensor<?x?xf32> -> tensor<?x?xf32>
  %2 = fusion.broadcast %c dims [] : tensor<f32> -> tensor<?x2x8xf32>
  %3 = fusion.reshape %2 : tensor<?x2x8xf32> -> tensor<?x8xf32>
  %4 = fusion.broadcast %c dims [] : tensor<f32> -> tensor<?x8x3xf32>
  %5 = fusion.reduce sum %4 dims [2] : tensor<?x8x3xf32> -> tensor<?x8xf32>
  %6 = fusion.broadcast %c dims [] : tensor<f32> -> tensor<?x?xf32, #fusion.axes<#tp, [-, -]>>
  %7 = fusion.reshard %6 : tensor<?x?xf32, #fusion.axes<#tp, [-, -]>> -> tensor<?x?xf32, #rows>
  %8 = fusion.broadcast %c dims [] : tensor<f32> -> tensor<?x5xf32>
  %9 = fusion.matmul %8, %w : tensor<?x5xf32>, tensor<5x8xf32> -> tensor<?x8xf32>
  %10 = fusion.broadcast %c dims [] : tensor<f32> -> tensor<?x3xf32>
  %11 = fusion.broadcast %c dims [] : tensor<f32> -> tensor<?x5xf32>
  %12 = fusion.concat %10, %11 dim 1 : (tensor<?x3xf32>, tensor<?x5xf32>) -> tensor<?x8xf32>
  %13 = arith.addf %x, %7 : tensor<?x?xf32, #rows>
  %14 = fusion.permute %13 [0, 1] : tensor<?x?xf32, #rows> -> tensor<?x?xf32>
  %15 = arith.addf %14, %1 : tensor<?x?xf32>
  %16 = fusion.permute %15 [0, 1] : tensor<?x?xf32> -> tensor<?x8xf32>
  %17 = arith.addf %16, %3 : tensor<?x8xf32>
  %18 = arith.addf %17, %5 : tensor<?x8xf32>
  %19 = arith.addf %18, %9 : tensor<?x8xf32>
  %20 = arith.addf %19, %12 : tensor<?x8xf32>
  return
}

// An argument without a shape of its own, and what the function's type says of a result.
// CHECK-LABEL: @residual(%arg0: tensor<24x8xf32> {{.*}}, %arg1: tensor<24x8xf32>)
func.func @residual(%x: tensor<?x8xf32> {fusion.name = "x"}, %r: tensor<?x8xf32>) -> tensor<4x8xf32> {
  %0 = arith.addf %x, %r : tensor<?x8xf32>
  %c = arith.constant dense<0.5> : tensor<f32>
  // CHECK: fusion.broadcast %{{.*}} dims [] : tensor<f32> -> tensor<4x8xf32>
  %1 = fusion.broadcast %c dims [] : tensor<f32> -> tensor<?x8xf32>
  %2 = fusion.permute %1 [0, 1] : tensor<?x8xf32> -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
