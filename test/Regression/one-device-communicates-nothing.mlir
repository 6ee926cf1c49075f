// RUN: tandem-compile %s --entry=gathers --target=cpu-local -o %t.tsp && tandem-compile --dump %t.tsp --rank=3 | FileCheck %s
// RUN: tandem-compile %s --entry=reduces --target=cpu-local -o %t.tsp && tandem-compile --dump %t.tsp --rank=0 | FileCheck %s
// RUN: tandem-compile %s --entry=turns --target=cpu-local -o %t.tsp && tandem-compile --dump %t.tsp --rank=0 | FileCheck %s

// Among one device there is nothing to communicate, whether or not another axis of the mesh has several.
// CHECK-NOT: channel
// CHECK:     copy
// CHECK-NOT: collective
// CHECK-NOT: send
#m = #tandem.mesh<"m", ["x" = 1], devices = [3]>
#pod = #tandem.mesh<"pod", ["node" = 2, "gpu" = 1]>

func.func @gathers(%0: tensor<1x6xf16, #fusion.axes<#m, [didx("x"), -]>>) -> tensor<1x6xf16, #fusion.axes<#m, [-, stream(2)]>> {
  %1 = fusion.reshard %0 : tensor<1x6xf16, #fusion.axes<#m, [didx("x"), -]>> -> tensor<1x6xf16, #fusion.axes<#m, [-, stream(2)]>>
  return %1 : tensor<1x6xf16, #fusion.axes<#m, [-, stream(2)]>>
}

func.func @reduces(%0: tensor<4x6xf32, #fusion.axes<#pod, [didx("node"), -], partial = ["gpu"]>>)
    -> tensor<4x6xf32, #fusion.axes<#pod, [didx("node"), -]>> {
  %1 = fusion.reshard %0
      : tensor<4x6xf32, #fusion.axes<#pod, [didx("node"), -], partial = ["gpu"]>> -> tensor<4x6xf32, #fusion.axes<#pod, [didx("node"), -]>>
  return %1 : tensor<4x6xf32, #fusion.axes<#pod, [didx("node"), -]>>
}

func.func @turns(%0: tensor<4x6xf32, #fusion.axes<#pod, [didx("node"), didx("gpu")]>>)
    -> tensor<4x6xf32, #fusion.axes<#pod, [didx("gpu") * didx("node"), -]>> {
  %1 = fusion.reshard %0
      : tensor<4x6xf32, #fusion.axes<#pod, [didx("node"), didx("gpu")]>> -> tensor<4x6xf32, #fusion.axes<#pod, [didx("gpu") * didx("node"), -]>>
  return %1 : tensor<4x6xf32, #fusion.axes<#pod, [didx("gpu") * didx("node"), -]>>
}
