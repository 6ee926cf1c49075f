// REQUIRES: runtime
// RUN: tandem-opt %s --tandem-lower=gather=after | FileCheck %s --check-prefix=IR
// RUN: tandem-compile %s --gather=after --target=cpu-local -o %t.tsp
// RUN: tandem-run %t.tsp --channel=local --verify | FileCheck %s

// The own slice is read where it lies, in the digits that the reshard's two sides have in common (2, x, 2); what is made of
// it lies in those of the result (4). One launch has one shape.
// IR: hostir.launch @f.minimumf ins(%{{.+}} : memref<2x4x9xbf16>) outs(%{{.+}} : memref<2x4x9xbf16
// CHECK: verified f: ranks 6
#m = #tandem.mesh<"m", ["x" = 3, "y" = 2]>
#in = #fusion.axes<#m, [didx("y"), -, -, -]>
#out = #fusion.axes<#m, [stream(2), serial(2) * didx("x"), -]>
func.func @f(%a: tensor<4x12x3x9xbf16, #in>) -> tensor<4x12x9xbf16, #out> {
  %r = fusion.reduce sum %a dims [2] : tensor<4x12x3x9xbf16, #in> -> tensor<4x12x9xbf16, #out>
  %b = arith.minimumf %r, %r : tensor<4x12x9xbf16, #out>
  return %b : tensor<4x12x9xbf16, #out>
}
