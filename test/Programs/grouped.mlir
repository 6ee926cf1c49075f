// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=x=4 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: tandem-compile %s --entry=grouped_gather_push --mesh x=4 --target=cpu-local -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=PUSH
// RUN: tandem-check %t.tsp | FileCheck %s --check-prefix=PROVEN
// RUN: tandem-compile %s --entry=experts_of_groups --mesh x=4 --target=cpu-local -o %t.tsp && tandem-check %t.tsp | FileCheck %s --check-prefix=PROVEN
// RUN: tandem-compile %s --entry=grouped_slices_of_k --mesh x=4 --target=cpu-local -o %t.tsp && tandem-check %t.tsp | FileCheck %s --check-prefix=PROVEN

// Matmuls of experts with groups of different sizes. Dimension 0 is the devices' blocks of tokens: each device sorts its
// own tokens by expert, and `ends` says where each expert's tokens end. Blocks move and are multiplied one by one.
//
// HOSTIR-LABEL: hostir.program @grouped_gather(
// HOSTIR: hostir.call "tandem.grouped_matmul"
//
// PUSH: kernel k0 "tandem.grouped_matmul" external
// PUSH-COUNT-4: call k0({{.*}}f32[1,12,6], {{.*}}f32[1,12,16], {{.*}}f32[6,16,6], {{.*}}i32[1,6])
// PUSH-NOT: call k0
// PROVEN: data: checked

#tp = #tandem.mesh<"tp", ["x" = ?]>
#blocks = #fusion.axes<#tp, [didx("x"), -, -]>
#ends = #fusion.axes<#tp, [didx("x"), -]>
#columns = #fusion.axes<#tp, [-, -, didx("x")]>
#rows = #fusion.axes<#tp, [-, didx("x"), -]>
#all = #fusion.axes<#tp, [-, -, -]>
#all_ends = #fusion.axes<#tp, [-, -]>
#slices = #fusion.axes<#tp, [stream("x"), -, -]>
#slices_of_ends = #fusion.axes<#tp, [stream("x"), -]>
#sliced_columns = #fusion.axes<#tp, [stream("x"), -, didx("x")]>
#sliced_sums = #fusion.axes<#tp, [stream("x"), -, -], partial = ["x"]>

// Each device gathers all tokens, for its columns of each expert.
func.func @grouped_gather(
    %x: tensor<24x12x16xf32, #blocks> {fusion.name = "x"}, %w: tensor<6x16x24xf32, #columns> {fusion.name = "w"},
    %ends: tensor<24x6xi32, #ends> {fusion.name = "ends"}) -> (tensor<24x12x24xf32, #columns> {fusion.name = "y"}) {
  %y = fusion.grouped_matmul %x, %w, %ends
      : tensor<24x12x16xf32, #blocks>, tensor<6x16x24xf32, #columns>, tensor<24x6xi32, #ends>
     -> tensor<24x12x24xf32, #columns>
  return %y : tensor<24x12x24xf32, #columns>
}

