// RUN: tandem-compile %s --dump | FileCheck %s

// Forming loops asks a reshape for the dimensions that run together: it has pieces of dimensions.
// CHECK: program @f rank 0 of 4
// CHECK: recv

#tp = #tandem.mesh<"tp", ["x" = 4]>
func.func @f(%0: tensor<8x16xf32, #fusion.axes<#tp, [didx("x"), -]>>) -> tensor<128xf32, #fusion.axes<#tp, [-]>> {
  %1 = fusion.reshard %0 : tensor<8x16xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<8x16xf32, #fusion.axes<#tp, [-, -]>>
  %2 = fusion.reshape %1 : tensor<8x16xf32, #fusion.axes<#tp, [-, -]>> -> tensor<128xf32, #fusion.axes<#tp, [-]>>
  return %2 : tensor<128xf32, #fusion.axes<#tp, [-]>>
}
