// RUN: tandem-opt %s --hostir-verify --split-input-file --verify-diagnostics

// verify_c1
hostir.program @p(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  // expected-error @+1 {{expected only operations of 'hostir' and 'arith', 'scf.for', 'scf.if' and views of memrefs in a program}}
  memref.copy %x, %y : memref<16xf32> to memref<16xf32>
}

// -----

// verify_c2: a stream
hostir.program @p(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  %true = arith.constant true
  %s = arith.select %true, %main, %main : !hostir.stream
  // expected-error @+1 {{expected a stream of 'hostir.main_stream' or 'hostir.worker_stream', found another value}}
  hostir.copy %x to %y on %s : memref<16xf32> to memref<16xf32>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

// verify_c2: a channel
hostir.program @p(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = hostir.channel "a" over #tp ["x"] can [collectives]
  %b = scf.for %i = %c0 to %c1 step %c1 iter_args(%c = %a) -> !hostir.channel {
    // expected-error @+1 {{expected a channel of 'hostir.channel', found another value}}
    hostir.collective all_reduce %x to %y via %c on %main : memref<16xf32> to memref<16xf32>
    scf.yield %c : !hostir.channel
  }
}

// -----

// verify_c2: a buffer
hostir.program @p(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = scf.for %i = %c0 to %c1 step %c1 iter_args(%z = %y) -> memref<16xf32> {
    // expected-error @+1 {{expected buffers that are views of arguments or of 'hostir.alloc', found another}}
    hostir.copy %x to %z on %main : memref<16xf32> to memref<16xf32>
    scf.yield %z : memref<16xf32>
  }
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

// verify_c3
hostir.program @p() {
  // expected-note @+1 {{defined here}}
  %a = hostir.channel "a" over #tp ["x"] can [collectives]
  // expected-error @+1 {{expected channel "a" as it was defined before, found another}}
  %b = hostir.channel "a" over #tp ["x"] can [two_sided]
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

// verify_c4
hostir.program @p(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  // expected-note @+1 {{channel "a" cannot}}
  %a = hostir.channel "a" over #tp ["x"] can [two_sided]
  // expected-error @+1 {{expected a channel with 'collectives' (or run hostir-expand-collectives)}}
  hostir.collective all_reduce %x to %y via %a on %main : memref<16xf32> to memref<16xf32>
}

// -----

// verify_c5: no place
hostir.program @p(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  hostir.copy %x to %y on %main : memref<16xf32> to memref<16xf32>
  // expected-error @+1 {{expected an offset in the arena, found none (run hostir-plan-buffers first)}}
  %a = hostir.alloc on %main : memref<16xf32>
  hostir.dealloc %a on %main : memref<16xf32>
}

// -----

// verify_c5: outside; the last worker's place counts
hostir.program @p(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) attributes {arena_bytes = 128 : i64} {
  %main = hostir.main_stream
  hostir.copy %x to %y on %main : memref<16xf32> to memref<16xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  scf.for %i = %c0 to %c3 step %c1 {
    %s = hostir.worker_stream %i
    // expected-error @+1 {{expected an offset inside the arena of 128 bytes}}
    %a = hostir.alloc on %s {offset = 0 : i64, pitch = 64 : i64} : memref<16xf32>
    hostir.dealloc %a on %s : memref<16xf32>
  }
}

// -----

// verify_c6: none
hostir.program @p(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) attributes {arena_bytes = 64 : i64} {
  %main = hostir.main_stream
  hostir.copy %x to %y on %main : memref<16xf32> to memref<16xf32>
  // expected-error @+1 {{expected exactly one 'hostir.dealloc', found none}}
  %a = hostir.alloc on %main {offset = 0 : i64} : memref<16xf32>
}

// -----

// verify_c6: two
hostir.program @p(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) attributes {arena_bytes = 64 : i64} {
  %main = hostir.main_stream
  hostir.copy %x to %y on %main : memref<16xf32> to memref<16xf32>
  // expected-error @+1 {{expected exactly one 'hostir.dealloc', found another}}
  %a = hostir.alloc on %main {offset = 0 : i64} : memref<16xf32>
  // expected-note @+1 {{the other}}
  hostir.dealloc %a on %main : memref<16xf32>
  hostir.dealloc %a on %main : memref<16xf32>
}

// -----

// verify_c6: in another block
hostir.program @p(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) attributes {arena_bytes = 64 : i64} {
  %main = hostir.main_stream
  hostir.copy %x to %y on %main : memref<16xf32> to memref<16xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = hostir.alloc on %main {offset = 0 : i64} : memref<16xf32>
  scf.for %i = %c0 to %c1 step %c1 {
    // expected-error @+1 {{expected to be in the block of the buffer's alloc}}
    hostir.dealloc %a on %main : memref<16xf32>
  }
}

// -----

// verify_c6: a use after it, of a view
hostir.program @p(%x: memref<4x4xf32>, %y: memref<4x4xf32> {hostir.result}) attributes {arena_bytes = 64 : i64} {
  %main = hostir.main_stream
  %a = hostir.alloc on %main {offset = 0 : i64} : memref<16xf32>
  %v = memref.expand_shape %a [[0, 1]] output_shape [4, 4] : memref<16xf32> into memref<4x4xf32>
  // expected-note @+1 {{the dealloc}}
  hostir.dealloc %a on %main : memref<16xf32>
  // expected-error @+1 {{expected no use of a buffer after its dealloc}}
  hostir.copy %v to %y on %main : memref<4x4xf32> to memref<4x4xf32>
}

// -----

// verify_c7: before its alloc
hostir.program @p(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) attributes {arena_bytes = 64 : i64} {
  %main = hostir.main_stream
  hostir.copy %x to %y on %main : memref<16xf32> to memref<16xf32>
  %c0 = arith.constant 0 : index
  %s = hostir.worker_stream %c0
  hostir.sync %s after %main
  %a = hostir.alloc on %main {offset = 0 : i64} : memref<16xf32>
  // expected-error @+1 {{expected to be ordered after the buffer's alloc by streams and 'hostir.sync'}}
  hostir.copy %x to %a on %s : memref<16xf32> to memref<16xf32>
  hostir.sync %main after %s
  hostir.dealloc %a on %main : memref<16xf32>
}

// -----

// verify_c7: after its dealloc
hostir.program @p(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) attributes {arena_bytes = 64 : i64} {
  %main = hostir.main_stream
  hostir.copy %x to %y on %main : memref<16xf32> to memref<16xf32>
  %c0 = arith.constant 0 : index
  %s = hostir.worker_stream %c0
  // expected-note @+1 {{the alloc}}
  %a = hostir.alloc on %main {offset = 0 : i64} : memref<16xf32>
  hostir.sync %s after %main
  hostir.copy %x to %a on %s : memref<16xf32> to memref<16xf32>
  // expected-error @+1 {{expected a stream that is ordered after all accesses of the buffer}}
  hostir.dealloc %a on %main : memref<16xf32>
  hostir.sync %main after %s
}

// -----

// verify_c8: a worker that starts when it likes
hostir.program @p(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  %s = hostir.worker_stream %c0
  // expected-error @+1 {{expected worker 0 to be ordered after the start of the main stream by 'hostir.sync'}}
  hostir.copy %x to %y on %s : memref<16xf32> to memref<16xf32>
  hostir.sync %main after %s
}

// -----

// verify_c8: a worker that nobody waits for
hostir.program @p(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  %c1 = arith.constant 1 : index
  %s = hostir.worker_stream %c1
  hostir.sync %s after %main
  hostir.copy %x to %y on %s : memref<16xf32> to memref<16xf32>
  hostir.sync %main after %s
  // expected-error @+1 {{expected the end of the main stream to be ordered after all commands of worker 1, but this command is not}}
  hostir.copy %x to %y on %s : memref<16xf32> to memref<16xf32>
}

// -----

// verify_c9: a result that is not written
// expected-error @+1 {{expected result argument 1 to be written, found no command that writes it}}
hostir.program @p(%x: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
}

// -----

// verify_c9: an input that is
hostir.program @p(%x: memref<16xf32>, %z: memref<16xf32>, %y: memref<16xf32> {hostir.result}) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected no write to input argument 1}}
  hostir.copy %x to %z on %main : memref<16xf32> to memref<16xf32>
  hostir.copy %x to %y on %main : memref<16xf32> to memref<16xf32>
}
