// RUN: split-file %s %t
// RUN: tandem-compile %t/good.mlir --dump --rank=1 | FileCheck %t/good.mlir
// RUN: tandem-compile %t/good.mlir -o %t/good.tsp && tandem-check %t/good.tsp --sms=132 | FileCheck %s --check-prefix=PROVEN
// RUN: tandem-compile %t/good.mlir -o %t/good.tsp && tandem-sim %t/good.tsp --machine=mi300x8 | FileCheck %s --check-prefix=TIME
// RUN: not tandem-compile %t/gap.mlir -o %t/out.tsp 2>&1 | FileCheck %s --check-prefix=GAP
// RUN: not tandem-compile %t/over.mlir -o %t/out.tsp 2>&1 | FileCheck %s --check-prefix=OVER
// RUN: not ls %t/out.tsp

// A gated matmul is followed by its parts, and a part is computed after the waits before it. Each rank puts its rows into
// the other's memory.

// PROVEN: @p: 2 ranks, 22 commands: no error
// TIME: no kernels for gated matmuls on this machine: the parts of rank 0 stream 0 command
// GAP: gap.mlir:5:3: error: 'hostir.gated_matmul' op rank 0: expected rows that are computed once, without gaps: 4 next, found 8
// OVER: over.mlir:7:3: error: 'hostir.gated_matmul' op rank 0: out: overlaps a

//--- good.mlir
#tp = #tandem.mesh<"tp", ["x" = 2]>
// CHECK: s0 gated_matmul 3 parts leaves 2 SMs "gated_matmul #0" loc
// CHECK-NEXT: s0   matmul arg2+32:f32[4,2] = sym1+128:f32[4,8] * arg1:f32[8,2]
// CHECK-NEXT: s0   wait_signal c0 slot 0 value 1
// CHECK-NEXT: s0   matmul arg2:f32[4,2] = sym1:f32[4,8] * arg1:f32[8,2]
hostir.program @p(%a: memref<4x8xf32>, %w: memref<8x2xf32>, %y: memref<8x2xf32> {hostir.result}) attributes {symmetric_bytes = 256 : i64} {
  %main = hostir.main_stream
  %me = hostir.device_index #tp, "x"
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %peer = arith.subi %c1, %me : index
  %mine = arith.muli %me, %c4 : index
  %theirs = arith.muli %peer, %c4 : index
  %ch = hostir.channel "c" over #tp ["x"] can [one_sided]
  %all = hostir.alloc on %main {offset = 0 : i64} : memref<8x8xf32, #hostir.symmetric>
  %own = memref.subview %all[%mine, 0] [4, 8] [1, 1] : memref<8x8xf32, #hostir.symmetric> to memref<4x8xf32, strided<[8, 1], offset: ?>, #hostir.symmetric>
  %other = memref.subview %all[%theirs, 0] [4, 8] [1, 1] : memref<8x8xf32, #hostir.symmetric> to memref<4x8xf32, strided<[8, 1], offset: ?>, #hostir.symmetric>
  %first = memref.subview %y[%mine, 0] [4, 2] [1, 1] : memref<8x2xf32> to memref<4x2xf32, strided<[2, 1], offset: ?>>
  %second = memref.subview %y[%theirs, 0] [4, 2] [1, 1] : memref<8x2xf32> to memref<4x2xf32, strided<[2, 1], offset: ?>>
  %copies = hostir.worker_stream %c0
  hostir.sync %copies after %main
  hostir.put %a to %own at %peer via %ch on %copies : memref<4x8xf32> to memref<4x8xf32, strided<[8, 1], offset: ?>, #hostir.symmetric>
  hostir.signal %me = %c1 at %peer via %ch on %copies
  hostir.copy %a to %own on %main : memref<4x8xf32> to memref<4x8xf32, strided<[8, 1], offset: ?>, #hostir.symmetric>
  hostir.gated_matmul on %main reserve 2 {
    hostir.matmul %own, %w to %first on %main : memref<4x8xf32, strided<[8, 1], offset: ?>, #hostir.symmetric>, memref<8x2xf32> to memref<4x2xf32, strided<[2, 1], offset: ?>>
    hostir.wait_signal %peer >= %c1 via %ch on %main
    hostir.matmul %other, %w to %second on %main : memref<4x8xf32, strided<[8, 1], offset: ?>, #hostir.symmetric>, memref<8x2xf32> to memref<4x2xf32, strided<[2, 1], offset: ?>>
  }
  hostir.sync %main after %copies
  hostir.dealloc %all on %main : memref<8x8xf32, #hostir.symmetric>
}

//--- gap.mlir
hostir.program @p(%a: memref<12x8xf32>, %w: memref<8x2xf32>, %y: memref<12x2xf32> {hostir.result}) {
  %main = hostir.main_stream
  %a0 = memref.subview %a[0, 0] [4, 8] [1, 1] : memref<12x8xf32> to memref<4x8xf32, strided<[8, 1]>>
  %y0 = memref.subview %y[0, 0] [4, 2] [1, 1] : memref<12x2xf32> to memref<4x2xf32, strided<[2, 1]>>
  hostir.gated_matmul on %main reserve 0 {
    hostir.matmul %a0, %w to %y0 on %main : memref<4x8xf32, strided<[8, 1]>>, memref<8x2xf32> to memref<4x2xf32, strided<[2, 1]>>
    %a8 = memref.subview %a[8, 0] [4, 8] [1, 1] : memref<12x8xf32> to memref<4x8xf32, strided<[8, 1], offset: 64>>
    %y8 = memref.subview %y[8, 0] [4, 2] [1, 1] : memref<12x2xf32> to memref<4x2xf32, strided<[2, 1], offset: 16>>
    hostir.matmul %a8, %w to %y8 on %main : memref<4x8xf32, strided<[8, 1], offset: 64>>, memref<8x2xf32> to memref<4x2xf32, strided<[2, 1], offset: 16>>
  }
}

// The last rows of %y are over the first ones of %a, which has been read by then.
//--- over.mlir
hostir.program @p(%w: memref<8x2xf32>, %all: memref<80xf32> {hostir.result}) {
  %main = hostir.main_stream
  %a0 = memref.reinterpret_cast %all to offset: [12], sizes: [4, 8], strides: [8, 1] : memref<80xf32> to memref<4x8xf32, strided<[8, 1], offset: 12>>
  %a4 = memref.reinterpret_cast %all to offset: [44], sizes: [4, 8], strides: [8, 1] : memref<80xf32> to memref<4x8xf32, strided<[8, 1], offset: 44>>
  %y0 = memref.reinterpret_cast %all to offset: [0], sizes: [4, 2], strides: [2, 1] : memref<80xf32> to memref<4x2xf32, strided<[2, 1]>>
  %y4 = memref.reinterpret_cast %all to offset: [8], sizes: [4, 2], strides: [2, 1] : memref<80xf32> to memref<4x2xf32, strided<[2, 1], offset: 8>>
  hostir.gated_matmul on %main reserve 0 {
    hostir.matmul %a0, %w to %y0 on %main : memref<4x8xf32, strided<[8, 1], offset: 12>>, memref<8x2xf32> to memref<4x2xf32, strided<[2, 1]>>
    hostir.matmul %a4, %w to %y4 on %main : memref<4x8xf32, strided<[8, 1], offset: 44>>, memref<8x2xf32> to memref<4x2xf32, strided<[2, 1], offset: 8>>
  }
}
