// The programs whose timelines docs/schedules.md shows: one layer on 4 devices, with each schedule. `tools/dev docs`
// compiles and simulates each function and draws docs/images/<function>.svg: on 4 H200, and those of a pod on 2 nodes of
// 2 H100 (of machines/dgx-h100-pod.json).

#tp = #tandem.mesh<"tp", ["x" = 4]>
#pod = #tandem.mesh<"pod", ["node" = 2, "gpu" = 2]>

!x = tensor<8192x8192xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!slices = tensor<8192x8192xbf16, #fusion.axes<#tp, [stream("x"), -]>>
!w = tensor<8192x8192xbf16, #fusion.axes<#tp, [-, didx("x")]>>
!y = tensor<8192x8192xbf16, #fusion.axes<#tp, [stream("x"), didx("x")]>>

!xk = tensor<8192x8192xbf16, #fusion.axes<#tp, [-, didx("x")]>>
!wk = tensor<8192x8192xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!terms = tensor<8192x8192xbf16, #fusion.axes<#tp, [stream("x"), -], partial = ["x"]>>
!terms2 = tensor<8192x8192xbf16, #fusion.axes<#tp, [stream("x") * stream(2), -], partial = ["x"]>>
!sum2 = tensor<8192x8192xbf16, #fusion.axes<#tp, [stream("x") * stream(2), -]>>

!xn = tensor<8192x8192xbf16, #fusion.axes<#pod, [didx("node") * didx("gpu"), -]>>
!slicesn = tensor<8192x8192xbf16, #fusion.axes<#pod, [stream("node") * stream("gpu"), -]>>
!wn = tensor<8192x8192xbf16, #fusion.axes<#pod, [-, didx("node") * didx("gpu")]>>
!yn = tensor<8192x8192xbf16, #fusion.axes<#pod, [stream("node") * stream("gpu"), didx("node") * didx("gpu")]>>

func.func @pipeline(%x: !x, %w: !w) -> !y {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<pipeline>} : !x -> !slices
  %y = fusion.matmul %0, %w : !slices, !w -> !y
  return %y : !y
}

func.func @exchange(%x: !x, %w: !w) -> !y {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<exchange>} : !x -> !slices
  %y = fusion.matmul %0, %w : !slices, !w -> !y
  return %y : !y
}

func.func @ring(%x: !x, %w: !w) -> !y {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<ring>} : !x -> !slices
  %y = fusion.matmul %0, %w : !slices, !w -> !y
  return %y : !y
}

func.func @ring_both(%x: !x, %w: !w) -> !y {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<ring, directions = 2>} : !x -> !slices
  %y = fusion.matmul %0, %w : !slices, !w -> !y
  return %y : !y
}

func.func @ring_reduce(%x: !xk, %w: !wk) -> !x {
  %0 = fusion.matmul %x, %w : !xk, !wk -> !terms
  %y = fusion.reshard %0 {schedule = #fusion.schedule<ring>} : !terms -> !x
  return %y : !x
}

func.func @push(%x: !x, %w: !w) -> !y {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<push>} : !x -> !slices
  %y = fusion.matmul %0, %w : !slices, !w -> !y
  return %y : !y
}

func.func @push_reduce(%x: !xk, %w: !wk) -> !x {
  %0 = fusion.matmul %x, %w : !xk, !wk -> !terms
  %y = fusion.reshard %0 {schedule = #fusion.schedule<push>} : !terms -> !x
  return %y : !x
}

func.func @push_all_reduce(%x: !xk, %w: !wk) -> !sum2 {
  %0 = fusion.matmul %x, %w : !xk, !wk -> !terms2
  %y = fusion.reshard %0 {schedule = #fusion.schedule<push>} : !terms2 -> !sum2
  return %y : !sum2
}

func.func @hierarchical(%x: !xn, %w: !wn) -> !yn {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<hierarchical>} : !xn -> !slicesn
  %y = fusion.matmul %0, %w : !slicesn, !wn -> !yn
  return %y : !yn
}
