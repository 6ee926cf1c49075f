// RUN: tandem-opt --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --canonicalize --cse --split-input-file %s | FileCheck %s

// Per slice: a collective, then the matmul, on the iteration's stream.

// CHECK-LABEL: hostir.program @gather_matmul
// CHECK-SAME: (%[[X:.+]]: memref<8x1x4x32xf32> {{.*}}, %[[W:.+]]: memref<32x16xf32> {{.*}}, %[[Y:.+]]: memref<8x4x4x16xf32>
// CHECK-DAG: %[[MAIN:.+]] = hostir.main_stream
// CHECK-DAG: %[[CH:.+]] = hostir.channel "tp.x.collectives" over #{{.+}} ["x"] can [collectives]
// CHECK-DAG: %[[G:.+]] = hostir.alloc on %[[MAIN]] : memref<8x4x4x32xf32>
// CHECK: scf.for %[[I:.+]] = %c0 to %c4 step %c1
// CHECK: hostir.sync %{{.+}} after %[[MAIN]]
// CHECK: scf.for %[[I:.+]] = %c0 to %c8 step %c1
// CHECK: %[[S:.+]] = hostir.worker_stream %[[I]]
// CHECK: %[[IN:.+]] = memref.subview %[[X]][%[[I]], 0, 0, 0]
// CHECK: %[[OUT:.+]] = memref.subview %[[G]][%[[I]], 0, 0, 0]
// CHECK: hostir.collective all_gather %[[IN]] to %[[OUT]] via %[[CH]] on %[[S]] : memref<4x32xf32, {{.*}}> to memref<4x4x32xf32
// CHECK: hostir.matmul %{{.+}}, %[[W]] to %{{.+}} on %[[S]]
// CHECK: scf.for %[[I:.+]] = %c0 to %c4 step %c1
// CHECK: hostir.sync %[[MAIN]] after
#tp = #tandem.mesh<"tp", ["x" = 4]>
func.func @gather_matmul(%x: tensor<8x4x4x32xf32, #fusion.axes<#tp, [-, didx("x"), -, -]>>,
                         %w: tensor<32x16xf32, #fusion.axes<#tp, [-, -]>>)
    -> tensor<8x4x4x16xf32, #fusion.axes<#tp, [stream, -, -, -]>> {
  %0 = fusion.reshard %x
      : tensor<8x4x4x32xf32, #fusion.axes<#tp, [-, didx("x"), -, -]>> -> tensor<8x4x4x32xf32, #fusion.axes<#tp, [stream, -, -, -]>>
  %1 = fusion.matmul %0, %w
      : tensor<8x4x4x32xf32, #fusion.axes<#tp, [stream, -, -, -]>>, tensor<32x16xf32, #fusion.axes<#tp, [-, -]>>
     -> tensor<8x4x4x16xf32, #fusion.axes<#tp, [stream, -, -, -]>>
  return %1 : tensor<8x4x4x16xf32, #fusion.axes<#tp, [stream, -, -, -]>>
}

// -----

// Not streamed: the plain sequence, on the main stream.

// CHECK-LABEL: hostir.program @sequence
// CHECK: %[[MAIN:.+]] = hostir.main_stream
// CHECK-NOT: scf.for
// CHECK: hostir.collective all_gather {{.*}} on %[[MAIN]]
// CHECK-NEXT: hostir.matmul {{.*}} on %[[MAIN]]
#tp = #tandem.mesh<"tp", ["x" = 4]>
func.func @sequence(%x: tensor<32x8xf32, #fusion.axes<#tp, [didx("x"), -]>>,
                    %w: tensor<8x16xf32, #fusion.axes<#tp, [-, -]>>)
    -> tensor<32x16xf32, #fusion.axes<#tp, [-, -]>> {
  %0 = fusion.reshard %x : tensor<32x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<32x8xf32, #fusion.axes<#tp, [-, -]>>
  %1 = fusion.matmul %0, %w
      : tensor<32x8xf32, #fusion.axes<#tp, [-, -]>>, tensor<8x16xf32, #fusion.axes<#tp, [-, -]>>
     -> tensor<32x16xf32, #fusion.axes<#tp, [-, -]>>
  return %1 : tensor<32x16xf32, #fusion.axes<#tp, [-, -]>>
}

// -----

// A chunk of every device's rows per iteration: the slice is not contiguous, its outer digit is a batch of the matmul.

// CHECK-LABEL: hostir.program @chunk_of_each
// CHECK: scf.for %[[I:.+]] = %c0 to %c2 step %c1
// CHECK: %[[E:.+]] = memref.expand_shape %{{.+}} {{\[\[}}0, 1, 2], [3]] output_shape [4, 2, 4, 8]
// CHECK: %[[OUT:.+]] = memref.subview %[[E]][0, %[[I]], 0, 0] [4, 1, 4, 8]
// CHECK: hostir.collective all_gather %{{.+}} to %[[OUT]] {{.*}} to memref<4x4x8xf32, strided<[64, 8, 1], offset: ?>>
// CHECK: hostir.matmul %[[OUT]]
#tp = #tandem.mesh<"tp", ["x" = 4]>
func.func @chunk_of_each(%x: tensor<32x8xf32, #fusion.axes<#tp, [didx("x"), -]>>,
                         %w: tensor<8x16xf32, #fusion.axes<#tp, [-, -]>>)
    -> tensor<32x16xf32, #fusion.axes<#tp, [serial(4) * stream(2), -]>> {
  %0 = fusion.reshard %x
      : tensor<32x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<32x8xf32, #fusion.axes<#tp, [serial(4) * stream(2), -]>>
  %1 = fusion.matmul %0, %w
      : tensor<32x8xf32, #fusion.axes<#tp, [serial(4) * stream(2), -]>>, tensor<8x16xf32, #fusion.axes<#tp, [-, -]>>
     -> tensor<32x16xf32, #fusion.axes<#tp, [serial(4) * stream(2), -]>>
  return %1 : tensor<32x16xf32, #fusion.axes<#tp, [serial(4) * stream(2), -]>>
}