func.func @grouped_gather_push(
    %x: tensor<?x12x16xf32, #blocks> {fusion.name = "x", fusion.shape = ["x", 12, 16]},
    %w: tensor<6x16x?xf32, #columns> {fusion.name = "w", fusion.shape = [6, 16, 24]},
    %ends: tensor<?x6xi32, #ends> {fusion.name = "ends"}) -> (tensor<?x12x?xf32, #sliced_columns> {fusion.name = "y"}) {
  %t = fusion.reshard %x {schedule = #fusion.schedule<push>} : tensor<?x12x16xf32, #blocks> -> tensor<?x12x16xf32, #slices>
  %i = fusion.reshard %ends {schedule = #fusion.schedule<push>} : tensor<?x6xi32, #ends> -> tensor<?x6xi32, #slices_of_ends>
  %y = fusion.grouped_matmul %t, %w, %i
      : tensor<?x12x16xf32, #slices>, tensor<6x16x?xf32, #columns>, tensor<?x6xi32, #slices_of_ends>
     -> tensor<?x12x?xf32, #sliced_columns>
  return %y : tensor<?x12x?xf32, #sliced_columns>
}

func.func @grouped_gather_ring(
    %x: tensor<24x12x16xf32, #blocks> {fusion.name = "x"}, %w: tensor<6x24x16xf32, #rows> {fusion.name = "w"},
    %ends: tensor<24x6xi32, #ends> {fusion.name = "ends"}) -> (tensor<24x12x24xf32, #sliced_columns> {fusion.name = "y"}) {
  %t = fusion.reshard %x {schedule = #fusion.schedule<ring>} : tensor<24x12x16xf32, #blocks> -> tensor<24x12x16xf32, #slices>
  %i = fusion.reshard %ends {schedule = #fusion.schedule<ring>} : tensor<24x6xi32, #ends> -> tensor<24x6xi32, #slices_of_ends>
  %y = fusion.grouped_matmul %t, %w, %i {transpose_b}
      : tensor<24x12x16xf32, #slices>, tensor<6x24x16xf32, #rows>, tensor<24x6xi32, #slices_of_ends>
     -> tensor<24x12x24xf32, #sliced_columns>
  return %y : tensor<24x12x24xf32, #sliced_columns>
}

// Each device has some rows of each expert's matrix: results are partial sums.
func.func @grouped_scatter(
    %x: tensor<24x12x24xf32, #columns> {fusion.name = "x"}, %w: tensor<6x24x16xf32, #rows> {fusion.name = "w"},
    %ends: tensor<24x6xi32, #all_ends> {fusion.name = "ends"}) -> (tensor<24x12x16xf32, #blocks> {fusion.name = "y"}) {
  %y = fusion.grouped_matmul %x, %w, %ends
      : tensor<24x12x24xf32, #columns>, tensor<6x24x16xf32, #rows>, tensor<24x6xi32, #all_ends>
     -> tensor<24x12x16xf32, #blocks>
  return %y : tensor<24x12x16xf32, #blocks>
}

func.func @grouped_scatter_push(
    %x: tensor<24x12x24xf32, #columns> {fusion.name = "x"}, %w: tensor<6x24x16xf32, #rows> {fusion.name = "w"},
    %ends: tensor<24x6xi32, #all_ends> {fusion.name = "ends"}) -> (tensor<24x12x16xf32, #blocks> {fusion.name = "y"}) {
  %p = fusion.grouped_matmul %x, %w, %ends
      : tensor<24x12x24xf32, #columns>, tensor<6x24x16xf32, #rows>, tensor<24x6xi32, #all_ends>
     -> tensor<24x12x16xf32, #sliced_sums>
  %y = fusion.reshard %p {schedule = #fusion.schedule<push>}
      : tensor<24x12x16xf32, #sliced_sums> -> tensor<24x12x16xf32, #blocks>
  return %y : tensor<24x12x16xf32, #blocks>
}

func.func @grouped_scatter_ring(
    %x: tensor<24x12x24xf32, #columns> {fusion.name = "x"}, %w: tensor<6x24x16xf32, #rows> {fusion.name = "w"},
    %ends: tensor<24x6xi32, #all_ends> {fusion.name = "ends"}) -> (tensor<24x12x16xf32, #blocks> {fusion.name = "y"}) {
  %p = fusion.grouped_matmul %x, %w, %ends
      : tensor<24x12x24xf32, #columns>, tensor<6x24x16xf32, #rows>, tensor<24x6xi32, #all_ends>
     -> tensor<24x12x16xf32, #sliced_sums>
  %y = fusion.reshard %p {schedule = #fusion.schedule<ring>}
      : tensor<24x12x16xf32, #sliced_sums> -> tensor<24x12x16xf32, #blocks>
  return %y : tensor<24x12x16xf32, #blocks>
}

// A layer: up, silu, down. The loop gathers a block of tokens with its ends, computes both products, and sends its
// partial sums to the block's owner.
func.func @experts_of_groups(
    %x: tensor<24x12x16xf32, #blocks> {fusion.name = "x"}, %w: tensor<6x16x24xf32, #columns> {fusion.name = "w"},
    %v: tensor<6x24x16xf32, #rows> {fusion.name = "v"}, %ends: tensor<24x6xi32, #ends> {fusion.name = "ends"})
    -> (tensor<24x12x16xf32, #blocks> {fusion.name = "y"}) {
  %one = arith.constant dense<1.0> : tensor<24x12x24xf32>
  %u = fusion.grouped_matmul %x, %w, %ends
      : tensor<24x12x16xf32, #blocks>, tensor<6x16x24xf32, #columns>, tensor<24x6xi32, #ends> -> tensor<24x12x24xf32>
  %n = arith.negf %u : tensor<24x12x24xf32>
  %e = math.exp %n : tensor<24x12x24xf32>
  %d = arith.addf %e, %one : tensor<24x12x24xf32>
  %h = arith.divf %u, %d : tensor<24x12x24xf32>
  %y = fusion.grouped_matmul %h, %v, %ends
      : tensor<24x12x24xf32>, tensor<6x24x16xf32, #rows>, tensor<24x6xi32, #ends> -> tensor<24x12x16xf32, #blocks>
  return %y : tensor<24x12x16xf32, #blocks>
}

// A layer with slices and schedules that the text names.
func.func @experts_of_groups_push(
    %x: tensor<24x12x16xf32, #blocks> {fusion.name = "x"}, %w: tensor<6x16x24xf32, #columns> {fusion.name = "w"},
    %v: tensor<6x24x16xf32, #rows> {fusion.name = "v"}, %ends: tensor<24x6xi32, #ends> {fusion.name = "ends"})
    -> (tensor<24x12x16xf32, #blocks> {fusion.name = "y"}) {
  %t = fusion.reshard %x {schedule = #fusion.schedule<push>}
      : tensor<24x12x16xf32, #blocks> -> tensor<24x12x16xf32, #slices>
  %i = fusion.reshard %ends {schedule = #fusion.schedule<push>}
      : tensor<24x6xi32, #ends> -> tensor<24x6xi32, #slices_of_ends>
  %u = fusion.grouped_matmul %t, %w, %i
      : tensor<24x12x16xf32, #slices>, tensor<6x16x24xf32, #columns>, tensor<24x6xi32, #slices_of_ends>
     -> tensor<24x12x24xf32, #sliced_columns>
  %h = arith.mulf %u, %u : tensor<24x12x24xf32, #sliced_columns>
  %p = fusion.grouped_matmul %h, %v, %i
      : tensor<24x12x24xf32, #sliced_columns>, tensor<6x24x16xf32, #rows>, tensor<24x6xi32, #slices_of_ends>
     -> tensor<24x12x16xf32, #sliced_sums>
  %y = fusion.reshard %p {schedule = #fusion.schedule<push>}
      : tensor<24x12x16xf32, #sliced_sums> -> tensor<24x12x16xf32, #blocks>
  return %y : tensor<24x12x16xf32, #blocks>
}

// K arrives in slices, whose products are added up.
func.func @grouped_slices_of_k(
    %x: tensor<24x12x24xf32, #columns> {fusion.name = "x"}, %w: tensor<6x24x16xf32, #all> {fusion.name = "w"},
    %ends: tensor<24x6xi32, #all_ends> {fusion.name = "ends"}) -> (tensor<24x12x16xf32, #all> {fusion.name = "y"}) {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<exchange>}
      : tensor<24x12x24xf32, #columns> -> tensor<24x12x24xf32, #fusion.axes<#tp, [-, -, stream("x")]>>
  %y = fusion.grouped_matmul %0, %w, %ends
      : tensor<24x12x24xf32, #fusion.axes<#tp, [-, -, stream("x")]>>, tensor<6x24x16xf32, #all>,
        tensor<24x6xi32, #all_ends> -> tensor<24x12x16xf32, #all>
  return %y : tensor<24x12x16xf32, #all>
}

// One block of tokens, which all devices have: no batch dimension.
func.func @grouped_columns(
    %x: tensor<48x16xf32, #all_ends> {fusion.name = "x"}, %w: tensor<6x16x24xf32, #columns> {fusion.name = "w"},
    %ends: tensor<6xi32, #fusion.axes<#tp, [-]>> {fusion.name = "ends"})
    -> (tensor<48x24xf32, #all_ends> {fusion.name = "y"}) {
  %y = fusion.grouped_matmul %x, %w, %ends
      : tensor<48x16xf32, #all_ends>, tensor<6x16x24xf32, #columns>, tensor<6xi32, #fusion.axes<#tp, [-]>>
     -> tensor<48x24xf32, #fusion.axes<#tp, [-, didx("x")]>>
  %g = fusion.reshard %y : tensor<48x24xf32, #fusion.axes<#tp, [-, didx("x")]>> -> tensor<48x24xf32, #all_ends>
  return %g : tensor<48x24xf32, #all_ends>
}
