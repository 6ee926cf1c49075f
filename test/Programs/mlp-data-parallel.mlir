// RUN: rm -rf %t && tandem-opt %s --tandem-lower="mesh=dp=2,tp=2 snapshots=%t" -o %t.mlir
// RUN: cat %t/*-fusion-select-schedule.mlir | FileCheck %s --check-prefix=FUSION
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | tandem-opt --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: FileCheck %s --check-prefix=PLANNED --input-file=%t.mlir
// RUN: tandem-compile %s --entry=mlp_data_parallel --mesh dp=2,tp=2 -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=RANK1

// The MLP of mlp.mlir on a mesh of two axes: tensor parallel over "tp", and tokens split over "dp". What each replica of
// the weights adds to dW1 is all-reduced over "dp"; dW2 is reduce-scattered over it, for an optimizer that is split so. The
// hidden layer is sliced: x and dy come over "tp" piece by piece, each piece beside the work on the one before.
//
// FUSION-LABEL: func.func @mlp_data_parallel(
// FUSION: fusion.reshard {{.*}}[didx("dp") * didx("tp"), -]>> -> {{.*}}[didx("dp") * stream(2), -]>>
// FUSION: math.tanh
// FUSION: fusion.matmul {{.*}} {transpose_a} {{.*}}, partial = ["dp"]>>
// FUSION: fusion.matmul {{.*}} {transpose_a} {{.*}}, partial = ["dp"]>>
// FUSION: fusion.reshard {{.*}}, partial = ["tp"]>> -> {{.*}}[didx("dp") * didx("tp") * stream(2), -]>>
// FUSION: fusion.reshard {{.*}}, partial = ["tp"]>> -> {{.*}}[didx("dp") * didx("tp") * stream(2), -]>>
// FUSION: fusion.reshard {{.*}}, partial = ["dp"]>> -> {{.*}}[-, didx("tp")]>>
// FUSION: fusion.reshard {{.*}}, partial = ["dp"]>> -> {{.*}}[didx("tp") * didx("dp"), -]>>
//
// HOSTIR-LABEL: hostir.program @mlp_data_parallel(
// HOSTIR-DAG: hostir.channel "pod.tp{{.*}} over #pod ["tp"]
// HOSTIR-DAG: hostir.channel "pod.dp{{.*}} over #pod ["dp"]
// HOSTIR: hostir.collective all_reduce
// HOSTIR: hostir.collective reduce_scatter
//
// PLANNED-LABEL: hostir.program @mlp_data_parallel(
// PLANNED-NOT: hostir.collective
// PLANNED-LABEL: hostir.program private @mlp_data_parallel__reference(
//
// RANK1: argument arg7 result "dw2" f32[24,16] axes [didx("tp") * didx("dp"), -]
// RANK1: launch

#pod = #tandem.mesh<"pod", ["dp" = ?, "tp" = ?]>
#tokens = #fusion.axes<#pod, [didx("dp") * didx("tp"), -]>
#rows = #fusion.axes<#pod, [didx("tp"), -]>
#columns = #fusion.axes<#pod, [-, didx("tp")]>
#hidden = #fusion.axes<#pod, [didx("dp") * stream("tp"), didx("tp")]>
#sliced_tokens = #fusion.axes<#pod, [didx("dp") * didx("tp") * stream(2), -]>
#scattered = #fusion.axes<#pod, [didx("tp") * didx("dp"), -]>

