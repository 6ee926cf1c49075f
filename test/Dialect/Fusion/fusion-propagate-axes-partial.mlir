// RUN: tandem-opt %s -split-input-file -fusion-propagate-axes -fusion-verify="stage=propagated" | FileCheck %s
// RUN: tandem-opt %s -split-input-file -fusion-propagate-axes -fusion-insert-reshards -fusion-verify | FileCheck %s --check-prefix=LOCAL
// RUN: tandem-opt %s -split-input-file -fusion-propagate-axes -fusion-insert-reshards="gather=after" -fusion-verify | FileCheck %s --check-prefix=LOCAL

// A partial value that meets an op which needs it whole is reduced before: to where the op's result is, if anything says
// so, else on all devices. Arguments and results of functions are partial by the text's word alone.

#m = #tandem.mesh<"m", ["x" = 2, "y" = 2]>
!x = tensor<8x4xf32, #fusion.axes<#m, [didx("y"), didx("x")]>>
!w = tensor<4x16xf32, #fusion.axes<#m, [didx("x"), -]>>
!rows = tensor<16x8xf32, #fusion.axes<#m, [didx("x"), -]>>
!p = tensor<8x16xf32, #fusion.axes<#m, [didx("y"), -], partial = ["x"]>>

// Nothing says anything: an all-reduce.
// CHECK-LABEL: @default
// CHECK:         fusion.reshard {{.*}} partial = ["x"]>> -> tensor<8x16xf32, #fusion.axes<#m, [didx("y"), -]>>
// CHECK-NEXT:    %[[T:.*]] = math.tanh
// CHECK-NEXT:    return %[[T]] : tensor<8x16xf32, #fusion.axes<#m, [didx("y"), -]>>
func.func @default(%0: !x, %1: !w) -> tensor<8x16xf32> {
  %2 = fusion.matmul %0, %1 : !x, !w -> tensor<8x16xf32>
  %3 = math.tanh %2 : tensor<8x16xf32>
  return %3 : tensor<8x16xf32>
}

// A weight that is split by rows, behind other elementwise ops: a reduce-scatter onto the contraction.
// CHECK-LABEL: @rows_follow
// CHECK:         fusion.reshard {{.*}} partial = ["x"]>> -> tensor<8x16xf32, #fusion.axes<#m, [didx("y"), didx("x")]>>
// CHECK-NEXT:    math.tanh
// CHECK-NEXT:    arith.mulf
// CHECK-NEXT:    fusion.matmul {{.*}} -> tensor<8x8xf32, #fusion.axes<#m, [didx("y"), -], partial = ["x"]>>
// CHECK-NEXT:    fusion.reshard
func.func @rows_follow(%0: !x, %1: !w, %2: !rows) -> tensor<8x8xf32, #fusion.axes<#m, [didx("y"), -]>> {
  %3 = fusion.matmul %0, %1 : !x, !w -> tensor<8x16xf32>
  %4 = math.tanh %3 : tensor<8x16xf32>
  %5 = arith.mulf %4, %4 : tensor<8x16xf32>
  %6 = fusion.matmul %5, %2 : tensor<8x16xf32>, !rows -> tensor<8x8xf32>
  %7 = fusion.reshard %6 : tensor<8x8xf32> -> tensor<8x8xf32, #fusion.axes<#m, [didx("y"), -]>>
  return %7 : tensor<8x8xf32, #fusion.axes<#m, [didx("y"), -]>>
}

// A reshard behind, or a decided result: what is reduced goes there at once, with its slices.
// CHECK-LABEL: @decided_behind
// CHECK-COUNT-2: fusion.reshard {{.*}} partial = ["x"]>> -> tensor<8x16xf32, #fusion.axes<#m, [didx("y") * didx("x") * stream(2), -]>>
// CHECK-NOT:     partial
func.func @decided_behind(%0: !x, %1: !w) -> (tensor<8x16xf32, #fusion.axes<#m, [didx("y") * didx("x") * stream(2), -]>>, tensor<16x8xf32, #fusion.axes<#m, [-, didx("y") * didx("x") * stream(2)]>>) {
  %2 = fusion.matmul %0, %1 : !x, !w -> tensor<8x16xf32>
  %3 = math.tanh %2 : tensor<8x16xf32>
  %4 = math.exp %2 : tensor<8x16xf32>
  %5 = fusion.reshard %3 : tensor<8x16xf32> -> tensor<8x16xf32, #fusion.axes<#m, [didx("y") * didx("x") * stream(2), -]>>
  %6 = fusion.permute %4 [1, 0] : tensor<8x16xf32> -> tensor<16x8xf32, #fusion.axes<#m, [-, didx("y") * didx("x") * stream(2)]>>
  return %5, %6 : tensor<8x16xf32, #fusion.axes<#m, [didx("y") * didx("x") * stream(2), -]>>, tensor<16x8xf32, #fusion.axes<#m, [-, didx("y") * didx("x") * stream(2)]>>
}

