// RUN: tandem-compile %s --dump --rank=1 | FileCheck %s
// RUN: tandem-compile %s --rank=1 -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s

// RUN: tandem-compile %s -o %t.tsp && tandem-check %t.tsp | FileCheck %s --check-prefix=PROVEN

// A ring of puts. The steps by which signals count must be the same on all ranks, also in a file that holds one alone.
// A rank gives back to the left what it has read; else that could write there a second time, two runs later.

#tp = #tandem.mesh<"tp", ["x" = 3]>

// CHECK: program @ring rank 1 of 3
// CHECK-NEXT: streams 1, events 0, arena 0, symmetric 2x128, signals [0,0,3,1], commands 6
// CHECK: buffer sym1 symmetric at 64 size 32 "alloc #0"
// CHECK: channel c0 "ring" one_sided
// CHECK: 0 s0 put c0 sym1:f32[8] <- arg0:f32[8] to 2 bytes 32 "put #0"
// CHECK-NEXT: 1 s0 signal c0 slot 2 value 2 to 2 exclusive "signal #0"
// CHECK-NEXT: 2 s0 wait_signal c0 slot 2 value 1 "wait_signal #0"
// CHECK-NEXT: 3 s0 copy arg1:f32[8] <- sym1:f32[8] bytes 32
// CHECK-NEXT: 4 s0 signal c0 slot 3 value 1 to 0 exclusive "signal #1"
// CHECK-NEXT: 5 s0 wait_signal c0 slot 3 value 1 "wait_signal #1"
// PROVEN: @ring: 3 ranks, 18 commands: no error

hostir.program @ring(%in: memref<8xf32>, %out: memref<8xf32> {hostir.result}) attributes {symmetric_bytes = 128 : i64} {
  %main = hostir.main_stream
  %me = hostir.device_index #tp, "x"
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %next = arith.addi %me, %c1 : index
  %right = arith.remui %next, %c3 : index
  %left1 = arith.addi %me, %c2 : index
  %left = arith.remui %left1, %c3 : index
  %expected = arith.addi %left, %c1 : index
  %ch = hostir.channel "ring" over #tp ["x"] can [one_sided]
  %slot = hostir.alloc on %main {offset = 64 : i64} : memref<8xf32, #hostir.symmetric>
  hostir.put %in to %slot at %right via %ch on %main : memref<8xf32> to memref<8xf32, #hostir.symmetric>
  hostir.signal %c2 = %next at %right via %ch on %main
  hostir.wait_signal %c2 >= %expected via %ch on %main
  hostir.copy %slot to %out on %main : memref<8xf32, #hostir.symmetric> to memref<8xf32>
  hostir.signal %c3 = %c1 at %left via %ch on %main
  hostir.wait_signal %c3 >= %c1 via %ch on %main
  hostir.dealloc %slot on %main : memref<8xf32, #hostir.symmetric>
}
