// All-gather, a slice of the other dimension per iteration (stream-lowering document, `Allgather`).
#tp = #fusion.mesh<"tp", ["x" = ?]>

func.func @allgather(
    %t0: tensor<4x?x8xf32, #fusion.axes<#tp, [-, didx("x"), -]>> {fusion.name = "t0", fusion.shape = [4, "x", 8]})
    -> (tensor<4x?x8xf32, #fusion.axes<#tp, [stream, -, -]>> {fusion.name = "t1"}) {
  %t1 = fusion.reshard %t0 : tensor<4x?x8xf32, #fusion.axes<#tp, [-, didx("x"), -]>>
                          -> tensor<4x?x8xf32, #fusion.axes<#tp, [stream, -, -]>>
  return %t1 : tensor<4x?x8xf32, #fusion.axes<#tp, [stream, -, -]>>
}
