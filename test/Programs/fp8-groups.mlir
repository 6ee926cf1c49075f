// RUN: tandem-compile %s --entry=scaled_groups --mesh x=4 --target=cpu-local -o %t.tsp && tandem-check %t.tsp | FileCheck %s --check-prefix=PROVEN
// RUN: tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=LAYER
// RUN: tandem-compile %s --entry=scaled_groups_push --mesh x=4 --target=cuda-peer --dump --rank=1 | FileCheck %s --check-prefix=PUSH
// RUN: tandem-compile %s --entry=scaled_groups_push --mesh x=4 --target=cpu-local --dump --rank=1 | FileCheck %s --check-prefix=WIDE
// RUN: tandem-compile %s --entry=scaled_groups_scatter --mesh x=4 --target=cuda-peer --dump --rank=1 | FileCheck %s --check-prefix=SCATTER
// RUN: tandem-compile %s --entry=scaled_groups_slices --mesh x=4 --target=cpu-local -o %t.tsp && tandem-check %t.tsp | FileCheck %s --check-prefix=PROVEN
// RUN: tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=SLICES

// Experts of different sizes on 8-bit floats (docs/operators.md, docs/operators.md). For the kernels of GPUs test/Gpu makes 24
// features 384: of each slice, K is a multiple of 16 and N of 8.
//
// PROVEN: data: checked
// PROVEN-NEXT: no error

#tp = #tandem.mesh<"tp", ["x" = ?]>
#blocks = #fusion.axes<#tp, [didx("x"), -, -]>
#tokens = #fusion.axes<#tp, [didx("x"), -]>
#middle = #fusion.axes<#tp, [-, didx("x"), -]>
#last = #fusion.axes<#tp, [-, -, didx("x")]>
#all = #fusion.axes<#tp, [-, -, -]>
#all_tokens = #fusion.axes<#tp, [-, -]>
#one = #fusion.axes<#tp, []>
#slices = #fusion.axes<#tp, [stream("x"), -, -]>
#slices_of_tokens = #fusion.axes<#tp, [stream("x"), -]>
#sliced_columns = #fusion.axes<#tp, [stream("x"), -, didx("x")]>
#sliced_sums = #fusion.axes<#tp, [stream("x"), -, -], partial = ["x"]>
!h = tensor<24x12x24xf32, #last>
!q = tensor<24x12x24xf8E4M3FN, #last>
!sum = tensor<24x12x32xf32, #blocks>

