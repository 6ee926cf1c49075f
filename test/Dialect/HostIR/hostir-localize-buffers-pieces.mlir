// RUN: tandem-opt %s --hostir-localize-buffers=log --split-input-file --verify-diagnostics | FileCheck %s

// Slices that are written piece by piece: no run of the block reads what another one wrote.

#tp = #tandem.mesh<"tp", ["x" = 2, "y" = 3]>

// Pieces come under conditions, in loops of messages; where they lie depends on the rank.
// CHECK-LABEL: hostir.program @messages
// CHECK-NOT:   hostir.alloc on %{{.+}} : memref<6x10xf32>
// CHECK:       scf.for %{{.+}} = %c0 to %c5
// CHECK:         %[[SLOT:.+]] = hostir.alloc on %[[S:.+]] : memref<6x2xf32>
// CHECK-NEXT:    hostir.group
// CHECK-NEXT:      scf.for
// CHECK:             scf.if
// CHECK:               %[[AT:.+]] = arith.muli %{{.+}}, %c4
// CHECK-NEXT:          %[[PIECE:.+]] = memref.reinterpret_cast %[[SLOT]] to offset: [%[[AT]]], sizes: [2, 2], strides: [2, 1]
// CHECK-NEXT:          hostir.recv %[[PIECE]]
// CHECK:         hostir.copy %[[SLOT]] to
// CHECK:         hostir.dealloc %[[SLOT]] on %[[S]]
hostir.program @messages(%x: memref<2x2xf32>, %y: memref<6x10xf32> {hostir.result}) {
  %main = hostir.main_stream
  %me = hostir.device_index #tp, "y"
  %ch = hostir.channel "c" over #tp ["x", "y"] can [two_sided]
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c5 = arith.constant 5 : index
  // expected-remark @+1 {{replaced by a slice in 1 places}}
  %g = hostir.alloc on %main : memref<6x10xf32>
  scf.for %i = %c0 to %c5 step %c1 {
    %s = hostir.worker_stream %i
    %o = arith.muli %i, %c2 : index
    hostir.group via %ch on %s {
      scf.for %j = %c0 to %c3 step %c1 {
        %a = arith.addi %me, %j : index
        %from = arith.remui %a, %c3 : index
        %b = arith.muli %from, %c2 : index
        %other = arith.cmpi ne, %from, %me : index
        scf.if %other {
          %p = memref.subview %g[%b, %o] [2, 2] [1, 1] : memref<6x10xf32> to memref<2x2xf32, strided<[10, 1], offset: ?>>
          hostir.recv %p from %from : memref<2x2xf32, strided<[10, 1], offset: ?>>
          hostir.send %x to %from : memref<2x2xf32>
        }
      }
    }
    %slice = memref.subview %g[0, %o] [6, 2] [1, 1] : memref<6x10xf32> to memref<6x2xf32, strided<[10, 1], offset: ?>>
    %z = memref.subview %y[0, %o] [6, 2] [1, 1] : memref<6x10xf32> to memref<6x2xf32, strided<[10, 1], offset: ?>>
    hostir.copy %slice to %z on %s : memref<6x2xf32, strided<[10, 1], offset: ?>> to memref<6x2xf32, strided<[10, 1], offset: ?>>
  }
}

// -----

