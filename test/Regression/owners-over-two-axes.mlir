// RUN: tandem-compile %s --mesh a=2,b=2 --target=cpu-local --dump --rank=1 | FileCheck %s
// RUN: tandem-opt %s -fusion-specialize="mesh=a=2,b=2" | FileCheck %s --check-prefix=DIGIT

// `stream("a") * stream("b")` has a slice per device of both mesh axes, so each slice has one owner. They are one digit
// as soon as the mesh is known; push took them for two and found no owner.
// DIGIT: fusion.reshard %{{.*}} -> tensor<8x16xf32, #fusion.axes<#pod, [stream(4), -]>>
// CHECK-COUNT-3: {{ put }}
// CHECK-NOT: {{ put }}

#pod = #tandem.mesh<"pod", ["a" = ?, "b" = ?]>
!rows = tensor<8x16xf32, #fusion.axes<#pod, [didx("a") * didx("b"), -]>>
!slices = tensor<8x16xf32, #fusion.axes<#pod, [stream("a") * stream("b"), -]>>
!whole = tensor<16x16xf32, #fusion.axes<#pod, [-, -]>>

func.func @f(%x: !rows, %w: !whole) -> !slices {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<push>} : !rows -> !slices
  %1 = fusion.matmul %0, %w : !slices, !whole -> !slices
  return %1 : !slices
}
