// RUN: tandem-opt %s -split-input-file -fusion-narrow-products | FileCheck %s
// RUN: tandem-opt %s -split-input-file -fusion-narrow-products=log -o /dev/null 2>&1 | FileCheck %s --check-prefix=LOG

// A scale per row and per column, and a result of 8 bits, which is clamped.

// LOG: remark: fusion-narrow-products: 1 products
// CHECK-LABEL: func.func @scaled
// CHECK: %[[P:.*]] = fusion.matmul {{.*}} -> tensor<8x6xbf16>
// CHECK-NEXT: %[[WIDE:.*]] = arith.extf %[[P]] : tensor<8x6xbf16> to tensor<8x6xf32>
// CHECK: arith.mulf %[[WIDE]],
func.func @scaled(%x: tensor<8x4xf8E4M3FN>, %w: tensor<4x6xf8E5M2>, %r: tensor<8xf32>, %b: tensor<6xf32>) -> tensor<8x6xf8E4M3FN> {
  %p = fusion.matmul %x, %w : tensor<8x4xf8E4M3FN>, tensor<4x6xf8E5M2> -> tensor<8x6xf32>
  %rows = fusion.broadcast %r dims [0] : tensor<8xf32> -> tensor<8x6xf32>
  %s = arith.mulf %p, %rows : tensor<8x6xf32>
  %columns = fusion.broadcast %b dims [1] : tensor<6xf32> -> tensor<8x6xf32>
  %t = arith.mulf %columns, %s : tensor<8x6xf32>
  %most = arith.constant dense<448.0> : tensor<8x6xf32>
  %u = arith.minimumf %t, %most : tensor<8x6xf32>
  %y = arith.truncf %u : tensor<8x6xf32> to tensor<8x6xf8E4M3FN>
  return %y : tensor<8x6xf8E4M3FN>
}

// -----

// Groups of different sizes, a scale per row.

// LOG: remark: fusion-narrow-products: 1 products
// CHECK-LABEL: func.func @groups
// CHECK: %[[P:.*]] = fusion.grouped_matmul {{.*}} -> tensor<8x6xbf16>
// CHECK-NEXT: %[[WIDE:.*]] = arith.extf %[[P]] : tensor<8x6xbf16> to tensor<8x6xf32>
// CHECK: arith.mulf %[[WIDE]],
func.func @groups(%x: tensor<8x4xf8E4M3FN>, %w: tensor<3x4x6xf8E4M3FN>, %ends: tensor<3xi32>, %r: tensor<8xf32>) -> tensor<8x6xbf16> {
  %p = fusion.grouped_matmul %x, %w, %ends : tensor<8x4xf8E4M3FN>, tensor<3x4x6xf8E4M3FN>, tensor<3xi32> -> tensor<8x6xf32>
  %rows = fusion.broadcast %r dims [0] : tensor<8xf32> -> tensor<8x6xf32>
  %s = arith.mulf %p, %rows : tensor<8x6xf32>
  %y = arith.truncf %s : tensor<8x6xf32> to tensor<8x6xbf16>
  return %y : tensor<8x6xbf16>
}

// -----

// Not of 16 bits.

// CHECK-LABEL: func.func @wide_groups
// CHECK-NOT: arith.extf
func.func @wide_groups(%x: tensor<8x4xbf16>, %w: tensor<3x4x6xbf16>, %ends: tensor<3xi32>) -> tensor<8x6xbf16> {
  %p = fusion.grouped_matmul %x, %w, %ends : tensor<8x4xbf16>, tensor<3x4x6xbf16>, tensor<3xi32> -> tensor<8x6xf32>
  %y = arith.truncf %p : tensor<8x6xf32> to tensor<8x6xbf16>
  return %y : tensor<8x6xbf16>
}

// -----

// Not if it is used elsewhere, added to another product, rounded to f16, of wider factors, gets a bias, is multiplied by a
// whole tensor, or in a deterministic function.

// CHECK-LABEL: func.func @wide
// CHECK-NOT: arith.extf
func.func @wide(%x: tensor<8x4xf8E4M3FN>, %w: tensor<4x6xf8E4M3FN>, %z: tensor<4x6xf32>, %v: tensor<8x4xf32>, %k: tensor<6xf32>,
                %m: tensor<8x6xf32>)
    -> (tensor<8x6xbf16>, tensor<8x6xf32>, tensor<8x6xbf16>, tensor<8x6xf16>, tensor<8x6xbf16>, tensor<8x6xbf16>, tensor<8x6xbf16>) {
  %p = fusion.matmul %x, %w : tensor<8x4xf8E4M3FN>, tensor<4x6xf8E4M3FN> -> tensor<8x6xf32>
  %a = arith.truncf %p : tensor<8x6xf32> to tensor<8x6xbf16>
  %q = fusion.matmul %x, %w : tensor<8x4xf8E4M3FN>, tensor<4x6xf8E4M3FN> -> tensor<8x6xf32>
  %r = fusion.matmul %x, %w : tensor<8x4xf8E4M3FN>, tensor<4x6xf8E4M3FN> -> tensor<8x6xf32>
  %s = arith.addf %q, %r : tensor<8x6xf32>
  %b = arith.truncf %s : tensor<8x6xf32> to tensor<8x6xbf16>
  %t = fusion.matmul %x, %w : tensor<8x4xf8E4M3FN>, tensor<4x6xf8E4M3FN> -> tensor<8x6xf32>
  %c = arith.truncf %t : tensor<8x6xf32> to tensor<8x6xf16>
  %u = fusion.matmul %v, %z : tensor<8x4xf32>, tensor<4x6xf32> -> tensor<8x6xf32>
  %d = arith.truncf %u : tensor<8x6xf32> to tensor<8x6xbf16>
  %bias = fusion.broadcast %k dims [1] : tensor<6xf32> -> tensor<8x6xf32>
  %e0 = fusion.matmul %x, %w : tensor<8x4xf8E4M3FN>, tensor<4x6xf8E4M3FN> -> tensor<8x6xf32>
  %e1 = arith.addf %e0, %bias : tensor<8x6xf32>
  %e = arith.truncf %e1 : tensor<8x6xf32> to tensor<8x6xbf16>
  %f0 = fusion.matmul %x, %w : tensor<8x4xf8E4M3FN>, tensor<4x6xf8E4M3FN> -> tensor<8x6xf32>
  %f1 = arith.mulf %f0, %m : tensor<8x6xf32>
  %f = arith.truncf %f1 : tensor<8x6xf32> to tensor<8x6xbf16>
  return %a, %p, %b, %c, %d, %e, %f : tensor<8x6xbf16>, tensor<8x6xf32>, tensor<8x6xbf16>, tensor<8x6xf16>, tensor<8x6xbf16>, tensor<8x6xbf16>, tensor<8x6xbf16>
}

// -----

// CHECK-LABEL: func.func @deterministic
// CHECK-NOT: arith.extf
func.func @deterministic(%x: tensor<8x4xf8E4M3FN>, %w: tensor<4x6xf8E4M3FN>) -> tensor<8x6xbf16> attributes {fusion.deterministic = "bitwise"} {
  %p = fusion.matmul %x, %w : tensor<8x4xf8E4M3FN>, tensor<4x6xf8E4M3FN> -> tensor<8x6xf32>
  %a = arith.truncf %p : tensor<8x6xf32> to tensor<8x6xbf16>
  return %a : tensor<8x6xbf16>
}
