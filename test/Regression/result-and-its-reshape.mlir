// REQUIRES: runtime
// RUN: tandem-compile %s --entry=reshape_first --target=cpu-local -o %t.tsp && tandem-run %t.tsp --channel=local --verify | FileCheck %s
// RUN: tandem-compile %s --entry=value_first --target=cpu-local -o %t.tsp && tandem-run %t.tsp --channel=local --verify | FileCheck %s
// RUN: tandem-compile %s --entry=twice --target=cpu-local -o %t.tsp && tandem-run %t.tsp --channel=local --verify | FileCheck %s
// RUN: tandem-compile %s --entry=uneven --target=cpu-local -o %t.tsp && tandem-run %t.tsp --channel=local --verify | FileCheck %s

// CHECK: verified

// What a gather makes lies in one result; the other one, the same elements, gets a copy.
#m = #tandem.mesh<"m", ["x" = 2]>
!split = tensor<6xf32, #fusion.axes<#m, [didx("x")]>>
!slices = tensor<6xf32, #fusion.axes<#m, [stream(2)]>>
func.func @reshape_first(%x: !split) -> (tensor<2x3xf32>, !slices) {
  %y = fusion.reshard %x : !split -> !slices
  %z = fusion.reshape %y : !slices -> tensor<2x3xf32>
  return %z, %y : tensor<2x3xf32>, !slices
}
func.func @value_first(%x: !split) -> (!slices, tensor<2x3xf32>) {
  %y = fusion.reshard %x : !split -> !slices
  %z = fusion.reshape %y : !slices -> tensor<2x3xf32>
  return %y, %z : !slices, tensor<2x3xf32>
}
func.func @twice(%x: !split) -> (!slices, tensor<2x3xf32>, !slices, tensor<2x3xf32>) {
  %y = fusion.reshard %x : !split -> !slices
  %z = fusion.reshape %y : !slices -> tensor<2x3xf32>
  return %y, %z, %y, %z : !slices, tensor<2x3xf32>, !slices, tensor<2x3xf32>
}

!part = tensor<5xf32, #fusion.axes<#m, [didx("x")]>>
!all = tensor<5xf32, #fusion.axes<#m, [-]>>
func.func @uneven(%x: !part) -> (!all, tensor<1x5xf32>) {
  %y = fusion.reshard %x : !part -> !all
  %z = fusion.reshape %y : !all -> tensor<1x5xf32>
  return %y, %z : !all, tensor<1x5xf32>
}
