// RUN: tandem-opt %s --split-input-file --verify-diagnostics

// matmul_c1
hostir.program @p(%a: memref<4x8xf32>, %b: memref<8x2xf32>, %c: memref<4x2xf32>, %v: memref<2xf32>, %i: memref<8x2xi32>, %h: memref<8x2xf16>, %e: memref<3x8x2xf32>, %f: memref<2x4x8xf32>) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected operands of rank 2 or more, found 2}}
  hostir.matmul %a, %v to %c on %main : memref<4x8xf32>, memref<2xf32> to memref<4x2xf32>
}

// -----

// matmul_c1
hostir.program @p(%a: memref<4x8xf32>, %b: memref<8x2xf32>, %c: memref<4x2xf32>, %v: memref<2xf32>, %i: memref<8x2xi32>, %h: memref<8x2xf16>, %e: memref<3x8x2xf32>, %f: memref<2x4x8xf32>) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected equal floating point element types (or an output of f32), found 'f16' and 'f32'}}
  hostir.matmul %a, %h to %c on %main : memref<4x8xf32>, memref<8x2xf16> to memref<4x2xf32>
}

// -----

// matmul_c1
hostir.program @p(%a: memref<4x8xf32>, %b: memref<8x2xf32>, %c: memref<4x2xf32>, %v: memref<2xf32>, %i: memref<8x2xi32>, %h: memref<8x2xf16>, %e: memref<3x8x2xf32>, %f: memref<2x4x8xf32>) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected equal floating point element types (or an output of f32), found 'i32' and 'i32'}}
  hostir.matmul %i, %i to %i on %main {transpose_a} : memref<8x2xi32>, memref<8x2xi32> to memref<8x2xi32>
}

// -----

// matmul_c1
hostir.program @p(%a: memref<4x8xf32>, %b: memref<8x2xf32>, %c: memref<4x2xf16>) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected equal floating point element types (or an output of f32), found 'f16' and 'f32'}}
  hostir.matmul %a, %b to %c on %main : memref<4x8xf32>, memref<8x2xf32> to memref<4x2xf16>
}

// -----

// matmul_c4
hostir.program @p(%a: memref<4x8xf16>, %b: memref<8x2xf16>, %c: memref<4x2xf32>, %v: memref<2xbf16>) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected equal floating point element types (or an output of f32), found 'bf16' and 'f16'}}
  hostir.matmul %a, %b bias %v to %c on %main : memref<4x8xf16>, memref<8x2xf16>, memref<2xbf16> to memref<4x2xf32>
}

// -----

// matmul_c2
hostir.program @p(%a: memref<4x8xf32>, %b: memref<8x2xf32>, %c: memref<4x2xf32>, %v: memref<2xf32>, %i: memref<8x2xi32>, %h: memref<8x2xf16>, %e: memref<3x8x2xf32>, %f: memref<2x4x8xf32>) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected equal contracted extents, found 4 and 8}}
  hostir.matmul %a, %b to %c on %main {transpose_a} : memref<4x8xf32>, memref<8x2xf32> to memref<4x2xf32>
}

// -----

// matmul_c3
hostir.program @p(%a: memref<4x8xf32>, %b: memref<8x2xf32>, %c: memref<4x2xf32>, %v: memref<2xf32>, %i: memref<8x2xi32>, %h: memref<8x2xf16>, %e: memref<3x8x2xf32>, %f: memref<2x4x8xf32>) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected an output of shape 4x2, found 8x2}}
  hostir.matmul %a, %b to %b on %main : memref<4x8xf32>, memref<8x2xf32> to memref<8x2xf32>
}

// -----

// matmul_c3
hostir.program @p(%a: memref<4x8xf32>, %b: memref<8x2xf32>, %c: memref<4x2xf32>, %v: memref<2xf32>, %i: memref<8x2xi32>, %h: memref<8x2xf16>, %e: memref<3x8x2xf32>, %f: memref<2x4x8xf32>) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected batch extents that are equal or 1, found 2 and 3}}
  hostir.matmul %f, %e to %c on %main : memref<2x4x8xf32>, memref<3x8x2xf32> to memref<4x2xf32>
}

