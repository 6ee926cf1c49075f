// RUN: tandem-opt %s -split-input-file -verify-diagnostics -fusion-scalars-to-tensors

// A choice between values that are no tensors, by a number that becomes one.

#tp = #tandem.mesh<"tp", ["x" = 4]>
func.func @streams(%x: tensor<12x5xf32, #fusion.axes<#tp, [-, -]>>) -> tensor<12x5xf32, #fusion.axes<#tp, [-, -]>> {
  %main = hostir.main_stream
  %true = arith.constant true
  // expected-error @below {{'arith.select' op expected tensors and numbers of a fusion's element types, found '!hostir.stream'}}
  %s = arith.select %true, %main, %main : !hostir.stream
  return %x : tensor<12x5xf32, #fusion.axes<#tp, [-, -]>>
}
