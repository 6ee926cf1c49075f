// RUN: tandem-opt --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --canonicalize --split-input-file %s | FileCheck %s

// A permute, a reshape, a slice and a broadcast are views: no copy, no buffer.

// CHECK-LABEL: hostir.program @views
// CHECK-SAME: (%[[X:.+]]: memref<4x6xf32> {{.*}}, %[[W:.+]]: memref<12x5xf32>
// CHECK-NOT: hostir.copy
// CHECK-DAG: %[[T:.+]] = memref.transpose %[[X]]
// CHECK-DAG: %[[S:.+]] = memref.subview %[[W]][6, 1] [6, 2] [1, 2]
// CHECK: hostir.matmul %[[T]]
#tp = #tandem.mesh<"tp", ["x" = 1]>
#r = #fusion.axes<#tp, [-, -]>
func.func @views(%x: tensor<4x6xf32, #r>, %w: tensor<12x5xf32, #r>) -> tensor<6x6xf32, #r> {
  %0 = fusion.permute %x [1, 0] : tensor<4x6xf32, #r> -> tensor<6x4xf32, #r>
  %1 = fusion.slice %w offsets [6, 1] steps [1, 2] : tensor<12x5xf32, #r> -> tensor<6x2xf32, #r>
  %2 = fusion.concat %1, %1 dim 1 : (tensor<6x2xf32, #r>, tensor<6x2xf32, #r>) -> tensor<6x4xf32, #r>
  %3 = fusion.matmul %0, %2 {transpose_b} : tensor<6x4xf32, #r>, tensor<6x4xf32, #r> -> tensor<6x6xf32, #r>
  return %3 : tensor<6x6xf32, #r>
}

// -----

// A view that is a result is copied into the result's buffer; a broadcast reads with stride 0.

// CHECK-LABEL: hostir.program @result
// CHECK-SAME: (%[[X:.+]]: memref<4xf32> {{.*}}, %[[Y:.+]]: memref<3x4xf32>
// CHECK: %[[B:.+]] = memref.reinterpret_cast %[[X]] to offset: [0], sizes: [3, 4], strides: [0, 1]
// CHECK: hostir.copy %[[B]] to %[[Y]]
#tp = #tandem.mesh<"tp", ["x" = 1]>
func.func @result(%x: tensor<4xf32, #fusion.axes<#tp, [-]>>) -> tensor<3x4xf32, #fusion.axes<#tp, [-, -]>> {
  %0 = fusion.broadcast %x dims [1] : tensor<4xf32, #fusion.axes<#tp, [-]>> -> tensor<3x4xf32, #fusion.axes<#tp, [-, -]>>
  return %0 : tensor<3x4xf32, #fusion.axes<#tp, [-, -]>>
}

// -----

// A view inside of an exchange looks at the gathered tensor as a whole, so the own slice is copied into it.

// CHECK-LABEL: hostir.program @gathered_view
// CHECK: memref.transpose
// CHECK: hostir.copy
// CHECK: hostir.matmul
// CHECK: hostir.recv
#tp = #tandem.mesh<"tp", ["x" = 4]>
#w = #fusion.axes<#tp, [-, -]>
func.func @gathered_view(%x: tensor<4x8x2xf32, #fusion.axes<#tp, [didx("x"), -, -]>>, %y: tensor<8x3xf32, #w>)
    -> tensor<4x2x3xf32, #fusion.axes<#tp, [stream, -, -]>> {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<exchange>}
      : tensor<4x8x2xf32, #fusion.axes<#tp, [didx("x"), -, -]>> -> tensor<4x8x2xf32, #fusion.axes<#tp, [stream, -, -]>>
  %1 = fusion.permute %0 [0, 2, 1]
      : tensor<4x8x2xf32, #fusion.axes<#tp, [stream, -, -]>> -> tensor<4x2x8xf32, #fusion.axes<#tp, [stream, -, -]>>
  %2 = fusion.matmul %1, %y
      : tensor<4x2x8xf32, #fusion.axes<#tp, [stream, -, -]>>, tensor<8x3xf32, #w> -> tensor<4x2x3xf32, #fusion.axes<#tp, [stream, -, -]>>
  return %2 : tensor<4x2x3xf32, #fusion.axes<#tp, [stream, -, -]>>
}
