// RUN: tandem-opt %s --split-input-file --pass-pipeline='builtin.module(hostir.program(hostir-plan-buffers))' | FileCheck %s

// Peers write into symmetric memory, so a buffer takes another one's place only if signals say to all who write it that
// the other one is over. %b is written before that is known of %a; the signals behind %b's puts say it, so %c may lie
// where %a was.

#tp = #tandem.mesh<"tp", ["x" = 3]>

// CHECK-LABEL: hostir.program @exchanges
// CHECK-SAME: symmetric_bytes = 128
hostir.program @exchanges(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  %me = hostir.device_index #tp, "x"
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c6 = arith.constant 6 : index
  %ch = hostir.channel "ch" over #tp ["x"] can [one_sided]
  // CHECK: hostir.alloc on %{{.*}} {offset = 0 : i64} : memref<16xf32, #hostir.symmetric>
  %a = hostir.alloc on %main : memref<16xf32, #hostir.symmetric>
  scf.for %d = %c1 to %c3 step %c1 {
    %sum = arith.addi %me, %d : index
    %peer = arith.remui %sum, %c3 : index
    hostir.put %x to %a at %peer via %ch on %main : memref<16xf32> to memref<16xf32, #hostir.symmetric>
    hostir.signal %me = %c1 at %peer via %ch on %main
  }
  scf.for %d = %c1 to %c3 step %c1 {
    %sum = arith.addi %me, %d : index
    %peer = arith.remui %sum, %c3 : index
    hostir.wait_signal %peer >= %c1 via %ch on %main
  }
  hostir.copy %a to %y on %main : memref<16xf32, #hostir.symmetric> to memref<16xf32>
  // CHECK: hostir.alloc on %{{.*}} {offset = 64 : i64} : memref<16xf32, #hostir.symmetric>
  %b = hostir.alloc on %main : memref<16xf32, #hostir.symmetric>
  %s = arith.addi %me, %c3 : index
  scf.for %d = %c1 to %c3 step %c1 {
    %sum = arith.addi %me, %d : index
    %peer = arith.remui %sum, %c3 : index
    hostir.put %x to %b at %peer via %ch on %main : memref<16xf32> to memref<16xf32, #hostir.symmetric>
    hostir.signal %s = %c1 at %peer via %ch on %main
  }
  scf.for %d = %c1 to %c3 step %c1 {
    %sum = arith.addi %me, %d : index
    %peer = arith.remui %sum, %c3 : index
    %t = arith.addi %peer, %c3 : index
    hostir.wait_signal %t >= %c1 via %ch on %main
  }
  hostir.copy %b to %y on %main : memref<16xf32, #hostir.symmetric> to memref<16xf32>
  // CHECK: hostir.alloc on %{{.*}} {offset = 0 : i64} : memref<16xf32, #hostir.symmetric>
  %c = hostir.alloc on %main : memref<16xf32, #hostir.symmetric>
  %u = arith.addi %me, %c6 : index
  scf.for %d = %c1 to %c3 step %c1 {
    %sum = arith.addi %me, %d : index
    %peer = arith.remui %sum, %c3 : index
    hostir.put %x to %c at %peer via %ch on %main : memref<16xf32> to memref<16xf32, #hostir.symmetric>
    hostir.signal %u = %c1 at %peer via %ch on %main
  }
  scf.for %d = %c1 to %c3 step %c1 {
    %sum = arith.addi %me, %d : index
    %peer = arith.remui %sum, %c3 : index
    %t = arith.addi %peer, %c6 : index
    hostir.wait_signal %t >= %c1 via %ch on %main
  }
  hostir.copy %c to %y on %main : memref<16xf32, #hostir.symmetric> to memref<16xf32>
}

// -----

// What is missing differs: nothing is shared.

#tp = #tandem.mesh<"tp", ["x" = 3]>

