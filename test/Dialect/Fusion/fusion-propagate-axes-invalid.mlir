// RUN: tandem-opt %s -split-input-file -verify-diagnostics -fusion-propagate-axes

// Both sources of a conflict, and where they come from: a chain back to what stands in the text.
#tp = #tandem.mesh<"tp", ["x" = 2, "y" = 2]>
// expected-note @+2 {{... from argument 0, which has [didx("x"), -] on #tp}}
// expected-note @+1 {{... from argument 1, which has [-, didx("y")] on #tp}}
func.func @elementwise(%0: tensor<8x8xf32, #fusion.axes<#tp, [didx("x"), -]>>, %1: tensor<8x8xf32, #fusion.axes<#tp, [-, didx("y")]>>) {
  // expected-note @+1 {{... from the result of 'fusion.permute', which has [-, didx("x")] on #tp}}
  %2 = fusion.permute %0 [1, 0] : tensor<8x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<8x8xf32>
  // expected-note @+1 {{operand 0 has [-, didx("x")] on #tp}}
  %3 = math.exp %2 : tensor<8x8xf32>
  // expected-note @+1 {{operand 1 has [-, didx("y")] on #tp}}
  %5 = fusion.permute %1 [0, 1] : tensor<8x8xf32, #fusion.axes<#tp, [-, didx("y")]>> -> tensor<8x8xf32>
  // expected-error @+1 {{expected operands that are split alike, found didx("x") and didx("y")}}
  %6 = arith.addf %3, %5 : tensor<8x8xf32>
  return
}

// -----

// What a consumer has decided is a source too.
#tp = #tandem.mesh<"tp", ["x" = 2, "y" = 2]>
// expected-note @+2 {{operand 1 has [-, didx("y")] on #tp}}
// expected-note @+1 {{operand 0 has [-, didx("x")] on #tp}}
func.func @backward(%0: tensor<8x8xf32>, %1: tensor<8x8xf32>) {
  // expected-note @+1 {{... from the result of 'fusion.permute', which has [didx("x"), -] on #tp}}
  %2 = fusion.permute %0 [1, 0] : tensor<8x8xf32> -> tensor<8x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
  // expected-note @+1 {{... from the result of 'fusion.permute', which has [didx("y"), -] on #tp}}
  %3 = fusion.permute %1 [1, 0] : tensor<8x8xf32> -> tensor<8x8xf32, #fusion.axes<#tp, [didx("y"), -]>>
  // expected-error @+1 {{expected operands that are split alike, found didx("x") and didx("y")}}
  %4 = arith.addf %0, %1 : tensor<8x8xf32>
  return
}

// -----

// Terms on two meshes, and what is reduced of them is still on two.
#a = #tandem.mesh<"a", ["x" = 2]>
#b = #tandem.mesh<"b", ["x" = 2], devices = [2, 3]>
// expected-note @+2 {{... from argument 0, which has [didx("x")] on #a}}
// expected-note @+1 {{... from argument 1, which has [didx("x")] on #b}}
func.func @terms_on_two_meshes(%0: tensor<8xf32, #fusion.axes<#a, [didx("x")]>>, %1: tensor<8xf32, #fusion.axes<#b, [didx("x")]>>) -> tensor<f32> {
  // expected-note @+1 {{operand 0 has [], partial = ["x"] on #a}}
  %2 = fusion.reduce sum %0 dims [0] : tensor<8xf32, #fusion.axes<#a, [didx("x")]>> -> tensor<f32>
  // expected-note @+1 {{operand 1 has [], partial = ["x"] on #b}}
  %3 = fusion.reduce sum %1 dims [0] : tensor<8xf32, #fusion.axes<#b, [didx("x")]>> -> tensor<f32>
  // expected-error @+1 {{expected operands on one mesh, found "a" and "b"}}
  %4 = arith.addf %2, %3 : tensor<f32>
  return %4 : tensor<f32>
}

// -----

// expected-error @+1 {{expected axes on at least one argument, value or result, found none}}
func.func @nothing_decided(%0: tensor<8x4xf32>) {
  %1 = fusion.permute %0 [1, 0] : tensor<8x4xf32> -> tensor<4x8xf32>
  return
}