// -----

// matmul_c4
hostir.program @p(%a: memref<4x8xf32>, %b: memref<8x2xf32>, %c: memref<4x2xf32>, %w: memref<3xf32>, %i: memref<8x2xi32>, %h: memref<8x2xf16>, %e: memref<3x8x2xf32>, %f: memref<2x4x8xf32>) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected a bias of shape 2, found 3}}
  hostir.matmul %a, %b bias %w to %c on %main : memref<4x8xf32>, memref<8x2xf32>, memref<3xf32> to memref<4x2xf32>
}

// -----

// matmul_c5
hostir.program @p(%a: memref<4x8xf32>, %b: memref<8x2xf32>, %c: memref<4x2xf32>) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected a bias of shape 4x2, found 8x2}}
  hostir.matmul %a, %b bias %b to %c on %main : memref<4x8xf32>, memref<8x2xf32>, memref<8x2xf32> to memref<4x2xf32>
}

// -----

// matmul_c5
hostir.program @p(%a: memref<4x8xf16>, %b: memref<8x2xf16>, %c: memref<4x2xf32>, %t: memref<4x2xf16>) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected a bias of the output's shape to have its type, found 'f16'}}
  hostir.matmul %a, %b bias %t to %c on %main : memref<4x8xf16>, memref<8x2xf16>, memref<4x2xf16> to memref<4x2xf32>
}

// -----

// matmul_c5
hostir.program @p(%a: memref<4x8xf32>, %b: memref<8x2xf32>, %c: memref<4x2xf32>, %t: memref<4x2xf32>) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected no 'accumulate' beside a bias of the output's shape}}
  hostir.matmul %a, %b bias %t to %c on %main {accumulate} : memref<4x8xf32>, memref<8x2xf32>, memref<4x2xf32> to memref<4x2xf32>
}

// -----

// accumulate_c1
hostir.program @p(%a: memref<4x8xf32>, %b: memref<8x2xf32>, %c: memref<4x2xf32>, %v: memref<2xf32>, %i: memref<8x2xi32>, %h: memref<8x2xf16>, %e: memref<3x8x2xf32>, %f: memref<2x4x8xf32>) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected equal shapes, found 4x8 and 8x2}}
  hostir.accumulate sum %a into %b on %main : memref<4x8xf32> to memref<8x2xf32>
}

// -----

// reduce_c1
hostir.program @p(%a: memref<4x8xf32>, %b: memref<8xf32>, %c: memref<4xf32>, %h: memref<8xf16>) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected dims in a buffer of rank 2, found 2}}
  hostir.reduce sum %a to %b dims [2] on %main : memref<4x8xf32> to memref<8xf32>
}

// -----

// reduce_c1
hostir.program @p(%a: memref<4x8xf32>, %b: memref<8xf32>, %c: memref<4xf32>, %h: memref<8xf16>) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected ascending, distinct dims, found 0 after 0}}
  hostir.reduce sum %a to %b dims [0, 0] on %main : memref<4x8xf32> to memref<8xf32>
}

// -----

// reduce_c2
hostir.program @p(%a: memref<4x8xf32>, %b: memref<8xf32>, %c: memref<4xf32>, %h: memref<8xf16>) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected a target of shape 8, found 4}}
  hostir.reduce sum %a to %c dims [0] on %main : memref<4x8xf32> to memref<4xf32>
}

// -----

// reduce_c2
hostir.program @p(%a: memref<4x8xf32>, %b: memref<8xf32>, %c: memref<4xf32>, %h: memref<8xf16>) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected equal element types, found 'f32' and 'f16'}}
  hostir.reduce sum %a to %h dims [0] on %main : memref<4x8xf32> to memref<8xf16>
}

