// RUN: tandem-compile %s --entry=norm_qkv --mesh x=4 --target=cpu-local -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=NORM
// RUN: tandem-check %t.tsp | FileCheck %s --check-prefix=PROVEN
// RUN: tandem-compile %s --entry=dropout_slices --mesh x=4 --target=cpu-local -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=DROPOUT
// RUN: tandem-check %t.tsp | FileCheck %s --check-prefix=PROVEN
// RUN: tandem-compile %s --entry=heads --mesh x=4 --target=cpu-local -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=HEADS
// RUN: tandem-check %t.tsp | FileCheck %s --check-prefix=PROVEN

// RUN: tandem-compile %s --entry=dropout_mask_slices --mesh x=4 --target=cpu-local -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=MASK
// RUN: tandem-check %t.tsp | FileCheck %s --check-prefix=PROVEN
// RUN: tandem-compile %s --entry=heads_sums --mesh x=4 --target=cpu-local -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=SUMS
// RUN: tandem-check %t.tsp | FileCheck %s --check-prefix=PROVEN

// Kernels of the embedder (test/Kernels) in stream loops: `embedder_kernels.py` runs them and compares with NumPy.

#tp = #tandem.mesh<"tp", ["x" = ?]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#slices = #fusion.axes<#tp, [stream("x"), -]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
#all = #fusion.axes<#tp, [-, -]>
#vector = #fusion.axes<#tp, [-]>
#scalar = #fusion.axes<#tp, []>
#tokens = #fusion.axes<#tp, [-, didx("x"), -]>

func.func private @rms_norm(tensor<48x16xf32>, tensor<16xf32>) -> tensor<48x16xf32>
func.func private @attention(tensor<12x10x8xf32>, tensor<12x10x8xf32>, tensor<12x10x6xf32>) -> tensor<12x10x6xf32>
func.func private @dropout(tensor<48x24xf32>, tensor<i32>) -> tensor<48x24xf32>
func.func private @gather_rows(tensor<10x24xf32>, tensor<48xi32>) -> tensor<48x24xf32>

