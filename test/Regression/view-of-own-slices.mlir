// REQUIRES: runtime
// RUN: tandem-opt %s --tandem-lower | FileCheck %s --check-prefix=IR
// RUN: tandem-compile %s --target=cpu-local -o %t.tsp && tandem-run %t.tsp --channel=local --verify | FileCheck %s

// The matmul reads slice i of %1 on the right and all of it, through a view, on the left: it may not run in %1's loop.
// IR: hostir.launch
// IR: scf.for
// IR-NEXT: hostir.worker_stream
// IR-NEXT: hostir.sync
// IR: hostir.matmul
// CHECK: verified f: ranks 2
#m = #tandem.mesh<"m", ["x" = 2]>
func.func @f(%0: tensor<7x4xf32, #fusion.axes<#m, [stream, -]>>) -> tensor<7x7xf32, #fusion.axes<#m, [-, stream]>> {
  %1 = math.absf %0 : tensor<7x4xf32, #fusion.axes<#m, [stream, -]>>
  %2 = fusion.broadcast %1 dims [0, 1] : tensor<7x4xf32, #fusion.axes<#m, [stream, -]>>
                                      -> tensor<7x4xf32, #fusion.axes<#m, [stream, -]>>
  %3 = fusion.matmul %2, %1 {transpose_b} : tensor<7x4xf32, #fusion.axes<#m, [stream, -]>>,
      tensor<7x4xf32, #fusion.axes<#m, [stream, -]>> -> tensor<7x7xf32, #fusion.axes<#m, [-, stream]>>
  return %3 : tensor<7x7xf32, #fusion.axes<#m, [-, stream]>>
}
