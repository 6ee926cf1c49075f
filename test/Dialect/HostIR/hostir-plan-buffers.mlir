// RUN: tandem-opt %s --hostir-plan-buffers --split-input-file | FileCheck %s

// Sizes are rounded up to 64 bytes. The second buffer takes the first one's place once all of that is over; the third is
// alive with both.
// CHECK-LABEL: hostir.program @sequence
// CHECK-SAME:  attributes {arena_bytes = 256 : i64, symmetric_bytes = 0 : i64}
hostir.program @sequence(%x: memref<25xf32>, %y: memref<25xf32> {hostir.result}) {
  %main = hostir.main_stream
  // CHECK: hostir.alloc on %{{.*}} {offset = 0 : i64} : memref<25xf32>
  // CHECK: hostir.alloc on %{{.*}} {offset = 128 : i64} : memref<25xf32>
  // CHECK: hostir.alloc on %{{.*}} {offset = 0 : i64} : memref<25xf32>
  %a = hostir.alloc on %main : memref<25xf32>
  %c = hostir.alloc on %main : memref<25xf32>
  hostir.copy %x to %a on %main : memref<25xf32> to memref<25xf32>
  hostir.copy %a to %c on %main : memref<25xf32> to memref<25xf32>
  %b = hostir.alloc on %main : memref<25xf32>
  hostir.copy %c to %b on %main : memref<25xf32> to memref<25xf32>
  hostir.copy %b to %y on %main : memref<25xf32> to memref<25xf32>
}

// -----

// The text's order is not the order: %a is still read on the worker when %b begins on the main stream.
// CHECK-LABEL: hostir.program @not_joined
// CHECK-SAME:  arena_bytes = 128
hostir.program @not_joined(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %s = hostir.worker_stream %c0
  hostir.sync %s after %main
  %a = hostir.alloc on %s : memref<16xf32>
  hostir.copy %x to %a on %s : memref<16xf32> to memref<16xf32>
  %b = hostir.alloc on %main : memref<16xf32>
  hostir.copy %x to %b on %main : memref<16xf32> to memref<16xf32>
  hostir.sync %main after %s
}

// The same, joined in time, through a third stream.
// CHECK-LABEL: hostir.program @joined
// CHECK-SAME:  arena_bytes = 64
hostir.program @joined(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %s = hostir.worker_stream %c0
  %t = hostir.worker_stream %c1
  hostir.sync %s after %main
  %a = hostir.alloc on %s : memref<16xf32>
  hostir.copy %x to %a on %s : memref<16xf32> to memref<16xf32>
  hostir.sync %t after %s
  hostir.sync %main after %t
  %b = hostir.alloc on %main : memref<16xf32>
  hostir.copy %x to %b on %main : memref<16xf32> to memref<16xf32>
}

// -----

// A buffer of an iteration has a place per worker. What follows it in the iteration takes its place, and another worker's
// places are its own: the frame is the largest of what is alive at once.
// CHECK-LABEL: hostir.program @workers
// CHECK-SAME:  attributes {arena_bytes = 768 : i64, symmetric_bytes = 0 : i64, workers = 3 : i64}
hostir.program @workers(%x: memref<16xf32>, %z: memref<32xf32>, %y: memref<16xf32> {hostir.result}) attributes {workers = 3 : i64} {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  scf.for %i = %c0 to %c8 step %c1 {
    %s = hostir.worker_stream %i
    hostir.sync %s after %main
    // CHECK: hostir.alloc on %{{.*}} {offset = 128 : i64, pitch = 256 : i64} : memref<16xf32>
    // CHECK: hostir.alloc on %{{.*}} {offset = 192 : i64, pitch = 256 : i64} : memref<16xf32>
    // CHECK: hostir.alloc on %{{.*}} {offset = 0 : i64, pitch = 256 : i64} : memref<32xf32>
    // CHECK: hostir.alloc on %{{.*}} {offset = 0 : i64, pitch = 256 : i64} : memref<16xf32>
    %a = hostir.alloc on %s : memref<16xf32>
    %b = hostir.alloc on %s : memref<16xf32>
    hostir.copy %x to %a on %s : memref<16xf32> to memref<16xf32>
    %d = hostir.alloc on %s : memref<32xf32>
    hostir.copy %z to %d on %s : memref<32xf32> to memref<32xf32>
    hostir.copy %a to %b on %s : memref<16xf32> to memref<16xf32>
    %e = hostir.alloc on %s : memref<16xf32>
    hostir.copy %b to %e on %s : memref<16xf32> to memref<16xf32>
  }
}