// -----

// launch_c1
hostir.kernel @k(%a: f32) -> f32 {
  hostir.yield %a : f32
}

hostir.program @p(%a: memref<4xf32>, %b: memref<4xf32>, %h: memref<4xf16>, %d: memref<2xf32>) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected the name of a 'hostir.kernel', found @p}}
  hostir.launch @p ins(%a : memref<4xf32>) outs(%b : memref<4xf32>) on %main
}

// -----

// launch_c1
// expected-note @+1 {{the kernel}}
hostir.kernel @k(%a: f32) -> f32 {
  hostir.yield %a : f32
}

hostir.program @p(%a: memref<4xf32>, %b: memref<4xf32>, %h: memref<4xf16>, %d: memref<2xf32>) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected buffers with the element types of the kernel, '(f32) -> f32', found ('f32', 'f32') -> ('f32')}}
  hostir.launch @k ins(%a, %a : memref<4xf32>, memref<4xf32>) outs(%b : memref<4xf32>) on %main
}

// -----

// launch_c1
// expected-note @+1 {{the kernel}}
hostir.kernel @k(%a: f32) -> f32 {
  hostir.yield %a : f32
}

hostir.program @p(%a: memref<4xf32>, %b: memref<4xf32>, %h: memref<4xf16>, %d: memref<2xf32>) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected buffers with the element types of the kernel, '(f32) -> f32', found ('f16') -> ('f32')}}
  hostir.launch @k ins(%h : memref<4xf16>) outs(%b : memref<4xf32>) on %main
}

// -----

// launch_c2
hostir.kernel @k(%a: f32) -> f32 {
  hostir.yield %a : f32
}

hostir.program @p(%a: memref<4xf32>, %b: memref<4xf32>, %h: memref<4xf16>, %d: memref<2xf32>) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected all buffers of shape 4, found 2}}
  hostir.launch @k ins(%d : memref<2xf32>) outs(%b : memref<4xf32>) on %main
}

// -----

// launch_c2
hostir.kernel @k(%a: f32) -> f32 {
  hostir.yield %a : f32
}

hostir.program @p(%a: memref<4xf32>, %b: memref<4xf32>, %h: memref<4xf16>, %d: memref<2xf32>) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected at least one output, found none}}
  "hostir.launch"(%a, %main) <{kernel = @k, operandSegmentSizes = array<i32: 1, 0, 1>}> : (memref<4xf32>, !hostir.stream) -> ()
}

// -----

// call_c1
hostir.program @p(%x: memref<4x16xf32>, %w: memref<16xf32>, %y: memref<4x16xf32>) {
  %s = hostir.main_stream
  %c8 = arith.constant 8 : index
  // expected-error @+1 {{expected dims of 5 dimensions, found 4}}
  hostir.call "f" ins(%x, %w : memref<4x16xf32>, memref<16xf32>) outs(%y : memref<4x16xf32>)
      dims [0, -1, 0, -1] at [%c8] of [32] on %s
}

// -----

// call_c1
hostir.program @p(%x: memref<4x16xf32>, %w: memref<16xf32>, %y: memref<4x16xf32>) {
  %s = hostir.main_stream
  %c8 = arith.constant 8 : index
  // expected-error @+1 {{expected dims from -1 to 0, found 1}}
  hostir.call "f" ins(%x, %w : memref<4x16xf32>, memref<16xf32>) outs(%y : memref<4x16xf32>)
      dims [0, -1, 0, -1, 1] at [%c8] of [32] on %s
}

// -----

// call_c2
hostir.program @p(%x: memref<4x16xf32>, %w: memref<16xf32>, %y: memref<4x16xf32>) {
  %s = hostir.main_stream
  %c8 = arith.constant 8 : index
  // expected-error @+1 {{expected 0 as the number of the output's next parallel dimension, found 1}}
  hostir.call "f" ins(%x, %w : memref<4x16xf32>, memref<16xf32>) outs(%y : memref<4x16xf32>)
      dims [1, -1, 1, -1, -1] at [%c8] of [32] on %s
}

