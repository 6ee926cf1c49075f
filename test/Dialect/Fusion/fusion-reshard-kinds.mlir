// RUN: tandem-opt %s -verify-diagnostics -fusion-form-loops -fusion-select-schedule="log" -o /dev/null

// One reshard for each row of the table (docs/fusion.md), and what it is called.
#tp = #tandem.mesh<"tp", ["x" = 4]>
#turned = #tandem.mesh<"turned", ["x" = 4], devices = [1, 2, 3, 0]>
#far = #tandem.mesh<"far", ["x" = 4], devices = [4, 5, 6, 7]>
#pod = #tandem.mesh<"pod", ["node" = 2, "gpu" = 2]>
#one = #tandem.mesh<"one", [], devices = [2]>
!rows = tensor<16x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
!cols = tensor<16x16xf32, #fusion.axes<#tp, [-, didx("x")]>>
!cyclic = tensor<16x16xf32, #fusion.axes<#tp, [serial(2) * didx("x"), -]>>
!whole = tensor<16x16xf32, #fusion.axes<#tp, [-, -]>>
!chunks = tensor<16x16xf32, #fusion.axes<#tp, [didx("x") * stream(2), stream]>>
!part = tensor<16x16xf32, #fusion.axes<#tp, [-, -], partial = max ["x"]>>
!here = tensor<16x16xf32, #fusion.axes<#one, [-, -]>>

// expected-remark @+1 {{fusion-select-schedule: 14 pipeline, 0 annotated}}
func.func @rows_of_the_table(%rows: !rows, %whole: !whole, %part: !part, %here: !here,
    %node: tensor<16x16xf32, #fusion.axes<#pod, [didx("node"), -]>>) {
  // expected-remark @+1 {{nothing goes through}}
  %0 = fusion.reshard %rows : !rows -> !chunks
  // expected-remark @+1 {{all-gather goes through}}
  %1 = fusion.reshard %rows : !rows -> !whole
  // expected-remark @+1 {{all-reduce goes through}}
  %2 = fusion.reshard %part : !part -> !whole
  // expected-remark @+1 {{reduce-scatter goes through}}
  %3 = fusion.reshard %part : !part -> !cols
  // expected-remark @+1 {{all-to-all goes through}}
  %4 = fusion.reshard %rows : !rows -> !cols
  // expected-remark @+1 {{all-to-all goes through}}
  %5 = fusion.reshard %rows : !rows -> !cyclic
  // expected-remark @+1 {{permute goes through}}
  %6 = fusion.reshard %rows : !rows -> tensor<16x16xf32, #fusion.axes<#turned, [didx("x"), -]>>
  // expected-remark @+1 {{permute goes through}}
  %7 = fusion.reshard %node : tensor<16x16xf32, #fusion.axes<#pod, [didx("node"), -]>> -> tensor<16x16xf32, #fusion.axes<#pod, [didx("gpu"), -]>>
  // A slice communicates nothing: it is in no loop.
  %8 = fusion.reshard %whole : !whole -> !cols
  // expected-remark @+1 {{send/recv goes through}}
  %9 = fusion.reshard %rows : !rows -> tensor<16x16xf32, #fusion.axes<#far, [didx("x"), -]>>
  // expected-remark @+1 {{broadcast goes through}}
  %10 = fusion.reshard %here : !here -> !whole
  // expected-remark @+1 {{scatter goes through}}
  %11 = fusion.reshard %here : !here -> !cols
  // expected-remark @+1 {{gather goes through}}
  %12 = fusion.reshard %rows : !rows -> !here
  // expected-remark @+1 {{reduce goes through}}
  %13 = fusion.reshard %part : !part -> !here
  // expected-remark @+1 {{transfer goes through}}
  %14 = fusion.reshard %node : tensor<16x16xf32, #fusion.axes<#pod, [didx("node"), -]>> -> !cols
  return
}
