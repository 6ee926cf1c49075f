// RUN: tandem-compile %s --target=cpu-local --entry=moves -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=MOVES
// RUN: tandem-compile %s --target=cpu-local --entry=stays -o %t.tsp && tandem-compile --dump %t.tsp --rank=0 | FileCheck %s --check-prefix=STAYS

// An axis of one device has nothing to reduce: beside what another axis moves it does not count, and where all axes have
// one device the value is copied.

// MOVES: collective c0 all_gather
// MOVES-NOT: all_reduce
// STAYS: s0 copy
// STAYS-NOT: collective

#pod = #tandem.mesh<"pod", ["node" = 2, "gpu" = 1]>
#one = #tandem.mesh<"one", ["x" = 1, "y" = 1]>

func.func @moves(%0: tensor<4x6xf32, #fusion.axes<#pod, [-, didx("node")], partial = ["gpu"]>>)
    -> tensor<4x6xf32, #fusion.axes<#pod, [didx("gpu"), -]>> {
  %1 = fusion.reshard %0
      : tensor<4x6xf32, #fusion.axes<#pod, [-, didx("node")], partial = ["gpu"]>> -> tensor<4x6xf32, #fusion.axes<#pod, [didx("gpu"), -]>>
  return %1 : tensor<4x6xf32, #fusion.axes<#pod, [didx("gpu"), -]>>
}

func.func @stays(%0: tensor<4x6xf32, #fusion.axes<#one, [-, -], partial = ["x"]>>)
    -> tensor<4x6xf32, #fusion.axes<#one, [-, didx("y") * didx("x")]>> {
  %1 = fusion.reshard %0
      : tensor<4x6xf32, #fusion.axes<#one, [-, -], partial = ["x"]>> -> tensor<4x6xf32, #fusion.axes<#one, [-, didx("y") * didx("x")]>>
  return %1 : tensor<4x6xf32, #fusion.axes<#one, [-, didx("y") * didx("x")]>>
}
