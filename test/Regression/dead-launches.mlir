// REQUIRES: runtime
// RUN: tandem-compile %s --target=cpu-local -o %t.tsp && tandem-run %t.tsp --channel=local --verify | FileCheck %s
// RUN: tandem-compile %s -o %t.tsp && tandem-compile --dump %t.tsp --rank=0 | FileCheck %s --check-prefix=RANK0

// Elementwise ops that feed each other and nothing else: fused, they have no output, and no launch is left of them.
// CHECK: verified f: ranks 2
// RANK0-COUNT-1: s0 launch
// RANK0-NOT: s0 launch
#m = #tandem.mesh<"m", ["x" = 2]>
func.func @f(%a: tensor<8x5xf32, #fusion.axes<#m, [didx("x"), -]>>) -> tensor<8x5xf32, #fusion.axes<#m, [didx("x"), -]>> {
  %r = arith.negf %a : tensor<8x5xf32, #fusion.axes<#m, [didx("x"), -]>>
  %d = math.exp %a : tensor<8x5xf32, #fusion.axes<#m, [didx("x"), -]>>
  %e = arith.divf %a, %d : tensor<8x5xf32, #fusion.axes<#m, [didx("x"), -]>>
  return %r : tensor<8x5xf32, #fusion.axes<#m, [didx("x"), -]>>
}
