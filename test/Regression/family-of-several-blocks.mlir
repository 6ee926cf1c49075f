// RUN: not tandem-compile %s --entry=argument --bound=12 -o %t.tsp 2>&1 | FileCheck %s --check-prefix=ARGUMENT
// RUN: not tandem-compile %s --entry=result --bound=12 -o %t.tsp 2>&1 | FileCheck %s --check-prefix=RESULT
// RUN: tandem-compile %s --entry=argument --shape=x=12x8 -o %t.tsp

// The runtime cuts the last indices off what a device has, which is one block where an extent varies. Whoever wrote the axes
// learns which argument or result has another layout.
// ARGUMENT: mlir:[[#]]:{{[0-9]+}}: error: {{.*}}expected one block of each dimension per device, since an extent varies, found [serial(6) * didx("x"), -]
// RESULT: mlir:[[#]]:{{[0-9]+}}: error: {{.*}}expected one block of each dimension per device, since an extent varies, found [-, serial(6) * didx("x")]

#m = #tandem.mesh<"m", ["x" = 2]>
#rows = #fusion.axes<#m, [didx("x"), -]>
func.func @argument(%x: tensor<?x8xf32, #fusion.axes<#m, [serial(6) * didx("x"), -]>> {fusion.name = "x"})
    -> (tensor<?x8xf32, #rows> {fusion.name = "y"}) {
  %y = fusion.reshard %x : tensor<?x8xf32, #fusion.axes<#m, [serial(6) * didx("x"), -]>> -> tensor<?x8xf32, #rows>
  return %y : tensor<?x8xf32, #rows>
}
func.func @result(%x: tensor<8x?xf32, #rows> {fusion.name = "x"})
    -> (tensor<8x?xf32, #fusion.axes<#m, [-, serial(6) * didx("x")]>> {fusion.name = "y"}) {
  %y = fusion.reshard %x : tensor<8x?xf32, #rows> -> tensor<8x?xf32, #fusion.axes<#m, [-, serial(6) * didx("x")]>>
  return %y : tensor<8x?xf32, #fusion.axes<#m, [-, serial(6) * didx("x")]>>
}
