// RUN: split-file %s %t
// RUN: tandem-compile %t/rows.mlir --check=false --dump | FileCheck %s --check-prefix=ROWS
// RUN: not tandem-compile %t/across.mlir -o %t/out.tsp 2>&1 | FileCheck %s --check-prefix=ACROSS
// RUN: not ls %t/out.tsp

// Results in parts: each part is an argument of the stream program, and each command writes one of them.

// ROWS: argument arg0 input "x" f32[6]
// ROWS: argument arg1 result "first" f32[2,3]
// ROWS: argument arg2 result "res1" f32[6]
// ROWS: argument arg3 result "last" f32[4]
// ROWS: s0 copy arg1:f32[1,6] <- arg0:f32[1,6]
// ROWS-NEXT: s0 copy arg2+12:f32[3] <- arg0:f32[3]
// ROWS-NEXT: s0 copy arg2:f32[3] <- arg0+12:f32[3]
// ROWS-NEXT: s0 copy arg3:f32[4] <- arg0:f32[4]
//--- rows.mlir
hostir.program @p(%x: memref<6xf32> {hostir.name = "x"},
                  %rows: memref<2x6xf32> {hostir.result, hostir.parts = [
                    {hostir.name = "first", hostir.type = tensor<2x3xf32>}, {hostir.type = tensor<6xf32>}]},
                  %last: memref<4xf32> {hostir.result, hostir.name = "last"}) {
  %main = hostir.main_stream
  %row = memref.expand_shape %x [[0, 1]] output_shape [1, 6] : memref<6xf32> into memref<1x6xf32>
  %0 = memref.subview %rows[0, 0] [1, 6] [1, 1] : memref<2x6xf32> to memref<1x6xf32, strided<[6, 1]>>
  hostir.copy %row to %0 on %main : memref<1x6xf32> to memref<1x6xf32, strided<[6, 1]>>
  %a = memref.subview %x[0] [3] [1] : memref<6xf32> to memref<3xf32, strided<[1]>>
  %b = memref.subview %x[3] [3] [1] : memref<6xf32> to memref<3xf32, strided<[1], offset: 3>>
  %1 = memref.subview %rows[1, 3] [1, 3] [1, 1] : memref<2x6xf32> to memref<3xf32, strided<[1], offset: 9>>
  %2 = memref.subview %rows[1, 0] [1, 3] [1, 1] : memref<2x6xf32> to memref<3xf32, strided<[1], offset: 6>>
  hostir.copy %a to %1 on %main : memref<3xf32, strided<[1]>> to memref<3xf32, strided<[1], offset: 9>>
  hostir.copy %b to %2 on %main : memref<3xf32, strided<[1], offset: 3>> to memref<3xf32, strided<[1], offset: 6>>
  %c = memref.subview %x[0] [4] [1] : memref<6xf32> to memref<4xf32, strided<[1]>>
  hostir.copy %c to %last on %main : memref<4xf32, strided<[1]>> to memref<4xf32>
}

// ACROSS: across.mlir:5:3: error: 'hostir.copy' op rank 0: view out of bounds: f32[12] at byte 0 of a buffer of 48 bytes in parts of 24
//--- across.mlir
hostir.program @p(%x: memref<12xf32>, %y: memref<12xf32> {hostir.result, hostir.parts = [
                    {hostir.type = tensor<6xf32>}, {hostir.type = tensor<6xf32>}]}) {
  %main = hostir.main_stream
  // The whole result is two of the embedder's buffers.
  hostir.copy %x to %y on %main : memref<12xf32> to memref<12xf32>
}
