// Sum over a dimension that is spread over the devices, slice by slice (stream-lowering document, `Allreduce`).
#tp = #fusion.mesh<"tp", ["x" = ?]>

func.func @allreduce(
    %t0: tensor<4x?x8xf32, #fusion.axes<#tp, [-, didx("x"), -]>> {fusion.name = "t0", fusion.shape = [4, "x", 8]})
    -> (tensor<4x8xf32, #fusion.axes<#tp, [stream, -]>> {fusion.name = "t1"}) {
  %t1 = fusion.reduce sum %t0 dims [1] : tensor<4x?x8xf32, #fusion.axes<#tp, [-, didx("x"), -]>>
                                      -> tensor<4x8xf32, #fusion.axes<#tp, [stream, -]>>
  return %t1 : tensor<4x8xf32, #fusion.axes<#tp, [stream, -]>>
}
