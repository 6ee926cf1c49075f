// RUN: tandem-opt %s -verify-diagnostics -fusion-insert-reshards="log" -o /dev/null

// What was done is said on request, at the op, and counted.

#tp = #tandem.mesh<"tp", ["x" = 2]>
// expected-remark @+1 {{fusion-insert-reshards: 1 before, 1 after, 0 written out}}
func.func @f(%0: tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>>, %1: tensor<4x8xf32, #fusion.axes<#tp, [-, -]>>, %2: tensor<8x4xf32, #fusion.axes<#tp, [-, didx("x")]>>) {
  // expected-remark @+1 {{fusion-insert-reshards: operand 0 is resharded to [stream(4), -] on #tp}}
  %3 = fusion.matmul %0, %1 : tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>>, tensor<4x8xf32, #fusion.axes<#tp, [-, -]>> -> tensor<8x8xf32, #fusion.axes<#tp, [stream(4), -]>>
  // expected-remark @+1 {{fusion-insert-reshards: the result is [-], partial = ["x"] on #tp, and is resharded to [didx("x")] on #tp}}
  %4 = fusion.reduce sum %2 dims [1] : tensor<8x4xf32, #fusion.axes<#tp, [-, didx("x")]>> -> tensor<8xf32, #fusion.axes<#tp, [didx("x")]>>
  return
}
