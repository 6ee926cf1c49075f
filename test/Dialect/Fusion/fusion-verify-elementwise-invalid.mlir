// RUN: tandem-opt %s -split-input-file -verify-diagnostics -fusion-verify="stage=input"

// What no kernel computes is refused at the op, with what is possible.
func.func @integers(%0: tensor<8xi32, #fusion.axes<#tandem.mesh<"m", ["x" = 2]>, [-]>>) {
  // expected-error @+1 {{expected an elementwise operation that kernels compute, for elements of 'i32' one of addi, subi, muli, divsi, remsi, maxsi, minsi, shli, shrsi and math.absi (not of i1), cmpi, andi, ori, xori, select, extsi, extui, trunci, fptosi, bitcast of as many bits (32 or 64)}}
  %1 = arith.divui %0, %0 : tensor<8xi32, #fusion.axes<#tandem.mesh<"m", ["x" = 2]>, [-]>>
  return
}

// -----

func.func @floats(%0: tensor<8xf32, #fusion.axes<#tandem.mesh<"m", ["x" = 2]>, [-]>>) {
  // expected-error @+1 {{for elements of 'f32' one of addf, subf, mulf, divf, remf, negf, maximumf, minimumf, maxnumf, minnumf, cmpf, select, extf, truncf to nearest even, sitofp, uitofp, bitcast of as many bits (32 or 64), and of math absf, ceil, cos, erf, erfc, exp, exp2, expm1, floor, fma, log, log1p, log2, log10, powf, round, roundeven, rsqrt, sin, sqrt, tanh, trunc}}
  %1 = math.atan %0 : tensor<8xf32, #fusion.axes<#tandem.mesh<"m", ["x" = 2]>, [-]>>
  return
}

// -----

func.func @truth(%0: tensor<8xf32, #fusion.axes<#tandem.mesh<"m", ["x" = 2]>, [-]>>) {
  %1 = arith.cmpf ogt, %0, %0 : tensor<8xf32, #fusion.axes<#tandem.mesh<"m", ["x" = 2]>, [-]>>
  // expected-error @+1 {{expected an elementwise operation that kernels compute, for elements of 'i1' one of}}
  %2 = arith.addi %1, %1 : tensor<8xi1, #fusion.axes<#tandem.mesh<"m", ["x" = 2]>, [-]>>
  return
}

// -----

func.func @bits_of_halves(%0: tensor<8xf16, #fusion.axes<#tandem.mesh<"m", ["x" = 2]>, [-]>>) {
  // expected-error @+1 {{bitcast of as many bits (32 or 64)}}
  %1 = arith.bitcast %0 : tensor<8xf16, #fusion.axes<#tandem.mesh<"m", ["x" = 2]>, [-]>> to tensor<8xbf16, #fusion.axes<#tandem.mesh<"m", ["x" = 2]>, [-]>>
  return
}

// -----

func.func @rounding(%0: tensor<8xf32, #fusion.axes<#tandem.mesh<"m", ["x" = 2]>, [-]>>) {
  // expected-error @+1 {{truncf to nearest even}}
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
