// RUN: tandem-opt %s -split-input-file -verify-diagnostics -fusion-verify="stage=input"

// What no kernel computes is refused at the op, with what is possible.
func.func @integers(%0: tensor<8xi32, #fusion.axes<#tandem.mesh<"m", ["x" = 2]>, [-]>>) {
  // expected-error @+1 {{expected an elementwise operation that kernels compute, one of arith.addf, arith.addi, arith.andi, arith.bitcast, arith.cmpf, arith.cmpi, arith.divf, arith.divsi, arith.extf, arith.extsi, arith.extui, arith.fptosi, arith.maximumf,}}
  %1 = arith.divui %0, %0 : tensor<8xi32, #fusion.axes<#tandem.mesh<"m", ["x" = 2]>, [-]>>
  return
}

// -----

func.func @floats(%0: tensor<8xf32, #fusion.axes<#tandem.mesh<"m", ["x" = 2]>, [-]>>) {
  // expected-error @+1 {{math.absf, math.absi, math.ceil, math.cos, math.erf, math.erfc, math.exp, math.exp2, math.expm1, math.floor, math.fma, math.log, math.log10, math.log1p, math.log2, math.powf, math.round, math.roundeven, math.rsqrt, math.sin, math.sqrt, math.tanh, math.trunc}}
  %1 = math.atan %0 : tensor<8xf32, #fusion.axes<#tandem.mesh<"m", ["x" = 2]>, [-]>>
  return
}

// -----

func.func @truth(%0: tensor<8xf32, #fusion.axes<#tandem.mesh<"m", ["x" = 2]>, [-]>>) {
  %1 = arith.cmpf ogt, %0, %0 : tensor<8xf32, #fusion.axes<#tandem.mesh<"m", ["x" = 2]>, [-]>>
  // expected-error @+1 {{expected numbers, found truth values (i1)}}
  %2 = arith.addi %1, %1 : tensor<8xi1, #fusion.axes<#tandem.mesh<"m", ["x" = 2]>, [-]>>
  return
}

// -----

// Bits are not summed.
func.func @bits(%0: tensor<8xi16, #fusion.axes<#tandem.mesh<"m", ["x" = 2]>, [-], partial = ["x"]>>) {
  // expected-error @+1 {{expected elements that can be reduced, found partial values of 'i16' in operand 0}}
  %1 = arith.addi %0, %0 : tensor<8xi16, #fusion.axes<#tandem.mesh<"m", ["x" = 2]>, [-], partial = ["x"]>>
  return
}

// -----

func.func @rounding(%0: tensor<8xf32, #fusion.axes<#tandem.mesh<"m", ["x" = 2]>, [-]>>) {
  // expected-error @+1 {{expected to round to nearest even, found downward}}
  %1 = arith.truncf %0 downward : tensor<8xf32, #fusion.axes<#tandem.mesh<"m", ["x" = 2]>, [-]>> to tensor<8xf16, #fusion.axes<#tandem.mesh<"m", ["x" = 2]>, [-]>>
  return
}

// -----

func.func @one_truth(%0: tensor<8xf32, #fusion.axes<#tandem.mesh<"m", ["x" = 2]>, [-]>>) {
  %1 = arith.constant true
  // expected-error @+1 {{expected a tensor in operand 0, found 'i1'}}
  %2 = arith.select %1, %0, %0 : tensor<8xf32, #fusion.axes<#tandem.mesh<"m", ["x" = 2]>, [-]>>
  return
}

// -----

func.func @several_values() -> tensor<2xf32, #fusion.axes<#tandem.mesh<"m", ["x" = 2]>, [-]>> {
  // expected-error @+1 {{expected a constant with one value for all elements, found several (pass them as an argument of the function)}}
  %0 = arith.constant dense<[1.0, 2.0]> : tensor<2xf32, #fusion.axes<#tandem.mesh<"m", ["x" = 2]>, [-]>>
  return %0 : tensor<2xf32, #fusion.axes<#tandem.mesh<"m", ["x" = 2]>, [-]>>
}
