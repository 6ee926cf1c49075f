// RUN: tandem-opt %s -split-input-file -verify-diagnostics -pass-pipeline='builtin.module(fusion-specialize{bound=1}, func.func(fusion-bound-extents))' | FileCheck %s -DB=1
// RUN: tandem-opt %s -split-input-file -verify-diagnostics -pass-pipeline='builtin.module(fusion-specialize{bound=2}, func.func(fusion-bound-extents))' | FileCheck %s -DB=2
// RUN: tandem-opt %s -split-input-file -verify-diagnostics -pass-pipeline='builtin.module(fusion-specialize{bound=6}, func.func(fusion-bound-extents))' | FileCheck %s -DB=6

// A reshape is taken or refused alike if the bound is the extent of another dimension, too: here 1, 2 or 6.
//
// CHECK-LABEL: func.func @without_one(
// CHECK-SAME:    -> (tensor<[[B]]x6xf32> {fusion.varying = array<i64: 0>})
// CHECK-NEXT:    fusion.reshape %{{.*}} : tensor<1x[[B]]x6xf32> -> tensor<[[B]]x6xf32>
func.func @without_one(%x: tensor<1x?x6xf32>) -> tensor<?x6xf32> {
  %y = fusion.reshape %x : tensor<1x?x6xf32> -> tensor<?x6xf32>
  return %y : tensor<?x6xf32>
}

// -----

// CHECK-LABEL: func.func @other_one(
// CHECK-SAME:    -> (tensor<1x[[B]]x2x3xf32> {fusion.varying = array<i64: 1>})
func.func @other_one(%x: tensor<?x1x6xf32>) -> tensor<1x?x2x3xf32> {
  %y = fusion.reshape %x : tensor<?x1x6xf32> -> tensor<1x?x2x3xf32>
  return %y : tensor<1x?x2x3xf32>
}

// -----

// CHECK-LABEL: func.func @there_and_back(
// CHECK-SAME:    -> (tensor<2x[[B]]x6xf32> {fusion.varying = array<i64: 1>})
func.func @there_and_back(%x: tensor<2x?x6xf32>) -> tensor<2x?x6xf32> {
  %y = fusion.reshape %x : tensor<2x?x6xf32> -> tensor<2x?x2x3xf32>
  %z = fusion.reshape %y : tensor<2x?x2x3xf32> -> tensor<2x?x6xf32>
  return %z : tensor<2x?x6xf32>
}

// -----

func.func @other_side(%x: tensor<?x6xf32>) -> tensor<6x?xf32> {
  // expected-error @+1 {{expected an op that takes any extent in dimension 0 of operand 0, which varies, found one that needs it whole}}
  %y = fusion.reshape %x : tensor<?x6xf32> -> tensor<6x?xf32>
  return %y : tensor<6x?xf32>
}

// -----

func.func @merged(%x: tensor<?x6xf32>) -> tensor<?xf32> {
  // expected-error @+1 {{expected an op that takes any extent in dimension 0 of operand 0, which varies, found one that needs it whole}}
  %y = fusion.reshape %x : tensor<?x6xf32> -> tensor<?xf32>
  return %y : tensor<?xf32>
}