// A layer. A scale per token travels with its row; one per tensor for w and v. What is between the products is rounded to 8
// bits again, and is a result so that tests see it. Partial sums travel in f32.
//
// LAYER: collective c0 all_gather [[SX:buf[0-9]+]]:f32[4,6,12] <- arg1
// LAYER: call k0([[P:buf[0-9]+]]:f32[24,12,6], {{.*}}f8E4M3FN[24,12,32], arg2:f8E4M3FN[6,6,32], {{.*}}i32[24,6])
// LAYER-NEXT: launch k1(arg8:f8E4M3FN[24,12,6], [[P]]:f32[24,12,6], [[SX]]:f32[24,12,6]
// LAYER-NEXT: call k0([[P2:buf[0-9]+]]:f32[24,12,32], arg8:f8E4M3FN[24,12,6], arg4:f8E4M3FN[6,32,6], {{.*}}i32[24,6])
// LAYER-NEXT: collective c0 reduce_scatter sum [[Y:buf[0-9]+]]:f32[6,12,32] <- [[P2]]
// LAYER-NEXT: launch k2(arg7:bf16[6,12,32], [[Y]]:f32[6,12,32]
func.func @scaled_groups(
    %x: tensor<24x12x32xf8E4M3FN, #blocks> {fusion.name = "x"}, %sx: tensor<24x12xf32, #tokens> {fusion.name = "sx"},
    %w: tensor<6x24x32xf8E4M3FN, #middle> {fusion.name = "w"}, %sw: tensor<f32, #one> {fusion.name = "sw"},
    %v: tensor<6x32x24xf8E4M3FN, #last> {fusion.name = "v"}, %sv: tensor<f32, #one> {fusion.name = "sv"},
    %ends: tensor<24x6xi32, #tokens> {fusion.name = "ends"})
    -> (tensor<24x12x32xbf16, #blocks> {fusion.name = "y"}, !q {fusion.name = "q"}) {
  %p = fusion.grouped_matmul %x, %w, %ends {transpose_b}
      : tensor<24x12x32xf8E4M3FN, #blocks>, tensor<6x24x32xf8E4M3FN, #middle>, tensor<24x6xi32, #tokens> -> !h
  %row = fusion.broadcast %sx dims [0, 1] : tensor<24x12xf32, #tokens> -> !h
  %whole = fusion.broadcast %sw dims [] : tensor<f32, #one> -> !h
  %pr = arith.mulf %p, %row : !h
  %pw = arith.mulf %pr, %whole : !h
  %h = math.tanh %pw : !h
  %scale = arith.constant dense<448.0> : !h
  %large = arith.mulf %h, %scale : !h
  %q = arith.truncf %large : !h to !q
  %p2 = fusion.grouped_matmul %q, %v, %ends {transpose_b}
      : !q, tensor<6x32x24xf8E4M3FN, #last>, tensor<24x6xi32, #tokens> -> !sum
  %back = arith.constant dense<0.002232142857142857> : !sum
  %whole2 = fusion.broadcast %sv dims [] : tensor<f32, #one> -> !sum
  %pb = arith.mulf %p2, %back : !sum
  %pv = arith.mulf %pb, %whole2 : !sum
  %y = arith.truncf %pv : !sum to tensor<24x12x32xbf16, #blocks>
  return %y, %q : tensor<24x12x32xbf16, #blocks>, !q
}

// Two types of factors, a scale per token that is gathered by the same schedule as the rows, and a result that is rounded to
// bf16. For NVIDIA GPUs the product is bf16, too.
//
// PUSH: call k0([[P:buf[0-9]+]]:bf16[6,12,6], {{.*}}f8E5M2[6,12,32], {{.*}}f8E4M3FN[6,6,32], {{.*}}i32[6,6])
// PUSH-NEXT: launch k1({{.*}}bf16[6,12,6], [[P]]:bf16[6,12,6]
// WIDE: call k0([[P:buf[0-9]+]]:f32[6,12,6], {{.*}}f8E5M2[6,12,32], {{.*}}f8E4M3FN[6,6,32], {{.*}}i32[6,6])
// WIDE-NEXT: launch k1({{.*}}bf16[6,12,6], [[P]]:f32[6,12,6]
func.func @scaled_groups_push(
    %x: tensor<24x12x32xf8E5M2, #blocks> {fusion.name = "x"}, %sx: tensor<24x12xf32, #tokens> {fusion.name = "sx"},
    %w: tensor<6x24x32xf8E4M3FN, #middle> {fusion.name = "w"}, %sw: tensor<f32, #one> {fusion.name = "sw"},
    %ends: tensor<24x6xi32, #tokens> {fusion.name = "ends"}) -> (tensor<24x12x24xbf16, #sliced_columns> {fusion.name = "y"}) {
  %t = fusion.reshard %x {schedule = #fusion.schedule<push>} : tensor<24x12x32xf8E5M2, #blocks> -> tensor<24x12x32xf8E5M2, #slices>
  %i = fusion.reshard %ends {schedule = #fusion.schedule<push>} : tensor<24x6xi32, #tokens> -> tensor<24x6xi32, #slices_of_tokens>
  %s = fusion.reshard %sx {schedule = #fusion.schedule<push>} : tensor<24x12xf32, #tokens> -> tensor<24x12xf32, #slices_of_tokens>
  %p = fusion.grouped_matmul %t, %w, %i {transpose_b}
      : tensor<24x12x32xf8E5M2, #slices>, tensor<6x24x32xf8E4M3FN, #middle>, tensor<24x6xi32, #slices_of_tokens>
     -> tensor<24x12x24xf32, #sliced_columns>
  %row = fusion.broadcast %s dims [0, 1] : tensor<24x12xf32, #slices_of_tokens> -> tensor<24x12x24xf32, #sliced_columns>
  %whole = fusion.broadcast %sw dims [] : tensor<f32, #one> -> tensor<24x12x24xf32, #sliced_columns>
  %pr = arith.mulf %p, %row : tensor<24x12x24xf32, #sliced_columns>
  %pw = arith.mulf %pr, %whole : tensor<24x12x24xf32, #sliced_columns>
  %y = arith.truncf %pw : tensor<24x12x24xf32, #sliced_columns> to tensor<24x12x24xbf16, #sliced_columns>
  return %y : tensor<24x12x24xbf16, #sliced_columns>
}

// K is split over the devices: partial sums stay f32, and are reduced before they are scaled.
//
// SCATTER: call k0({{.*}}f32[6,12,32]{{.*}}, {{.*}}f8E4M3FN[6,12,6]{{.*}}, {{.*}}f8E4M3FN[6,32,6], {{.*}}i32[6,6])
// SCATTER-NOT: bf16
// SCATTER: launch {{.*}}bf16
func.func @scaled_groups_scatter(
    %x: tensor<24x12x24xf8E4M3FN, #last> {fusion.name = "x"}, %w: tensor<6x32x24xf8E4M3FN, #last> {fusion.name = "w"},
    %s: tensor<f32, #one> {fusion.name = "s"}, %ends: tensor<24x6xi32, #all_tokens> {fusion.name = "ends"})
    -> (tensor<24x12x32xbf16, #blocks> {fusion.name = "y"}) {
  %p = fusion.grouped_matmul %x, %w, %ends {transpose_b}
      : tensor<24x12x24xf8E4M3FN, #last>, tensor<6x32x24xf8E4M3FN, #last>, tensor<24x6xi32, #all_tokens>
     -> tensor<24x12x32xf32, #sliced_sums>
  %r = fusion.reshard %p {schedule = #fusion.schedule<push>} : tensor<24x12x32xf32, #sliced_sums> -> tensor<24x12x32xf32, #blocks>
  %whole = fusion.broadcast %s dims [] : tensor<f32, #one> -> tensor<24x12x32xf32, #blocks>
  %rs = arith.mulf %r, %whole : tensor<24x12x32xf32, #blocks>
  %y = arith.truncf %rs : tensor<24x12x32xf32, #blocks> to tensor<24x12x32xbf16, #blocks>
  return %y : tensor<24x12x32xbf16, #blocks>
}

// K arrives in slices. Their products are f32, whatever the result is.
//
// SLICES: call k0({{.*}}f32[4,12,32]{{.*}}, {{.*}}f8E4M3FN[4,12,6]{{.*}}, {{.*}}f8E4M3FN[6,32,6]{{.*}}, {{.*}}i32[4,6])
// SLICES: accumulate {{.*}}f32[4,12,32]
// SLICES: launch {{.*}}bf16[4,12,32]
func.func @scaled_groups_slices(
    %x: tensor<4x12x24xf8E4M3FN, #last> {fusion.name = "x"}, %w: tensor<6x32x24xf8E4M3FN, #all> {fusion.name = "w"},
    %ends: tensor<4x6xi32, #all_tokens> {fusion.name = "ends"}) -> (tensor<4x12x32xbf16, #all> {fusion.name = "y"}) {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<exchange>}
      : tensor<4x12x24xf8E4M3FN, #last> -> tensor<4x12x24xf8E4M3FN, #fusion.axes<#tp, [-, -, stream("x")]>>
  %y = fusion.grouped_matmul %0, %w, %ends {transpose_b}
      : tensor<4x12x24xf8E4M3FN, #fusion.axes<#tp, [-, -, stream("x")]>>, tensor<6x32x24xf8E4M3FN, #all>,
        tensor<4x6xi32, #all_tokens> -> tensor<4x12x32xbf16, #all>
  return %y : tensor<4x12x32xbf16, #all>
}
