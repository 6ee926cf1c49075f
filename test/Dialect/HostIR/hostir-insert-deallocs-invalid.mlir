// RUN: tandem-opt %s --hostir-insert-deallocs --split-input-file --verify-diagnostics

// Two workers use it, and no stream hears of both.
hostir.program @no_end(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %s = hostir.worker_stream %c0
  %t = hostir.worker_stream %c1
  // expected-error @+1 {{expected a point after all accesses in the alloc's block, on the alloc's stream or on that of the last access}}
  %a = hostir.alloc on %main : memref<16xf32>
  hostir.sync %s after %main
  hostir.sync %t after %main
  hostir.copy %x to %a on %s : memref<16xf32> to memref<16xf32>
  // expected-note @+1 {{the last access}}
  hostir.copy %x to %a on %t : memref<16xf32> to memref<16xf32>
}

// -----

// Joined in the next iteration, but not in its own, and in the last one never.
hostir.program @joined_later(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %s = hostir.worker_stream %c0
  %t = hostir.worker_stream %c1
  scf.for %i = %c0 to %c4 step %c1 {
    hostir.sync %main after %s
    hostir.sync %main after %t
    // expected-error @+1 {{expected a point after all accesses in the alloc's block}}
    %a = hostir.alloc on %main : memref<16xf32>
    hostir.sync %s after %main
    hostir.sync %t after %main
    hostir.copy %x to %a on %s : memref<16xf32> to memref<16xf32>
    // expected-note @+1 {{the last access}}
    hostir.copy %x to %a on %t : memref<16xf32> to memref<16xf32>
  }
}