func.func @mlp_data_parallel(
    %x: tensor<48x16xf32, #tokens> {fusion.name = "x"},
    %w1: tensor<16x24xf32, #columns> {fusion.name = "w1"},
    %w2: tensor<24x16xf32, #rows> {fusion.name = "w2"},
    %dy: tensor<48x16xf32, #tokens> {fusion.name = "dy"})
    -> (tensor<48x16xf32, #sliced_tokens> {fusion.name = "y"}, tensor<48x16xf32, #sliced_tokens> {fusion.name = "dx"},
        tensor<16x24xf32, #columns> {fusion.name = "dw1"}, tensor<24x16xf32, #scattered> {fusion.name = "dw2"}) {
  %half = arith.constant dense<0.5> : tensor<48x24xf32, #hidden>
  %one = arith.constant dense<1.0> : tensor<48x24xf32, #hidden>
  %c0 = arith.constant dense<0.7978845608> : tensor<48x24xf32, #hidden>
  %c1 = arith.constant dense<0.0356774081> : tensor<48x24xf32, #hidden>
  %c3 = arith.constant dense<0.1070322244> : tensor<48x24xf32, #hidden>

  // h = AG(x) W1; t = tanh(c0 h + c1 h^3); a = h (1 + t) / 2
  %h = fusion.matmul %x, %w1 : tensor<48x16xf32, #tokens>, tensor<16x24xf32, #columns> -> tensor<48x24xf32, #hidden>
  %h2 = arith.mulf %h, %h : tensor<48x24xf32, #hidden>
  %p1 = arith.mulf %c1, %h2 : tensor<48x24xf32, #hidden>
  %p2 = arith.addf %c0, %p1 : tensor<48x24xf32, #hidden>
  %p3 = arith.mulf %h, %p2 : tensor<48x24xf32, #hidden>
  %t = math.tanh %p3 : tensor<48x24xf32, #hidden>
  %t1 = arith.addf %one, %t : tensor<48x24xf32, #hidden>
  %g = arith.mulf %half, %t1 : tensor<48x24xf32, #hidden>
  %a = arith.mulf %h, %g : tensor<48x24xf32, #hidden>
  // y = RS(a W2)
  %y = fusion.matmul %a, %w2 : tensor<48x24xf32, #hidden>, tensor<24x16xf32, #rows> -> tensor<48x16xf32, #sliced_tokens>

  // da = AG(dy) W2^T; da/dh = (1 + t) / 2 + h (1 - t^2) (c0 + 3 c1 h^2) / 2
  %da = fusion.matmul %dy, %w2 {transpose_b}
      : tensor<48x16xf32, #tokens>, tensor<24x16xf32, #rows> -> tensor<48x24xf32, #hidden>
  %q1 = arith.mulf %c3, %h2 : tensor<48x24xf32, #hidden>
  %q2 = arith.addf %c0, %q1 : tensor<48x24xf32, #hidden>
  %q3 = arith.mulf %t, %t : tensor<48x24xf32, #hidden>
  %q4 = arith.subf %one, %q3 : tensor<48x24xf32, #hidden>
  %q5 = arith.mulf %q2, %q4 : tensor<48x24xf32, #hidden>
  %q6 = arith.mulf %h, %q5 : tensor<48x24xf32, #hidden>
  %q7 = arith.mulf %half, %q6 : tensor<48x24xf32, #hidden>
  %d = arith.addf %g, %q7 : tensor<48x24xf32, #hidden>
  %dh = arith.mulf %da, %d : tensor<48x24xf32, #hidden>
  // dx = RS(dh W1^T), dW1 = AG(x)^T dh, dW2 = a^T AG(dy)
  %dx = fusion.matmul %dh, %w1 {transpose_b}
      : tensor<48x24xf32, #hidden>, tensor<16x24xf32, #columns> -> tensor<48x16xf32, #sliced_tokens>
  %dw1 = fusion.matmul %x, %dh {transpose_a}
      : tensor<48x16xf32, #tokens>, tensor<48x24xf32, #hidden> -> tensor<16x24xf32, #columns>
  %dw2 = fusion.matmul %a, %dy {transpose_a}
      : tensor<48x24xf32, #hidden>, tensor<48x16xf32, #tokens> -> tensor<24x16xf32, #scattered>
  return %y, %dx, %dw1, %dw2
      : tensor<48x16xf32, #sliced_tokens>, tensor<48x16xf32, #sliced_tokens>, tensor<16x24xf32, #columns>, tensor<24x16xf32, #scattered>
}
