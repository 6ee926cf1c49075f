// RUN: %round > %t.json
// RUN: tandem-opt %s -mlir-disable-threading -fusion-propagate-axes=machine=%t.json | FileCheck %s
// RUN: tandem-opt %s -mlir-disable-threading -fusion-propagate-axes -fusion-insert-reshards='gather=cost machine=%t.json log' -o /dev/null 2>&1 | FileCheck %s --check-prefix=LOG

// A price decides in the first function and none in the second one, which is deterministic, though one pass object sees both.
#tp = #tandem.mesh<"tp", ["x" = 8]>
!x = tensor<8x4096x4096xbf16, #fusion.axes<#tp, [-, didx("x"), -]>>
!v = tensor<8x4096x14336xbf16, #fusion.axes<#tp, [didx("x"), -, -]>>
!w = tensor<8x14336x4096xbf16, #fusion.axes<#tp, [didx("x"), -, -]>>

// CHECK-LABEL: func.func @priced(
// CHECK: fusion.matmul {{.*}} -> tensor<8x4096x14336xbf16, #fusion.axes<#tp, [didx("x"), -, -]>>
// CHECK-LABEL: func.func @deterministic(
// CHECK: fusion.matmul {{.*}} -> tensor<8x4096x14336xbf16, #fusion.axes<#tp, [-, didx("x"), -]>>
func.func @priced(%x: !x, %v: !v, %w: !w) -> !x {
  %h = fusion.matmul %x, %v : !x, !v -> tensor<8x4096x14336xbf16>
  %a = math.tanh %h : tensor<8x4096x14336xbf16>
  %y = fusion.matmul %a, %w : tensor<8x4096x14336xbf16>, !w -> !x
  return %y : !x
}
func.func @deterministic(%x: !x, %v: !v, %w: !w) -> !x attributes {fusion.deterministic = "bitwise"} {
  %h = fusion.matmul %x, %v : !x, !v -> tensor<8x4096x14336xbf16>
  %a = math.tanh %h : tensor<8x4096x14336xbf16>
  %y = fusion.matmul %a, %w : tensor<8x4096x14336xbf16>, !w -> !x
  return %y : !x
}

!rows = tensor<4096x4096xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!all = tensor<4096x4096xbf16, #fusion.axes<#tp, [-, -]>>

// LOG: reshards stand {{.*}} the op: {{.*}} us before, {{.*}} us after on
// LOG-NOT: us after on
func.func @priced_reshards(%x: !rows, %w: !all) -> !all {
  %y = fusion.matmul %x, %w : !rows, !all -> !all
  return %y : !all
}
func.func @deterministic_reshards(%x: !rows, %w: !all) -> !all attributes {fusion.deterministic = "bitwise"} {
  %y = fusion.matmul %x, %w : !rows, !all -> !all
  return %y : !all
}
