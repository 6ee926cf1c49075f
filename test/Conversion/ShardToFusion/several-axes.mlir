// RUN: tandem-opt --convert-shard-to-fusion %s | FileCheck %s
// RUN: tandem-compile %s --target=cpu-local -o %t.tsp && tandem-run %t.tsp -n 6 --channel=local --verify
// REQUIRES: runtime

// A contracted loop that two grid axes split, as shard-partition writes it: device 0 of both adds the initial value.

// CHECK-LABEL: func.func @contracted(
// CHECK-SAME: %[[X:[^ :]+]]: tensor<8x24xf32, {{.*}}[-, didx("axis0") * didx("axis1")]>>, %[[W:[^ :]+]]: tensor<24x4xf32, {{.*}}[didx("axis0") * didx("axis1"), -]>>, %[[B:[^ :]+]]: tensor<8x4xf32, {{.*}}[-, -]>>)
// CHECK: %[[P:.+]] = fusion.matmul %[[X]], %[[W]] : {{.*}} partial = ["axis0", "axis1"]>>
// CHECK: %[[Y:.+]] = fusion.reshard %[[P]]
// CHECK: arith.addf %[[Y]], %[[B]]
#number = affine_map<()[s0, s1, s2] -> (s0 * s1 + s2)>
shard.grid @g(shape = 2x3)
func.func @contracted(%x: tensor<8x4xf32> {tandem.split_axes = [[], [0, 1]]}, %w: tensor<4x4xf32>, %b: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %index:2 = shard.process_multi_index on @g axes = [0, 1] : index, index
  %shape:2 = shard.grid_shape @g axes = [0, 1] : index, index
  %number = affine.apply #number()[%index#0, %shape#1, %index#1]
  %c0 = arith.constant 0 : index
  %first = arith.cmpi eq, %number, %c0 : index
  %init = scf.if %first -> (tensor<8x4xf32>) {
    scf.yield %b : tensor<8x4xf32>
  } else {
    %empty = tensor.empty() : tensor<8x4xf32>
    %zero = arith.constant 0.0 : f32
    %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<8x4xf32>) -> tensor<8x4xf32>
    scf.yield %zeros : tensor<8x4xf32>
  }
  %p = linalg.matmul ins(%x, %w : tensor<8x4xf32>, tensor<4x4xf32>) outs(%init : tensor<8x4xf32>) -> tensor<8x4xf32>
  %y = shard.all_reduce %p on @g grid_axes = [0, 1] : tensor<8x4xf32> -> tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}