// Two halves, each at a place of its own. The digits of two loops count slices once: quotient and remainder.
// CHECK-LABEL: hostir.program @halves
// CHECK:         %[[SLOT:.+]] = hostir.alloc on %{{.+}} : memref<1x8xf32>
// CHECK:         %[[LEFT:.+]] = memref.reinterpret_cast %[[SLOT]] to offset: [0], sizes: [1, 4], strides: [1, 1]
// CHECK:         %[[RIGHT:.+]] = memref.reinterpret_cast %[[SLOT]] to offset: [4], sizes: [1, 4], strides: [1, 1]
// CHECK:         hostir.copy %{{.+}} to %[[LEFT]]
// CHECK:         hostir.copy %{{.+}} to %[[RIGHT]]
// CHECK:         hostir.copy %[[SLOT]] to
hostir.program @halves(%x: memref<1x4xf32>, %y: memref<1x8xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c6 = arith.constant 6 : index
  // expected-remark @+1 {{replaced by a slice in 1 places}}
  %g = hostir.alloc on %main : memref<3x2x8xf32>
  scf.for %i = %c0 to %c6 step %c1 {
    %q = arith.divui %i, %c3 : index
    %r = arith.remui %i, %c3 : index
    %left = memref.subview %g[%r, %q, 0] [1, 1, 4] [1, 1, 1] : memref<3x2x8xf32> to memref<1x4xf32, strided<[16, 1], offset: ?>>
    %right = memref.subview %g[%r, %q, 4] [1, 1, 4] [1, 1, 1] : memref<3x2x8xf32> to memref<1x4xf32, strided<[16, 1], offset: ?>>
    %all = memref.subview %g[%r, %q, 0] [1, 1, 8] [1, 1, 1] : memref<3x2x8xf32> to memref<1x8xf32, strided<[16, 1], offset: ?>>
    hostir.copy %x to %left on %main : memref<1x4xf32> to memref<1x4xf32, strided<[16, 1], offset: ?>>
    hostir.copy %x to %right on %main : memref<1x4xf32> to memref<1x4xf32, strided<[16, 1], offset: ?>>
    hostir.copy %all to %y on %main : memref<1x8xf32, strided<[16, 1], offset: ?>> to memref<1x8xf32>
  }
}

// -----

// Quotient and remainder of different numbers: iterations 0 and 3 have one slice.
// CHECK-LABEL: hostir.program @again
// CHECK:         hostir.alloc on %{{.+}} : memref<2x3x8xf32>
hostir.program @again(%x: memref<1x4xf32>, %y: memref<1x8xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %c6 = arith.constant 6 : index
  // expected-remark @+1 {{kept whole: its first access in a block does not write the whole slice; iterations may share elements of it}}
  %g = hostir.alloc on %main : memref<2x3x8xf32>
  scf.for %i = %c0 to %c6 step %c1 {
    %q = arith.divui %i, %c4 : index
    %r = arith.remui %i, %c3 : index
    %left = memref.subview %g[%q, %r, 0] [1, 1, 4] [1, 1, 1] : memref<2x3x8xf32> to memref<1x4xf32, strided<[8, 1], offset: ?>>
    %all = memref.subview %g[%q, %r, 0] [1, 1, 8] [1, 1, 1] : memref<2x3x8xf32> to memref<1x8xf32, strided<[8, 1], offset: ?>>
    hostir.copy %x to %left on %main : memref<1x4xf32> to memref<1x4xf32, strided<[8, 1], offset: ?>>
    hostir.copy %all to %y on %main : memref<1x8xf32, strided<[8, 1], offset: ?>> to memref<1x8xf32>
  }
}

// -----

// An inner loop writes in slices, and nobody takes one as a whole; its stream is another each time.
// CHECK-LABEL: hostir.program @streams
// CHECK:         hostir.alloc on %{{.+}} : memref<4x6xf32>
hostir.program @streams(%x: memref<1x3xf32>, %y: memref<1x6xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  // expected-remark @+1 {{kept whole: its first access in a block does not write the whole slice; its stream changes inside the loop}}
  %g = hostir.alloc on %main : memref<4x6xf32>
  scf.for %i = %c0 to %c4 step %c1 {
    scf.for %j = %c0 to %c2 step %c1 {
      %s = hostir.worker_stream %j
      hostir.sync %s after %main
      %o = arith.muli %j, %c3 : index
      %p = memref.subview %g[%i, %o] [1, 3] [1, 1] : memref<4x6xf32> to memref<1x3xf32, strided<[6, 1], offset: ?>>
      hostir.copy %x to %p on %s : memref<1x3xf32> to memref<1x3xf32, strided<[6, 1], offset: ?>>
      hostir.sync %main after %s
    }
    %row = memref.subview %g[%i, 0] [1, 6] [1, 1] : memref<4x6xf32> to memref<1x6xf32, strided<[6, 1], offset: ?>>
    hostir.copy %row to %y on %main : memref<1x6xf32, strided<[6, 1], offset: ?>> to memref<1x6xf32>
  }
}
