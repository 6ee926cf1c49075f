// RUN: tandem-opt %s --hostir-localize-buffers=log --split-input-file --verify-diagnostics | FileCheck %s

// What must stay whole, and why.

// Read as a whole after the loop.
// CHECK-LABEL: hostir.program @read_whole
// CHECK:         hostir.alloc on %{{.*}} : memref<4x8xf32>
hostir.program @read_whole(%x: memref<8xf32>, %y: memref<4x8xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  // expected-remark @+1 {{kept whole: its first access in a block does not write the whole slice}}
  %g = hostir.alloc on %main : memref<4x8xf32>
  scf.for %i = %c0 to %c4 step %c1 {
    %row = memref.subview %g[%i, 0] [1, 8] [1, 1] : memref<4x8xf32> to memref<8xf32, strided<[1], offset: ?>>
    hostir.copy %x to %row on %main : memref<8xf32> to memref<8xf32, strided<[1], offset: ?>>
  }
  hostir.copy %g to %y on %main : memref<4x8xf32> to memref<4x8xf32>
}

// -----

// A slice is read before it is written: what the last iteration wrote.
// CHECK-LABEL: hostir.program @carried
// CHECK:         hostir.alloc on %{{.*}} : memref<4x8xf32>
hostir.program @carried(%x: memref<8xf32>, %y: memref<8xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  // expected-remark @+1 {{kept whole: its first access in a block does not write the whole slice}}
  %g = hostir.alloc on %main : memref<4x8xf32>
  scf.for %i = %c0 to %c4 step %c1 {
    %row = memref.subview %g[0, 0] [1, 8] [1, 1] : memref<4x8xf32> to memref<8xf32, strided<[1]>>
    hostir.copy %row to %y on %main : memref<8xf32, strided<[1]>> to memref<8xf32>
    hostir.copy %x to %row on %main : memref<8xf32> to memref<8xf32, strided<[1]>>
  }
}

// -----

// Another slice is read than was written.
// CHECK-LABEL: hostir.program @other_slice
// CHECK:         hostir.alloc on %{{.*}} : memref<4x8xf32>
hostir.program @other_slice(%x: memref<8xf32>, %y: memref<8xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  // expected-remark @+1 {{kept whole: its first access in a block does not write the whole slice; an access in the loop may lie outside the slice}}
  %g = hostir.alloc on %main : memref<4x8xf32>
  scf.for %i = %c0 to %c3 step %c1 {
    %j = arith.addi %i, %c1 : index
    %row = memref.subview %g[%i, 0] [1, 8] [1, 1] : memref<4x8xf32> to memref<8xf32, strided<[1], offset: ?>>
    %other = memref.subview %g[%j, 0] [1, 8] [1, 1] : memref<4x8xf32> to memref<8xf32, strided<[1], offset: ?>>
    hostir.copy %x to %row on %main : memref<8xf32> to memref<8xf32, strided<[1], offset: ?>>
    hostir.copy %other to %y on %main : memref<8xf32, strided<[1], offset: ?>> to memref<8xf32>
  }
}

// -----

