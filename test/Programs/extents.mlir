// RUN: tandem-compile %s --entry=extents_gather_ring --mesh x=4 -o %t.tsp && tandem-compile --dump %t.tsp --rank=0 | FileCheck %s --check-prefixes=INDEX,FULL
// RUN: tandem-compile --dump %t.tsp --rank=3 | FileCheck %s --check-prefix=SHORT
// RUN: tandem-compile %s --entry=extents_few --mesh x=4 --dump --rank=3 | FileCheck %s --check-prefix=EMPTY
// RUN: tandem-compile %s --entry=extents_blocks --mesh x=2 --dump --rank=1 | FileCheck %s --check-prefix=BLOCKS

// Extents that the devices do not divide. 10 rows on 4 devices are 3, 3, 3 and 1. The embedder's buffers have so many;
// the program computes with 12.
//
// INDEX: argument arg0 input "x" f32[10,16]
// FULL: arg0 {{.*}} local [3,16] shard 0+[3,16]
// FULL: copy buf{{[0-9]+}}:f32[3,16] <- arg0:f32[3,16]
// FULL-NOT: launch
// SHORT: arg0 {{.*}} local [1,16] shard 144+[1,16]
// SHORT: copy buf[[X:[0-9]+]]:f32[1,16] <- arg0:f32[1,16]
// SHORT-NEXT: launch k0(buf[[X]]+64:f32[2,16])
//
// 2 rows on 4 devices: the last two have none.
//
// EMPTY: arg0 {{.*}} local [0,16]
// EMPTY-NOT: <- arg0
//
// Two blocks of 10 rows per device, of 12 for 2 devices: rows 0, 1, 2, 6, 7 and 8, and 3, 4, 5 and 9.
//
// BLOCKS: arg0 {{.*}} local [4,16] shard 48+[2,3,16]:[96,16,1]
// BLOCKS: copy buf{{[0-9]+}}:f32[4,16] <- arg0:f32[4,16]

#tp = #tandem.mesh<"tp", ["x" = ?]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#cols = #fusion.axes<#tp, [-, didx("x")]>
#all = #fusion.axes<#tp, [-, -]>
#slices = #fusion.axes<#tp, [stream("x"), -]>
#tiles = #fusion.axes<#tp, [stream("x"), didx("x")]>
#sums = #fusion.axes<#tp, [stream("x"), -], partial = ["x"]>
#line = #fusion.axes<#tp, [-]>

func.func @extents_gather(%x: tensor<10x16xf32, #rows> {fusion.name = "x"}, %w: tensor<16x14xf32, #cols> {fusion.name = "w"}) -> (tensor<10x14xf32, #cols> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %w : tensor<10x16xf32, #rows>, tensor<16x14xf32, #cols> -> tensor<10x14xf32, #cols>
  return %y : tensor<10x14xf32, #cols>
}

