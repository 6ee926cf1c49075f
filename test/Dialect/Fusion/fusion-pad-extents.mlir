// RUN: tandem-opt %s -fusion-pad-extents | FileCheck %s
// RUN: tandem-opt %s -fusion-pad-extents | tandem-opt -fusion-pad-extents | FileCheck %s
// RUN: tandem-opt %s -fusion-pad-extents=log -o /dev/null 2>&1 | FileCheck %s --check-prefix=LOG
// RUN: not tandem-opt %s -fusion-propagate-axes 2>&1 | FileCheck %s --check-prefix=UNPADDED

// UNPADDED: error: expected digits whose product divides the extent 10 of dimension 0, found mesh axis "x" of size 4

#tp = #tandem.mesh<"tp", ["x" = 4]>
#grid = #tandem.mesh<"grid", ["a" = 2, "b" = 3]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#all = #fusion.axes<#tp, [-, -]>

// All dimensions that belong together, also of values that are not decided.
// CHECK-LABEL: @chain(
// CHECK-SAME:    %[[X:.*]]: tensor<12x8xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.extents = array<i64: 10, 8>},
// CHECK-SAME:    %[[W:.*]]: tensor<8x6xf32, #fusion.axes<#tp, [-, -]>>)
// CHECK-SAME:    -> (tensor<12x6xf32> {fusion.extents = array<i64: 10, 6>})
// CHECK:         %[[Y:.*]] = fusion.matmul %[[X]], %[[W]] : {{.*}} -> tensor<12x6xf32>
// CHECK:         math.exp %[[Y]] : tensor<12x6xf32>
// LOG: fusion-pad-extents: an extent is padded to 12, a multiple of 4
func.func @chain(%x: tensor<10x8xf32, #rows>, %w: tensor<8x6xf32, #all>) -> tensor<10x6xf32> {
  %y = fusion.matmul %x, %w : tensor<10x8xf32, #rows>, tensor<8x6xf32, #all> -> tensor<10x6xf32>
  %z = math.exp %y : tensor<10x6xf32>
  return %z : tensor<10x6xf32>
}

// What divides stays.
// CHECK-LABEL: @divides(
// CHECK-SAME:    tensor<12x8xf32, #fusion.axes<#tp, [didx("x"), -]>>) -> tensor<12x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
func.func @divides(%x: tensor<12x8xf32, #rows>) -> tensor<12x8xf32, #rows> {
  return %x : tensor<12x8xf32, #rows>
}

// The least multiple of 2, of 2 * 3, and of the slices outside of "a".
// CHECK-LABEL: @several(
// CHECK-SAME:    tensor<12xf32, #fusion.axes<#grid, [didx("a")]>> {fusion.extents = array<i64: 10>}
// CHECK:         fusion.reshard {{.*}} -> tensor<12xf32, #fusion.axes<#grid, [didx("a") * didx("b")]>>
// CHECK-LABEL: @slices(
// CHECK-SAME:    tensor<16xf32, #fusion.axes<#grid, [didx("a")]>> {fusion.extents = array<i64: 9>}
// CHECK:         fusion.reshard {{.*}} -> tensor<16xf32, #fusion.axes<#grid, [stream(8) * didx("a")]>>
func.func @several(%x: tensor<10xf32, #fusion.axes<#grid, [didx("a")]>>) -> tensor<10xf32, #fusion.axes<#grid, [didx("a") * didx("b")]>> {
  %y = fusion.reshard %x : tensor<10xf32, #fusion.axes<#grid, [didx("a")]>> -> tensor<10xf32, #fusion.axes<#grid, [didx("a") * didx("b")]>>
  return %y : tensor<10xf32, #fusion.axes<#grid, [didx("a") * didx("b")]>>
}
func.func @slices(%x: tensor<9xf32, #fusion.axes<#grid, [didx("a")]>>) -> tensor<9xf32, #fusion.axes<#grid, [-]>> {
  %y = fusion.reshard %x : tensor<9xf32, #fusion.axes<#grid, [didx("a")]>> -> tensor<9xf32, #fusion.axes<#grid, [stream(8) * didx("a")]>>
  %z = fusion.reshard %y : tensor<9xf32, #fusion.axes<#grid, [stream(8) * didx("a")]>> -> tensor<9xf32, #fusion.axes<#grid, [-]>>
  return %z : tensor<9xf32, #fusion.axes<#grid, [-]>>
}

