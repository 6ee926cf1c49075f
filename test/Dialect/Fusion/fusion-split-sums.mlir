// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Sums over devices are sums of 8 slices in one tree, whatever the number of devices.
// RUN: tandem-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(func.func(fusion-split-sums))' | FileCheck %s

#tp = #tandem.mesh<"tp", ["x" = 2]>
!x = tensor<4x64xbf16, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<64x6xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!p = tensor<4x6xbf16, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!y = tensor<4x6xbf16, #fusion.axes<#tp, [didx("x"), -]>>

// CHECK-LABEL: @product
// CHECK: %[[X:.*]] = fusion.reshape %arg0 : tensor<4x64xbf16, {{.*}}> -> tensor<4x8x8xbf16, {{.*}}[-, didx("x"), -]>>
// CHECK: %[[XS:.*]] = fusion.permute %[[X]] [1, 0, 2] : {{.*}} -> tensor<8x4x8xbf16, {{.*}}[didx("x"), -, -]>>
// CHECK: %[[WS:.*]] = fusion.reshape %arg1 : tensor<64x6xbf16, {{.*}}> -> tensor<8x8x6xbf16, {{.*}}[didx("x"), -, -]>>
// CHECK: %[[T:.*]] = fusion.matmul %[[XS]], %{{.*}} -> tensor<8x4x6xf32, {{.*}}[didx("x"), -, -]>>
// A device adds neighbours: 8, 4, 2.
// CHECK: %[[A:.*]] = fusion.reshape %[[T]] : {{.*}} -> tensor<4x2x4x6xf32, {{.*}}[didx("x"), -, -, -]>>
// CHECK: fusion.reduce sum %[[A]] dims [1] : {{.*}} -> tensor<4x4x6xf32, {{.*}}[didx("x"), -, -]>>
// CHECK: %[[M:.*]] = fusion.reduce sum %{{.*}} dims [1] : {{.*}} -> tensor<2x4x6xf32, {{.*}}[didx("x"), -, -]>>
// The devices exchange what they have, and add the rest.
// CHECK: %[[R:.*]] = fusion.reshard %[[M]] : {{.*}} -> tensor<2x4x6xf32, {{.*}}[-, didx("x"), -]>>
// CHECK: fusion.reduce sum
// CHECK: %[[Y:.*]] = arith.truncf %{{.*}} : {{.*}} to tensor<4x6xbf16, {{.*}}[didx("x"), -]>>
// CHECK: return %[[Y]]
func.func @product(%x: !x, %w: !w) -> !y attributes {fusion.deterministic = "tp"} {
  %p = fusion.matmul %x, %w : !x, !w -> !p
  %y = fusion.reshard %p : !p -> !y
  return %y : !y
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>
!x = tensor<3x64xbf16, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<64x6xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!p = tensor<3x6xbf16, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!y = tensor<3x6xbf16, #fusion.axes<#tp, [-, -]>>

// Other levels keep their sums.
// CHECK-LABEL: @batch
// CHECK: fusion.matmul %arg0, %arg1 {{.*}} partial = ["x"]
func.func @batch(%x: !x, %w: !w) -> !y attributes {fusion.deterministic = "batch"} {
  %p = fusion.matmul %x, %w : !x, !w -> !p
  %y = fusion.reshard %p : !p -> !y
  return %y : !y
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 8]>
!x = tensor<16x4xf32, #fusion.axes<#tp, [didx("x"), -]>>
!p = tensor<4xf32, #fusion.axes<#tp, [-], partial = ["x"]>>
!y = tensor<4xf32, #fusion.axes<#tp, [-]>>

// On 8 devices each has one slice.
// CHECK-LABEL: @reduction
// CHECK: %[[X:.*]] = fusion.reshape %arg0 : {{.*}} -> tensor<8x2x4xf32, {{.*}}[didx("x"), -, -]>>
// CHECK: %[[T:.*]] = fusion.reduce sum %{{.*}} dims [1] : {{.*}} -> tensor<8x4xf32, {{.*}}[didx("x"), -]>>
// CHECK: fusion.reshard %[[T]] : {{.*}} -> tensor<8x4xf32, {{.*}}[-, -]>>
// CHECK-COUNT-3: fusion.reduce sum
func.func @reduction(%x: !x) -> !y attributes {fusion.deterministic = "tp"} {
  %p = fusion.reduce sum %x dims [0] : !x -> !p
  %y = fusion.reshard %p : !p -> !y
  return %y : !y
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 3]>
!x = tensor<24x4xf32, #fusion.axes<#tp, [didx("x"), -]>>
!p = tensor<4xf32, #fusion.axes<#tp, [-], partial = ["x"]>>
!y = tensor<4xf32, #fusion.axes<#tp, [-]>>

func.func @devices(%x: !x) -> !y attributes {fusion.deterministic = "tp"} {
  %p = fusion.reduce sum %x dims [0] : !x -> !p
  // expected-error @below {{with fusion.deterministic = "tp", expected 1, 2, 4 or 8 devices that add up, found 3}}
  %y = fusion.reshard %p : !p -> !y
  return %y : !y
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>
!x = tensor<12x4xf32, #fusion.axes<#tp, [didx("x"), -]>>
!p = tensor<4xf32, #fusion.axes<#tp, [-], partial = ["x"]>>
!y = tensor<4xf32, #fusion.axes<#tp, [-]>>

func.func @extent(%x: !x) -> !y attributes {fusion.deterministic = "tp"} {
  // expected-error @below {{expected an extent that 8 divides, split over one mesh axis, where devices add up}}
  %p = fusion.reduce sum %x dims [0] : !x -> !p
  %y = fusion.reshard %p : !p -> !y
  return %y : !y
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>
!p = tensor<4xf32, #fusion.axes<#tp, [-], partial = ["x"]>>
!y = tensor<4xf32, #fusion.axes<#tp, [-]>>

func.func @argument(%p: !p) -> !y attributes {fusion.deterministic = "tp"} {
  // expected-error @below {{expected a sum over the devices of one mesh axis that the program adds up}}
  %y = fusion.reshard %p : !p -> !y
  return %y : !y
}
