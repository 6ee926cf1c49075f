// The same sum, and each device keeps its part of another dimension (stream-lowering document, `ReduceScatter`).
#tp = #fusion.mesh<"tp", ["x" = ?]>

func.func @reduce_scatter(
    %t0: tensor<4x?x?x8xf32, #fusion.axes<#tp, [-, didx("x"), -, -]>> {fusion.name = "t0", fusion.shape = [4, "x", "x", 8]})
    -> (tensor<4x?x8xf32, #fusion.axes<#tp, [stream, didx("x"), -]>> {fusion.name = "t1"}) {
  %t1 = fusion.reduce sum %t0 dims [1] : tensor<4x?x?x8xf32, #fusion.axes<#tp, [-, didx("x"), -, -]>>
                                      -> tensor<4x?x8xf32, #fusion.axes<#tp, [stream, didx("x"), -]>>
  return %t1 : tensor<4x?x8xf32, #fusion.axes<#tp, [stream, didx("x"), -]>>
}
