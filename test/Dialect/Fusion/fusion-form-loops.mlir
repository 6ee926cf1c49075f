// RUN: tandem-opt %s -split-input-file -fusion-form-loops | FileCheck %s
// RUN: tandem-opt %s -split-input-file -fusion-form-loops | tandem-opt -split-input-file | FileCheck %s

#tp = #tandem.mesh<"tp", ["x" = 4]>
!rows = tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
!slices = tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -]>>
!w = tensor<8x8xf32, #fusion.axes<#tp, [-, -]>>

// A gather with what is computed on its slices; the annotation moves to the loop. The constant of a kernel is copied into
// the loop, and what the loop has no part in stays outside.
// CHECK-LABEL: func.func @gather(
// CHECK: %[[E:.+]] = math.exp %arg1
// CHECK-NEXT: %[[Y:.+]] = fusion.stream_loop schedule <push> from annotation (%arg0, %[[E]]) :
// CHECK-NEXT: ^bb0(%[[X:.+]]: tensor<{{.*}}>, %[[W:.+]]: tensor<{{.*}}>):
// CHECK-NEXT: %[[C:.+]] = arith.constant
// CHECK-NEXT: %[[G:.+]] = fusion.reshard %[[X]] : {{.*}} -> {{.*}}[stream(4), -]>>
// CHECK-NEXT: %[[P:.+]] = fusion.matmul %[[G]], %[[W]]
// CHECK-NEXT: %[[S:.+]] = arith.mulf %[[P]], %[[C]]
// CHECK-NEXT: fusion.yield %[[S]] :
// CHECK: return %[[Y]]
func.func @gather(%x: !rows, %w: !w) -> !slices {
  %two = arith.constant dense<2.0> : !slices
  %g = fusion.reshard %x {schedule = #fusion.schedule<push>} : !rows -> !slices
  %e = math.exp %w : !w
  %p = fusion.matmul %g, %e : !slices, !w -> !slices
  %y = arith.mulf %p, %two : !slices
  return %y : !slices
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!x = tensor<16x8xf32, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<8x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
!terms = tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -], partial = ["x"]>>
!rows = tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>

// A reduction whose operand is sliced by receiver, whatever the schedule will be.
// CHECK-LABEL: func.func @scatter(
// CHECK: fusion.stream_loop (%arg0, %arg1)
// CHECK: fusion.matmul
// CHECK-NEXT: fusion.reshard
// CHECK-NEXT: fusion.yield
func.func @scatter(%x: !x, %w: !w) -> !rows {
  %p = fusion.matmul %x, %w : !x, !w -> !terms
  %y = fusion.reshard %p : !terms -> !rows
  return %y : !rows
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!rows = tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
!whole = tensor<16x8xf32, #fusion.axes<#tp, [-, -]>>
!w1 = tensor<8x12xf32, #fusion.axes<#tp, [-, didx("x")]>>
!h = tensor<16x12xf32, #fusion.axes<#tp, [-, didx("x")]>>
!w2 = tensor<12x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
!terms = tensor<16x8xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>

// Without stream digits: what could be sliced with the gather, and with the reduction. One matmul each.
// CHECK-LABEL: func.func @layer(
// CHECK: %[[H:.+]] = fusion.stream_loop (%arg0, %arg1)
// CHECK: fusion.reshard
// CHECK-NEXT: fusion.matmul
// CHECK-NEXT: math.tanh
// CHECK-NEXT: fusion.yield
// CHECK: fusion.stream_loop (%[[H]], %arg2)
// CHECK: fusion.matmul
// CHECK-NEXT: fusion.reshard
// CHECK-NEXT: fusion.yield
func.func @layer(%x: !rows, %w1: !w1, %w2: !w2) -> !rows {
  %g = fusion.reshard %x : !rows -> !whole
  %h = fusion.matmul %g, %w1 : !whole, !w1 -> !h
  %a = math.tanh %h : !h
  %p = fusion.matmul %a, %w2 : !h, !w2 -> !terms
  %y = fusion.reshard %p : !terms -> !rows
  return %y : !rows
}

// A reshard that is annotated keeps the slices that it has: none.
// CHECK-LABEL: func.func @annotated(
// CHECK: fusion.stream_loop schedule <pipeline> from annotation (%arg0) :
// CHECK-NEXT: ^bb0
// CHECK-NEXT: fusion.reshard
// CHECK-NEXT: fusion.yield
// CHECK: fusion.matmul
func.func @annotated(%x: !rows, %w1: !w1) -> !h {
  %g = fusion.reshard %x {schedule = #fusion.schedule<pipeline>} : !rows -> !whole
  %h = fusion.matmul %g, %w1 : !whole, !w1 -> !h
  return %h : !h
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!rows = tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
!columns = tensor<16x8xf32, #fusion.axes<#tp, [-, didx("x")]>>
!slices = tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -]>>

// Gathers that meet share a loop if their slices have the same owners ...
// CHECK-LABEL: func.func @same_owners(
// CHECK-COUNT-1: fusion.stream_loop
// CHECK: return
func.func @same_owners(%a: !rows, %b: !rows) -> !slices {
  %0 = fusion.reshard %a : !rows -> !slices
  %1 = fusion.reshard %b : !rows -> !slices
  %2 = arith.addf %0, %1 : !slices
  return %2 : !slices
}

// ... but not if one has owners and the other none, and not if annotations differ.
// CHECK-LABEL: func.func @other_owners(
// CHECK-COUNT-2: fusion.stream_loop
// CHECK: return
func.func @other_owners(%a: !rows, %b: !columns) -> !slices {
  %0 = fusion.reshard %a : !rows -> !slices
  %1 = fusion.reshard %b : !columns -> !slices
  %2 = arith.addf %0, %1 : !slices
  return %2 : !slices
}
// CHECK-LABEL: func.func @other_annotations(
// CHECK: %[[B:.+]] = fusion.stream_loop schedule <pipeline> from annotation (%arg1)
// CHECK: fusion.stream_loop schedule <exchange> from annotation (%arg0, %[[B]])
// CHECK: arith.addf
// CHECK: return
func.func @other_annotations(%a: !rows, %b: !rows) -> !slices {
  %0 = fusion.reshard %a {schedule = #fusion.schedule<exchange>} : !rows -> !slices
  %1 = fusion.reshard %b {schedule = #fusion.schedule<pipeline>} : !rows -> !slices
  %2 = arith.addf %0, %1 : !slices
  return %2 : !slices
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!rows = tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
!slices = tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -]>>
!truths = tensor<16x8xi1, #fusion.axes<#tp, [stream(4), -]>>
!whole = tensor<16x8xf32, #fusion.axes<#tp, [-, -]>>

// A truth value belongs to the loop of its users.
// CHECK-LABEL: func.func @truths(
// CHECK: fusion.stream_loop {{.*}} -> (tensor<16x8xf32, {{.*}}>>, tensor<16x8xf32, {{.*}}>>) {
// CHECK: %[[T:.*]] = arith.cmpf
// CHECK: arith.select %[[T]]
// CHECK: arith.select %[[T]]
// CHECK: fusion.yield
func.func @truths(%x: !rows, %z: !slices) -> (!slices, !slices) {
  %g = fusion.reshard %x : !rows -> !slices
  %t = arith.cmpf olt, %g, %z : !slices
  %a = arith.select %t, %g, %z : !truths, !slices
  %b = arith.select %t, %z, %g : !truths, !slices
  return %a, %b : !slices, !slices
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2, "y" = 2]>
!rows = tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), didx("y")]>>
!slices = tensor<16x8xf32, #fusion.axes<#tp, [stream("x"), didx("y")]>>
!w = tensor<8x4xf32, #fusion.axes<#tp, [didx("y"), -]>>
!terms = tensor<16x4xf32, #fusion.axes<#tp, [stream("x"), -], partial = ["y"]>>
!y = tensor<16x4xf32, #fusion.axes<#tp, [stream("x"), -]>>

// The annotated schedule gathers, but cannot all-reduce the slices: two loops. pipeline can do both: one loop.
// CHECK-LABEL: func.func @gather_only(
// CHECK: %[[P:.+]] = fusion.stream_loop schedule <push> from annotation (%arg0, %arg1)
// CHECK: fusion.reshard
// CHECK-NEXT: fusion.matmul
// CHECK-NEXT: fusion.yield
// CHECK: fusion.stream_loop (%[[P]])
// CHECK: fusion.reshard
// CHECK-NEXT: math.exp
func.func @gather_only(%x: !rows, %w: !w) -> !y {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<push>} : !rows -> !slices
  %1 = fusion.matmul %0, %w : !slices, !w -> !terms
  %2 = fusion.reshard %1 : !terms -> !y
  %3 = math.exp %2 : !y
  return %3 : !y
}
// CHECK-LABEL: func.func @both(
// CHECK: fusion.stream_loop schedule <pipeline> from annotation (%arg0, %arg1)
// CHECK-NOT: fusion.stream_loop
// CHECK: math.exp
func.func @both(%x: !rows, %w: !w) -> !y {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<pipeline>} : !rows -> !slices
  %1 = fusion.matmul %0, %w : !slices, !w -> !terms
  %2 = fusion.reshard %1 : !terms -> !y
  %3 = math.exp %2 : !y
  return %3 : !y
}
