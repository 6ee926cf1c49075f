// RUN: tandem-opt %s -split-input-file -verify-diagnostics -fusion-scalars-to-tensors | FileCheck %s

#tp = #tandem.mesh<"tp", ["x" = 4]>
#rows = #fusion.axes<#tp, [didx("x"), -]>

// CHECK-LABEL: func.func @scaled(
// CHECK-SAME: %[[X:.+]]: tensor<8x4xf32, {{.*}}>, %[[S:.+]]: tensor<f32> {fusion.name = "s"})
// CHECK: %[[TWO:.+]] = arith.constant dense<2.000000e+00> : tensor<f32>
// CHECK: %[[T:.+]] = arith.mulf %[[S]], %[[TWO]] : tensor<f32>
// CHECK: %[[ALL:.+]] = fusion.broadcast %[[T]] dims [] : tensor<f32> -> tensor<8x4xf32, {{.*}}didx("x")
// CHECK: arith.mulf %[[X]], %[[ALL]]
// CHECK: return %{{.*}}, %[[T]] : tensor<8x4xf32, {{.*}}>, tensor<f32>
func.func @scaled(%x: tensor<8x4xf32, #rows>, %s: f32 {fusion.name = "s"}) -> (tensor<8x4xf32, #rows>, f32) {
  %two = arith.constant 2.0 : f32
  %t = arith.mulf %s, %two : f32
  %0 = tensor.splat %t : tensor<8x4xf32, #rows>
  %1 = arith.mulf %x, %0 : tensor<8x4xf32, #rows>
  return %1, %t : tensor<8x4xf32, #rows>, f32
}

// A condition beside tensors.
// CHECK-LABEL: func.func @chosen(
// CHECK: %[[C:.+]] = fusion.broadcast %{{.+}} dims [] : tensor<i1> -> tensor<8x4xi1, {{.*}}didx("x")
// CHECK: arith.select %[[C]], %{{.+}}, %{{.+}} : tensor<8x4xi1, {{.*}}>, tensor<8x4xf32, {{.*}}>
func.func @chosen(%x: tensor<8x4xf32, #rows>, %y: tensor<8x4xf32, #rows>, %c: i1) -> tensor<8x4xf32, #rows> {
  %0 = arith.select %c, %x, %y : tensor<8x4xf32, #rows>
  return %0 : tensor<8x4xf32, #rows>
}

// What is no element type stays.
// CHECK-LABEL: func.func @other(%{{.+}}: index) -> index
func.func @other(%i: index) -> index {
  return %i : index
}

// -----

func.func @open(%s: f32, %n: index) -> tensor<?xf32> {
  // expected-error @+1 {{expected a static shape, found 'tensor<?xf32>' (a fusion.broadcast of a tensor without dimensions takes it)}}
  %0 = tensor.splat %s[%n] : tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

// No fusion: left alone.
// CHECK-LABEL: func.func private @helper(%arg0: i32) -> index
// CHECK: arith.index_cast %arg0 : i32 to index
func.func private @helper(%n: i32) -> index {
  %0 = arith.index_cast %n : i32 to index
  return %0 : index
}