// Written on one stream, read on another, which nothing says the end of.
// CHECK-LABEL: hostir.program @two_streams
// CHECK:         hostir.alloc on %{{.*}} : memref<4x8xf32>
hostir.program @two_streams(%x: memref<8xf32>, %y: memref<8xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  // expected-remark @+1 {{kept whole: another stream uses a slice, and no sync in the block orders the end of this use}}
  %g = hostir.alloc on %main : memref<4x8xf32>
  scf.for %i = %c0 to %c3 step %c1 {
    %s = hostir.worker_stream %i
    %row = memref.subview %g[%i, 0] [1, 8] [1, 1] : memref<4x8xf32> to memref<8xf32, strided<[1], offset: ?>>
    hostir.copy %x to %row on %s : memref<8xf32> to memref<8xf32, strided<[1], offset: ?>>
    hostir.sync %main after %s
    hostir.copy %row to %y on %main : memref<8xf32, strided<[1], offset: ?>> to memref<8xf32>
  }
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>

// Only the root's output is written; a matmul that accumulates reads what was there: what an earlier iteration wrote.
// CHECK-LABEL: hostir.program @partly_written
// CHECK:         hostir.alloc on %{{.*}} : memref<4x8xf32>
// CHECK:         hostir.alloc on %{{.*}} : memref<4x2x2xf32>
hostir.program @partly_written(%x: memref<8xf32>, %m: memref<2x2xf32>, %y: memref<8xf32> {hostir.result}) {
  %main = hostir.main_stream
  %ch = hostir.channel "c" over #tp ["x"] can [collectives]
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  // expected-remark @+1 {{kept whole: its first access in a block does not write the whole slice}}
  %g = hostir.alloc on %main : memref<4x8xf32>
  // expected-remark @+1 {{kept whole: its first access in a block does not write the whole slice; iterations may share elements of it}}
  %h = hostir.alloc on %main : memref<4x2x2xf32>
  scf.for %i = %c0 to %c4 step %c1 {
    %k = arith.remui %i, %c2 : index
    %row = memref.subview %g[%k, 0] [1, 8] [1, 1] : memref<4x8xf32> to memref<8xf32, strided<[1], offset: ?>>
    hostir.collective reduce %x to %row root %c0 via %ch on %main : memref<8xf32> to memref<8xf32, strided<[1], offset: ?>>
    hostir.copy %row to %y on %main : memref<8xf32, strided<[1], offset: ?>> to memref<8xf32>
    %sum = memref.subview %h[%k, 0, 0] [1, 2, 2] [1, 1, 1] : memref<4x2x2xf32> to memref<2x2xf32, strided<[2, 1], offset: ?>>
    hostir.matmul %m, %m to %sum on %main {accumulate}
        : memref<2x2xf32>, memref<2x2xf32> to memref<2x2xf32, strided<[2, 1], offset: ?>>
  }
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>

// Received on some ranks only.
// CHECK-LABEL: hostir.program @perhaps
// CHECK:         hostir.alloc on %{{.*}} : memref<4x8xf32>
hostir.program @perhaps(%x: memref<8xf32>, %y: memref<8xf32> {hostir.result}) {
  %main = hostir.main_stream
  %ch = hostir.channel "c" over #tp ["x"] can [two_sided]
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %me = hostir.device_index #tp, "x"
  %first = arith.cmpi eq, %me, %c0 : index
  // expected-remark @+1 {{kept whole: its first access in a block does not write the whole slice; no loop has all of its uses}}
  %g = hostir.alloc on %main : memref<4x8xf32>
  %row = memref.subview %g[%me, 0] [1, 8] [1, 1] : memref<4x8xf32> to memref<8xf32, strided<[1], offset: ?>>
  hostir.group via %ch on %main {
    scf.if %first {
      hostir.recv %row from %c1 : memref<8xf32, strided<[1], offset: ?>>
    } else {
      hostir.send %x to %c0 : memref<8xf32>
    }
  }
}

// -----

// A plain temporary, a worker's, symmetric memory, and one that nobody uses.
// CHECK-LABEL: hostir.program @others
hostir.program @others(%x: memref<8xf32>, %y: memref<8xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %s = hostir.worker_stream %c0
  // expected-remark @+1 {{kept whole: a block uses all of it}}
  %a = hostir.alloc on %main : memref<8xf32>
  hostir.copy %x to %a on %main : memref<8xf32> to memref<8xf32>
  hostir.copy %a to %y on %main : memref<8xf32> to memref<8xf32>
  // expected-remark @+1 {{kept whole: it is not a plain buffer of the main stream}}
  %b = hostir.alloc on %s : memref<8xf32>
  // expected-remark @+1 {{kept whole: it is not a plain buffer of the main stream}}
  %c = hostir.alloc on %main : memref<8xf32, #hostir.symmetric>
  // expected-remark @+1 {{kept whole: it is not used}}
  %d = hostir.alloc on %main : memref<8xf32>
}

// -----

// Read on another stream, which nothing orders after the write.
// CHECK-LABEL: hostir.program @unordered
// CHECK:         hostir.alloc on %{{.*}} : memref<4x8xf32>
hostir.program @unordered(%x: memref<8xf32>, %y: memref<8xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  // expected-remark @+1 {{kept whole: another stream uses a slice without a sync in the block}}
  %g = hostir.alloc on %main : memref<4x8xf32>
  scf.for %i = %c0 to %c3 step %c1 {
    %s = hostir.worker_stream %i
    %row = memref.subview %g[%i, 0] [1, 8] [1, 1] : memref<4x8xf32> to memref<8xf32, strided<[1], offset: ?>>
    hostir.copy %x to %row on %s : memref<8xf32> to memref<8xf32, strided<[1], offset: ?>>
    hostir.copy %row to %y on %main : memref<8xf32, strided<[1], offset: ?>> to memref<8xf32>
    hostir.sync %s after %main
  }
}

// -----

// The inner loop runs over the next slice too.
// CHECK-LABEL: hostir.program @beyond
// CHECK:         hostir.alloc on %{{.*}} : memref<4x8xf32>
hostir.program @beyond(%x: memref<2x8xf32>, %y: memref<8xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  // expected-remark @+1 {{kept whole: its first access in a block does not write the whole slice}}
  %g = hostir.alloc on %main : memref<4x8xf32>
  scf.for %i = %c0 to %c2 step %c1 {
    %two = memref.subview %g[%i, 0] [2, 8] [1, 1] : memref<4x8xf32> to memref<2x8xf32, strided<[8, 1], offset: ?>>
    hostir.copy %x to %two on %main : memref<2x8xf32> to memref<2x8xf32, strided<[8, 1], offset: ?>>
    scf.for %j = %c0 to %c3 step %c1 {
      %o = arith.addi %i, %j : index
      %row = memref.subview %g[%o, 0] [1, 8] [1, 1] : memref<4x8xf32> to memref<8xf32, strided<[1], offset: ?>>
      hostir.copy %row to %y on %main : memref<8xf32, strided<[1], offset: ?>> to memref<8xf32>
    }
  }
}
