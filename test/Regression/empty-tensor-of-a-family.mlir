// REQUIRES: runtime
// RUN: tandem-compile %s --bound=24 --target=cpu-local -o %t.tsp && tandem-run %t.tsp --channel=local --extent=24,15,0 --repeat=3 --verify | FileCheck %s

// An empty piece is nowhere in a tensor. Its place was one behind the last row, which an extent that varies cannot have.
// CHECK: verified f: ranks 8
#m = #tandem.mesh<"m", ["x" = 8]>
#columns = #fusion.axes<#m, [serial(2), -, didx("x")]>
#whole = #fusion.axes<#m, [-, didx("x"), -]>
func.func @f(%x: tensor<?x0x7xf32, #columns>) -> tensor<?x0x7xf32, #whole> {
  %0 = fusion.reshard %x : tensor<?x0x7xf32, #columns> -> tensor<?x0x7xf32, #whole>
  %y = arith.maximumf %0, %0 : tensor<?x0x7xf32, #whole>
  return %y : tensor<?x0x7xf32, #whole>
}
