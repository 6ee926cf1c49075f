// REQUIRES: runtime
// RUN: tandem-opt %s --tandem-lower | FileCheck %s --check-prefix=IR
// RUN: tandem-compile %s --entry=cut --target=cpu-local -o %t.cut.tsp
// RUN: tandem-run %t.cut.tsp --channel=local --verify | FileCheck %s --check-prefix=CUT
// RUN: tandem-compile %s --entry=joined --target=cpu-local -o %t.joined.tsp
// RUN: tandem-run %t.joined.tsp --channel=local --verify | FileCheck %s --check-prefix=JOINED

// The digits of operand and result have the same weight and size, but slice i of the result takes indices of both slices of
// the operand: 3 ... 8 and 15 ... 20 of the cut one; slice 1 - i of the joined one, which begins at 6.
#m = #tandem.mesh<"m", ["x" = 2]>
#r = #fusion.axes<#m, [-, -]>
#two = #fusion.axes<#m, [serial(2) * stream(2), -]>
#three = #fusion.axes<#m, [serial(3) * stream(2), -]>
#all = #fusion.axes<#m, [stream(2), -]>

// IR-LABEL: hostir.program @cut(
// IR: hostir.launch @cut.negf
// IR: hostir.sync
// IR: hostir.launch @cut.absf
// CUT: verified cut: ranks 2
func.func @cut(%a: tensor<24x6xf32, #r>) -> tensor<12x6xf32, #all> {
  %0 = fusion.reshard %a : tensor<24x6xf32, #r> -> tensor<24x6xf32, #two>
  %1 = arith.negf %0 : tensor<24x6xf32, #two>
  %2 = fusion.slice %1 offsets [3, 0] steps [1, 1] : tensor<24x6xf32, #two> -> tensor<12x6xf32, #all>
  %3 = math.absf %2 : tensor<12x6xf32, #all>
  return %3 : tensor<12x6xf32, #all>
}

// IR-LABEL: hostir.program @joined(
// IR: hostir.launch @joined.negf
// IR: hostir.sync
// IR: hostir.copy
// JOINED: verified joined: ranks 2
func.func @joined(%a: tensor<24x6xf32, #r>, %b: tensor<6x6xf32, #r>) -> tensor<36x6xf32, #three> {
  %0 = fusion.reshard %a : tensor<24x6xf32, #r> -> tensor<24x6xf32, #two>
  %1 = arith.negf %0 : tensor<24x6xf32, #two>
  %2 = fusion.concat %b, %1, %b dim 0
      : (tensor<6x6xf32, #r>, tensor<24x6xf32, #two>, tensor<6x6xf32, #r>) -> tensor<36x6xf32, #three>
  return %2 : tensor<36x6xf32, #three>
}
