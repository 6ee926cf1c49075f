// RUN: tandem-opt %s -fusion-specialize="mesh=x=4 shape=arg0=8x64,w=64x16" | FileCheck %s
// RUN: tandem-opt %s -fusion-specialize="mesh=tp.x=8 shape=arg0=16x32,w=32x16" | FileCheck %s --check-prefix=OTHER

#tp = #tandem.mesh<"tp", ["x" = ?]>
// CHECK: #tp = #tandem.mesh<"tp", ["x" = 4]>
// OTHER: #tp = #tandem.mesh<"tp", ["x" = 8]>

// The shape of the arguments goes forward through all ops, and into the signature.
// CHECK-LABEL: @sized(
// CHECK-SAME:    %arg0: tensor<8x64xf32, #fusion.axes<#tp, [didx("x"), -]>>
// CHECK-SAME:    %arg1: tensor<64x16xf32, #fusion.axes<#tp, [-, -]>> {fusion.name = "w"})
// CHECK-SAME:    -> (tensor<8x16xf32, #fusion.axes<#tp, [stream, -]>> {fusion.name = "y"})
// OTHER-LABEL: @sized(
// OTHER-SAME:    -> (tensor<16x16xf32, #fusion.axes<#tp, [stream, -]>> {fusion.name = "y"})
func.func @sized(%0: tensor<?x?xf32, #fusion.axes<#tp, [didx("x"), -]>>, %1: tensor<?x?xf32, #fusion.axes<#tp, [-, -]>> {fusion.name = "w"})
    -> (tensor<?x?xf32, #fusion.axes<#tp, [stream, -]>> {fusion.name = "y"}) {
  // CHECK: fusion.matmul {{.*}} -> tensor<8x16xf32>
  %2 = fusion.matmul %0, %1 : tensor<?x?xf32, #fusion.axes<#tp, [didx("x"), -]>>, tensor<?x?xf32, #fusion.axes<#tp, [-, -]>> -> tensor<?x?xf32>
  // CHECK: arith.addf %{{.*}}, %{{.*}} : tensor<8x16xf32>
  %3 = arith.addf %2, %2 : tensor<?x?xf32>
  // CHECK: math.exp %{{.*}} : tensor<8x16xf32>
  %4 = math.exp %3 : tensor<?x?xf32>
  // CHECK: fusion.permute {{.*}} -> tensor<16x8xf32>
  %5 = fusion.permute %4 [1, 0] : tensor<?x?xf32> -> tensor<?x?xf32>
  // CHECK: fusion.reduce {{.*}} -> tensor<16xf32>
  %6 = fusion.reduce sum %5 dims [1] : tensor<?x?xf32> -> tensor<?xf32>
  // CHECK: fusion.broadcast {{.*}} -> tensor<2x16xf32>
  %7 = fusion.broadcast %6 dims [1] : tensor<?xf32> -> tensor<2x?xf32>
  // CHECK: fusion.reshape {{.*}} : tensor<2x16xf32> -> tensor<2x4x4xf32>
  %8 = fusion.reshape %7 : tensor<2x?xf32> -> tensor<2x?x4xf32>
  // CHECK: fusion.slice {{.*}} : tensor<2x4x4xf32> -> tensor<1x4x4xf32>
  %9 = fusion.slice %8 offsets [1, 0, 0] steps [1, 1, 1] : tensor<2x?x4xf32> -> tensor<1x?x4xf32>
  // CHECK: fusion.concat {{.*}} -> tensor<3x4x4xf32>
  %10 = fusion.concat %8, %9 dim 0 : (tensor<2x?x4xf32>, tensor<1x?x4xf32>) -> tensor<?x?x4xf32>
  // CHECK: fusion.call @kernel{{.*}} : (tensor<3x4x4xf32>) -> tensor<3x4x4xf32>
  %11 = fusion.call @kernel(%10) dims "ab_ -> ab_" : (tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
  // CHECK: fusion.reshard {{.*}} -> tensor<8x16xf32, #fusion.axes<#tp, [stream, -]>>
  %12 = fusion.reshard %4 : tensor<?x?xf32> -> tensor<?x?xf32, #fusion.axes<#tp, [stream, -]>>
  return %12 : tensor<?x?xf32, #fusion.axes<#tp, [stream, -]>>
}

// A kernel's declaration keeps its `?`.
// CHECK: func.func private @kernel(tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
func.func private @kernel(tensor<?x?x4xf32>) -> tensor<?x?x4xf32>

// CHECK-LABEL: @constant
// CHECK: arith.constant dense<1.000000e+00> : tensor<8xf32, #fusion.axes<#tp, [didx("x")]>>
// CHECK: arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7]> : tensor<8xi32, #fusion.axes<#tp, [-]>>
func.func @constant() {
  %0 = arith.constant dense<1.0> : tensor<8xf32, #fusion.axes<#tp, [didx("x")]>>
  %1 = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7]> : tensor<8xi32, #fusion.axes<#tp, [-]>>
  return
}
