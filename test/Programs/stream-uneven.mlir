// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR

// Slices that do not line up with what they are made of: with the devices' pieces, with the operands of a concatenation,
// with the rows that a transposition tears apart.

#tp = #tandem.mesh<"tp", ["x" = ?]>
#r = #fusion.axes<#tp, [-, -]>
#rows = #fusion.axes<#tp, [didx("x"), -]>

#five = #fusion.axes<#tp, [stream(5), -]>
// 24 rows, 6 on each of four devices, in slices of 5, 5, 5, 5, 4: slice 1 has row 5 of the first device and rows 6 to 9 of the
// second.
//
// HOSTIR-LABEL: hostir.program @rows_across_devices(
// HOSTIR: %[[ME:.+]] = hostir.device_index #tp, "x"
// HOSTIR: scf.for %[[I:.+]] = %c0 to %c5 step %c1
// HOSTIR: %[[LAST:.+]] = arith.cmpi eq, %[[I]], %c4
// HOSTIR: scf.if %[[LAST]]
// HOSTIR: hostir.recv %{{.+}} from %c3 : memref<4x16xf32
// HOSTIR: hostir.matmul {{.*}} to memref<4x12xf32
// HOSTIR: else
// HOSTIR: %[[FIRST:.+]] = arith.cmpi eq, %[[I]], %c0
// HOSTIR: %[[SECOND:.+]] = arith.cmpi eq, %[[I]], %c1
// HOSTIR: hostir.group
// HOSTIR: scf.if %[[FIRST]]
// HOSTIR: hostir.recv %{{.+}} from %c0 : memref<5x16xf32
// HOSTIR: scf.if %[[SECOND]]
// HOSTIR: hostir.recv %{{.+}} from %c0 : memref<1x16xf32
// HOSTIR: scf.if %[[SECOND]]
// HOSTIR: hostir.recv %{{.+}} from %c1 : memref<4x16xf32
// HOSTIR: hostir.matmul {{.*}} to memref<5x12xf32
func.func @rows_across_devices(
    %x: tensor<24x16xf32, #rows> {fusion.name = "x"},
    %w: tensor<16x12xf32, #r> {fusion.name = "w"})
    -> (tensor<24x12xf32, #five> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %w : tensor<24x16xf32, #rows>, tensor<16x12xf32, #r> -> tensor<24x12xf32, #five>
  return %y : tensor<24x12xf32, #five>
}

#blocks = #fusion.axes<#tp, [serial(3) * didx("x"), -]>
#halves = #fusion.axes<#tp, [serial(2) * stream(5), -]>
// 72 rows in three rounds of blocks; of each half slices of 8 rows and a last one of 4.
func.func @blocks_across_slices(
    %x: tensor<72x16xf32, #blocks> {fusion.name = "x"},
    %w: tensor<16x12xf32, #r> {fusion.name = "w"})
    -> (tensor<72x12xf32, #halves> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %w : tensor<72x16xf32, #blocks>, tensor<16x12xf32, #r> -> tensor<72x12xf32, #halves>
  return %y : tensor<72x12xf32, #halves>
}

#split = #fusion.axes<#tp, [stream(2) * serial(2) * stream(3), -]>
// 7 + 24 + 5 rows in slices of 8, 8, 8, 8, 4 (the first has one row of the second operand), and in slices of 3 + 3.
//
// HOSTIR-LABEL: hostir.program @concat_of_uneven(
// HOSTIR: scf.for %[[I:.+]] = %c0 to %c5 step %c1
// HOSTIR: %[[LAST:.+]] = arith.cmpi eq, %[[I]], %c4
// HOSTIR: scf.if %[[LAST]]
// HOSTIR: hostir.copy {{.*}} to memref<4x16xf32
// HOSTIR: else
// HOSTIR: arith.cmpi eq, %[[I]], %c0
// HOSTIR: hostir.copy {{.*}} to memref<7x16xf32
// HOSTIR: hostir.copy {{.*}} to memref<8x16xf32
// HOSTIR: hostir.copy {{.*}} to memref<1x16xf32
// HOSTIR: hostir.matmul {{.*}} to memref<8x12xf32
func.func @concat_of_uneven(
    %a: tensor<7x16xf32, #r> {fusion.name = "a"},
    %b: tensor<24x16xf32, #rows> {fusion.name = "b"},
    %c: tensor<5x16xf32, #r> {fusion.name = "c"},
    %w: tensor<16x12xf32, #r> {fusion.name = "w"})
    -> (tensor<36x12xf32, #five> {fusion.name = "y"}, tensor<36x16xf32, #split> {fusion.name = "z"}) {
  %all = fusion.reshard %b : tensor<24x16xf32, #rows> -> tensor<24x16xf32, #r>
  %0 = fusion.concat %a, %all, %c dim 0
      : (tensor<7x16xf32, #r>, tensor<24x16xf32, #r>, tensor<5x16xf32, #r>) -> tensor<36x16xf32, #five>
  %y = fusion.matmul %0, %w : tensor<36x16xf32, #five>, tensor<16x12xf32, #r> -> tensor<36x12xf32, #five>
  %1 = fusion.concat %a, %all, %c dim 0
      : (tensor<7x16xf32, #r>, tensor<24x16xf32, #r>, tensor<5x16xf32, #r>) -> tensor<36x16xf32, #split>
  %z = arith.negf %1 : tensor<36x16xf32, #split>
  return %y, %z : tensor<36x12xf32, #five>, tensor<36x16xf32, #split>
}

#cubes = #fusion.axes<#tp, [didx("x"), -, -]>
#slices = #fusion.axes<#tp, [stream(8), -, -]>
#sliced = #fusion.axes<#tp, [stream(8), -]>
// What a transposition tears apart is copied together for the reshape, slice by slice in the loop that gathers.
//
// HOSTIR-LABEL: hostir.program @reshape_of_transposed(
// HOSTIR: hostir.recv
// HOSTIR-NEXT: hostir.send
// HOSTIR: hostir.copy {{.*}} : memref<3x16x4xf32{{.*}} to memref<3x16x4xf32
// HOSTIR: hostir.matmul {{.*}} to memref<3x12xf32
func.func @reshape_of_transposed(
    %x: tensor<24x4x16xf32, #cubes> {fusion.name = "x"},
    %w: tensor<64x12xf32, #r> {fusion.name = "w"})
    -> (tensor<24x12xf32, #sliced> {fusion.name = "y"}) {
  %0 = fusion.reshard %x : tensor<24x4x16xf32, #cubes> -> tensor<24x4x16xf32, #slices>
  %1 = fusion.permute %0 [0, 2, 1] : tensor<24x4x16xf32, #slices> -> tensor<24x16x4xf32, #slices>
  %2 = fusion.reshape %1 : tensor<24x16x4xf32, #slices> -> tensor<24x64xf32, #sliced>
  %y = fusion.matmul %2, %w : tensor<24x64xf32, #sliced>, tensor<64x12xf32, #r> -> tensor<24x12xf32, #sliced>
  return %y : tensor<24x12xf32, #sliced>
}
