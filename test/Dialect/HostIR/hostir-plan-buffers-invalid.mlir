// RUN: tandem-opt %s --hostir-plan-buffers --split-input-file --verify-diagnostics

// An access that is not ordered after its alloc: it may come too early.
hostir.program @early(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %s = hostir.worker_stream %c0
  hostir.sync %s after %main
  // expected-note @+1 {{the alloc}}
  %a = hostir.alloc on %main : memref<16xf32>
  // expected-error @+1 {{'hostir.copy' op expected to be ordered after the buffer's alloc by streams and 'hostir.sync'}}
  hostir.copy %x to %a on %s : memref<16xf32> to memref<16xf32>
  hostir.sync %main after %s
}

// -----

// The next iteration's buffer takes the place while a worker still reads the last one.
hostir.program @overtaken(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  scf.for %i = %c0 to %c4 step %c1 {
    // expected-error @+1 {{expected each iteration's buffer to end before the next one reuses its slot, found an access that is not ordered before that}}
    %a = hostir.alloc on %main : memref<16xf32>
    hostir.copy %x to %a on %main : memref<16xf32> to memref<16xf32>
    %s = hostir.worker_stream %i
    hostir.sync %s after %main
    // expected-note @+1 {{the last access}}
    hostir.copy %a to %y on %s : memref<16xf32> to memref<16xf32>
  }
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

// Which worker it is depends on the rank, and another stream looks on.
hostir.program @unknown(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  %me = hostir.device_index #tp, "x"
  %s = hostir.worker_stream %me
  // expected-note @+1 {{the alloc}}
  %a = hostir.alloc on %s : memref<16xf32>
  hostir.sync %main after %s
  // expected-error @+1 {{expected to be ordered after the buffer's alloc}}
  hostir.copy %a to %y on %main : memref<16xf32> to memref<16xf32>
}

// -----

hostir.program @symmetric(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  scf.for %i = %c0 to %c4 step %c1 {
    // expected-error @+1 {{expected buffers in symmetric memory outside loops and conditions}}
    %a = hostir.alloc on %main : memref<16xf32, #hostir.symmetric>
    hostir.copy %a to %y on %main : memref<16xf32, #hostir.symmetric> to memref<16xf32>
  }
}

// -----

// A program without end, or as good as.
hostir.program @endless(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %max = arith.constant 9223372036854775807 : index
  scf.for %i = %c0 to %max step %c1 {
    // expected-error @+1 {{expected a program of at most 67108864 operations, found more}}
    %s = hostir.worker_stream %i
  }
}

// -----

// What cannot be followed: other control flow, hidden buffers and streams.
hostir.program @while(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %true = arith.constant true
  // expected-error @+1 {{expected 'scf.for' or 'scf.if' as control flow of a program}}
  scf.while : () -> () {
    scf.condition(%true)
  } do {
    scf.yield
  }
}

// -----

hostir.program @hidden_buffer(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}, %z: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  %true = arith.constant true
  %b = arith.select %true, %y, %z : memref<16xf32>
  // expected-error @+1 {{expected buffers that are views of arguments or of 'hostir.alloc', found another}}
  hostir.copy %x to %b on %main : memref<16xf32> to memref<16xf32>
}

// -----

hostir.program @hidden_stream(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  %true = arith.constant true
  %s = arith.select %true, %main, %main : !hostir.stream
  // expected-error @+1 {{expected a stream of 'hostir.main_stream' or 'hostir.worker_stream', found another value}}
  hostir.copy %x to %y on %s : memref<16xf32> to memref<16xf32>
}

// -----

hostir.program @too_large(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected a buffer of at most 4503599627370496 bytes, found}}
  %a = hostir.alloc on %main : memref<4611686018427387904x4xf32>
}

// -----

// Each buffer is small enough, all together are not.
// expected-error @+1 {{expected buffers of at most 4503599627370496 bytes, found 7881299347898368}}
hostir.program @too_large_together(%x: memref<16xf32>, %y: memref<281474976710656x4xf32>, %z: memref<281474976710656x3xf32> {hostir.result}) {
  %main = hostir.main_stream
  %a = hostir.alloc on %main : memref<281474976710656x4xf32>
  %b = hostir.alloc on %main : memref<281474976710656x3xf32>
  hostir.copy %y to %a on %main : memref<281474976710656x4xf32> to memref<281474976710656x4xf32>
  hostir.copy %b to %z on %main : memref<281474976710656x3xf32> to memref<281474976710656x3xf32>
  hostir.copy %a to %y on %main : memref<281474976710656x4xf32> to memref<281474976710656x4xf32>
}

// -----

// Places of all workers.
hostir.program @too_many_places(%x: memref<281474976710656x4xf32>, %z: memref<16xf32> {hostir.result}) attributes {workers = 1024 : i64} {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  scf.for %i = %c0 to %c8 step %c1 {
    %s = hostir.worker_stream %i
    hostir.sync %s after %main
    // expected-error @+1 {{expected a buffer whose slots take at most 4503599627370496 bytes, found 'memref<281474976710656x4xf32>' for 8 workers}}
    %a = hostir.alloc on %s : memref<281474976710656x4xf32>
    hostir.copy %x to %a on %s : memref<281474976710656x4xf32> to memref<281474976710656x4xf32>
    hostir.sync %main after %s
  }
}