// A contraction of what is 0 in the padding takes it; one of exp(x) gets 0 there.
// CHECK-LABEL: @zero(
// CHECK-NOT:     arith.select
// CHECK-LABEL: @one(
// CHECK:         %[[ONES:.*]] = arith.constant dense<true> : tensor<10xi1, #fusion.axes<#tp, [-]>>
// CHECK:         %[[ZEROS:.*]] = arith.constant dense<false> : tensor<2xi1, #fusion.axes<#tp, [-]>>
// CHECK:         %[[MASK:.*]] = fusion.concat %[[ONES]], %[[ZEROS]] dim 0 : {{.*}} -> tensor<12xi1, #fusion.axes<#tp, [-]>>
// CHECK:         %[[T:.*]] = fusion.permute
// CHECK:         %[[COLUMNS:.*]] = fusion.broadcast %[[MASK]] dims [1] : {{.*}} -> tensor<8x12xi1>
// CHECK:         %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : tensor<8x12xf32>
// CHECK:         %[[A:.*]] = arith.select %[[COLUMNS]], %[[T]], %[[ZERO]]
// CHECK:         %[[ROWS:.*]] = fusion.broadcast %[[MASK]] dims [0] : {{.*}} -> tensor<12x6xi1, #fusion.axes<#tp, [didx("x"), -]>>
// CHECK:         %[[B:.*]] = arith.select %[[ROWS]]
// CHECK:         fusion.matmul %[[A]], %[[B]]
// LOG: the padding of dimension 1 of an operand is filled
func.func @zero(%x: tensor<10x8xf32, #rows>, %y: tensor<10x6xf32, #rows>) -> tensor<8x6xf32> {
  %e = math.tanh %x : tensor<10x8xf32, #rows>
  %t = fusion.permute %e [1, 0] : tensor<10x8xf32, #rows> -> tensor<8x10xf32>
  %z = fusion.matmul %t, %y : tensor<8x10xf32>, tensor<10x6xf32, #rows> -> tensor<8x6xf32>
  return %z : tensor<8x6xf32>
}
func.func @one(%x: tensor<10x8xf32, #rows>, %y: tensor<10x6xf32, #rows>) -> tensor<8x6xf32> {
  %e = math.exp %x : tensor<10x8xf32, #rows>
  %f = math.exp %y : tensor<10x6xf32, #rows>
  %t = fusion.permute %e [1, 0] : tensor<10x8xf32, #rows> -> tensor<8x10xf32>
  %z = fusion.matmul %t, %f : tensor<8x10xf32>, tensor<10x6xf32, #rows> -> tensor<8x6xf32>
  return %z : tensor<8x6xf32>
}

// 0 times what may be infinite is no 0.
// CHECK-LABEL: @infinite(
// CHECK:         arith.select
func.func @infinite(%x: tensor<10x8xf32, #rows>, %y: tensor<10x6xf32, #rows>) -> tensor<8x6xf32> {
  %l = math.log %x : tensor<10x8xf32, #rows>
  %r = arith.mulf %x, %l : tensor<10x8xf32, #rows>
  %t = fusion.permute %r [1, 0] : tensor<10x8xf32, #rows> -> tensor<8x10xf32>
  %z = fusion.matmul %t, %y : tensor<8x10xf32>, tensor<10x6xf32, #rows> -> tensor<8x6xf32>
  return %z : tensor<8x6xf32>
}