// -----

// call_c2
hostir.program @p(%x: memref<4x16xf32>, %w: memref<16xf32>, %y: memref<4x16xf32>) {
  %s = hostir.main_stream
  %c8 = arith.constant 8 : index
  // expected-error @+1 {{expected equal extents of parallel dimension 0, found 4 and 16}}
  hostir.call "f" ins(%x, %w : memref<4x16xf32>, memref<16xf32>) outs(%y : memref<4x16xf32>)
      dims [0, -1, -1, 0, -1] at [%c8] of [32] on %s
}

// -----

// call_c3
hostir.program @p(%x: memref<4x16xf32>, %w: memref<16xf32>, %y: memref<4x16xf32>) {
  %s = hostir.main_stream
  %c8 = arith.constant 8 : index
  // expected-error @+1 {{expected 1 offsets, one per extent, found 2}}
  hostir.call "f" ins(%x, %w : memref<4x16xf32>, memref<16xf32>) outs(%y : memref<4x16xf32>)
      dims [0, -1, 0, -1, -1] at [%c8, %c8] of [32] on %s
}

// -----

// call_c3
hostir.program @p(%x: memref<4x16xf32>, %w: memref<16xf32>, %y: memref<4x16xf32>) {
  %s = hostir.main_stream
  %c8 = arith.constant 8 : index
  // expected-error @+1 {{expected 1 extents, as many as parallel dimensions, found 0}}
  hostir.call "f" ins(%x, %w : memref<4x16xf32>, memref<16xf32>) outs(%y : memref<4x16xf32>)
      dims [0, -1, 0, -1, -1] at [] of [] on %s
}

// -----

// call_c3
hostir.program @p(%x: memref<4x16xf32>, %w: memref<16xf32>, %y: memref<4x16xf32>) {
  %s = hostir.main_stream
  %c8 = arith.constant 8 : index
  // expected-error @+1 {{expected an offset from 0 to 6, found 8}}
  hostir.call "f" ins(%x, %w : memref<4x16xf32>, memref<16xf32>) outs(%y : memref<4x16xf32>)
      dims [0, -1, 0, -1, -1] at [%c8] of [10] on %s
}

// -----

// call_c4
hostir.program @p(%x: memref<4x16xf32>, %y: memref<4x8xf32>) {
  %s = hostir.main_stream
  %v = memref.subview %x[0, 0] [4, 8] [1, 1] : memref<4x16xf32> to memref<4x8xf32, strided<[16, 1]>>
  // expected-error @+1 {{expected dense buffers, or 'strided', found 'memref<4x8xf32, strided<[16, 1]>>'}}
  hostir.call "f" ins(%v : memref<4x8xf32, strided<[16, 1]>>) outs(%y : memref<4x8xf32>) dims [-1, -1, -1, -1] at [] of [] on %s
}

// -----

// gated_matmul_c1
hostir.program @p(%a: memref<4x8xf32>, %b: memref<8x2xf32>, %c: memref<4x2xf32>, %v: memref<2xf32>, %e: memref<1x4x8xf32>, %f: memref<1x4x2xf32>) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected at least one matmul, found none}}
  hostir.gated_matmul on %main reserve 2 {
  }
}

// -----

// gated_matmul_c1
hostir.program @p(%a: memref<4x8xf32>, %b: memref<8x2xf32>, %c: memref<4x2xf32>, %v: memref<2xf32>, %e: memref<1x4x8xf32>, %f: memref<1x4x2xf32>) {
  %main = hostir.main_stream
  hostir.gated_matmul on %main reserve 2 {
    %s = arith.constant 0 : index
    hostir.matmul %a, %b to %c on %main : memref<4x8xf32>, memref<8x2xf32> to memref<4x2xf32>
    // expected-error @+1 {{expected only waits for signals, matmuls, puts, signals, buffers, views, 'arith' and 'scf' in a gated matmul}}
    hostir.copy %c to %c on %main : memref<4x2xf32> to memref<4x2xf32>
  }
}

