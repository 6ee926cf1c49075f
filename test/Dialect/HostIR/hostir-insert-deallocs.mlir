// RUN: tandem-opt %s --hostir-insert-deallocs=log --split-input-file --verify-diagnostics | FileCheck %s

// On one stream: after the last access.
// CHECK-LABEL: hostir.program @sequence
hostir.program @sequence(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  // CHECK:      %[[A:.*]] = hostir.alloc
  // CHECK-NEXT: hostir.copy
  // CHECK-NEXT: hostir.copy %[[A]]
  // CHECK-NEXT: hostir.dealloc %[[A]] on %{{.*}} : memref<16xf32>
  // CHECK-NEXT: hostir.copy
  // expected-remark @+1 {{hostir-insert-deallocs: ends on its stream after 'hostir.copy'}}
  %a = hostir.alloc on %main : memref<16xf32>
  hostir.copy %x to %a on %main : memref<16xf32> to memref<16xf32>
  hostir.copy %a to %y on %main : memref<16xf32> to memref<16xf32>
  hostir.copy %x to %y on %main : memref<16xf32> to memref<16xf32>
}

// -----

// Used by workers: after the loop that joins them, not before.
// CHECK-LABEL: hostir.program @joined
hostir.program @joined(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  // expected-remark @+1 {{ends on its stream after 'scf.for'}}
  %a = hostir.alloc on %main : memref<16xf32>
  scf.for %i = %c0 to %c3 step %c1 {
    %s = hostir.worker_stream %i
    hostir.sync %s after %main
    hostir.copy %x to %a on %s : memref<16xf32> to memref<16xf32>
  }
  // CHECK:      hostir.copy
  // CHECK-NEXT: }
  // CHECK-NOT:  hostir.dealloc
  // CHECK:      scf.for
  // CHECK:        hostir.sync
  // CHECK-NEXT: }
  // CHECK-NEXT: hostir.dealloc %{{.*}} on %[[MAIN:.*]] : memref<16xf32>
  // CHECK-NEXT: hostir.copy %{{.*}} on %[[MAIN]]
  scf.for %i = %c0 to %c3 step %c1 {
    %s = hostir.worker_stream %i
    hostir.sync %main after %s
  }
  hostir.copy %x to %y on %main : memref<16xf32> to memref<16xf32>
}

// -----

// In a loop: within the iteration, on its worker. One that is there already stays alone.
// CHECK-LABEL: hostir.program @iteration
hostir.program @iteration(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  scf.for %i = %c0 to %c3 step %c1 {
    // CHECK:      %[[S:.*]] = hostir.worker_stream
    // CHECK:      %[[A:.*]] = hostir.alloc
    // CHECK-NEXT: %[[B:.*]] = hostir.alloc
    // CHECK-NEXT: hostir.copy
    // CHECK-NEXT: hostir.dealloc %[[B]] on %[[S]]
    // CHECK-NEXT: hostir.copy
    // CHECK-NEXT: hostir.dealloc %[[A]] on %[[S]]
    // CHECK-NEXT: }
    %s = hostir.worker_stream %i
    hostir.sync %s after %main
    // expected-remark @+1 {{ends on its stream after 'hostir.copy'}}
    %a = hostir.alloc on %s : memref<16xf32>
    %b = hostir.alloc on %s : memref<16xf32>
    hostir.copy %a to %b on %s : memref<16xf32> to memref<16xf32>
    hostir.dealloc %b on %s : memref<16xf32>
    hostir.copy %x to %a on %s : memref<16xf32> to memref<16xf32>
  }
}

// -----

// The alloc's own stream never hears of the last access: the end is on that one's stream.
// CHECK-LABEL: hostir.program @handed_on
hostir.program @handed_on(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  // CHECK: %[[MAIN:.*]] = hostir.main_stream
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %s = hostir.worker_stream %c0
  hostir.sync %s after %main
  // expected-remark @+1 {{ends on another stream after 'hostir.copy'}}
  %a = hostir.alloc on %s : memref<16xf32>
  hostir.copy %x to %a on %s : memref<16xf32> to memref<16xf32>
  hostir.sync %main after %s
  // CHECK:      hostir.copy %[[A:.*]] to %{{.*}} on %[[MAIN]]
  // CHECK-NEXT: hostir.dealloc %[[A]] on %[[MAIN]]
  hostir.copy %a to %y on %main : memref<16xf32> to memref<16xf32>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

// Whichever worker it is, it alone uses the buffer. Accesses in a branch count; a buffer that is never allocated ends too.
// CHECK-LABEL: hostir.program @rank
hostir.program @rank(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %me = hostir.device_index #tp, "x"
  %s = hostir.worker_stream %me
  // expected-remark @+1 {{ends on its stream after 'scf.if'}}
  %a = hostir.alloc on %s : memref<16xf32>
  %first = arith.cmpi eq, %me, %c0 : index
  // CHECK:      scf.if
  // CHECK:      }
  // CHECK-NEXT: hostir.dealloc
  scf.if %first {
    hostir.copy %x to %a on %s : memref<16xf32> to memref<16xf32>
  }
  scf.for %i = %c0 to %c0 step %c1 {
    // CHECK:      %[[B:.*]] = hostir.alloc
    // CHECK-NEXT: hostir.copy
    // CHECK-NEXT: hostir.dealloc %[[B]]
    // CHECK-NEXT: }
    %b = hostir.alloc on %s : memref<16xf32>
    hostir.copy %x to %b on %s : memref<16xf32> to memref<16xf32>
  }
}
