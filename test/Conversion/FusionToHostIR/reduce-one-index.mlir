// RUN: tandem-opt --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --canonicalize --cse --split-input-file %s | FileCheck %s

// A device has one index of a reduced dimension. Then the result is a view of the operand.

// CHECK-LABEL: hostir.program @product
// CHECK: hostir.matmul
// CHECK-NOT: hostir.reduce
// CHECK: hostir.collective all_reduce
#tp = #tandem.mesh<"tp", ["x" = 2]>
!x = tensor<2x6x4xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
!w = tensor<2x4x8xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
!p = tensor<2x6x8xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
!t = tensor<6x8xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!y = tensor<6x8xf32, #fusion.axes<#tp, [-, -]>>
func.func @product(%x: !x, %w: !w) -> !y {
  %0 = fusion.matmul %x, %w : !x, !w -> !p
  %1 = fusion.reduce sum %0 dims [0] : !p -> !t
  %2 = fusion.reshard %1 : !t -> !y
  return %2 : !y
}

// -----

// Dimensions are kept.

// CHECK-LABEL: hostir.program @kept
// CHECK: hostir.matmul
// CHECK-NOT: hostir.reduce
// CHECK: hostir.collective all_reduce
#tp = #tandem.mesh<"tp", ["x" = 2]>
!x = tensor<2x6x4xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
!w = tensor<2x4x8xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
!p = tensor<2x6x8xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
!t = tensor<1x6x8xf32, #fusion.axes<#tp, [-, -, -], partial = ["x"]>>
!y = tensor<1x6x8xf32, #fusion.axes<#tp, [-, -, -]>>
func.func @kept(%x: !x, %w: !w) -> !y {
  %0 = fusion.matmul %x, %w : !x, !w -> !p
  %1 = fusion.reduce sum %0 dims [0] {keep_dims} : !p -> !t
  %2 = fusion.reshard %1 : !t -> !y
  return %2 : !y
}

// -----

// A schedule may add to partial sums in place, so what others read is copied: an argument,

// CHECK-LABEL: hostir.program @argument
// CHECK: hostir.reduce sum
// CHECK: hostir.collective all_reduce
#tp = #tandem.mesh<"tp", ["x" = 2]>
!p = tensor<2x6x8xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
!t = tensor<6x8xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!y = tensor<6x8xf32, #fusion.axes<#tp, [-, -]>>
func.func @argument(%p: !p) -> !y {
  %0 = fusion.reduce sum %p dims [0] : !p -> !t
  %1 = fusion.reshard %0 : !t -> !y
  return %1 : !y
}

// -----

// or a value that is used twice.

// CHECK-LABEL: hostir.program @twice
// CHECK: hostir.matmul
// CHECK: hostir.reduce sum
// CHECK: hostir.collective all_reduce
#tp = #tandem.mesh<"tp", ["x" = 2]>
!x = tensor<2x6x4xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
!w = tensor<2x4x8xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
!p = tensor<2x6x8xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
!t = tensor<6x8xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!y = tensor<6x8xf32, #fusion.axes<#tp, [-, -]>>
func.func @twice(%x: !x, %w: !w) -> (!y, !p) {
  %0 = fusion.matmul %x, %w : !x, !w -> !p
  %1 = fusion.reduce sum %0 dims [0] : !p -> !t
  %2 = fusion.reshard %1 : !t -> !y
  %3 = math.exp %0 : !p
  return %2, %3 : !y, !p
}

// -----

// Through the view, own slices are computed where the last sum reads them.

// CHECK-LABEL: hostir.program @scattered
// CHECK: %[[G:.+]] = hostir.alloc on %{{.+}} : memref<2x3x8xf32>
// CHECK: hostir.send
// CHECK: %[[PLACE:.+]] = memref.expand_shape
// CHECK: hostir.launch @scattered.mulf ins({{.*}}) outs(%{{.+}} : memref<1x3x8xf32
// CHECK-NOT: hostir.copy
// CHECK: hostir.reduce sum %[[G]]
#tp = #tandem.mesh<"tp", ["x" = 2]>
!x = tensor<2x6x4xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
!w = tensor<2x4x8xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
!p = tensor<2x6x8xf32, #fusion.axes<#tp, [didx("x"), stream("x"), -]>>
!s = tensor<2xf32, #fusion.axes<#tp, [didx("x")]>>
!t = tensor<6x8xf32, #fusion.axes<#tp, [stream("x"), -], partial = ["x"]>>
!y = tensor<6x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
func.func @scattered(%x: !x, %w: !w, %s: !s) -> !y {
  %0 = fusion.matmul %x, %w : !x, !w -> !p
  %1 = fusion.broadcast %s dims [0] : !s -> !p
  %2 = arith.mulf %0, %1 : !p
  %3 = fusion.reduce sum %2 dims [0] : !p -> !t
  %4 = fusion.reshard %3 {schedule = #fusion.schedule<exchange>} : !t -> !y
  return %4 : !y
}

// -----

// What is computed before the loop is copied.

// CHECK-LABEL: hostir.program @before
// CHECK: hostir.launch @before.mulf
// CHECK: hostir.send
// CHECK: hostir.copy
// CHECK: hostir.reduce sum
#tp = #tandem.mesh<"tp", ["x" = 2]>
!p = tensor<2x6x8xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
!t = tensor<6x8xf32, #fusion.axes<#tp, [stream("x"), -], partial = ["x"]>>
!y = tensor<6x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
func.func @before(%x: !p) -> !y {
  %0 = arith.mulf %x, %x : !p
  %1 = fusion.reduce sum %0 dims [0] : !p -> !t
  %2 = fusion.reshard %1 {schedule = #fusion.schedule<exchange>} : !t -> !y
  return %2 : !y
}
