// RUN: tandem-opt %s --hostir-localize-buffers=log --split-input-file --verify-diagnostics | FileCheck %s

#tp = #tandem.mesh<"tp", ["x" = 4]>

// The gathered tensor, received slice by slice, never exists as a whole: neither its own slice, peeled, nor the others.
// CHECK-LABEL: hostir.program @exchange
hostir.program @exchange(%x: memref<8x16xf32>, %w: memref<16x4xf32>, %y: memref<4x8x4xf32> {hostir.result}) {
  %main = hostir.main_stream
  %ch = hostir.channel "g" over #tp ["x"] can [two_sided]
  %me = hostir.device_index #tp, "x"
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  // expected-remark @+1 {{hostir-localize-buffers: replaced by a slice in 2 places}}
  %g = hostir.alloc on %main : memref<4x8x16xf32>
  %s0 = hostir.worker_stream %c0
  hostir.sync %s0 after %main
  // CHECK:      %[[S0:.*]] = hostir.worker_stream %c0
  // CHECK:      %[[OWN:.*]] = hostir.alloc on %[[S0]] : memref<8x16xf32>
  // CHECK-NEXT: hostir.copy %{{.*}} to %[[OWN]] on %[[S0]] : memref<8x16xf32> to memref<8x16xf32>
  // CHECK:      hostir.matmul %[[OWN]],
  // CHECK-NEXT: hostir.dealloc %[[OWN]] on %[[S0]] : memref<8x16xf32>
  %own = memref.subview %g[%me, 0, 0] [1, 8, 16] [1, 1, 1]
      : memref<4x8x16xf32> to memref<8x16xf32, strided<[16, 1], offset: ?>>
  hostir.copy %x to %own on %s0 : memref<8x16xf32> to memref<8x16xf32, strided<[16, 1], offset: ?>>
  %z = memref.subview %y[%me, 0, 0] [1, 8, 4] [1, 1, 1]
      : memref<4x8x4xf32> to memref<8x4xf32, strided<[4, 1], offset: ?>>
  hostir.matmul %own, %w to %z on %s0
      : memref<8x16xf32, strided<[16, 1], offset: ?>>, memref<16x4xf32> to memref<8x4xf32, strided<[4, 1], offset: ?>>
  // CHECK: scf.for
  scf.for %i = %c1 to %c4 step %c1 {
    // CHECK: %[[S:.*]] = hostir.worker_stream
    %s = hostir.worker_stream %i
    %a = arith.addi %me, %i : index
    %from = arith.remui %a, %c4 : index
    %to = arith.subi %me, %i : index
    %slot = memref.subview %g[%from, 0, 0] [1, 8, 16] [1, 1, 1]
        : memref<4x8x16xf32> to memref<8x16xf32, strided<[16, 1], offset: ?>>
    // CHECK:      %[[SLOT:.*]] = hostir.alloc on %[[S]] : memref<8x16xf32>
    // CHECK-NEXT: hostir.group
    // CHECK-NEXT:   hostir.recv %[[SLOT]]
    // CHECK-NEXT:   hostir.send
    // CHECK:      hostir.matmul %[[SLOT]], %{{.*}} : memref<8x16xf32>, memref<16x4xf32>
    // CHECK-NEXT: hostir.dealloc %[[SLOT]] on %[[S]] : memref<8x16xf32>
    hostir.group via %ch on %s {
      hostir.recv %slot from %from : memref<8x16xf32, strided<[16, 1], offset: ?>>
      hostir.send %x to %to : memref<8x16xf32>
    }
    %zi = memref.subview %y[%from, 0, 0] [1, 8, 4] [1, 1, 1]
        : memref<4x8x4xf32> to memref<8x4xf32, strided<[4, 1], offset: ?>>
    hostir.matmul %slot, %w to %zi on %s
        : memref<8x16xf32, strided<[16, 1], offset: ?>>, memref<16x4xf32> to memref<8x4xf32, strided<[4, 1], offset: ?>>
  }
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>

// One slice, seen in two ways: as [ranks, rows, columns] by the collective, with the streamed dimension between, and as
// rows and columns by the matmul. A deallocation of the whole goes with it.
// CHECK-LABEL: hostir.program @pipeline
hostir.program @pipeline(%x: memref<3x4x16xf32>, %w: memref<16x4xf32>, %y: memref<3x8x4xf32> {hostir.result}) {
  %main = hostir.main_stream
  %ch = hostir.channel "g" over #tp ["x"] can [collectives]
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c8 = arith.constant 8 : index
  // expected-remark @+1 {{hostir-localize-buffers: replaced by a slice in 1 places}}
  %g = hostir.alloc on %main : memref<24x16xf32>
  // CHECK: scf.for
  scf.for %i = %c0 to %c3 step %c1 {
    // CHECK: %[[S:.*]] = hostir.worker_stream
    %s = hostir.worker_stream %i
    %mine = memref.subview %x[%i, 0, 0] [1, 4, 16] [1, 1, 1]
        : memref<3x4x16xf32> to memref<4x16xf32, strided<[16, 1], offset: ?>>
    %e = memref.expand_shape %g [[0, 1, 2], [3]] output_shape [3, 2, 4, 16] : memref<24x16xf32> into memref<3x2x4x16xf32>
    %all = memref.subview %e[%i, 0, 0, 0] [1, 2, 4, 16] [1, 1, 1, 1]
        : memref<3x2x4x16xf32> to memref<2x4x16xf32, strided<[64, 16, 1], offset: ?>>
    // CHECK:      %[[SLICE:.*]] = hostir.alloc on %[[S]] : memref<2x4x16xf32>
    // CHECK:      %[[ROWS:.*]] = memref.reinterpret_cast %[[SLICE]] to offset: [0], sizes: [8, 16], strides: [16, 1]
    // CHECK:      hostir.collective all_gather %{{.*}} to %[[SLICE]]
    // CHECK:      hostir.matmul %[[ROWS]],
    // CHECK-NEXT: hostir.dealloc %[[SLICE]] on %[[S]]
    hostir.collective all_gather %mine to %all via %ch on %s
        : memref<4x16xf32, strided<[16, 1], offset: ?>> to memref<2x4x16xf32, strided<[64, 16, 1], offset: ?>>
    %row = arith.muli %i, %c8 : index
    %rows = memref.subview %g[%row, 0] [8, 16] [1, 1] : memref<24x16xf32> to memref<8x16xf32, strided<[16, 1], offset: ?>>
    %out = memref.subview %y[%i, 0, 0] [1, 8, 4] [1, 1, 1]
        : memref<3x8x4xf32> to memref<8x4xf32, strided<[4, 1], offset: ?>>
    hostir.matmul %rows, %w to %out on %s
        : memref<8x16xf32, strided<[16, 1], offset: ?>>, memref<16x4xf32> to memref<8x4xf32, strided<[4, 1], offset: ?>>
  }
  // CHECK-NOT: hostir.dealloc
  hostir.dealloc %g on %main : memref<24x16xf32>
}

// -----

// Slices that are columns: the slice is dense, its views follow.
// CHECK-LABEL: hostir.program @columns
hostir.program @columns(%x: memref<4x2xf32>, %y: memref<4x8xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  // expected-remark @+1 {{hostir-localize-buffers: replaced by a slice in 1 places}}
  %g = hostir.alloc on %main : memref<4x8xf32>
  scf.for %i = %c0 to %c4 step %c1 {
    %s = hostir.worker_stream %i
    %two = arith.addi %i, %i : index
    %col = memref.subview %g[0, %two] [4, 2] [1, 1] : memref<4x8xf32> to memref<4x2xf32, strided<[8, 1], offset: ?>>
    // CHECK: %[[SLICE:.*]] = hostir.alloc on %{{.*}} : memref<4x2xf32>
    // CHECK: %[[T:.*]] = memref.reinterpret_cast %[[SLICE]] to offset: [0], sizes: [2, 4], strides: [1, 2]
    // CHECK: hostir.copy %{{.*}} to %[[SLICE]]
    // CHECK: hostir.copy %[[T]] to
    hostir.copy %x to %col on %s : memref<4x2xf32> to memref<4x2xf32, strided<[8, 1], offset: ?>>
    %t = memref.transpose %col (i, j) -> (j, i)
        : memref<4x2xf32, strided<[8, 1], offset: ?>> to memref<2x4xf32, strided<[1, 8], offset: ?>>
    %out = memref.subview %y[0, %two] [4, 2] [1, 1] : memref<4x8xf32> to memref<4x2xf32, strided<[8, 1], offset: ?>>
    %u = memref.transpose %out (i, j) -> (j, i)
        : memref<4x2xf32, strided<[8, 1], offset: ?>> to memref<2x4xf32, strided<[1, 8], offset: ?>>
    hostir.copy %t to %u on %s
        : memref<2x4xf32, strided<[1, 8], offset: ?>> to memref<2x4xf32, strided<[1, 8], offset: ?>>
  }
}

// -----

// Each slice comes on a worker and is used on the main stream, under a condition: it ends where the worker is ordered
// after that.
// CHECK-LABEL: hostir.program @used_on_main
// CHECK-NOT:   memref<4x8xf32>
// CHECK:       scf.for
// CHECK:         %[[S:.+]] = hostir.worker_stream
// CHECK:         %[[SLOT:.+]] = hostir.alloc on %[[S]] : memref<8xf32>
// CHECK:         hostir.copy %{{.+}} to %[[SLOT]] on %[[S]]
// CHECK:         hostir.sync %[[MAIN:.+]] after %[[S]]
// CHECK:         scf.if
// CHECK:           hostir.copy %[[SLOT]] to %{{.+}} on %[[MAIN]]
// CHECK:         else
// CHECK:           hostir.accumulate sum %[[SLOT]] into %{{.+}} on %[[MAIN]]
// CHECK:         hostir.sync %[[S]] after %[[MAIN]]
// CHECK-NEXT:    hostir.dealloc %[[SLOT]] on %[[S]]
hostir.program @used_on_main(%x: memref<8xf32>, %y: memref<8xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  // expected-remark @+1 {{replaced by a slice in 1 places}}
  %g = hostir.alloc on %main : memref<4x8xf32>
  scf.for %i = %c0 to %c4 step %c1 {
    %s = hostir.worker_stream %i
    %row = memref.subview %g[%i, 0] [1, 8] [1, 1] : memref<4x8xf32> to memref<8xf32, strided<[1], offset: ?>>
    hostir.copy %x to %row on %s : memref<8xf32> to memref<8xf32, strided<[1], offset: ?>>
    hostir.sync %main after %s
    %first = arith.cmpi eq, %i, %c0 : index
    scf.if %first {
      hostir.copy %row to %y on %main : memref<8xf32, strided<[1], offset: ?>> to memref<8xf32>
    } else {
      hostir.accumulate sum %row into %y on %main : memref<8xf32, strided<[1], offset: ?>> to memref<8xf32>
    }
    hostir.sync %s after %main
  }
}

// -----

// Columns of four blocks come at once, and a loop uses them block by block: pieces of the slice.
// CHECK-LABEL: hostir.program @piece_by_piece
// CHECK-NOT:   memref<8x12xf32>
// CHECK:       scf.for %[[I:.+]] =
// CHECK:         %[[SLOT:.+]] = hostir.alloc on %{{.+}} : memref<8x4x1xf32>
// CHECK:         hostir.copy %{{.+}} to %[[SLOT]]
// CHECK:         scf.for %[[J:.+]] =
// CHECK:           %[[PIECE:.+]] = memref.reinterpret_cast %[[SLOT]] to offset: [%[[J]]], sizes: [8, 1], strides: [4, 1]
// CHECK:           hostir.copy %[[PIECE]] to
// CHECK:         hostir.dealloc %[[SLOT]]
hostir.program @piece_by_piece(%x: memref<8x4x1xf32>, %y: memref<8x1xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  // expected-remark @+1 {{replaced by a slice in 1 places}}
  %g = hostir.alloc on %main : memref<8x12xf32>
  scf.for %i = %c0 to %c3 step %c1 {
    %e = memref.expand_shape %g [[0], [1, 2]] output_shape [8, 4, 3] : memref<8x12xf32> into memref<8x4x3xf32>
    %s = memref.subview %e[0, 0, %i] [8, 4, 1] [1, 1, 1] : memref<8x4x3xf32> to memref<8x4x1xf32, strided<[12, 3, 1], offset: ?>>
    hostir.copy %x to %s on %main : memref<8x4x1xf32> to memref<8x4x1xf32, strided<[12, 3, 1], offset: ?>>
    scf.for %j = %c0 to %c4 step %c1 {
      %b = arith.muli %j, %c3 : index
      %o = arith.addi %b, %i : index
      %p = memref.subview %g[0, %o] [8, 1] [1, 1] : memref<8x12xf32> to memref<8x1xf32, strided<[12, 1], offset: ?>>
      hostir.copy %p to %y on %main : memref<8x1xf32, strided<[12, 1], offset: ?>> to memref<8x1xf32>
    }
  }
}