// -----

// Slices with one owner each, by collectives: the owner is the root of a broadcast.

// CHECK-LABEL: hostir.program @owner
// CHECK: scf.for %[[I:.+]] = %c0 to %c4 step %c1
// CHECK: hostir.collective broadcast %{{.+}} to %{{.+}} root %[[I]]
#tp = #tandem.mesh<"tp", ["x" = 4]>
func.func @owner(%x: tensor<4x8xf32, #fusion.axes<#tp, [didx("x"), -]>>)
    -> tensor<4x8xf32, #fusion.axes<#tp, [stream, -]>> {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<pipeline>}
      : tensor<4x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<4x8xf32, #fusion.axes<#tp, [stream, -]>>
  return %0 : tensor<4x8xf32, #fusion.axes<#tp, [stream, -]>>
}

// -----

// The other rows of the table.

// CHECK-LABEL: hostir.program @all_reduce
// CHECK: scf.for
// CHECK: hostir.reduce sum
// CHECK: hostir.collective all_reduce {{.*}} {reduction = #tandem{{.*}}sum
#tp = #tandem.mesh<"tp", ["x" = 4]>
func.func @all_reduce(%x: tensor<6x4x8xf32, #fusion.axes<#tp, [-, didx("x"), -]>>)
    -> tensor<6x8xf32, #fusion.axes<#tp, [stream, -]>> {
  %0 = fusion.reduce sum %x dims [1]
      : tensor<6x4x8xf32, #fusion.axes<#tp, [-, didx("x"), -]>> -> tensor<6x8xf32, #fusion.axes<#tp, [stream, -], partial = ["x"]>>
  %1 = fusion.reshard %0
      : tensor<6x8xf32, #fusion.axes<#tp, [stream, -], partial = ["x"]>> -> tensor<6x8xf32, #fusion.axes<#tp, [stream, -]>>
  return %1 : tensor<6x8xf32, #fusion.axes<#tp, [stream, -]>>
}

// -----

// CHECK-LABEL: hostir.program @reduce_scatter
// CHECK: hostir.matmul
// CHECK: hostir.collective reduce_scatter %{{.+}} to %{{.+}} : memref<4x2x16xf32{{.*}}> to memref<2x16xf32
#tp = #tandem.mesh<"tp", ["x" = 4]>
func.func @reduce_scatter(%x: tensor<8x32xf32, #fusion.axes<#tp, [-, didx("x")]>>,
                          %w: tensor<32x16xf32, #fusion.axes<#tp, [didx("x"), -]>>)
    -> tensor<8x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {
  %0 = fusion.matmul %x, %w
      : tensor<8x32xf32, #fusion.axes<#tp, [-, didx("x")]>>, tensor<32x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
     -> tensor<8x16xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>
  %1 = fusion.reshard %0
      : tensor<8x16xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>> -> tensor<8x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
  return %1 : tensor<8x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
}

// -----

// CHECK-LABEL: hostir.program @all_to_all
// CHECK-SAME: (%[[X:.+]]: memref<2x16xf32> {{.*}}, %[[Y:.+]]: memref<8x4xf32>
// CHECK: memref.expand_shape %[[X]] {{\[\[}}0], [1, 2]] output_shape [2, 4, 4]
// CHECK: memref.transpose
// CHECK: memref.expand_shape %[[Y]] {{\[\[}}0, 1], [2]] output_shape [4, 2, 4]
// CHECK: hostir.collective all_to_all %{{.+}} to %{{.+}} : memref<4x2x4xf32, {{.*}}> to memref<4x2x4xf32>
#tp = #tandem.mesh<"tp", ["x" = 4]>
func.func @all_to_all(%x: tensor<8x16xf32, #fusion.axes<#tp, [didx("x"), -]>>)
    -> tensor<8x16xf32, #fusion.axes<#tp, [-, didx("x")]>> {
  %0 = fusion.reshard %x
      : tensor<8x16xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<8x16xf32, #fusion.axes<#tp, [-, didx("x")]>>
  return %0 : tensor<8x16xf32, #fusion.axes<#tp, [-, didx("x")]>>
}

// -----

// CHECK-LABEL: hostir.program @local_slice
// CHECK: %[[ME:.+]] = hostir.device_index
// CHECK: %[[ROW:.+]] = arith.muli %[[ME]], %c2
// CHECK: %[[MINE:.+]] = memref.subview %{{.+}}[%[[ROW]], 0] [2, 16]
// CHECK: hostir.copy %[[MINE]]
#tp = #tandem.mesh<"tp", ["x" = 4]>
func.func @local_slice(%x: tensor<8x16xf32, #fusion.axes<#tp, [-, -]>>)
    -> tensor<8x16xf32, #fusion.axes<#tp, [didx("x"), -]>> {
  %0 = fusion.reshard %x
      : tensor<8x16xf32, #fusion.axes<#tp, [-, -]>> -> tensor<8x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
  return %0 : tensor<8x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
}
