// RUN: %round > %t.json
// RUN: not tandem-compile %s --entry=reduced_twice --target=cpu-local -o /dev/null 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not tandem-compile %s --entry=returned --target=cpu-local -o /dev/null 2>&1 | FileCheck %s --check-prefix=RETURNED
// RUN: tandem-compile %s --entry=reduced_twice_by_cost --target=cpu-local --machine=%t.json --dump | FileCheck %s --check-prefix=CHOSEN
// RUN: tandem-compile %s --entry=returned_by_cost --target=cpu-local --machine=%t.json --dump | FileCheck %s --check-prefix=CHOSEN

// A push computes partial sums into its slots, so they must have no other use. One that is written there is an error at
// its place, where it was a crash; the compiler itself chooses another schedule.
// TWICE: [[@LINE+12]]:{{[0-9]+}}: error: schedule push: expected what is reduced to have no other users
// RETURNED: [[@LINE+17]]:{{[0-9]+}}: error: schedule push: expected what is reduced to have no other users
// CHOSEN: program @{{reduced_twice|returned}}_by_cost rank 0 of 4

#tp = #tandem.mesh<"tp", ["x" = 4]>
!x = tensor<48x24xf32, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<24x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
!p = tensor<48x16xf32, #fusion.axes<#tp, [stream("x"), -], partial = ["x"]>>
!y = tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
!z = tensor<48x16xf32, #fusion.axes<#tp, [-, -]>>
func.func @reduced_twice(%x: !x, %w: !w) -> (!y, !z) {
  %p = fusion.matmul %x, %w : !x, !w -> !p
  %y = fusion.reshard %p {schedule = #fusion.schedule<push>} : !p -> !y
  %z = fusion.reshard %p : !p -> !z
  return %y, %z : !y, !z
}
func.func @returned(%x: !x, %w: !w) -> (!y, !p) {
  %p = fusion.matmul %x, %w : !x, !w -> !p
  %y = fusion.reshard %p {schedule = #fusion.schedule<push>} : !p -> !y
  return %y, %p : !y, !p
}
func.func @reduced_twice_by_cost(%x: !x, %w: !w) -> (!y, !z) {
  %p = fusion.matmul %x, %w : !x, !w -> !p
  %y = fusion.reshard %p : !p -> !y
  %z = fusion.reshard %p : !p -> !z
  return %y, %z : !y, !z
}
func.func @returned_by_cost(%x: !x, %w: !w) -> (!y, !p) {
  %p = fusion.matmul %x, %w : !x, !w -> !p
  %y = fusion.reshard %p : !p -> !y
  return %y, %p : !y, !p
}
