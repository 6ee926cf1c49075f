// REQUIRES: runtime
// RUN: tandem-compile %s --entry=reshape --target=cpu-local -o %t.tsp && tandem-run %t.tsp --channel=local --verify | FileCheck %s
// RUN: tandem-compile %s --entry=rows --target=cpu-local -o %t.tsp && tandem-run %t.tsp --channel=local --verify | FileCheck %s
// RUN: tandem-compile %s --entry=grouped --target=cpu-local -o %t.tsp && tandem-run %t.tsp --channel=local --verify | FileCheck %s
// RUN: tandem-compile %s --entry=features --target=cpu-local -o %t.tsp && tandem-run %t.tsp --channel=local --verify | FileCheck %s
// RUN: tandem-compile %s --entry=zigzag --target=cpu-local -o %t.tsp && tandem-run %t.tsp --channel=local --verify | FileCheck %s
// RUN: tandem-compile %s --entry=reshape -o %t.tsp
// RUN: tandem-check %t.tsp

// CHECK: verified

// Where an op needs some dimensions of its operands without padding, the others keep theirs.
#m = #tandem.mesh<"m", ["x" = 2]>
!r = tensor<3x3xf32, #fusion.axes<#m, [didx("x"), -]>>
!c = tensor<3x3xf32, #fusion.axes<#m, [-, didx("x")]>>
!last = tensor<3x1x3xf32, #fusion.axes<#m, [-, -, didx("x")]>>
func.func @reshape(%a: !r) -> (!last, !c) {
  %b = fusion.reshape %a : !r -> tensor<3x1x3xf32>
  %y = fusion.reshard %b : tensor<3x1x3xf32> -> !last
  %c = fusion.reshard %a : !r -> !c
  return %y, %c : !last, !c
}

!wide = tensor<3x5xf32, #fusion.axes<#m, [-, didx("x")]>>
!first = tensor<3x1x5xf32, #fusion.axes<#m, [didx("x"), -, -]>>
func.func @rows(%a: !wide) -> !first {
  %b = fusion.reshape %a : !wide -> tensor<3x1x5xf32>
  %c = fusion.reshard %b : tensor<3x1x5xf32> -> !first
  return %c : !first
}

!groups = tensor<2x3x8xf32, #fusion.axes<#m, [-, -, -]>>
!ends = tensor<2xi32, #fusion.axes<#m, [-]>>
!product = tensor<3x8xf32, #fusion.axes<#m, [-, -]>>
func.func @grouped(%x: !c, %w: !groups, %ends: !ends) -> (!product, !r) {
  %y = fusion.grouped_matmul %x, %w, %ends : !c, !groups, !ends -> !product
  %r = fusion.reshard %x : !c -> !r
  return %y, %r : !product, !r
}

!q = tensor<12x3xf32, #fusion.axes<#m, [-, didx("x")]>>
!k = tensor<4x3xf32, #fusion.axes<#m, [-, -]>>
!v = tensor<4x4xf32, #fusion.axes<#m, [-, -]>>
!y = tensor<12x4xf32, #fusion.axes<#m, [-, -]>>
func.func @features(%q: !q, %k: !k, %v: !v) -> !y {
  %y = fusion.attention %q, %k, %v : !q, !k, !v -> !y
  return %y : !y
}

// 6 tokens in zigzag order are no 4 pieces.
#four = #tandem.mesh<"four", ["x" = 4]>
!tokens = tensor<6x4xf32, #fusion.axes<#four, [didx("x"), -]>>
!columns = tensor<6x5xf32, #fusion.axes<#four, [-, didx("x")]>>
func.func @zigzag(%q: !tokens, %v: !columns) -> !columns {
  %y = fusion.attention %q, %q, %v {causal, zigzag = 3 : i64} : !tokens, !tokens, !columns -> !columns
  return %y : !columns
}