// Norm of the gathered rows, slice by slice, then a product with columns of the weight. A device's own rows have no copy.
//
// NORM: kernel k0 "rms_norm" external {{.*}} dims [0,-1,0,-1,-1] config "0.1" flops 64
// NORM: call k0({{.*}}f32[12,16], {{.*}}f32[12,16], {{.*}}f32[16]) at [12] of [48]
// PROVEN: data: checked
func.func @norm_qkv(
    %x: tensor<48x16xf32, #rows> {fusion.name = "x"}, %g: tensor<16xf32, #vector> {fusion.name = "g"},
    %w: tensor<16x48xf32, #columns> {fusion.name = "w"}) -> (tensor<48x48xf32, #columns> {fusion.name = "y"}) {
  %0 = fusion.reshard %x : tensor<48x16xf32, #rows> -> tensor<48x16xf32, #slices>
  %1 = fusion.call @rms_norm(%0, %g) dims "s_, _ -> s_" {config = "0.1", flops = 64.0}
    : (tensor<48x16xf32, #slices>, tensor<16xf32, #vector>) -> tensor<48x16xf32, #slices>
  %2 = fusion.matmul %1, %w : tensor<48x16xf32, #slices>, tensor<16x48xf32, #columns>
    -> tensor<48x48xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>>
  %y = fusion.reshard %2 : tensor<48x48xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>> -> tensor<48x48xf32, #columns>
  return %y : tensor<48x48xf32, #columns>
}

// Dropout of a product, slice by slice: elements are dropped by their places in the whole tensor. Rows 12 to 23 of the
// gathered tensor are rank 1's own.
//
// DROPOUT: call k0({{.*}}) at [12, 0] of [48, 24]
func.func @dropout_slices(
    %x: tensor<48x16xf32, #rows> {fusion.name = "x"}, %w: tensor<16x24xf32, #all> {fusion.name = "w"},
    %seed: tensor<i32, #scalar> {fusion.name = "seed"}) -> (tensor<48x24xf32, #slices> {fusion.name = "y"}) {
  %0 = fusion.matmul %x, %w : tensor<48x16xf32, #rows>, tensor<16x24xf32, #all> -> tensor<48x24xf32, #slices>
  %y = fusion.call @dropout(%0, %seed) dims "sc, -> sc" {config = "0.25", strided}
    : (tensor<48x24xf32, #slices>, tensor<i32, #scalar>) -> tensor<48x24xf32, #slices>
  return %y : tensor<48x24xf32, #slices>
}

// Each device has some columns: the same elements are dropped.
func.func @dropout_columns(
    %x: tensor<48x24xf32, #columns> {fusion.name = "x"}, %seed: tensor<i32, #scalar> {fusion.name = "seed"})
    -> (tensor<48x24xf32, #columns> {fusion.name = "y"}) {
  %y = fusion.call @dropout(%x, %seed) dims "sc, -> sc" {config = "0.25"}
    : (tensor<48x24xf32, #columns>, tensor<i32, #scalar>) -> tensor<48x24xf32, #columns>
  return %y : tensor<48x24xf32, #columns>
}

// Block-cyclic rows, in slices: one call for each run of rows.
func.func @dropout_cyclic(
    %x: tensor<48x24xf32, #fusion.axes<#tp, [serial(2) * didx("x"), -]>> {fusion.name = "x"},
    %seed: tensor<i32, #scalar> {fusion.name = "seed"})
    -> (tensor<48x24xf32, #fusion.axes<#tp, [serial(2) * didx("x"), stream(3)]>> {fusion.name = "y"}) {
  %y = fusion.call @dropout(%x, %seed) dims "sc, -> sc" {config = "0.25"}
    : (tensor<48x24xf32, #fusion.axes<#tp, [serial(2) * didx("x"), -]>>, tensor<i32, #scalar>)
    -> tensor<48x24xf32, #fusion.axes<#tp, [serial(2) * didx("x"), stream(3)]>>
  return %y : tensor<48x24xf32, #fusion.axes<#tp, [serial(2) * didx("x"), stream(3)]>>
}

// Attention per head: each device computes its heads as slices of three, and the output projection adds up over devices.
//
// HEADS: call k0({{.*}}f32[3,10,6]{{.*}}) at [3] of [12]
func.func @heads(
    %q: tensor<12x10x8xf32, #fusion.axes<#tp, [didx("x"), -, -]>> {fusion.name = "q"},
    %k: tensor<12x10x8xf32, #fusion.axes<#tp, [didx("x"), -, -]>> {fusion.name = "k"},
    %v: tensor<12x10x6xf32, #fusion.axes<#tp, [didx("x"), -, -]>> {fusion.name = "v"})
    -> (tensor<12x10x6xf32, #fusion.axes<#tp, [-, -, -]>> {fusion.name = "y"}) {
  %0 = fusion.call @attention(%q, %k, %v) dims "h__, h__, h__ -> h__" {flops = 2800.0}
    : (tensor<12x10x8xf32, #fusion.axes<#tp, [didx("x"), -, -]>>, tensor<12x10x8xf32, #fusion.axes<#tp, [didx("x"), -, -]>>,
       tensor<12x10x6xf32, #fusion.axes<#tp, [didx("x"), -, -]>>) -> tensor<12x10x6xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
  %y = fusion.reshard %0 : tensor<12x10x6xf32, #fusion.axes<#tp, [didx("x"), -, -]>> -> tensor<12x10x6xf32, #fusion.axes<#tp, [-, -, -]>>
  return %y : tensor<12x10x6xf32, #fusion.axes<#tp, [-, -, -]>>
}

// Two results of one call: attention and the logarithms of its sums; both are gathered.
//
// SUMS: kernel k0 "attention_sums" external {{.*}} dims [0,-1,-1,0,-1,0,-1,-1,0,-1,-1,0,-1,-1]
// SUMS: call k0({{.*}}f32[3,10,6], {{.*}}f32[3,10], {{.*}}) at [3] of [12]
func.func private @attention_sums(tensor<12x10x8xf32>, tensor<12x10x8xf32>, tensor<12x10x6xf32>) -> (tensor<12x10x6xf32>, tensor<12x10xf32>)
func.func @heads_sums(
    %q: tensor<12x10x8xf32, #fusion.axes<#tp, [didx("x"), -, -]>> {fusion.name = "q"},
    %k: tensor<12x10x8xf32, #fusion.axes<#tp, [didx("x"), -, -]>> {fusion.name = "k"},
    %v: tensor<12x10x6xf32, #fusion.axes<#tp, [didx("x"), -, -]>> {fusion.name = "v"})
    -> (tensor<12x10x6xf32, #fusion.axes<#tp, [-, -, -]>> {fusion.name = "y"}, tensor<12x10xf32, #all> {fusion.name = "sums"}) {
  %0:2 = fusion.call @attention_sums(%q, %k, %v) dims "h__, h__, h__ -> h__, h_" {flops = 2800.0}
    : (tensor<12x10x8xf32, #fusion.axes<#tp, [didx("x"), -, -]>>, tensor<12x10x8xf32, #fusion.axes<#tp, [didx("x"), -, -]>>,
       tensor<12x10x6xf32, #fusion.axes<#tp, [didx("x"), -, -]>>)
    -> (tensor<12x10x6xf32, #fusion.axes<#tp, [didx("x"), -, -]>>, tensor<12x10xf32, #rows>)
  %y = fusion.reshard %0#0 : tensor<12x10x6xf32, #fusion.axes<#tp, [didx("x"), -, -]>> -> tensor<12x10x6xf32, #fusion.axes<#tp, [-, -, -]>>
  %sums = fusion.reshard %0#1 : tensor<12x10xf32, #rows> -> tensor<12x10xf32, #all>
  return %y, %sums : tensor<12x10x6xf32, #fusion.axes<#tp, [-, -, -]>>, tensor<12x10xf32, #all>
}

// Dropout of gathered rows with its mask, slice by slice; both results are used in the loop.
//
// MASK: call k0({{.*}}f32[12,24], {{.*}}i8[12,24], {{.*}}) at [12, 0] of [48, 24]
func.func private @dropout_mask(tensor<48x24xf32>, tensor<i32>) -> (tensor<48x24xf32>, tensor<48x24xi8>)
func.func @dropout_mask_slices(
    %x: tensor<48x24xf32, #rows> {fusion.name = "x"}, %w: tensor<24x16xf32, #all> {fusion.name = "w"},
    %seed: tensor<i32, #scalar> {fusion.name = "seed"})
    -> (tensor<48x16xf32, #slices> {fusion.name = "y"}, tensor<48x24xi8, #slices> {fusion.name = "mask"}) {
  %0 = fusion.reshard %x : tensor<48x24xf32, #rows> -> tensor<48x24xf32, #slices>
  %1:2 = fusion.call @dropout_mask(%0, %seed) dims "sc, -> sc, sc" {config = "0.25"}
    : (tensor<48x24xf32, #slices>, tensor<i32, #scalar>) -> (tensor<48x24xf32, #slices>, tensor<48x24xi8, #slices>)
  %y = fusion.matmul %1#0, %w : tensor<48x24xf32, #slices>, tensor<24x16xf32, #all> -> tensor<48x16xf32, #slices>
  return %y, %1#1 : tensor<48x16xf32, #slices>, tensor<48x24xi8, #slices>
}

// Queries that are split by tokens are masked by their places; keys and values are gathered. A token's slice of all
// batches is strided: the kernel gets dense copies.
func.func private @attention_causal(tensor<2x48x8xf32>, tensor<2x48x8xf32>, tensor<2x48x6xf32>) -> tensor<2x48x6xf32>
func.func @causal(
    %q: tensor<2x48x8xf32, #tokens> {fusion.name = "q"}, %k: tensor<2x48x8xf32, #tokens> {fusion.name = "k"},
    %v: tensor<2x48x6xf32, #tokens> {fusion.name = "v"}) -> (tensor<2x48x6xf32, #tokens> {fusion.name = "y"}) {
  %y = fusion.call @attention_causal(%q, %k, %v) dims "bs_, b__, b__ -> bs_" {config = "causal"}
    : (tensor<2x48x8xf32, #tokens>, tensor<2x48x8xf32, #tokens>, tensor<2x48x6xf32, #tokens>) -> tensor<2x48x6xf32, #tokens>
  return %y : tensor<2x48x6xf32, #tokens>
}

// Rows of a table that is split by columns, for tokens that are split too: the ids are gathered.
func.func @embedding(
    %table: tensor<10x24xf32, #columns> {fusion.name = "table"},
    %ids: tensor<48xi32, #fusion.axes<#tp, [didx("x")]>> {fusion.name = "ids"})
    -> (tensor<48x24xf32, #rows> {fusion.name = "y"}) {
  %0 = fusion.call @gather_rows(%table, %ids) dims "_c, s -> sc"
    : (tensor<10x24xf32, #columns>, tensor<48xi32, #fusion.axes<#tp, [didx("x")]>>) -> tensor<48x24xf32, #columns>
  %y = fusion.reshard %0 : tensor<48x24xf32, #columns> -> tensor<48x24xf32, #rows>
  return %y : tensor<48x24xf32, #rows>
}
