// RUN: tandem-opt %s -split-input-file -pass-pipeline='builtin.module(fusion-specialize{bound=24}, func.func(fusion-bound-extents))' | FileCheck %s

#tp = #tandem.mesh<"tp", ["x" = 4]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#all = #fusion.axes<#tp, [-]>

// The mask is whole on all devices.
//
// CHECK-LABEL: func.func @sum(
// CHECK-SAME:    %[[X:.*]]: tensor<24x16xf32, #{{.*}}> {fusion.varying = array<i64: 0>}
// CHECK-SAME:    %[[MASK:.*]]: tensor<24xi1, #{{.*}}> {fusion.mask, fusion.name = "varying.mask", fusion.varying = array<i64: 0>}
// CHECK:         %[[E:.*]] = math.exp %[[X]]
// CHECK:         %[[EXISTS:.*]] = fusion.broadcast %[[MASK]] dims [0]
// CHECK:         %[[ZERO:.*]] = arith.constant dense<0.000000e+00>
// CHECK:         %[[CLEAN:.*]] = arith.select %[[EXISTS]], %[[E]], %[[ZERO]]
// CHECK:         fusion.reduce sum %[[CLEAN]] dims [0]
func.func @sum(%x: tensor<?x16xf32, #rows>) -> tensor<16xf32, #all> {
  %e = math.exp %x : tensor<?x16xf32, #rows>
  %s = fusion.reduce sum %e dims [0] : tensor<?x16xf32, #rows> -> tensor<16xf32, #all>
  return %s : tensor<16xf32, #all>
}

// -----

// What is 0 anyway needs no mask. Rows of a result vary.
//
// CHECK-LABEL: func.func @zero(
// CHECK-SAME:    -> (tensor<16x12xf32>, tensor<24x16xf32> {fusion.varying = array<i64: 0>})
// CHECK-NOT:     select
func.func @zero(%x: tensor<?x16xf32>, %d: tensor<?x12xf32>) -> (tensor<16x12xf32>, tensor<?x16xf32>) {
  %t = math.tanh %x : tensor<?x16xf32>
  %y = fusion.matmul %t, %d {transpose_a} : tensor<?x16xf32>, tensor<?x12xf32> -> tensor<16x12xf32>
  return %y, %t : tensor<16x12xf32>, tensor<?x16xf32>
}

// -----

// CHECK-LABEL: func.func @maximum(
// CHECK-DAG:     %[[LOWEST:.*]] = arith.constant dense<0xFF800000>
// CHECK-DAG:     arith.select %{{.*}}, %{{.*}}, %[[LOWEST]]
// CHECK-DAG:     %[[HIGHEST:.*]] = arith.constant dense<2147483647>
// CHECK-DAG:     arith.select %{{.*}}, %{{.*}}, %[[HIGHEST]]
func.func @maximum(%x: tensor<?x16xf32>, %i: tensor<?xi32>) -> (tensor<16xf32>, tensor<i32>) {
  %a = fusion.reduce max %x dims [0] : tensor<?x16xf32> -> tensor<16xf32>
  %b = fusion.reduce min %i dims [0] : tensor<?xi32> -> tensor<i32>
  return %a, %b : tensor<16xf32>, tensor<i32>
}

// -----

// Keys get scores that are too low to count; the scale is that of 8 columns.
//
// CHECK-LABEL: func.func @attention(
// CHECK:         %[[Q:.*]] = fusion.concat {{.*}} -> tensor<24x16xf32>
// CHECK:         %[[HIDDEN:.*]] = arith.constant dense<0xFF800000>
// CHECK:         %[[BIAS:.*]] = arith.select %{{.*}}, %{{.*}}, %[[HIDDEN]] : tensor<24x8xi1>, tensor<24x8xf32>
// CHECK:         %[[K:.*]] = fusion.concat {{.*}}%[[BIAS]]
// CHECK:         fusion.attention %[[Q]], %[[K]], %{{.*}} {scale = 0.35355{{.*}}}
func.func @attention(%q: tensor<?x8xf32>, %k: tensor<?x8xf32>, %v: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %y = fusion.attention %q, %k, %v : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x4xf32> -> tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}

// -----

// CHECK-LABEL: func.func @causal(
// CHECK-NOT:     concat
// CHECK-NOT:     select
func.func @causal(%q: tensor<?x8xf32>, %k: tensor<?x8xf32>, %v: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %y = fusion.attention %q, %k, %v {causal} : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x4xf32> -> tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}

// -----

// The kernel is told the extent of the run, in the second of its parallel dimensions.
//
// CHECK-LABEL: func.func @call(
// CHECK:         fusion.call @k(%{{.*}}) dims "cs_ -> cs_" {fusion.varying = array<i64: 1>}
// CHECK:         fusion.call @k(%{{.*}}) dims "cs_ -> cs_" : (tensor<3x4x16xf32>)
//
// What a kernel writes after it is not known.
//
// CHECK-LABEL: func.func @after_call(
// CHECK:         %[[Y:.*]] = fusion.call
// CHECK:         %[[CLEAN:.*]] = arith.select %{{.*}}, %[[Y]], %{{.*}}
// CHECK:         fusion.reduce sum %[[CLEAN]]
func.func private @k(tensor<3x?x16xf32>) -> tensor<3x?x16xf32>
func.func @call(%x: tensor<3x?x16xf32>, %z: tensor<3x4x16xf32>) -> (tensor<3x?x16xf32>, tensor<3x4x16xf32>) {
  %y = fusion.call @k(%x) dims "cs_ -> cs_" : (tensor<3x?x16xf32>) -> tensor<3x?x16xf32>
  %w = fusion.call @k(%z) dims "cs_ -> cs_" : (tensor<3x4x16xf32>) -> tensor<3x4x16xf32>
  return %y, %w : tensor<3x?x16xf32>, tensor<3x4x16xf32>
}
func.func @after_call(%x: tensor<3x?x16xf32>) -> tensor<3x16xf32> {
  %y = fusion.call @k(%x) dims "cs_ -> cs_" : (tensor<3x?x16xf32>) -> tensor<3x?x16xf32>
  %z = fusion.reduce sum %y dims [1] : tensor<3x?x16xf32> -> tensor<3x16xf32>
  return %z : tensor<3x16xf32>
}
