// RUN: tandem-opt %s -fusion-verify="stage=input" | FileCheck %s
// RUN: not tandem-opt %s -fusion-verify="stage=propagated" 2>&1 | FileCheck %s --check-prefix=UNDECIDED
// RUN: tandem-opt %s -fusion-propagate-axes -fusion-verify="stage=propagated" | FileCheck %s
// RUN: not tandem-opt %s -fusion-propagate-axes -fusion-verify="stage=resharded" 2>&1 | FileCheck %s --check-prefix=MISFIT
// RUN: tandem-opt %s -fusion-propagate-axes -fusion-insert-reshards -fusion-verify | FileCheck %s

#tp = #tandem.mesh<"tp", ["x" = 4]>

// CHECK-LABEL: @f
// UNDECIDED: fusion-verify.mlir:[[#@LINE+5]]:{{.*}}: error: 'fusion.matmul' op expected decided operands and results, found undecided operand 1
// MISFIT: fusion-verify.mlir:[[#@LINE+4]]:{{.*}}: error: 'fusion.matmul' op expected dimension 0 of result 0 to be split as didx("x"), found -
func.func @f(%0: tensor<64x32xf32, #fusion.axes<#tp, [didx("x"), -]>>, %1: tensor<32x16xf32>) -> tensor<16x64xf32, #fusion.axes<#tp, [-, -]>> {
  // CHECK: fusion.matmul
  // CHECK: fusion.permute
  %2 = fusion.matmul %0, %1 : tensor<64x32xf32, #fusion.axes<#tp, [didx("x"), -]>>, tensor<32x16xf32> -> tensor<64x16xf32>
  %3 = fusion.permute %2 [1, 0] : tensor<64x16xf32> -> tensor<16x64xf32, #fusion.axes<#tp, [-, -]>>
  return %3 : tensor<16x64xf32, #fusion.axes<#tp, [-, -]>>
}

// No fusion, no promise.
// CHECK-LABEL: @foreign
func.func @foreign(%0: tensor<4xf32>) -> tensor<?xf32> {
  %1 = tensor.cast %0 : tensor<4xf32> to tensor<?xf32>
  return %1 : tensor<?xf32>
}