// -----

// Two iterations, two places. Worker 1 is the first: nothing is kept for worker 0, whose place would lie before the arena.
// CHECK-LABEL: hostir.program @few_iterations
// CHECK-SAME:  attributes {arena_bytes = 192 : i64, symmetric_bytes = 0 : i64, workers = 8 : i64}
hostir.program @few_iterations(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) attributes {workers = 8 : i64} {
  %main = hostir.main_stream
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  // CHECK: hostir.alloc on %{{.*}} {offset = 128 : i64} : memref<16xf32>
  %m = hostir.alloc on %main : memref<16xf32>
  scf.for %i = %c1 to %c3 step %c1 {
    %s = hostir.worker_stream %i
    hostir.sync %s after %main
    // CHECK: hostir.alloc on %{{.*}} {offset = -64 : i64, pitch = 64 : i64} : memref<16xf32>
    %a = hostir.alloc on %s : memref<16xf32>
    hostir.copy %x to %a on %s : memref<16xf32> to memref<16xf32>
    hostir.sync %main after %s
  }
  hostir.copy %x to %m on %main : memref<16xf32> to memref<16xf32>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

// A worker that depends on the rank: a place for each. Both branches of an unknown condition may be taken.
// CHECK-LABEL: hostir.program @rank
// CHECK-SAME:  arena_bytes = 256
hostir.program @rank(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %me = hostir.device_index #tp, "x"
  %s = hostir.worker_stream %me
  %first = arith.cmpi eq, %me, %c0 : index
  scf.if %first {
    // CHECK: hostir.alloc on %{{.*}} {offset = 0 : i64, pitch = 64 : i64} : memref<16xf32>
    %a = hostir.alloc on %s : memref<16xf32>
    hostir.copy %x to %a on %s : memref<16xf32> to memref<16xf32>
  } else {
    // CHECK: hostir.alloc on %{{.*}} {offset = 0 : i64, pitch = 64 : i64} : memref<16xf32>
    %a = hostir.alloc on %s : memref<16xf32>
    hostir.copy %x to %a on %s : memref<16xf32> to memref<16xf32>
  }
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>

// A message under a condition inside of a group is an access on the group's stream: %a lives as long as %b.
// CHECK-LABEL: hostir.program @conditional_message
// CHECK-SAME:  arena_bytes = 128
hostir.program @conditional_message(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  %ch = hostir.channel "c" over #tp ["x"] can [two_sided]
  %c0 = arith.constant 0 : index
  %me = hostir.device_index #tp, "x"
  %first = arith.cmpi eq, %me, %c0 : index
  %a = hostir.alloc on %main : memref<16xf32>
  hostir.copy %x to %a on %main : memref<16xf32> to memref<16xf32>
  %b = hostir.alloc on %main : memref<16xf32>
  hostir.copy %x to %b on %main : memref<16xf32> to memref<16xf32>
  hostir.group via %ch on %main {
    scf.if %first {
      hostir.send %a to %c0 : memref<16xf32>
    }
  }
  hostir.copy %b to %y on %main : memref<16xf32> to memref<16xf32>
}

// -----

// Symmetric memory is an arena of its own. No peer writes to %a, so %b may take its place when it is over.
// CHECK-LABEL: hostir.program @symmetric
// CHECK-SAME:  attributes {arena_bytes = 64 : i64, symmetric_bytes = 128 : i64}
hostir.program @symmetric(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  // CHECK: hostir.alloc on %{{.*}} {offset = 0 : i64} : memref<16xf32, #hostir.symmetric>
  // CHECK: hostir.alloc on %{{.*}} {offset = 64 : i64} : memref<16xf32, #hostir.symmetric>
  // CHECK: hostir.alloc on %{{.*}} {offset = 0 : i64} : memref<16xf32, #hostir.symmetric>
  // CHECK: hostir.alloc on %{{.*}} {offset = 0 : i64} : memref<16xf32>
  %a = hostir.alloc on %main : memref<16xf32, #hostir.symmetric>
  %b = hostir.alloc on %main : memref<16xf32, #hostir.symmetric>
  hostir.copy %a to %y on %main : memref<16xf32, #hostir.symmetric> to memref<16xf32>
  %b2 = hostir.alloc on %main : memref<16xf32, #hostir.symmetric>
  hostir.copy %b to %y on %main : memref<16xf32, #hostir.symmetric> to memref<16xf32>
  %c = hostir.alloc on %main : memref<16xf32>
  hostir.copy %x to %c on %main : memref<16xf32> to memref<16xf32>
}

// -----

// A loop without iterations, and a program without buffers.
// CHECK-LABEL: hostir.program @never
// CHECK-SAME:  arena_bytes = 64
hostir.program @never(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %c0 step %c1 {
    // CHECK: hostir.alloc on %{{.*}} {offset = 0 : i64} : memref<16xf32>
    %a = hostir.alloc on %main : memref<16xf32>
    hostir.copy %x to %a on %main : memref<16xf32> to memref<16xf32>
  }
}

// CHECK-LABEL: hostir.program @none
// CHECK-SAME:  attributes {arena_bytes = 0 : i64, symmetric_bytes = 0 : i64}
hostir.program @none() {
}

// -----

// What an earlier run of the pass wrote is forgotten.
// CHECK-LABEL: hostir.program @again
// CHECK-SAME:  arena_bytes = 64
hostir.program @again(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result})
    attributes {arena_bytes = 4096 : i64, symmetric_bytes = 64 : i64} {
  %main = hostir.main_stream
  // CHECK: hostir.alloc on %{{.*}} {offset = 0 : i64} : memref<16xf32>
  %a = hostir.alloc on %main {offset = 1024 : i64, pitch = 64 : i64} : memref<16xf32>
  hostir.copy %x to %a on %main : memref<16xf32> to memref<16xf32>
}

// -----

// The last iteration's slice is shorter: it lies in its worker's place.
// CHECK-LABEL: hostir.program @shorter
// CHECK-SAME:  arena_bytes = 256
hostir.program @shorter(%x: memref<32xf32>, %y: memref<16xf32> {hostir.result}) attributes {workers = 2 : i64} {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  scf.for %i = %c0 to %c3 step %c1 {
    %s = hostir.worker_stream %i
    hostir.sync %s after %main
    %last = arith.cmpi eq, %i, %c2 : index
    scf.if %last {
      // CHECK: hostir.alloc on %{{.*}} {offset = 0 : i64, pitch = 128 : i64} : memref<16xf32>
      %a = hostir.alloc on %s : memref<16xf32>
      hostir.copy %y to %a on %s : memref<16xf32> to memref<16xf32>
    } else {
      // CHECK: hostir.alloc on %{{.*}} {offset = 0 : i64, pitch = 128 : i64} : memref<32xf32>
      %b = hostir.alloc on %s : memref<32xf32>
      hostir.copy %x to %b on %s : memref<32xf32> to memref<32xf32>
    }
    hostir.sync %main after %s
  }
}

// -----

// Two slices that the main stream works on, one after the other: the dealloc says where the first is over.
// CHECK-LABEL: hostir.program @bracketed
// CHECK-SAME:  arena_bytes = 128
hostir.program @bracketed(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) attributes {workers = 2 : i64} {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  scf.for %i = %c0 to %c4 step %c1 {
    %s = hostir.worker_stream %i
    hostir.sync %s after %main
    %a = hostir.alloc on %s : memref<16xf32>
    hostir.copy %x to %a on %s : memref<16xf32> to memref<16xf32>
    hostir.sync %main after %s
    hostir.copy %a to %y on %main : memref<16xf32> to memref<16xf32>
    hostir.sync %s after %main
    hostir.dealloc %a on %s : memref<16xf32>
    %b = hostir.alloc on %s : memref<16xf32>
    hostir.copy %x to %b on %s : memref<16xf32> to memref<16xf32>
    hostir.sync %main after %s
    hostir.copy %b to %y on %main : memref<16xf32> to memref<16xf32>
    hostir.sync %s after %main
    hostir.dealloc %b on %s : memref<16xf32>
  }
  hostir.sync %main after %main
}