// A maximum is computed without padding.
// CHECK-LABEL: @maximum(
// CHECK:         %[[CUT:.*]] = fusion.slice %{{.*}} -> tensor<10x8xf32, #fusion.axes<#tp, [-, -]>>
// CHECK:         fusion.reduce max %[[CUT]]
func.func @maximum(%x: tensor<10x8xf32, #rows>) -> tensor<8xf32> {
  %y = fusion.reduce max %x dims [0] : tensor<10x8xf32, #rows> -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// Terms of a sum are not filled.
// CHECK-LABEL: @terms(
// CHECK:         %[[CUT:.*]] = fusion.slice %{{.*}} -> tensor<9x8xf32, #fusion.axes<#grid, [-, -], partial = ["b"]>>
// CHECK:         fusion.reduce sum %[[CUT]]
// LOG: an operand is needed without padding: all devices get it whole
!terms = tensor<9x8xf32, #fusion.axes<#grid, [didx("a"), -], partial = ["b"]>>
func.func @terms(%x: tensor<9x6xf32, #fusion.axes<#grid, [didx("a"), didx("b")]>>,
    %w: tensor<6x8xf32, #fusion.axes<#grid, [didx("b"), -]>>) -> tensor<8xf32> {
  %e = math.exp %x : tensor<9x6xf32, #fusion.axes<#grid, [didx("a"), didx("b")]>>
  %y = fusion.matmul %e, %w : tensor<9x6xf32, #fusion.axes<#grid, [didx("a"), didx("b")]>>, tensor<6x8xf32, #fusion.axes<#grid, [didx("b"), -]>> -> !terms
  %z = fusion.reduce sum %y dims [0] : !terms -> tensor<8xf32>
  return %z : tensor<8xf32>
}

// The result of a concatenation is padded after it.
// CHECK-LABEL: @joined(
// CHECK:         %[[A:.*]] = fusion.slice {{.*}} -> tensor<5x8xf32, #fusion.axes<#tp, [-, -]>>
// CHECK:         %[[B:.*]] = fusion.concat %[[A]], %[[A2:.*]] dim 0
// CHECK:         %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : tensor<2x8xf32, #fusion.axes<#tp, [-, -]>>
// CHECK:         %[[C:.*]] = fusion.concat %[[B]], %[[ZERO]] dim 0 : {{.*}} -> tensor<12x8xf32, #fusion.axes<#tp, [-, -]>>
// CHECK:         fusion.reshard %[[C]] {{.*}} -> tensor<12x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
func.func @joined(%x: tensor<5x8xf32, #rows>, %y: tensor<5x8xf32, #rows>) -> tensor<10x8xf32, #rows> {
  %z = fusion.concat %x, %y dim 0 : (tensor<5x8xf32, #rows>, tensor<5x8xf32, #rows>) -> tensor<10x8xf32, #rows>
  return %z : tensor<10x8xf32, #rows>
}

// Values that may be infinite in the padding get zeros there.
// CHECK-LABEL: @keys(
// CHECK-NOT:     fusion.concat
// CHECK:         fusion.attention {{.*}} {key_count = 10 : i64}
// CHECK-LABEL: @values(
// CHECK:         %[[L:.*]] = math.log
// CHECK:         %[[V:.*]] = arith.select %{{.*}}, %[[L]]
// CHECK:         fusion.attention {{.*}}, {{.*}}, %[[V]] {key_count = 10 : i64}
// CHECK-LABEL: @causal(
// CHECK:         fusion.attention {{.*}} {causal}
func.func @keys(%q: tensor<8x4xf32, #rows>, %k: tensor<10x4xf32, #rows>) -> tensor<8x4xf32, #rows> {
  %y = fusion.attention %q, %k, %k : tensor<8x4xf32, #rows>, tensor<10x4xf32, #rows>, tensor<10x4xf32, #rows> -> tensor<8x4xf32, #rows>
  return %y : tensor<8x4xf32, #rows>
}
func.func @values(%q: tensor<8x4xf32, #rows>, %k: tensor<10x4xf32, #rows>) -> tensor<8x4xf32, #rows> {
  %v = math.log %k : tensor<10x4xf32, #rows>
  %y = fusion.attention %q, %k, %v : tensor<8x4xf32, #rows>, tensor<10x4xf32, #rows>, tensor<10x4xf32, #rows> -> tensor<8x4xf32, #rows>
  return %y : tensor<8x4xf32, #rows>
}
func.func @causal(%q: tensor<10x4xf32, #rows>, %k: tensor<10x4xf32, #rows>) -> tensor<10x4xf32, #rows> {
  %y = fusion.attention %q, %k, %k {causal} : tensor<10x4xf32, #rows>, tensor<10x4xf32, #rows>, tensor<10x4xf32, #rows> -> tensor<10x4xf32, #rows>
  return %y : tensor<10x4xf32, #rows>
}

// A dimension of one index has no padding, wherever it stands: a reshape that inserts or removes one follows the others.
#two = #tandem.mesh<"two", ["x" = 2]>
#rows2 = #fusion.axes<#two, [didx("x"), -]>
#columns2 = #fusion.axes<#two, [-, didx("x")]>
#last2 = #fusion.axes<#two, [-, -, didx("x")]>
// CHECK-LABEL: @reshape(
// CHECK-NOT:     fusion.slice
// CHECK:         fusion.reshape {{.*}} : tensor<4x4xf32, {{.*}} -> tensor<4x1x4xf32>
func.func @reshape(%a: tensor<3x3xf32, #rows2>) -> (tensor<3x1x3xf32, #last2>, tensor<3x3xf32, #columns2>) {
  %b = fusion.reshape %a : tensor<3x3xf32, #rows2> -> tensor<3x1x3xf32>
  %y = fusion.reshard %b : tensor<3x1x3xf32> -> tensor<3x1x3xf32, #last2>
  %c = fusion.reshard %a : tensor<3x3xf32, #rows2> -> tensor<3x3xf32, #columns2>
  return %y, %c : tensor<3x1x3xf32, #last2>, tensor<3x3xf32, #columns2>
}

// What an op takes and gives is decided for the extents as written, not when some of its operands are cut: a reshape of
// 3x9 whose rows stay and whose columns are cut is none of 4x9.
// CHECK-LABEL: @split(
// CHECK:         %[[CUT:.*]] = fusion.slice {{.*}} -> tensor<4x9xf32, #fusion.axes<#two, [didx("x"), -]>>
// CHECK:         %[[R:.*]] = fusion.reshape %[[CUT]] : {{.*}} -> tensor<4x3x3xf32>
// CHECK:         fusion.concat %[[R]], {{.*}} dim 2 : {{.*}} -> tensor<4x3x4xf32>
func.func @split(%a: tensor<3x9xf32, #rows2>) -> (tensor<3x3x3xf32, #last2>, tensor<3x9xf32, #columns2>) {
  %b = fusion.reshape %a : tensor<3x9xf32, #rows2> -> tensor<3x3x3xf32>
  %y = fusion.reshard %b : tensor<3x3x3xf32> -> tensor<3x3x3xf32, #last2>
  %c = fusion.reshard %a : tensor<3x9xf32, #rows2> -> tensor<3x9xf32, #columns2>
  return %y, %c : tensor<3x3x3xf32, #last2>, tensor<3x9xf32, #columns2>
}

// The chunks of zigzag order have the size that the extent says, so rows and keys are cut. Columns follow.
// CHECK-LABEL: @zigzag(
// CHECK-DAG:     %[[Q:.*]] = fusion.slice {{.*}} -> tensor<6x4xf32, #fusion.axes<#tp, [-, -]>>
// CHECK-DAG:     %[[V:.*]] = fusion.slice {{.*}} -> tensor<6x8xf32, #fusion.axes<#tp, [-, didx("x")]>>
// CHECK:         %[[Y:.*]] = fusion.attention %[[Q]], %{{.*}}, %[[V]] {causal, zigzag = 3 : i64} : {{.*}} -> tensor<6x8xf32>
// CHECK:         fusion.concat %[[Y]], {{.*}} dim 0 : {{.*}} -> tensor<8x8xf32>
func.func @zigzag(%q: tensor<6x4xf32, #rows>, %v: tensor<6x5xf32, #fusion.axes<#tp, [-, didx("x")]>>)
    -> (tensor<6x5xf32>, tensor<6x5xf32, #rows>) {
  %y = fusion.attention %q, %q, %v {causal, zigzag = 3 : i64} : tensor<6x4xf32, #rows>, tensor<6x4xf32, #rows>, tensor<6x5xf32, #fusion.axes<#tp, [-, didx("x")]>> -> tensor<6x5xf32>
  %r = fusion.reshard %v : tensor<6x5xf32, #fusion.axes<#tp, [-, didx("x")]>> -> tensor<6x5xf32, #rows>
  return %y, %r : tensor<6x5xf32>, tensor<6x5xf32, #rows>
}

// Rows in groups are cut; what is contracted stays padded on both sides.
// CHECK-LABEL: @grouped(
// CHECK:         %[[X:.*]] = fusion.slice {{.*}} -> tensor<3x4xf32, #fusion.axes<#two, [-, didx("x")]>>
// CHECK-NOT:     fusion.slice
// CHECK:         fusion.grouped_matmul %[[X]], {{.*}} : tensor<3x4xf32, {{.*}}, tensor<2x4x8xf32
func.func @grouped(%x: tensor<3x3xf32, #columns2>, %w: tensor<2x3x8xf32, #fusion.axes<#two, [-, -, -]>>,
    %ends: tensor<2xi32, #fusion.axes<#two, [-]>>) -> (tensor<3x8xf32, #fusion.axes<#two, [-, -]>>, tensor<3x3xf32, #rows2>) {
  %y = fusion.grouped_matmul %x, %w, %ends : tensor<3x3xf32, #columns2>, tensor<2x3x8xf32, #fusion.axes<#two, [-, -, -]>>, tensor<2xi32, #fusion.axes<#two, [-]>> -> tensor<3x8xf32, #fusion.axes<#two, [-, -]>>
  %r = fusion.reshard %x : tensor<3x3xf32, #columns2> -> tensor<3x3xf32, #rows2>
  return %y, %r : tensor<3x8xf32, #fusion.axes<#two, [-, -]>>, tensor<3x3xf32, #rows2>
}

// What is contracted is filled where it is not 0, after the rows in groups are cut.
// CHECK-LABEL: @grouped_filled(
// CHECK:         %[[X:.*]] = fusion.slice {{.*}} -> tensor<3x4xf32, #fusion.axes<#two, [-, didx("x")]>>
// CHECK:         %[[F:.*]] = arith.select %{{.*}}, %[[X]], %{{.*}} : tensor<3x4xi1, {{.*}}, tensor<3x4xf32
// CHECK:         fusion.grouped_matmul %[[F]], {{.*}} : tensor<3x4xf32, {{.*}}, tensor<2x4x8xf32
func.func @grouped_filled(%x: tensor<3x3xf32, #columns2>, %w: tensor<2x3x8xf32, #fusion.axes<#two, [-, -, -]>>,
    %ends: tensor<2xi32, #fusion.axes<#two, [-]>>) -> (tensor<3x8xf32>, tensor<3x3xf32, #rows2>) {
  %e = math.exp %x : tensor<3x3xf32, #columns2>
  %y = fusion.grouped_matmul %e, %w, %ends : tensor<3x3xf32, #columns2>, tensor<2x3x8xf32, #fusion.axes<#two, [-, -, -]>>, tensor<2xi32, #fusion.axes<#two, [-]>> -> tensor<3x8xf32>
  %r = fusion.reshard %x : tensor<3x3xf32, #columns2> -> tensor<3x3xf32, #rows2>
  return %y, %r : tensor<3x8xf32>, tensor<3x3xf32, #rows2>
}

// Features, which attention contracts, are needed whole.
// CHECK-LABEL: @features(
// CHECK:         %[[Q:.*]] = fusion.slice {{.*}} -> tensor<12x3xf32, #fusion.axes<#two, [-, -]>>
// CHECK:         fusion.attention %[[Q]],
// CHECK-LABEL: @keys_and_features(
// CHECK:         %[[K:.*]] = fusion.slice {{.*}} -> tensor<4x3xf32
// CHECK:         fusion.attention %{{.*}}, %[[K]], {{.*}} {key_count = 3 : i64}
func.func @features(%q: tensor<12x3xf32, #columns2>, %k: tensor<4x3xf32, #fusion.axes<#two, [-, -]>>,
    %v: tensor<4x4xf32, #fusion.axes<#two, [-, -]>>) -> tensor<12x4xf32, #fusion.axes<#two, [-, -]>> {
  %y = fusion.attention %q, %k, %v : tensor<12x3xf32, #columns2>, tensor<4x3xf32, #fusion.axes<#two, [-, -]>>, tensor<4x4xf32, #fusion.axes<#two, [-, -]>> -> tensor<12x4xf32, #fusion.axes<#two, [-, -]>>
  return %y : tensor<12x4xf32, #fusion.axes<#two, [-, -]>>
}

func.func @keys_and_features(%q: tensor<12x3xf32, #columns2>, %k: tensor<3x3xf32, #columns2>,
    %v: tensor<3x4xf32, #fusion.axes<#two, [-, -]>>) -> (tensor<12x4xf32, #fusion.axes<#two, [-, -]>>, tensor<3x3xf32, #rows2>) {
  %y = fusion.attention %q, %k, %v : tensor<12x3xf32, #columns2>, tensor<3x3xf32, #columns2>, tensor<3x4xf32, #fusion.axes<#two, [-, -]>> -> tensor<12x4xf32, #fusion.axes<#two, [-, -]>>
  %r = fusion.reshard %k : tensor<3x3xf32, #columns2> -> tensor<3x3xf32, #rows2>
  return %y, %r : tensor<12x4xf32, #fusion.axes<#two, [-, -]>>, tensor<3x3xf32, #rows2>
}

// One element of a splat tells of all 10^12.
// CHECK-LABEL: @splat(
// CHECK:         arith.constant dense<1.000000e+00> : tensor<1000004x1000000xbf16, #fusion.axes<#tp, [didx("x"), -]>>
func.func @splat(%x: tensor<1000003x1000000xbf16, #rows>) -> tensor<1000003x1000000xbf16, #rows> {
  %one = arith.constant dense<1.0> : tensor<1000003x1000000xbf16, #rows>
  %y = arith.maximumf %x, %one : tensor<1000003x1000000xbf16, #rows>
  return %y : tensor<1000003x1000000xbf16, #rows>
}
