// REQUIRES: runtime
// RUN: tandem-opt %s --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir | FileCheck %s --check-prefix=IR
// RUN: tandem-compile %s --target=cpu-local -o %t.tsp && tandem-run %t.tsp --channel=local --verify | FileCheck %s

// A reshape or broadcast of a piece that begins later is a view; a reshape of what lies apart is copied together.
// IR: memref.reinterpret_cast %{{.*}} to offset: [6], sizes: [2, 2, 3], strides: [6, 3, 1]
// IR: memref.reinterpret_cast %{{.*}} to offset: [6], sizes: [2, 5, 6], strides: [6, 0, 1]
// IR: memref.transpose
// IR: %[[P:.*]] = memref.reinterpret_cast %{{.*}} to offset: [0], sizes: [6, 4], strides: [4, 1]
// IR: hostir.copy %{{.*}} to %[[P]]
// CHECK: verified f: ranks 2
#m = #tandem.mesh<"m", ["x" = 2]>
#r1 = #fusion.axes<#m, [-]>
#r2 = #fusion.axes<#m, [-, -]>
#r3 = #fusion.axes<#m, [-, -, -]>
func.func @f(%0: tensor<4x6xf32, #r2>)
    -> (tensor<2x2x3xf32, #r3>, tensor<2x5x6xf32, #r3>, tensor<24xf32, #r1>) {
  %1 = fusion.slice %0 offsets [1, 0] steps [1, 1] : tensor<4x6xf32, #r2> -> tensor<2x6xf32, #r2>
  %2 = fusion.reshape %1 : tensor<2x6xf32, #r2> -> tensor<2x2x3xf32, #r3>
  %3 = fusion.broadcast %1 dims [0, 2] : tensor<2x6xf32, #r2> -> tensor<2x5x6xf32, #r3>
  %4 = fusion.permute %0 [1, 0] : tensor<4x6xf32, #r2> -> tensor<6x4xf32, #r2>
  %5 = fusion.reshape %4 : tensor<6x4xf32, #r2> -> tensor<24xf32, #r1>
  return %2, %3, %5 : tensor<2x2x3xf32, #r3>, tensor<2x5x6xf32, #r3>, tensor<24xf32, #r1>
}
