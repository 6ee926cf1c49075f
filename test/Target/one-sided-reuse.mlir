// RUN: tandem-compile %s --entry=tied -o %t.tsp && tandem-check %t.tsp | FileCheck %s --check-prefix=TIED
// RUN: tandem-compile %s --entry=untied --check=false -o %t.tsp && not tandem-check %t.tsp | FileCheck %s --check-prefix=UNTIED

// The memory in which %a was received receives %c. In @tied the exchange of %b comes between: its signals follow the
// reads of %a, and are waited for before %c is put. Without it, a peer may put %c while %a is being read.
// (hostir-plan-buffers gives such places: test/Dialect/HostIR/hostir-plan-buffers-symmetric.mlir.)

// TIED: @tied: 2 ranks, 24 commands: no error
// UNTIED: error: race: rank {{[01]}} puts bytes [0, 32) of symmetric memory of rank {{[01]}}, unordered with rank {{[01]}}, which reads it

#tp = #tandem.mesh<"tp", ["x" = 2]>

hostir.program @tied(%in: memref<8xf32>, %out: memref<3x8xf32> {hostir.result}) attributes {symmetric_bytes = 128 : i64} {
  %main = hostir.main_stream
  %me = hostir.device_index #tp, "x"
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %other = arith.subi %c1, %me : index
  %ch = hostir.channel "pair" over #tp ["x"] can [one_sided]
  %out0 = memref.subview %out[0, 0] [1, 8] [1, 1] : memref<3x8xf32> to memref<8xf32, strided<[1]>>
  %out1 = memref.subview %out[1, 0] [1, 8] [1, 1] : memref<3x8xf32> to memref<8xf32, strided<[1], offset: 8>>
  %out2 = memref.subview %out[2, 0] [1, 8] [1, 1] : memref<3x8xf32> to memref<8xf32, strided<[1], offset: 16>>
  %a = hostir.alloc on %main {offset = 0 : i64} : memref<8xf32, #hostir.symmetric>
  hostir.put %in to %a at %other via %ch on %main : memref<8xf32> to memref<8xf32, #hostir.symmetric>
  hostir.signal %c0 = %c1 at %other via %ch on %main
  hostir.wait_signal %c0 >= %c1 via %ch on %main
  hostir.copy %a to %out0 on %main : memref<8xf32, #hostir.symmetric> to memref<8xf32, strided<[1]>>
  hostir.dealloc %a on %main : memref<8xf32, #hostir.symmetric>
  %b = hostir.alloc on %main {offset = 64 : i64} : memref<8xf32, #hostir.symmetric>
  hostir.put %in to %b at %other via %ch on %main : memref<8xf32> to memref<8xf32, #hostir.symmetric>
  hostir.signal %c1 = %c1 at %other via %ch on %main
  hostir.wait_signal %c1 >= %c1 via %ch on %main
  hostir.copy %b to %out1 on %main : memref<8xf32, #hostir.symmetric> to memref<8xf32, strided<[1], offset: 8>>
  hostir.dealloc %b on %main : memref<8xf32, #hostir.symmetric>
  %c = hostir.alloc on %main {offset = 0 : i64} : memref<8xf32, #hostir.symmetric>
  hostir.put %in to %c at %other via %ch on %main : memref<8xf32> to memref<8xf32, #hostir.symmetric>
  hostir.signal %c2 = %c1 at %other via %ch on %main
  hostir.wait_signal %c2 >= %c1 via %ch on %main
  hostir.copy %c to %out2 on %main : memref<8xf32, #hostir.symmetric> to memref<8xf32, strided<[1], offset: 16>>
  hostir.dealloc %c on %main : memref<8xf32, #hostir.symmetric>
}

hostir.program @untied(%in: memref<8xf32>, %out: memref<2x8xf32> {hostir.result}) attributes {symmetric_bytes = 64 : i64} {
  %main = hostir.main_stream
  %me = hostir.device_index #tp, "x"
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %other = arith.subi %c1, %me : index
  %ch = hostir.channel "pair" over #tp ["x"] can [one_sided]
  %out0 = memref.subview %out[0, 0] [1, 8] [1, 1] : memref<2x8xf32> to memref<8xf32, strided<[1]>>
  %out2 = memref.subview %out[1, 0] [1, 8] [1, 1] : memref<2x8xf32> to memref<8xf32, strided<[1], offset: 8>>
  %a = hostir.alloc on %main {offset = 0 : i64} : memref<8xf32, #hostir.symmetric>
  hostir.put %in to %a at %other via %ch on %main : memref<8xf32> to memref<8xf32, #hostir.symmetric>
  hostir.signal %c0 = %c1 at %other via %ch on %main
  hostir.wait_signal %c0 >= %c1 via %ch on %main
  hostir.copy %a to %out0 on %main : memref<8xf32, #hostir.symmetric> to memref<8xf32, strided<[1]>>
  hostir.dealloc %a on %main : memref<8xf32, #hostir.symmetric>
  %c = hostir.alloc on %main {offset = 0 : i64} : memref<8xf32, #hostir.symmetric>
  hostir.put %in to %c at %other via %ch on %main : memref<8xf32> to memref<8xf32, #hostir.symmetric>
  hostir.signal %c2 = %c1 at %other via %ch on %main
  hostir.wait_signal %c2 >= %c1 via %ch on %main
  hostir.copy %c to %out2 on %main : memref<8xf32, #hostir.symmetric> to memref<8xf32, strided<[1], offset: 8>>
  hostir.dealloc %c on %main : memref<8xf32, #hostir.symmetric>
}
