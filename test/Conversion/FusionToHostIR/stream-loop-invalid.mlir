// RUN: tandem-opt %s -split-input-file -verify-diagnostics -convert-fusion-to-hostir

// What conversion asks of loops that no pass has made.

#tp = #tandem.mesh<"tp", ["x" = 4]>
!rows = tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
!whole = tensor<16x8xf32, #fusion.axes<#tp, [-, -]>>
func.func @no_loop(%x: !rows) -> !whole {
  // expected-error @+1 {{expected a reshard that communicates in a stream loop; run fusion-form-loops}}
  %0 = fusion.reshard %x : !rows -> !whole
  return %0 : !whole
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!rows = tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
!whole = tensor<16x8xf32, #fusion.axes<#tp, [-, -]>>
func.func @no_schedule(%x: !rows) -> !whole {
  // expected-error @+1 {{expected a schedule; run fusion-select-schedule}}
  %0 = fusion.stream_loop (%x) : (!rows) -> !whole {
  ^bb0(%a: !rows):
    %1 = fusion.reshard %a : !rows -> !whole
    fusion.yield %1 : !whole
  }
  return %0 : !whole
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!whole = tensor<16x8xf32, #fusion.axes<#tp, [-, -]>>
!slices = tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -]>>
!columns = tensor<16x8xf32, #fusion.axes<#tp, [-, stream(2)]>>
func.func @two_loops(%x: !whole) -> (!whole, !whole) {
  // expected-error @+1 {{expected the ops of a stream loop to be sliced alike, found 'math.exp' and 'math.tanh' that are not}}
  %0:2 = fusion.stream_loop schedule <pipeline> from fallback (%x, %x) : (!whole, !whole) -> (!whole, !whole) {
  ^bb0(%a: !slices, %b: !columns):
    %1 = math.exp %a : !slices
    %2 = math.tanh %b : !columns
    fusion.yield %1, %2 : !slices, !columns
  }
  return %0#0, %0#1 : !whole, !whole
}

// -----

// A choice that the loop cannot keep is an error, not a crash: the slices are read by another op, too.
#tp = #tandem.mesh<"tp", ["x" = 4]>
!x = tensor<16x8xf32, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<8x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
!terms = tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -], partial = ["x"]>>
!rows = tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
func.func @read_twice(%x: !x, %w: !w) -> (!terms, !rows) {
  // expected-error @+1 {{schedule push: expected what is reduced to have no other users}}
  %0:2 = fusion.stream_loop schedule <push> from cost (%x, %w) : (!x, !w) -> (!terms, !rows) {
  ^bb0(%a: !x, %b: !w):
    %p = fusion.matmul %a, %b : !x, !w -> !terms
    %y = fusion.reshard %p : !terms -> !rows
    fusion.yield %p, %y : !terms, !rows
  }
  return %0#0, %0#1 : !terms, !rows
}
