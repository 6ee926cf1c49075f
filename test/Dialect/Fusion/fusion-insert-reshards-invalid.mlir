// RUN: tandem-opt %s -split-input-file -verify-diagnostics -fusion-insert-reshards

#tp = #tandem.mesh<"tp", ["x" = 2]>
func.func @undecided(%0: tensor<8x4xf32, #fusion.axes<#tp, [-, -]>>) {
  // expected-error @+1 {{expected decided operands and results (run fusion-propagate-axes first), found an undecided one}}
  %1 = fusion.permute %0 [1, 0] : tensor<8x4xf32, #fusion.axes<#tp, [-, -]>> -> tensor<4x8xf32>
  return
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>
func.func @nonlinear(%0: tensor<8xf32, #fusion.axes<#tp, [-], partial = ["x"]>>) {
  // expected-error @+1 {{expected an operand that is not partial, found it partial over "x"}}
  %1 = math.exp %0 : tensor<8xf32, #fusion.axes<#tp, [-], partial = ["x"]>>
  return
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>
func.func @partial_from_nowhere(%0: tensor<8x4xf32, #fusion.axes<#tp, [-, -]>>) {
  // expected-error @+1 {{expected a result that is not partial over "x", since no operand is, found [-, -], partial = ["x"] on #tp}}
  %1 = fusion.permute %0 [1, 0] : tensor<8x4xf32, #fusion.axes<#tp, [-, -]>> -> tensor<4x8xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>
  return
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>
func.func @bias_on_terms(%0: tensor<8x4xf32, #fusion.axes<#tp, [-, didx("x")]>>, %1: tensor<4x8xf32, #fusion.axes<#tp, [didx("x"), -]>>, %2: tensor<8xf32, #fusion.axes<#tp, [-]>>) {
  // expected-error @+1 {{expected no bias with a result that is partial over "x": each partial sum would include it}}
  %3 = fusion.matmul %0, %1 bias %2 : tensor<8x4xf32, #fusion.axes<#tp, [-, didx("x")]>>, tensor<4x8xf32, #fusion.axes<#tp, [didx("x"), -]>>, tensor<8xf32, #fusion.axes<#tp, [-]>> -> tensor<8x8xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>
  return
}

// -----

// The axis that splits the new dimension is the one that the operand was partial over.
#tp = #tandem.mesh<"tp", ["x" = 2, "y" = 2]>
func.func @partial_broadcast(%0: tensor<8xf32, #fusion.axes<#tp, [-], partial = ["x"]>>) {
  // expected-error @+1 {{expected a result that is not partial over "y", since no operand is, found [didx("x"), -], partial = ["y"] on #tp}}
  %1 = fusion.broadcast %0 dims [1] : tensor<8xf32, #fusion.axes<#tp, [-], partial = ["x"]>> -> tensor<4x8xf32, #fusion.axes<#tp, [didx("x"), -], partial = ["y"]>>
  return
}

// -----

#any = #tandem.mesh<"any", ["x" = ?]>
func.func @unknown(%0: tensor<8x4xf32, #fusion.axes<#any, [didx("x"), -]>>) {
  // expected-error @+1 {{expected known extents and mesh sizes, found '?' (run fusion-specialize first)}}
  %1 = fusion.reshard %0 : tensor<8x4xf32, #fusion.axes<#any, [didx("x"), -]>> -> tensor<8x4xf32, #fusion.axes<#any, [-, -]>>
  return
}