// -----

// gated_matmul_c1
hostir.program @p(%a: memref<4x8xf32>, %b: memref<8x2xf32>, %c: memref<4x2xf32>, %v: memref<2xf32>, %e: memref<1x4x8xf32>, %f: memref<1x4x2xf32>) {
  %main = hostir.main_stream
  %zero = arith.constant 0 : index
  %other = hostir.worker_stream %zero
  hostir.gated_matmul on %main reserve 2 {
    // expected-error @+1 {{expected the stream of its gated matmul}}
    hostir.matmul %a, %b to %c on %other : memref<4x8xf32>, memref<8x2xf32> to memref<4x2xf32>
  }
}

// -----

// gated_matmul_c2
hostir.program @p(%a: memref<4x8xf32>, %b: memref<8x2xf32>, %c: memref<4x2xf32>, %v: memref<2xf32>, %e: memref<1x4x8xf32>, %f: memref<1x4x2xf32>) {
  %main = hostir.main_stream
  hostir.gated_matmul on %main reserve 2 {
    // expected-error @+1 {{expected buffers of rank 2 in a gated matmul, found 1x4x8}}
    hostir.matmul %e, %b to %f on %main : memref<1x4x8xf32>, memref<8x2xf32> to memref<1x4x2xf32>
  }
}

// -----

// gated_matmul_c2
hostir.program @p(%a: memref<4x8xf32>, %b: memref<8x2xf32>, %c: memref<4x2xf32>, %v: memref<2xf32>, %e: memref<1x4x8xf32>, %f: memref<1x4x2xf32>) {
  %main = hostir.main_stream
  hostir.gated_matmul on %main reserve 2 {
    // expected-error @+1 {{expected no bias in a gated matmul}}
    hostir.matmul %a, %b bias %v to %c on %main : memref<4x8xf32>, memref<8x2xf32>, memref<2xf32> to memref<4x2xf32>
  }
}

// -----

// gated_matmul_c2
hostir.program @p(%a: memref<4x8xf32>, %b: memref<8x2xf32>, %c: memref<4x2xf32>, %v: memref<2xf32>, %e: memref<1x4x8xf32>, %f: memref<1x4x2xf32>) {
  %main = hostir.main_stream
  %t = memref.transpose %a (i, j) -> (j, i) : memref<4x8xf32> to memref<8x4xf32, strided<[1, 8]>>
  hostir.gated_matmul on %main reserve 2 {
    // expected-error @+1 {{expected no 'transpose_a' in a gated matmul}}
    hostir.matmul %t, %b to %c on %main {transpose_a} : memref<8x4xf32, strided<[1, 8]>>, memref<8x2xf32> to memref<4x2xf32>
  }
}

// -----

// gated_matmul_c2
hostir.program @p(%a: memref<4x8xf32>, %b: memref<8x2xf32>, %c: memref<4x2xf32>, %v: memref<2xf32>, %e: memref<1x4x8xf32>, %f: memref<1x4x2xf32>) {
  %main = hostir.main_stream
  %t = memref.transpose %b (i, j) -> (j, i) : memref<8x2xf32> to memref<2x8xf32, strided<[1, 2]>>
  hostir.gated_matmul on %main reserve 2 {
    // expected-note @+1 {{another one}}
    hostir.matmul %a, %b to %c on %main : memref<4x8xf32>, memref<8x2xf32> to memref<4x2xf32>
    // expected-error @+1 {{expected the element types and 'transpose_b' of the other matmuls of its gated matmul}}
    hostir.matmul %a, %t to %c on %main {transpose_b} : memref<4x8xf32>, memref<2x8xf32, strided<[1, 2]>> to memref<4x2xf32>
  }
}