// What is added to it says where: replicated, split.
// CHECK-LABEL: @residual
// CHECK:         fusion.reshard {{.*}} partial = ["x"]>> -> tensor<8x16xf32, #fusion.axes<#m, [didx("y"), -]>>
// CHECK-NEXT:    fusion.reshard {{.*}}[-, -]>> -> tensor<8x16xf32, #fusion.axes<#m, [didx("y"), -]>>
// CHECK-NEXT:    arith.addf
// CHECK:         fusion.reshard {{.*}} partial = ["x"]>> -> tensor<8x16xf32, #fusion.axes<#m, [didx("y"), didx("x")]>>
// CHECK:         arith.subf
func.func @residual(%0: !x, %1: !w, %2: tensor<16x8xf32, #fusion.axes<#m, [-, -]>>, %3: tensor<16x8xf32, #fusion.axes<#m, [didx("x"), -]>>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
  %4 = fusion.matmul %0, %1 : !x, !w -> tensor<8x16xf32>
  %5 = fusion.permute %2 [1, 0] : tensor<16x8xf32, #fusion.axes<#m, [-, -]>> -> tensor<8x16xf32>
  %6 = arith.addf %4, %5 : tensor<8x16xf32>
  %7 = fusion.permute %3 [1, 0] : tensor<16x8xf32, #fusion.axes<#m, [didx("x"), -]>> -> tensor<8x16xf32>
  %8 = arith.subf %4, %7 : tensor<8x16xf32>
  return %6, %8 : tensor<8x16xf32>, tensor<8x16xf32>
}

// An argument and a constant never become partial, through other ops neither.
// CHECK-LABEL: @undecided
// CHECK-SAME:    %arg2: tensor<8x16xf32, #fusion.axes<#m, [didx("y"), -]>>, %arg3: tensor<16x8xf32, #fusion.axes<#m, [-, -]>>
// CHECK:         arith.constant dense<1.000000e+00> : tensor<8x16xf32, #fusion.axes<#m, [didx("y"), -]>>
// CHECK-COUNT-3: arith.addf {{.*}} : tensor<8x16xf32, #fusion.axes<#m, [didx("y"), -]>>
func.func @undecided(%0: !x, %1: !w, %2: tensor<8x16xf32>, %3: tensor<16x8xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>) {
  %4 = fusion.matmul %0, %1 : !x, !w -> tensor<8x16xf32>
  %5 = arith.constant dense<1.0> : tensor<8x16xf32>
  %6 = arith.addf %4, %2 : tensor<8x16xf32>
  %7 = fusion.permute %3 [1, 0] : tensor<16x8xf32> -> tensor<8x16xf32>
  %8 = arith.addf %7, %4 : tensor<8x16xf32>
  %9 = arith.addf %4, %5 : tensor<8x16xf32>
  return %6, %8, %9 : tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>
}

// Sums of terms are reduced once, on their way out; what the text says is partial stays so.
// CHECK-LABEL: @returned
// CHECK-SAME:    -> (tensor<8x16xf32, #fusion.axes<#m, [didx("y"), -]>>, tensor<8x16xf32, #fusion.axes<#m, [didx("y"), -], partial = ["x"]>>)
// CHECK:         %[[S:.*]] = arith.addf {{.*}} partial = ["x"]>>
// CHECK-NEXT:    %[[R:.*]] = fusion.reshard %[[S]]
// CHECK-NEXT:    return %[[R]], %arg2
func.func @returned(%0: !x, %1: !w, %2: !p) -> (tensor<8x16xf32>, !p) {
  %3 = fusion.matmul %0, %1 : !x, !w -> tensor<8x16xf32>
  %4 = fusion.matmul %0, %1 : !x, !w -> tensor<8x16xf32>
  %5 = arith.addf %3, %4 : tensor<8x16xf32>
  return %5, %2 : tensor<8x16xf32>, !p
}

