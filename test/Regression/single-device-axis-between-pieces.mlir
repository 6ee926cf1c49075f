// RUN: tandem-opt %s -fusion-insert-reshards="gather=before" -fusion-verify | FileCheck %s
// RUN: tandem-opt %s -fusion-insert-reshards="gather=after" -fusion-verify | FileCheck %s

// The digit of a single device stands where the dimension of 48 is cut into 2 and 24: it may belong to either. That was
// an error (after) or a reshard (before), but only on one device.
#m = #tandem.mesh<"m", ["x" = 1]>
#rows = #fusion.axes<#m, [-, didx("x"), -]>
#flat = #fusion.axes<#m, [serial(2) * didx("x"), -]>

// CHECK-LABEL: @f
// CHECK-NEXT: fusion.reshape
// CHECK-NEXT: return
func.func @f(%x: tensor<2x24x16xf32, #rows>) -> tensor<48x16xf32, #flat> {
  %y = fusion.reshape %x : tensor<2x24x16xf32, #rows> -> tensor<48x16xf32, #flat>
  return %y : tensor<48x16xf32, #flat>
}

// CHECK-LABEL: @back
// CHECK-NEXT: fusion.reshape
// CHECK-NEXT: return
func.func @back(%x: tensor<48x16xf32, #flat>) -> tensor<2x24x16xf32, #rows> {
  %y = fusion.reshape %x : tensor<48x16xf32, #flat> -> tensor<2x24x16xf32, #rows>
  return %y : tensor<2x24x16xf32, #rows>
}