// -----

// gated_matmul_c3
hostir.program @p(%a: memref<4x8xf32>, %b: memref<8x2xf32>, %c: memref<4x2xf32>, %v: memref<2xf32>, %e: memref<1x4x8xf32>, %f: memref<1x4x2xf32>) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected to reserve 0 to 4294967295 SMs, found -1}}
  hostir.gated_matmul on %main reserve -1 {
    hostir.matmul %a, %b to %c on %main : memref<4x8xf32>, memref<8x2xf32> to memref<4x2xf32>
  }
}

// -----

// gated_matmul_c3
hostir.program @p(%a: memref<4x8xf32>, %b: memref<8x2xf32>, %c: memref<4x2xf32>, %v: memref<2xf32>, %e: memref<1x4x8xf32>, %f: memref<1x4x2xf32>) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected to reserve 0 to 4294967295 SMs, found 4294967296}}
  hostir.gated_matmul on %main reserve 4294967296 {
    hostir.matmul %a, %b to %c on %main : memref<4x8xf32>, memref<8x2xf32> to memref<4x2xf32>
  }
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>
// gated_matmul_c4
hostir.program @p(%a: memref<4x8xf32>, %b: memref<8x2xf32>, %c: memref<4x2xf32>) {
  %main = hostir.main_stream
  %c1 = arith.constant 1 : index
  %ch = hostir.channel "c" over #tp ["x"] can [one_sided]
  %place = hostir.alloc on %main : memref<4x2xf32, #hostir.symmetric>
  hostir.gated_matmul on %main reserve 0 {
    hostir.matmul %a, %b to %c on %main : memref<4x8xf32>, memref<8x2xf32> to memref<4x2xf32>
    // expected-error @+1 {{expected a source in an allocated buffer in a gated matmul}}
    hostir.put %c to %place at %c1 via %ch on %main : memref<4x2xf32> to memref<4x2xf32, #hostir.symmetric>
  }
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>
// gated_matmul_c4
hostir.program @p(%a: memref<4x8xf32>, %b: memref<8x2xf32>, %c: memref<2x2xf32>) {
  %main = hostir.main_stream
  %c1 = arith.constant 1 : index
  %ch = hostir.channel "c" over #tp ["x"] can [one_sided]
  %place = hostir.alloc on %main : memref<4x2xf32, #hostir.symmetric>
  %staged = hostir.alloc on %main : memref<4x2xf32>
  hostir.gated_matmul on %main reserve 0 {
    hostir.matmul %a, %b to %staged on %main : memref<4x8xf32>, memref<8x2xf32> to memref<4x2xf32>
    // expected-error @+1 {{expected a source that only matmuls and puts of gated matmuls use, as its contents are not kept}}
    hostir.put %staged to %place at %c1 via %ch on %main : memref<4x2xf32> to memref<4x2xf32, #hostir.symmetric>
  }
  %half = memref.subview %staged[2, 0] [2, 2] [1, 1] : memref<4x2xf32> to memref<2x2xf32, strided<[2, 1], offset: 4>>
  // expected-note @+1 {{another use}}
  hostir.copy %half to %c on %main : memref<2x2xf32, strided<[2, 1], offset: 4>> to memref<2x2xf32>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>
// gated_matmul_c4
hostir.program @p(%a: memref<4x8xf32>, %b: memref<8x2xf32>) {
  %main = hostir.main_stream
  %c1 = arith.constant 1 : index
  %ch = hostir.channel "c" over #tp ["x"] can [one_sided]
  %place = hostir.alloc on %main : memref<4x2xf32, #hostir.symmetric>
  %staged = hostir.alloc on %main : memref<4x2xf32>
  hostir.gated_matmul on %main reserve 0 {
    hostir.matmul %a, %b to %staged on %main : memref<4x8xf32>, memref<8x2xf32> to memref<4x2xf32>
    // expected-error @+1 {{expected a source that only matmuls and puts of gated matmuls use}}
    hostir.put %staged to %place at %c1 via %ch on %main : memref<4x2xf32> to memref<4x2xf32, #hostir.symmetric>
  }
  // expected-note @+1 {{another use}}
  hostir.put %staged to %place at %c1 via %ch on %main : memref<4x2xf32> to memref<4x2xf32, #hostir.symmetric>
}

// -----

// call_c2
hostir.program @p(%x: memref<4x16xf32>) {
  %s = hostir.main_stream
  // expected-error @+1 {{expected at least one output, found none}}
  "hostir.call"(%x, %s) <{kernel = "f", dims = array<i64: -1, -1>, extents = array<i64>,
      operandSegmentSizes = array<i32: 1, 0, 0, 1>}> : (memref<4x16xf32>, !hostir.stream) -> ()
}

// -----

// call_c2
hostir.program @p(%x: memref<4x16xf32>, %y: memref<4x16xf32>) {
  %s = hostir.main_stream
  %c8 = arith.constant 8 : index
  // expected-error @+1 {{expected parallel dimension 0 next in output 1, found 1}}
  hostir.call "f" outs(%x, %y : memref<4x16xf32>, memref<4x16xf32>)
      dims [0, 1, 1, 0] at [%c8, %c8] of [32, 32] on %s
}

// -----

// call_c2
hostir.program @p(%x: memref<4x16xf32>, %y: memref<4x16xf32>) {
  %s = hostir.main_stream
  %c8 = arith.constant 8 : index
  // expected-error @+1 {{expected 1 parallel dimensions of output 1, found 0}}
  hostir.call "f" outs(%x, %y : memref<4x16xf32>, memref<4x16xf32>) dims [0, -1, -1, -1] at [%c8] of [32] on %s
}

// -----

// call_c5
hostir.program @p(%x: memref<4x16xf32>) {
  %s = hostir.main_stream
  // expected-error @+1 {{expected effects "reads" or "writes", found "none"}}
  hostir.call "f" outs(%x : memref<4x16xf32>) dims [-1, -1] at [] of [] on %s {effects = "none"}
}

// -----

hostir.program @p(%x: memref<4x16xf32>) {
  %s = hostir.main_stream
  %zero = arith.constant 0 : index
  // expected-error @+1 {{expected ascending parallel dimensions below 1 in 'hostir.varying', found array<i64: 0, 1>}}
  hostir.call "f" outs(%x : memref<4x16xf32>) dims [0, -1] at [%zero] of [4] on %s {hostir.varying = array<i64: 0, 1>}
}

// -----

// matmul_c1
hostir.program @p(%a: memref<4x8xf8E4M3FN>, %b: memref<8x2xf16>, %c: memref<4x2xf32>) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected factors of f8E4M3FN or f8E5M2, found 'f16'}}
  hostir.matmul %a, %b to %c on %main : memref<4x8xf8E4M3FN>, memref<8x2xf16> to memref<4x2xf32>
}

// -----

// matmul_c1
hostir.program @p(%a: memref<4x8xf8E4M3FN>, %b: memref<8x2xf8E5M2>, %c: memref<4x2xf8E5M2>) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected an output of f32, f16 or bf16, found 'f8E5M2'}}
  hostir.matmul %a, %b to %c on %main : memref<4x8xf8E4M3FN>, memref<8x2xf8E5M2> to memref<4x2xf8E5M2>
}

// -----

// matmul_c4
hostir.program @p(%a: memref<4x8xf8E4M3FN>, %b: memref<8x2xf8E5M2>, %c: memref<4x2xf16>, %v: memref<2xbf16>) {
  %main = hostir.main_stream
  // expected-error @+1 {{expected a bias of the output's type, found 'bf16'}}
  hostir.matmul %a, %b bias %v to %c on %main : memref<4x8xf8E4M3FN>, memref<8x2xf8E5M2>, memref<2xbf16> to memref<4x2xf16>
}
