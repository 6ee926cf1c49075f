// RUN: tandem-compile %s --dump --rank=1 | FileCheck %s
// RUN: tandem-compile %s -o %t.tsp && tandem-check %t.tsp --sms=132 | FileCheck %s --check-prefix=PROVEN
// RUN: tandem-compile %s -o %t.tsp && tandem-sim %t.tsp --machine=h200x8 | FileCheck %s --check-prefix=TIME

// A fused exchange is a table in the file. When it is loaded, its parts follow it. In a loop, each has a value of its own.

// PROVEN: @p: 2 ranks, 24 commands: no error
// TIME: @p on h200x8: 2 ranks, 24 commands

// CHECK: s0 fused_exchange 5 parts by 3 blocks "peer_exchange #0" loc
// CHECK-NEXT: s0   copy sym[[S:[0-9]+]]+64:f32[16] <- arg0:f32[16] bytes 64 "copy" loc
// CHECK-NEXT: s0   put c0 sym[[S]]+64:f32[16] <- arg0:f32[16] to 0
// CHECK-NEXT: s0   signal c0 slot 1 value 1 to 0 exclusive
// CHECK-NEXT: s0   wait_signal c0 slot 0 value 1
// CHECK-NEXT: s0   reduce sum arg1:f32[16] <- sym[[S]]:f32[2,16] dims 0x1
// CHECK-NEXT: s0 fused_exchange 4 parts by 2 blocks
// CHECK-NEXT: s0   put c0 sym{{.*}} to 0
// CHECK-NEXT: s0   signal c0 slot 3 value 1 to 0 exclusive
// CHECK-NEXT: s0   put c0 sym{{.*}} to 0
// CHECK-NEXT: s0   signal c0 slot 3 value 2 to 0 exclusive
// CHECK-NEXT: s0 wait_signal c0 slot 2 value 2
#tp = #tandem.mesh<"tp", ["x" = 2]>
hostir.program @p(%a: memref<16xf32>, %y: memref<16xf32> {hostir.result}) attributes {symmetric_bytes = 256 : i64} {
  %main = hostir.main_stream
  %me = hostir.device_index #tp, "x"
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %peer = arith.subi %c1, %me : index
  %from = arith.addi %peer, %c2 : index
  %ch = hostir.channel "c" over #tp ["x"] can [one_sided]
  %slots = hostir.alloc on %main {offset = 0 : i64} : memref<2x16xf32, #hostir.symmetric>
  hostir.peer_exchange one_shot_all_reduce %a to %y scratch %slots slot 0 blocks 3 via %ch on %main
      : memref<16xf32> to memref<16xf32> scratch memref<2x16xf32, #hostir.symmetric>
  hostir.dealloc %slots on %main : memref<2x16xf32, #hostir.symmetric>
  %one = hostir.alloc on %main {offset = 128 : i64} : memref<16xf32, #hostir.symmetric>
  %two = hostir.alloc on %main {offset = 192 : i64} : memref<16xf32, #hostir.symmetric>
  hostir.peer_exchange put_all %a, %a to %one, %two slot 2 blocks 2 via %ch on %main
      : memref<16xf32>, memref<16xf32> to memref<16xf32, #hostir.symmetric>, memref<16xf32, #hostir.symmetric>
  hostir.wait_signal %from >= %c2 via %ch on %main
  hostir.dealloc %one on %main : memref<16xf32, #hostir.symmetric>
  hostir.dealloc %two on %main : memref<16xf32, #hostir.symmetric>
}