// Signals to the right alone order no pair that is apart.
// CHECK-LABEL: hostir.program @ring
// CHECK-SAME: symmetric_bytes = 192
hostir.program @ring(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  %me = hostir.device_index #tp, "x"
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %ch = hostir.channel "ch" over #tp ["x"] can [one_sided]
  %sum = arith.addi %me, %c1 : index
  %right = arith.remui %sum, %c3 : index
  %a = hostir.alloc on %main : memref<16xf32, #hostir.symmetric>
  hostir.put %x to %a at %right via %ch on %main : memref<16xf32> to memref<16xf32, #hostir.symmetric>
  hostir.signal %c0 = %c1 at %right via %ch on %main
  hostir.wait_signal %c0 >= %c1 via %ch on %main
  hostir.copy %a to %y on %main : memref<16xf32, #hostir.symmetric> to memref<16xf32>
  %b = hostir.alloc on %main : memref<16xf32, #hostir.symmetric>
  hostir.put %x to %b at %right via %ch on %main : memref<16xf32> to memref<16xf32, #hostir.symmetric>
  hostir.signal %c1 = %c1 at %right via %ch on %main
  hostir.wait_signal %c1 >= %c1 via %ch on %main
  hostir.copy %b to %y on %main : memref<16xf32, #hostir.symmetric> to memref<16xf32>
  %c = hostir.alloc on %main : memref<16xf32, #hostir.symmetric>
  hostir.put %x to %c at %right via %ch on %main : memref<16xf32> to memref<16xf32, #hostir.symmetric>
  hostir.signal %c3 = %c1 at %right via %ch on %main
  hostir.wait_signal %c3 >= %c1 via %ch on %main
  hostir.copy %c to %y on %main : memref<16xf32, #hostir.symmetric> to memref<16xf32>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>

// Of two devices each is the other's only peer: three exchanges, two places. In @unsignalled nothing says that %a's put
// has arrived; in @unread the second exchange is waited for before %a is read; in @two_senders slot 1 has two exchanges.

// CHECK-LABEL: hostir.program @pair
// CHECK-SAME: symmetric_bytes = 128
hostir.program @pair(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  %me = hostir.device_index #tp, "x"
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %other = arith.subi %c1, %me : index
  %ch = hostir.channel "ch" over #tp ["x"] can [one_sided]
  %a = hostir.alloc on %main : memref<16xf32, #hostir.symmetric>
  hostir.put %x to %a at %other via %ch on %main : memref<16xf32> to memref<16xf32, #hostir.symmetric>
  hostir.signal %c0 = %c1 at %other via %ch on %main
  hostir.wait_signal %c0 >= %c1 via %ch on %main
  hostir.copy %a to %y on %main : memref<16xf32, #hostir.symmetric> to memref<16xf32>
  %b = hostir.alloc on %main : memref<16xf32, #hostir.symmetric>
  hostir.put %x to %b at %other via %ch on %main : memref<16xf32> to memref<16xf32, #hostir.symmetric>
  hostir.signal %c1 = %c1 at %other via %ch on %main
  hostir.wait_signal %c1 >= %c1 via %ch on %main
  hostir.copy %b to %y on %main : memref<16xf32, #hostir.symmetric> to memref<16xf32>
  %c = hostir.alloc on %main : memref<16xf32, #hostir.symmetric>
  hostir.put %x to %c at %other via %ch on %main : memref<16xf32> to memref<16xf32, #hostir.symmetric>
  hostir.signal %c2 = %c1 at %other via %ch on %main
  hostir.wait_signal %c2 >= %c1 via %ch on %main
  hostir.copy %c to %y on %main : memref<16xf32, #hostir.symmetric> to memref<16xf32>
}

// CHECK-LABEL: hostir.program @unsignalled
// CHECK-SAME: symmetric_bytes = 192
hostir.program @unsignalled(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  %me = hostir.device_index #tp, "x"
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %other = arith.subi %c1, %me : index
  %ch = hostir.channel "ch" over #tp ["x"] can [one_sided]
  %a = hostir.alloc on %main : memref<16xf32, #hostir.symmetric>
  %late = hostir.worker_stream %c0
  hostir.sync %late after %main
  hostir.put %x to %a at %other via %ch on %late : memref<16xf32> to memref<16xf32, #hostir.symmetric>
  hostir.sync %main after %late
  hostir.signal %c0 = %c1 at %other via %ch on %main
  hostir.wait_signal %c0 >= %c1 via %ch on %main
  hostir.copy %a to %y on %main : memref<16xf32, #hostir.symmetric> to memref<16xf32>
  %b = hostir.alloc on %main : memref<16xf32, #hostir.symmetric>
  hostir.put %x to %b at %other via %ch on %main : memref<16xf32> to memref<16xf32, #hostir.symmetric>
  hostir.signal %c1 = %c1 at %other via %ch on %main
  hostir.wait_signal %c1 >= %c1 via %ch on %main
  %c = hostir.alloc on %main : memref<16xf32, #hostir.symmetric>
  hostir.copy %b to %y on %main : memref<16xf32, #hostir.symmetric> to memref<16xf32>
  hostir.put %x to %c at %other via %ch on %main : memref<16xf32> to memref<16xf32, #hostir.symmetric>
  hostir.signal %c2 = %c1 at %other via %ch on %main
  hostir.wait_signal %c2 >= %c1 via %ch on %main
  hostir.copy %c to %y on %main : memref<16xf32, #hostir.symmetric> to memref<16xf32>
}

// CHECK-LABEL: hostir.program @unread
// CHECK-SAME: symmetric_bytes = 192
hostir.program @unread(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  %me = hostir.device_index #tp, "x"
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %other = arith.subi %c1, %me : index
  %ch = hostir.channel "ch" over #tp ["x"] can [one_sided]
  %a = hostir.alloc on %main : memref<16xf32, #hostir.symmetric>
  hostir.put %x to %a at %other via %ch on %main : memref<16xf32> to memref<16xf32, #hostir.symmetric>
  hostir.signal %c0 = %c1 at %other via %ch on %main
  hostir.wait_signal %c0 >= %c1 via %ch on %main
  %b = hostir.alloc on %main : memref<16xf32, #hostir.symmetric>
  hostir.put %x to %b at %other via %ch on %main : memref<16xf32> to memref<16xf32, #hostir.symmetric>
  hostir.signal %c1 = %c1 at %other via %ch on %main
  hostir.wait_signal %c1 >= %c1 via %ch on %main
  hostir.copy %a to %y on %main : memref<16xf32, #hostir.symmetric> to memref<16xf32>
  hostir.copy %b to %y on %main : memref<16xf32, #hostir.symmetric> to memref<16xf32>
  %c = hostir.alloc on %main : memref<16xf32, #hostir.symmetric>
  hostir.put %x to %c at %other via %ch on %main : memref<16xf32> to memref<16xf32, #hostir.symmetric>
  hostir.signal %c2 = %c1 at %other via %ch on %main
  hostir.wait_signal %c2 >= %c1 via %ch on %main
  hostir.copy %c to %y on %main : memref<16xf32, #hostir.symmetric> to memref<16xf32>
}

// CHECK-LABEL: hostir.program @two_senders
// CHECK-SAME: symmetric_bytes = 192
hostir.program @two_senders(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  %me = hostir.device_index #tp, "x"
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %other = arith.subi %c1, %me : index
  %ch = hostir.channel "ch" over #tp ["x"] can [one_sided]
  %a = hostir.alloc on %main : memref<16xf32, #hostir.symmetric>
  hostir.put %x to %a at %other via %ch on %main : memref<16xf32> to memref<16xf32, #hostir.symmetric>
  hostir.signal %me = %c1 at %other via %ch on %main
  hostir.wait_signal %other >= %c1 via %ch on %main
  hostir.copy %a to %y on %main : memref<16xf32, #hostir.symmetric> to memref<16xf32>
  %b = hostir.alloc on %main : memref<16xf32, #hostir.symmetric>
  hostir.put %x to %b at %other via %ch on %main : memref<16xf32> to memref<16xf32, #hostir.symmetric>
  hostir.signal %c1 = %c1 at %other via %ch on %main
  hostir.wait_signal %c1 >= %c1 via %ch on %main
  hostir.copy %b to %y on %main : memref<16xf32, #hostir.symmetric> to memref<16xf32>
  %c = hostir.alloc on %main : memref<16xf32, #hostir.symmetric>
  hostir.put %x to %c at %other via %ch on %main : memref<16xf32> to memref<16xf32, #hostir.symmetric>
  hostir.signal %c2 = %c1 at %other via %ch on %main
  hostir.wait_signal %c2 >= %c1 via %ch on %main
  hostir.copy %c to %y on %main : memref<16xf32, #hostir.symmetric> to memref<16xf32>
}

// -----

// Two axes. %b goes over "y", whose signals say nothing to those who write %c over "x"; %c's own signals do, so %d takes
// the place of %a.

#pod = #tandem.mesh<"pod", ["y" = 2, "x" = 2]>

// CHECK-LABEL: hostir.program @axes
// CHECK-SAME: symmetric_bytes = 192
hostir.program @axes(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  %mx = hostir.device_index #pod, "x"
  %my = hostir.device_index #pod, "y"
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %ox = arith.subi %c1, %mx : index
  %oy = arith.subi %c1, %my : index
  %cx = hostir.channel "x" over #pod ["x"] can [one_sided]
  %cy = hostir.channel "y" over #pod ["y"] can [one_sided]
  // CHECK: hostir.alloc on %{{.*}} {offset = 0 : i64} : memref<16xf32, #hostir.symmetric>
  %a = hostir.alloc on %main : memref<16xf32, #hostir.symmetric>
  hostir.put %x to %a at %ox via %cx on %main : memref<16xf32> to memref<16xf32, #hostir.symmetric>
  hostir.signal %c0 = %c1 at %ox via %cx on %main
  hostir.wait_signal %c0 >= %c1 via %cx on %main
  hostir.copy %a to %y on %main : memref<16xf32, #hostir.symmetric> to memref<16xf32>
  // CHECK: hostir.alloc on %{{.*}} {offset = 64 : i64} : memref<16xf32, #hostir.symmetric>
  %b = hostir.alloc on %main : memref<16xf32, #hostir.symmetric>
  hostir.put %x to %b at %oy via %cy on %main : memref<16xf32> to memref<16xf32, #hostir.symmetric>
  hostir.signal %c1 = %c1 at %oy via %cy on %main
  hostir.wait_signal %c1 >= %c1 via %cy on %main
  hostir.copy %b to %y on %main : memref<16xf32, #hostir.symmetric> to memref<16xf32>
  // CHECK: hostir.alloc on %{{.*}} {offset = 128 : i64} : memref<16xf32, #hostir.symmetric>
  %c = hostir.alloc on %main : memref<16xf32, #hostir.symmetric>
  hostir.put %x to %c at %ox via %cx on %main : memref<16xf32> to memref<16xf32, #hostir.symmetric>
  hostir.signal %c2 = %c1 at %ox via %cx on %main
  hostir.wait_signal %c2 >= %c1 via %cx on %main
  hostir.copy %c to %y on %main : memref<16xf32, #hostir.symmetric> to memref<16xf32>
  // CHECK: hostir.alloc on %{{.*}} {offset = 0 : i64} : memref<16xf32, #hostir.symmetric>
  %d = hostir.alloc on %main : memref<16xf32, #hostir.symmetric>
  hostir.put %x to %d at %ox via %cx on %main : memref<16xf32> to memref<16xf32, #hostir.symmetric>
  hostir.signal %c3 = %c1 at %ox via %cx on %main
  hostir.wait_signal %c3 >= %c1 via %cx on %main
  hostir.copy %d to %y on %main : memref<16xf32, #hostir.symmetric> to memref<16xf32>
}
