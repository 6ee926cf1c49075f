// RUN: tandem-opt %s --pass-pipeline='builtin.module(hostir-fuse-launches,hostir.program(hostir-localize-buffers,hostir-expand-collectives{channels-without-collectives=*},hostir-insert-deallocs,hostir-plan-buffers,hostir-verify))' -o %t.mlir
// RUN: tandem-compile %t.mlir --entry=empty --dump --rank=0 | FileCheck %s

// Operands without elements: a sum of no products is still written, nothing is sent.

// CHECK: arena 0, symmetric 2x0
// CHECK: s0 matmul arg3:f32[8,16] = arg0:f32[8,0] * arg1:f32[0,16]
// CHECK-NEXT: s0 launch k0(arg4:f32[0,4], arg2:f32[0,4])
// CHECK-NOT: s0

#tp = #tandem.mesh<"tp", ["x" = 2]>
hostir.kernel @tanh(%a: f32) -> f32 {
  %r = math.tanh %a : f32
  hostir.yield %r : f32
}
hostir.program @empty(%x: memref<8x0xf32>, %w: memref<0x16xf32>, %e: memref<0x4xf32>, %y: memref<8x16xf32> {hostir.result}, %z: memref<0x4xf32> {hostir.result}, %g: memref<2x0x4xf32> {hostir.result}) {
  %main = hostir.main_stream
  %ch = hostir.channel "c" over #tp ["x"] can [two_sided]
  hostir.matmul %x, %w to %y on %main : memref<8x0xf32>, memref<0x16xf32> to memref<8x16xf32>
  hostir.launch @tanh ins(%e : memref<0x4xf32>) outs(%z : memref<0x4xf32>) on %main
  hostir.collective all_gather %z to %g via %ch on %main : memref<0x4xf32> to memref<2x0x4xf32>
}
