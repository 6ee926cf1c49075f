// RUN: tandem-opt %s | FileCheck %s
// RUN: tandem-opt %s --emit-bytecode | tandem-opt | FileCheck %s
// RUN: sed 's/fusion.mesh/fusion.mash/' %s | not tandem-opt 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// Files written before the mesh had a dialect: read, and printed in the newer spelling.

// CHECK: #tp = #tandem.mesh<"tp", ["x" = 4]>
// UNKNOWN: error: unknown attribute `mash` in dialect `fusion`
#tp = #fusion.mesh<"tp", ["x" = 4]>

// CHECK-LABEL: func.func @gather
// CHECK-SAME: #fusion.axes<#tp, [didx("x"), -]>
func.func @gather(%0: tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>>) -> tensor<8x4xf32, #fusion.axes<#tp, [-, -]>> {
  %1 = fusion.reshard %0
      : tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<8x4xf32, #fusion.axes<#tp, [-, -]>>
  return %1 : tensor<8x4xf32, #fusion.axes<#tp, [-, -]>>
}

// CHECK-LABEL: hostir.program @reduce
hostir.program @reduce(%a: memref<3xf32>, %b: memref<3xf32> {hostir.result}) {
  %main = hostir.main_stream
  %ch = hostir.channel "c" over #tp ["x"] can [collectives]
  // CHECK: {reduction = #tandem<reduce_kind max>}
  hostir.collective all_reduce %a to %b via %ch on %main {reduction = #fusion<reduce_kind max>}
      : memref<3xf32> to memref<3xf32>
}
