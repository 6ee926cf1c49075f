// RUN: tandem-compile %s --target=cpu-local --dump --rank=1 | FileCheck %s
// RUN: not tandem-compile %s --target=cpu-ucx --dump 2>&1 | FileCheck %s --check-prefix=UCX

// All kinds; operands that a rank neither reads nor writes are none.

// UCX: collectives.mlir:[[#@LINE+15]]:1: error: 'hostir.program' op channel "c" needs collectives, which target cpu-ucx does not have (it has two_sided, one_sided)

#tp = #tandem.mesh<"tp", ["x" = 2]>

// CHECK: stream program @collectives {{.*}} capabilities collectives
// CHECK: program @collectives rank 1 of 2
// CHECK: 0 s0 collective c0 all_gather arg2:f32[2,8] <- arg0:f32[8] "all_gather #0"
// CHECK-NEXT: 1 s0 collective c0 all_reduce max arg3:f32[8] <- arg0:f32[8] "all_reduce #0"
// CHECK-NEXT: 2 s0 collective c0 reduce_scatter sum arg3:f32[8] <- arg1:f32[2,8] "reduce_scatter #0"
// CHECK-NEXT: 3 s0 collective c0 all_to_all arg2:f32[2,8] <- arg1:f32[2,8] "all_to_all #0"
// CHECK-NEXT: 4 s0 collective c0 broadcast arg3:f32[8] <- none root 0 "broadcast #0"
// CHECK-NEXT: 5 s0 collective c0 reduce min none <- arg0:f32[8] root 0 "reduce #0"
// CHECK-NEXT: 6 s0 collective c0 gather arg2:f32[2,8] <- arg0:f32[8] root 1 "gather #0"
// CHECK-NEXT: 7 s0 collective c0 scatter arg3:f32[8] <- arg1:f32[2,8] root 1 "scatter #0"

hostir.program @collectives(%a: memref<8xf32>, %ab: memref<2x8xf32>, %gathered: memref<2x8xf32> {hostir.result},
                            %r: memref<8xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %ch = hostir.channel "c" over #tp ["x"] can [collectives]
  hostir.collective all_gather %a to %gathered via %ch on %main : memref<8xf32> to memref<2x8xf32>
  hostir.collective all_reduce %a to %r via %ch on %main {reduction = #tandem<reduce_kind max>} : memref<8xf32> to memref<8xf32>
  hostir.collective reduce_scatter %ab to %r via %ch on %main : memref<2x8xf32> to memref<8xf32>
  hostir.collective all_to_all %ab to %gathered via %ch on %main : memref<2x8xf32> to memref<2x8xf32>
  hostir.collective broadcast %a to %r root %c0 via %ch on %main : memref<8xf32> to memref<8xf32>
  hostir.collective reduce %a to %r root %c0 via %ch on %main {reduction = #tandem<reduce_kind min>} : memref<8xf32> to memref<8xf32>
  hostir.collective gather %a to %gathered root %c1 via %ch on %main : memref<8xf32> to memref<2x8xf32>
  hostir.collective scatter %ab to %r root %c1 via %ch on %main : memref<2x8xf32> to memref<8xf32>
}
