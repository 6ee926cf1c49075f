// RUN: tandem-opt %s -split-input-file -verify-diagnostics -pass-pipeline='builtin.module(fusion-specialize{bound=24}, func.func(fusion-bound-extents))'

func.func @concat(%x: tensor<?x16xf32>, %y: tensor<8x16xf32>) -> tensor<32x16xf32> {
  // expected-error @+1 {{expected an op that takes any extent in dimension 0 of operand 0, which varies, found one that needs it whole}}
  %c = fusion.concat %x, %y dim 0 : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<32x16xf32>
  return %c : tensor<32x16xf32>
}

// -----

func.func @zigzag(%q: tensor<?x8xf32>, %k: tensor<?x8xf32>, %v: tensor<?x4xf32>) -> tensor<?x4xf32> {
  // expected-error @+1 {{expected an op that takes any extent in dimension 0 of operand 0, which varies, found one that needs it whole}}
  %y = fusion.attention %q, %k, %v {causal, zigzag = 2 : i64} : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x4xf32> -> tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}

// -----

func.func @columns(%q: tensor<4x?xf32>, %k: tensor<4x?xf32>, %v: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{expected an op that takes any extent in dimension 1 of operand 0, which varies, found one that needs it whole}}
  %y = fusion.attention %q, %k, %v : tensor<4x?xf32>, tensor<4x?xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}

// -----

// expected-error @+1 {{expected an argument with a `?` extent in option 'shape' or in its type, since there is a bound}}
func.func @known(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}

// -----

// What is behind the extent of a run must come last on each device.
#tp = #tandem.mesh<"tp", ["x" = 2]>
!cyclic = tensor<?x8xf32, #fusion.axes<#tp, [serial(2) * didx("x"), -]>>
// expected-error @+1 {{expected one block of each dimension per device, since an extent varies, found [serial(2) * didx("x"), -] on #tp}}
func.func @argument(%x: !cyclic) -> !cyclic {
  return %x : !cyclic
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>
!cyclic = tensor<?x8xf32, #fusion.axes<#tp, [serial(2) * didx("x"), -]>>
!blocks = tensor<?x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
func.func @result(%x: !blocks) -> !cyclic {
  // expected-error @+1 {{expected one block of each dimension per device, since an extent varies, found [serial(2) * didx("x"), -] on #tp}}
  %y = fusion.reshard %x : !blocks -> !cyclic
  return %y : !cyclic
}
