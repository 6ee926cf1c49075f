// RUN: tandem-opt %s --hostir-fuse-launches=log 2>%t.log | FileCheck %s
// RUN: FileCheck %s --check-prefix=LOG --input-file=%t.log

// What must not fuse: each program keeps its two launches.

hostir.kernel private @negf(%a: f32) -> f32 {
  %0 = arith.negf %a : f32
  hostir.yield %0 : f32
}
hostir.kernel private @addf(%a: f32, %b: f32) -> f32 {
  %0 = arith.addf %a, %b : f32
  hostir.yield %0 : f32
}

// CHECK-LABEL: hostir.program @other_stream(
// CHECK-COUNT-2: hostir.launch @negf
// LOG: @negf is not fused with the launch that it reads from: it is on another stream
hostir.program @other_stream(%x: memref<8xf32>, %y: memref<8xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %s = hostir.worker_stream %c0
  %t = hostir.alloc on %main : memref<8xf32>
  hostir.launch @negf ins(%x : memref<8xf32>) outs(%t : memref<8xf32>) on %main
  hostir.sync %s after %main
  hostir.launch @negf ins(%t : memref<8xf32>) outs(%y : memref<8xf32>) on %s
  hostir.sync %main after %s
}

// CHECK-LABEL: hostir.program @other_elements(
// CHECK-COUNT-2: hostir.launch @negf
// LOG: it reads other elements than the first writes, or in another order
hostir.program @other_elements(%x: memref<4x4xf32>, %y: memref<4x4xf32> {hostir.result}) {
  %s = hostir.main_stream
  %t = hostir.alloc on %s : memref<4x4xf32>
  hostir.launch @negf ins(%x : memref<4x4xf32>) outs(%t : memref<4x4xf32>) on %s
  %turned = memref.transpose %t (i, j) -> (j, i) : memref<4x4xf32> to memref<4x4xf32, strided<[1, 4]>>
  hostir.launch @negf ins(%turned : memref<4x4xf32, strided<[1, 4]>>) outs(%y : memref<4x4xf32>) on %s
}

// A row of it for all rows.
// CHECK-LABEL: hostir.program @repeated(
// CHECK-COUNT-2: hostir.launch
// LOG: it reads other elements than the first writes, or in another order
hostir.program @repeated(%x: memref<4x4xf32>, %y: memref<4x4xf32> {hostir.result}) {
  %s = hostir.main_stream
  %t = hostir.alloc on %s : memref<4x4xf32>
  hostir.launch @negf ins(%x : memref<4x4xf32>) outs(%t : memref<4x4xf32>) on %s
  %row = memref.reinterpret_cast %t to offset: [0], sizes: [4, 4], strides: [0, 1] : memref<4x4xf32> to memref<4x4xf32, strided<[0, 1]>>
  hostir.launch @addf ins(%t, %row : memref<4x4xf32>, memref<4x4xf32, strided<[0, 1]>>) outs(%y : memref<4x4xf32>) on %s
}

// CHECK-LABEL: hostir.program @written_between(
// CHECK-COUNT-2: hostir.launch @negf
// LOG: a command in between writes what it reads
hostir.program @written_between(%x: memref<8xf32>, %y: memref<8xf32> {hostir.result}) {
  %s = hostir.main_stream
  %in = hostir.alloc on %s : memref<8xf32>
  hostir.copy %x to %in on %s : memref<8xf32> to memref<8xf32>
  %t = hostir.alloc on %s : memref<8xf32>
  hostir.launch @negf ins(%in : memref<8xf32>) outs(%t : memref<8xf32>) on %s
  hostir.copy %y to %in on %s : memref<8xf32> to memref<8xf32>
  hostir.launch @negf ins(%t : memref<8xf32>) outs(%y : memref<8xf32>) on %s
}