func.func @extents_gather_ring(%x: tensor<10x16xf32, #rows> {fusion.name = "x"}, %w: tensor<16x14xf32, #cols> {fusion.name = "w"}) -> (tensor<10x14xf32, #tiles> {fusion.name = "y"}) {
  %a = fusion.reshard %x {schedule = #fusion.schedule<ring, directions = 2>} : tensor<10x16xf32, #rows> -> tensor<10x16xf32, #slices>
  %y = fusion.matmul %a, %w : tensor<10x16xf32, #slices>, tensor<16x14xf32, #cols> -> tensor<10x14xf32, #tiles>
  return %y : tensor<10x14xf32, #tiles>
}

func.func @extents_gather_push(%x: tensor<10x16xf32, #rows> {fusion.name = "x"}, %w: tensor<16x14xf32, #cols> {fusion.name = "w"}) -> (tensor<10x14xf32, #tiles> {fusion.name = "y"}) {
  %a = fusion.reshard %x {schedule = #fusion.schedule<push>} : tensor<10x16xf32, #rows> -> tensor<10x16xf32, #slices>
  %y = fusion.matmul %a, %w : tensor<10x16xf32, #slices>, tensor<16x14xf32, #cols> -> tensor<10x14xf32, #tiles>
  return %y : tensor<10x14xf32, #tiles>
}

func.func @extents_reduce(%x: tensor<10x14xf32, #cols> {fusion.name = "x"}, %w: tensor<14x9xf32, #rows> {fusion.name = "w"}) -> (tensor<10x9xf32, #rows> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %w : tensor<10x14xf32, #cols>, tensor<14x9xf32, #rows> -> tensor<10x9xf32, #rows>
  return %y : tensor<10x9xf32, #rows>
}

func.func @extents_reduce_exchange(%x: tensor<10x14xf32, #cols> {fusion.name = "x"}, %w: tensor<14x9xf32, #rows> {fusion.name = "w"}) -> (tensor<10x9xf32, #rows> {fusion.name = "y"}) {
  %p = fusion.matmul %x, %w : tensor<10x14xf32, #cols>, tensor<14x9xf32, #rows> -> tensor<10x9xf32, #sums>
  %y = fusion.reshard %p {schedule = #fusion.schedule<exchange>} : tensor<10x9xf32, #sums> -> tensor<10x9xf32, #rows>
  return %y : tensor<10x9xf32, #rows>
}

func.func @extents_all_reduce(%x: tensor<10x14xf32, #cols> {fusion.name = "x"}, %w: tensor<14x9xf32, #rows> {fusion.name = "w"}) -> (tensor<10x9xf32, #all> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %w : tensor<10x14xf32, #cols>, tensor<14x9xf32, #rows> -> tensor<10x9xf32, #all>
  return %y : tensor<10x9xf32, #all>
}

// Both dimensions are padded.
func.func @extents_all_to_all(%x: tensor<10x14xf32, #rows> {fusion.name = "x"}) -> (tensor<10x14xf32, #cols> {fusion.name = "y"}) {
  %y = fusion.reshard %x : tensor<10x14xf32, #rows> -> tensor<10x14xf32, #cols>
  return %y : tensor<10x14xf32, #cols>
}

// The rows of all activations are padded alike; silu keeps 0. The gradient adds rows, of which the padding is 0.
func.func @extents_layer(%x: tensor<10x16xf32, #rows> {fusion.name = "x"}, %w: tensor<16x14xf32, #cols> {fusion.name = "w"}, %v: tensor<14x16xf32, #rows> {fusion.name = "v"}, %dy: tensor<10x16xf32, #rows> {fusion.name = "dy"}) -> (tensor<10x16xf32, #rows> {fusion.name = "y"}, tensor<14x16xf32, #rows> {fusion.name = "dv"}) {
  %one = arith.constant dense<1.0> : tensor<10x14xf32, #cols>
  %h = fusion.matmul %x, %w : tensor<10x16xf32, #rows>, tensor<16x14xf32, #cols> -> tensor<10x14xf32, #cols>
  %n = arith.negf %h : tensor<10x14xf32, #cols>
  %e = math.exp %n : tensor<10x14xf32, #cols>
  %d = arith.addf %e, %one : tensor<10x14xf32, #cols>
  %a = arith.divf %h, %d : tensor<10x14xf32, #cols>
  %p = fusion.matmul %a, %v : tensor<10x14xf32, #cols>, tensor<14x16xf32, #rows> -> tensor<10x16xf32, #rows>
  %y = arith.addf %p, %x : tensor<10x16xf32, #rows>
  %t = fusion.permute %a [1, 0] : tensor<10x14xf32, #cols> -> tensor<14x10xf32, #rows>
  %dv = fusion.matmul %t, %dy : tensor<14x10xf32, #rows>, tensor<10x16xf32, #rows> -> tensor<14x16xf32, #rows>
  return %y, %dv : tensor<10x16xf32, #rows>, tensor<14x16xf32, #rows>
}

// exp(0) is 1: these sums over rows need the rows without padding.
func.func @extents_sums(%x: tensor<10x16xf32, #rows> {fusion.name = "x"}, %y: tensor<10x9xf32, #rows> {fusion.name = "y"}) -> (tensor<16x9xf32, #all> {fusion.name = "z"}, tensor<16xf32, #line> {fusion.name = "sum"}, tensor<16xf32, #line> {fusion.name = "most"}) {
  %e = math.exp %x : tensor<10x16xf32, #rows>
  %f = math.exp %y : tensor<10x9xf32, #rows>
  %t = fusion.permute %e [1, 0] : tensor<10x16xf32, #rows> -> tensor<16x10xf32>
  %z = fusion.matmul %t, %f : tensor<16x10xf32>, tensor<10x9xf32, #rows> -> tensor<16x9xf32, #all>
  %sum = fusion.reduce sum %e dims [0] : tensor<10x16xf32, #rows> -> tensor<16xf32, #line>
  %n = arith.negf %e : tensor<10x16xf32, #rows>
  %most = fusion.reduce max %n dims [0] : tensor<10x16xf32, #rows> -> tensor<16xf32, #line>
  return %z, %sum, %most : tensor<16x9xf32, #all>, tensor<16xf32, #line>, tensor<16xf32, #line>
}

// A reshape that cuts the dimension, and a concatenation along it.
func.func @extents_shapes(%x: tensor<10x16xf32, #rows> {fusion.name = "x"}, %y: tensor<6x16xf32, #rows> {fusion.name = "y"}) -> (tensor<2x5x16xf32, #fusion.axes<#tp, [-, -, -]>> {fusion.name = "cut"}, tensor<16x16xf32, #rows> {fusion.name = "both"}, tensor<10x4x4xf32, #fusion.axes<#tp, [didx("x"), -, -]>> {fusion.name = "heads"}) {
  %cut = fusion.reshape %x : tensor<10x16xf32, #rows> -> tensor<2x5x16xf32, #fusion.axes<#tp, [-, -, -]>>
  %both = fusion.concat %x, %y dim 0 : (tensor<10x16xf32, #rows>, tensor<6x16xf32, #rows>) -> tensor<16x16xf32, #rows>
  %heads = fusion.reshape %x : tensor<10x16xf32, #rows> -> tensor<10x4x4xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
  return %cut, %both, %heads : tensor<2x5x16xf32, #fusion.axes<#tp, [-, -, -]>>, tensor<16x16xf32, #rows>, tensor<10x4x4xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
}

func.func @extents_few(%x: tensor<2x16xf32, #rows> {fusion.name = "x"}, %w: tensor<16x14xf32, #cols> {fusion.name = "w"}) -> (tensor<2x14xf32, #cols> {fusion.name = "y"}) {
  %y = fusion.matmul %x, %w : tensor<2x16xf32, #rows>, tensor<16x14xf32, #cols> -> tensor<2x14xf32, #cols>
  return %y : tensor<2x14xf32, #cols>
}

// Keys of padding are not read.
func.func @extents_attention(%q: tensor<10x8xf32, #rows> {fusion.name = "q"}, %k: tensor<14x8xf32, #rows> {fusion.name = "k"}, %v: tensor<14x12xf32, #rows> {fusion.name = "v"}) -> (tensor<10x12xf32, #rows> {fusion.name = "y"}) {
  %a = fusion.reshard %k {schedule = #fusion.schedule<ring>} : tensor<14x8xf32, #rows> -> tensor<14x8xf32, #slices>
  %b = fusion.reshard %v {schedule = #fusion.schedule<ring>} : tensor<14x12xf32, #rows> -> tensor<14x12xf32, #slices>
  %y = fusion.attention %q, %a, %b : tensor<10x8xf32, #rows>, tensor<14x8xf32, #slices>, tensor<14x12xf32, #slices> -> tensor<10x12xf32, #rows>
  return %y : tensor<10x12xf32, #rows>
}

func.func @extents_causal(%q: tensor<10x8xf32, #rows> {fusion.name = "q"}, %k: tensor<10x8xf32, #rows> {fusion.name = "k"}, %v: tensor<10x12xf32, #rows> {fusion.name = "v"}) -> (tensor<10x12xf32, #rows> {fusion.name = "y"}) {
  %y = fusion.attention %q, %k, %v {causal} : tensor<10x8xf32, #rows>, tensor<10x8xf32, #rows>, tensor<10x12xf32, #rows> -> tensor<10x12xf32, #rows>
  return %y : tensor<10x12xf32, #rows>
}

// Blocks, the last of which is shorter: of rows, then of columns.
#block_rows = #fusion.axes<#tp, [serial(2) * didx("x"), -]>
#block_cols = #fusion.axes<#tp, [-, serial(2) * didx("x")]>
func.func @extents_blocks(%x: tensor<10x16xf32, #block_rows> {fusion.name = "x"}, %w: tensor<16x14xf32, #all> {fusion.name = "w"}) -> (tensor<10x14xf32, #block_rows> {fusion.name = "y"}, tensor<10x16xf32, #all> {fusion.name = "all"}, tensor<10x14xf32, #block_cols> {fusion.name = "turned"}) {
  %y = fusion.matmul %x, %w : tensor<10x16xf32, #block_rows>, tensor<16x14xf32, #all> -> tensor<10x14xf32, #block_rows>
  %all = fusion.reshard %x : tensor<10x16xf32, #block_rows> -> tensor<10x16xf32, #all>
  %turned = fusion.reshard %y : tensor<10x14xf32, #block_rows> -> tensor<10x14xf32, #block_cols>
  return %y, %all, %turned : tensor<10x14xf32, #block_rows>, tensor<10x16xf32, #all>, tensor<10x14xf32, #block_cols>
}