// The other ops that need it whole: another reduction, a repetition, a kernel, what is not partial beside it; a bias.
// LOCAL-LABEL: @others
// LOCAL-COUNT-4: fusion.reshard %{{.*}} : {{.*}} partial = ["x"]>> -> tensor<8x16xf32, #fusion.axes<#m, [didx("y"), -]>>
// LOCAL:         %[[B:.*]] = fusion.reshard %{{.*}} : {{.*}} partial = ["x"]>> -> tensor<8xf32, #fusion.axes<#m, [didx("y")]>>
// LOCAL-NEXT:    fusion.broadcast %[[B]]
// LOCAL-NOT:     partial
// LOCAL:         return
func.func @others(%0: !x, %1: !w, %2: tensor<16xf32, #fusion.axes<#m, [-]>>, %3: tensor<8x16xf32, #fusion.axes<#m, [didx("y"), -]>>)
    -> (tensor<8xf32>, tensor<8x16xf32>, tensor<8x32xf32>, tensor<8x16xf32>, tensor<8x16xf32>) {
  %a = fusion.matmul %0, %1 : !x, !w -> tensor<8x16xf32>
  %4 = fusion.reduce max %a dims [1] : tensor<8x16xf32> -> tensor<8xf32>
  %b = fusion.matmul %0, %1 : !x, !w -> tensor<8x16xf32>
  %5 = fusion.call @kernel(%b) dims "s_ -> s_" : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %c = fusion.matmul %0, %1 : !x, !w -> tensor<8x16xf32>
  %6 = fusion.concat %c, %3 dim 1 : (tensor<8x16xf32>, tensor<8x16xf32, #fusion.axes<#m, [didx("y"), -]>>) -> tensor<8x32xf32>
  %7 = fusion.matmul %0, %1 bias %2 : !x, !w, tensor<16xf32, #fusion.axes<#m, [-]>> -> tensor<8x16xf32>
  %8 = fusion.reduce sum %0 dims [1] : !x -> tensor<8xf32>
  %9 = fusion.broadcast %8 dims [0] : tensor<8xf32> -> tensor<8x16xf32>
  return %4, %5, %6, %7, %9 : tensor<8xf32>, tensor<8x16xf32>, tensor<8x32xf32>, tensor<8x16xf32>, tensor<8x16xf32>
}
func.func private @kernel(tensor<8x16xf32>) -> tensor<8x16xf32>

// Of two factors that are partial over one axis the smaller one is reduced before.
// CHECK-LABEL: @product
// CHECK-SAME:    -> tensor<8x16xf32, #fusion.axes<#m, [-, -]>>
// CHECK-NEXT:    fusion.matmul {{.*}} -> tensor<8x16xf32, #fusion.axes<#m, [-, -], partial = ["x"]>>
// LOCAL-LABEL: @product
// LOCAL-NEXT:    %[[R:.*]] = fusion.reshard %arg0
// LOCAL-NEXT:    fusion.matmul %[[R]], %arg1 : {{.*}} partial = ["x"]>>
func.func @product(%0: tensor<8x4xf32, #fusion.axes<#m, [-, -], partial = ["x"]>>, %1: tensor<4x16xf32, #fusion.axes<#m, [-, -], partial = ["x"]>>) -> tensor<8x16xf32> {
  %2 = fusion.matmul %0, %1 : tensor<8x4xf32, #fusion.axes<#m, [-, -], partial = ["x"]>>, tensor<4x16xf32, #fusion.axes<#m, [-, -], partial = ["x"]>> -> tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}

// A truth value is resharded like other values.
// CHECK-LABEL: @truth
// CHECK:         %[[N:.*]] = arith.xori {{.*}} : tensor<8x4xi1, #fusion.axes<#m, [-, -]>>
// CHECK:         arith.select %[[N]], {{.*}} tensor<8x4xf32, #fusion.axes<#m, [-, -]>>
// CHECK:         %[[P:.*]] = fusion.reshard %[[N]] : {{.*}} -> tensor<8x4xi1, #fusion.axes<#m, [didx("y"), didx("x")]>>
// CHECK:         arith.select %[[P]], {{.*}} tensor<8x4xf32, #fusion.axes<#m, [didx("y"), didx("x")]>>
func.func @truth(%0: !x, %1: tensor<4x8xf32, #fusion.axes<#m, [-, -]>>, %2: tensor<8x4xf32, #fusion.axes<#m, [-, -]>>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %3 = fusion.permute %1 [1, 0] : tensor<4x8xf32, #fusion.axes<#m, [-, -]>> -> tensor<8x4xf32>
  %4 = fusion.permute %2 [0, 1] : tensor<8x4xf32, #fusion.axes<#m, [-, -]>> -> tensor<8x4xf32>
  %5 = arith.cmpf ogt, %3, %4 : tensor<8x4xf32>
  %6 = arith.cmpf olt, %4, %4 : tensor<8x4xf32>
  %7 = arith.xori %5, %6 : tensor<8x4xi1>
  %8 = arith.select %7, %3, %4 : tensor<8x4xi1>, tensor<8x4xf32>
  %9 = fusion.permute %0 [0, 1] : !x -> tensor<8x4xf32>
  %10 = arith.select %7, %9, %3 : tensor<8x4xi1>, tensor<8x4xf32>
  return %8, %10 : tensor<8x4xf32>, tensor<8x4xf32>
}
