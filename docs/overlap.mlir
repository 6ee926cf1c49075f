// The two programs of docs/images/overlap.svg: a layer on 2 devices, each as one of eight, without overlap, and with one-sided puts.
// `tools/dev docs` compiles and simulates them (docs/pictures.py).

#tp = #tandem.mesh<"tp", ["x" = 2]>

!x = tensor<8192x8192xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!whole = tensor<8192x8192xbf16, #fusion.axes<#tp, [-, -]>>
!slices = tensor<8192x8192xbf16, #fusion.axes<#tp, [stream("x"), -]>>
!w = tensor<8192x3584xbf16, #fusion.axes<#tp, [-, didx("x")]>>
!y = tensor<8192x3584xbf16, #fusion.axes<#tp, [-, didx("x")]>>
!ys = tensor<8192x3584xbf16, #fusion.axes<#tp, [stream("x"), didx("x")]>>

func.func @baseline(%x: !x, %w: !w) -> !y {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<pipeline>} : !x -> !whole
  %y = fusion.matmul %0, %w : !whole, !w -> !y
  return %y : !y
}

func.func @push(%x: !x, %w: !w) -> !ys {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<push>} : !x -> !slices
  %y = fusion.matmul %0, %w : !slices, !w -> !ys
  return %y : !ys
}