// CHECK-LABEL: hostir.program @read_between(
// CHECK-COUNT-2: hostir.launch @negf
// LOG: a command in between uses what it writes
hostir.program @read_between(%x: memref<8xf32>, %y: memref<8xf32> {hostir.result}, %z: memref<8xf32> {hostir.result}) {
  %s = hostir.main_stream
  %t = hostir.alloc on %s : memref<8xf32>
  hostir.launch @negf ins(%x : memref<8xf32>) outs(%t : memref<8xf32>) on %s
  hostir.copy %t to %z on %s : memref<8xf32> to memref<8xf32>
  hostir.launch @negf ins(%t : memref<8xf32>) outs(%y : memref<8xf32>) on %s
}

// Another stream may write what the first reads, once it is told that it may.
// CHECK-LABEL: hostir.program @told(
// CHECK-COUNT-2: hostir.launch @negf
// LOG: a sync in between may tell another stream that it is done
hostir.program @told(%x: memref<8xf32>, %y: memref<8xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %s = hostir.worker_stream %c0
  %t = hostir.alloc on %main : memref<8xf32>
  hostir.launch @negf ins(%x : memref<8xf32>) outs(%t : memref<8xf32>) on %main
  hostir.sync %s after %main
  hostir.launch @negf ins(%t : memref<8xf32>) outs(%y : memref<8xf32>) on %main
}

// What the second writes overlaps what the first reads, shifted by one.
// CHECK-LABEL: hostir.program @shifted(
// CHECK-COUNT-2: hostir.launch @negf
// LOG: it writes a buffer that the first uses
hostir.program @shifted(%x: memref<8xf32>, %y: memref<8xf32> {hostir.result}) {
  %s = hostir.main_stream
  %in = hostir.alloc on %s : memref<9xf32>
  %low = memref.subview %in[0] [8] [1] : memref<9xf32> to memref<8xf32, strided<[1]>>
  %high = memref.subview %in[1] [8] [1] : memref<9xf32> to memref<8xf32, strided<[1], offset: 1>>
  hostir.copy %x to %low on %s : memref<8xf32> to memref<8xf32, strided<[1]>>
  %t = hostir.alloc on %s : memref<8xf32>
  hostir.launch @negf ins(%low : memref<8xf32, strided<[1]>>) outs(%t : memref<8xf32>) on %s
  hostir.launch @negf ins(%t : memref<8xf32>) outs(%high : memref<8xf32, strided<[1], offset: 1>>) on %s
  hostir.copy %high to %y on %s : memref<8xf32, strided<[1], offset: 1>> to memref<8xf32>
}

// A deterministic program rounds what one launch stores in bf16 for another one: whether they are in one loop depends on the
// schedule. What is f32 is the same bits in memory.

hostir.kernel private @negf16(%a: bf16) -> bf16 {
  %0 = arith.negf %a : bf16
  hostir.yield %0 : bf16
}

// CHECK-LABEL: hostir.program @rounded(
// CHECK-COUNT-2: hostir.launch @negf16
// LOG: @negf16 is not fused with the launch that it reads from: a deterministic program rounds what is between them
hostir.program @rounded(%x: memref<8xbf16>, %y: memref<8xbf16> {hostir.result}) attributes {deterministic = "bitwise"} {
  %s = hostir.main_stream
  %t = hostir.alloc on %s : memref<8xbf16>
  hostir.launch @negf16 ins(%x : memref<8xbf16>) outs(%t : memref<8xbf16>) on %s
  hostir.launch @negf16 ins(%t : memref<8xbf16>) outs(%y : memref<8xbf16>) on %s
}

// CHECK-LABEL: hostir.program @wide(
// CHECK: hostir.launch
// CHECK-NOT: hostir.launch
hostir.program @wide(%x: memref<8xf32>, %y: memref<8xf32> {hostir.result}) attributes {deterministic = "bitwise"} {
  %s = hostir.main_stream
  %t = hostir.alloc on %s : memref<8xf32>
  hostir.launch @negf ins(%x : memref<8xf32>) outs(%t : memref<8xf32>) on %s
  hostir.launch @negf ins(%t : memref<8xf32>) outs(%y : memref<8xf32>) on %s
}
