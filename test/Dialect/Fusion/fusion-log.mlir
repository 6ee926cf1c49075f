// RUN: tandem-opt %s -verify-diagnostics -fusion-specialize="mesh=x=2 log" -fusion-outline-reference="log" -fusion-propagate-axes="log" -o /dev/null

// What the passes did is said on request, at the place, and counted.

// expected-remark @+2 {{fusion-specialize: mesh #tandem.mesh<"tp", ["x" = ?]> is now #tandem.mesh<"tp", ["x" = 2]>}}
// expected-remark @+1 {{fusion-specialize: 3 extents}}
module {
  // expected-remark @+3 {{fusion-outline-reference: created the unsharded reference @f__reference}}
  // expected-remark @+2 {{fusion-propagate-axes: argument 1 has [-, -] on #tp: what is computed from it does}}
  // expected-remark @+1 {{fusion-propagate-axes: 1 decided by operands, 2 decided by consumers, 1 replicated}}
  func.func @f(%0: tensor<?x4xf32, #fusion.axes<#tandem.mesh<"tp", ["x" = ?]>, [didx("x"), -]>> {fusion.shape = [8, 4]}, %1: tensor<4x4xf32>,
      // expected-remark @+1 {{fusion-propagate-axes: argument 2 has [-, -] on #tp: by default}}
      %2: tensor<4x4xf32>) {
    // expected-remark @+1 {{fusion-propagate-axes: result 0 has [didx("x"), -] on #tp: its operands do}}
    %3 = fusion.matmul %0, %2 : tensor<?x4xf32, #fusion.axes<#tandem.mesh<"tp", ["x" = ?]>, [didx("x"), -]>>, tensor<4x4xf32> -> tensor<?x4xf32>
    // expected-remark @+1 {{fusion-propagate-axes: result 0 has [-, -] on #tp: what is computed from it does}}
    %4 = fusion.permute %1 [1, 0] : tensor<4x4xf32> -> tensor<4x4xf32>
    %5 = fusion.matmul %0, %4 : tensor<?x4xf32, #fusion.axes<#tandem.mesh<"tp", ["x" = ?]>, [didx("x"), -]>>, tensor<4x4xf32> -> tensor<?x4xf32, #fusion.axes<#tandem.mesh<"tp", ["x" = ?]>, [didx("x"), -]>>
    return
  }
}
