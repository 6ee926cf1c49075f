// RUN: split-file %s %t
// RUN: tandem-compile %t/good.mlir --dump --rank=1 | FileCheck %t/good.mlir
// RUN: tandem-compile %t/good.mlir -o %t/good.tsp && tandem-check %t/good.tsp --sms=132 | FileCheck %s --check-prefix=PROVEN
// RUN: tandem-compile %t/good.mlir -o %t/good.tsp && tandem-sim %t/good.tsp --machine=h200x8 | FileCheck %s --check-prefix=TIME
// RUN: not tandem-compile %t/shifted.mlir -o %t/out.tsp 2>&1 | FileCheck %s --check-prefix=SHIFTED
// RUN: not ls %t/out.tsp

// A fused exchange is followed by its parts. Threads of its kernel may not need what other threads have written.

// PROVEN: @p: 2 ranks, 12 commands: no error
// TIME: @p on h200x8: 2 ranks, 12 commands
// SHIFTED: shifted.mlir:12:3: error: 'hostir.fused_exchange' op rank 0: part 4: reads what part 0 has written, as other elements

//--- good.mlir
#tp = #tandem.mesh<"tp", ["x" = 2]>
// CHECK: s0 fused_exchange 5 parts by 3 blocks "fused_exchange #0" loc
// CHECK-NEXT: s0   copy sym1+64:f32[16] <- arg0:f32[16]
// CHECK-NEXT: s0   put c0 sym1+64:f32[16] <- arg0:f32[16] to 0
// CHECK-NEXT: s0   signal c0 slot 1 value 1 to 0 exclusive
// CHECK-NEXT: s0   wait_signal c0 slot 0 value 1
// CHECK-NEXT: s0   reduce sum arg1:f32[16] <- sym1:f32[2,16] dims 0x1
hostir.program @p(%a: memref<16xf32>, %y: memref<16xf32> {hostir.result}) attributes {symmetric_bytes = 128 : i64} {
  %main = hostir.main_stream
  %me = hostir.device_index #tp, "x"
  %c1 = arith.constant 1 : index
  %peer = arith.subi %c1, %me : index
  %ch = hostir.channel "c" over #tp ["x"] can [one_sided]
  %slots = hostir.alloc on %main {offset = 0 : i64} : memref<2x16xf32, #hostir.symmetric>
  %mine = memref.subview %slots[%me, 0] [1, 16] [1, 1] : memref<2x16xf32, #hostir.symmetric> to memref<16xf32, strided<[1], offset: ?>, #hostir.symmetric>
  hostir.fused_exchange on %main blocks 3 {
    hostir.copy %a to %mine on %main : memref<16xf32> to memref<16xf32, strided<[1], offset: ?>, #hostir.symmetric>
    hostir.put %a to %mine at %peer via %ch on %main : memref<16xf32> to memref<16xf32, strided<[1], offset: ?>, #hostir.symmetric>
    hostir.signal %me = %c1 at %peer via %ch on %main
    hostir.wait_signal %peer >= %c1 via %ch on %main
    hostir.reduce sum %slots to %y dims [0] on %main : memref<2x16xf32, #hostir.symmetric> to memref<16xf32>
  }
  hostir.dealloc %slots on %main : memref<2x16xf32, #hostir.symmetric>
}

//--- shifted.mlir
#tp = #tandem.mesh<"tp", ["x" = 2]>
hostir.program @p(%a: memref<16xf32>, %y: memref<15xf32> {hostir.result}) attributes {symmetric_bytes = 128 : i64} {
  %main = hostir.main_stream
  %me = hostir.device_index #tp, "x"
  %c1 = arith.constant 1 : index
  %peer = arith.subi %c1, %me : index
  %ch = hostir.channel "c" over #tp ["x"] can [one_sided]
  %slots = hostir.alloc on %main {offset = 0 : i64} : memref<2x16xf32, #hostir.symmetric>
  %mine = memref.subview %slots[%me, 0] [1, 16] [1, 1] : memref<2x16xf32, #hostir.symmetric> to memref<16xf32, strided<[1], offset: ?>, #hostir.symmetric>
  // The sum of elements 1 to 15.
  %later = memref.subview %slots[0, 1] [2, 15] [1, 1] : memref<2x16xf32, #hostir.symmetric> to memref<2x15xf32, strided<[16, 1], offset: 1>, #hostir.symmetric>
  hostir.fused_exchange on %main blocks 3 {
    hostir.copy %a to %mine on %main : memref<16xf32> to memref<16xf32, strided<[1], offset: ?>, #hostir.symmetric>
    hostir.put %a to %mine at %peer via %ch on %main : memref<16xf32> to memref<16xf32, strided<[1], offset: ?>, #hostir.symmetric>
    hostir.signal %me = %c1 at %peer via %ch on %main
    hostir.wait_signal %peer >= %c1 via %ch on %main
    hostir.reduce sum %later to %y dims [0] on %main : memref<2x15xf32, strided<[16, 1], offset: 1>, #hostir.symmetric> to memref<15xf32>
  }
  hostir.dealloc %slots on %main : memref<2x16xf32, #hostir.symmetric>
}
