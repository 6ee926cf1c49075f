// RUN: tandem-opt %s -split-input-file -verify-diagnostics

#tp = #tandem.mesh<"tp", ["x" = 4]>
!rows = tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
!whole = tensor<16x8xf32, #fusion.axes<#tp, [-, -]>>
func.func @argument(%x: !rows) -> !whole {
  // expected-error @+1 {{expected operand 0 and its block argument to differ only in stream digits, found 'tensor<16x8xf32, #fusion.axes<#tandem.mesh<"tp", ["x" = 4]>, [didx("x"), -]>>' and}}
  %0 = fusion.stream_loop (%x) : (!rows) -> !whole {
  ^bb0(%a: !whole):
    %1 = math.exp %a : !whole
    fusion.yield %1 : !whole
  }
  return %0 : !whole
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!rows = tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
!whole = tensor<16x8xf32, #fusion.axes<#tp, [-, -]>>
func.func @result(%x: !rows) -> !whole {
  // expected-error @+1 {{expected result 0 and its yielded value to differ only in stream digits}}
  %0 = fusion.stream_loop (%x) : (!rows) -> !whole {
  ^bb0(%a: !rows):
    %1 = math.exp %a : !rows
    fusion.yield %1 : !rows
  }
  return %0 : !whole
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!whole = tensor<16x8xf32, #fusion.axes<#tp, [-, -]>>
func.func @arguments(%x: !whole) -> !whole {
  // expected-error @+1 {{expected as many block arguments as operands, found 0 and 1}}
  %0 = fusion.stream_loop (%x) : (!whole) -> !whole {
    %c = arith.constant dense<1.0> : !whole
    %1 = math.exp %c : !whole
    fusion.yield %1 : !whole
  }
  return %0 : !whole
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!whole = tensor<16x8xf32, #fusion.axes<#tp, [-, -]>>
func.func @yields_argument(%x: !whole) -> !whole {
  %0 = fusion.stream_loop (%x) : (!whole) -> !whole {
  ^bb0(%a: !whole):
    // expected-error @+1 {{expected distinct values that ops of the loop define}}
    fusion.yield %a : !whole
  }
  return %0 : !whole
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!rows = tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
!whole = tensor<16x8xf32, #fusion.axes<#tp, [-, -]>>
func.func @annotated_inside(%x: !rows) -> !whole {
  %0 = fusion.stream_loop (%x) : (!rows) -> !whole {
  ^bb0(%a: !rows):
    // expected-error @+1 {{expected the schedule on the loop around the reshard}}
    %1 = fusion.reshard %a {schedule = #fusion.schedule<push>} : !rows -> !whole
    fusion.yield %1 : !whole
  }
  return %0 : !whole
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!whole = tensor<16x8xf32, #fusion.axes<#tp, [-, -]>>
func.func @nested(%x: !whole) -> !whole {
  %0 = fusion.stream_loop (%x) : (!whole) -> !whole {
  ^bb0(%a: !whole):
    // expected-error @+1 {{expected a reshard, an op that computes locally, or a constant in a stream loop}}
    %1 = fusion.stream_loop (%a) : (!whole) -> !whole {
    ^bb0(%b: !whole):
      %2 = math.exp %b : !whole
      fusion.yield %2 : !whole
    }
    fusion.yield %1 : !whole
  }
  return %0 : !whole
}

// -----

// stream_loop_c5: the syntax has no schedule without its source; attributes can be set one by one.
#tp = #tandem.mesh<"tp", ["x" = 4]>
!whole = tensor<16x8xf32, #fusion.axes<#tp, [-, -]>>
func.func @schedule_without_source(%x: !whole) -> !whole {
  // expected-error @+1 {{expected a schedule with its source, or neither}}
  %0 = "fusion.stream_loop"(%x) <{schedule = #fusion.schedule<pipeline>}> ({
  ^bb0(%a: !whole):
    %1 = math.exp %a : !whole
    fusion.yield %1 : !whole
  }) : (!whole) -> !whole
  return %0 : !whole
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!whole = tensor<16x8xf32, #fusion.axes<#tp, [-, -]>>
func.func @source_without_schedule(%x: !whole) -> !whole {
  // expected-error @+1 {{expected a schedule with its source, or neither}}
  %0 = "fusion.stream_loop"(%x) <{source = #fusion<schedule_source cost>}> ({
  ^bb0(%a: !whole):
    %1 = math.exp %a : !whole
    fusion.yield %1 : !whole
  }) : (!whole) -> !whole
  return %0 : !whole
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!s = tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>>
!w = tensor<8x4xf32, #fusion.axes<#tp, [-, -]>>
func.func @unknown_threshold(%x: !s) -> !w {
  // expected-error @+1 {{expected known thresholds and positive numbers, found "most" = 3 : i64}}
  %0 = fusion.stream_loop (%x) {thresholds = {most = 3 : i64}} : (!s) -> !w {
  ^bb0(%y: !s):
    %1 = fusion.reshard %y : !s -> !w
    fusion.yield %1 : !w
  }
  return %0 : !w
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!s = tensor<8x4xf32, #fusion.axes<#tp, [didx("x"), -]>>
!w = tensor<8x4xf32, #fusion.axes<#tp, [-, -]>>
func.func @threshold_of_nothing(%x: !s) -> !w {
  // expected-error @+1 {{expected known thresholds and positive numbers, found "most_blocks" = 0 : i64}}
  %0 = fusion.stream_loop (%x) {thresholds = {most_blocks = 0 : i64}} : (!s) -> !w {
  ^bb0(%y: !s):
    %1 = fusion.reshard %y : !s -> !w
    fusion.yield %1 : !w
  }
  return %0 : !w
}
