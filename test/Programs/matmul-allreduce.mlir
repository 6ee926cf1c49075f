// Matmul, then a sum over the devices' terms, slice by slice (stream-lowering document, `matmul_AR`). The matmul is
// batched over dimension 1, which is spread over the devices and then summed.
#tp = #fusion.mesh<"tp", ["x" = ?]>

func.func @matmul_allreduce(
    %t0: tensor<8x?x4x16xf32, #fusion.axes<#tp, [-, didx("x"), -, -]>>
        {fusion.name = "t0", fusion.shape = [8, "x", 4, 16]},
    %t1: tensor<?x16x12xf32, #fusion.axes<#tp, [didx("x"), -, -]>> {fusion.name = "t1", fusion.shape = ["x", 16, 12]})
    -> (tensor<8x4x12xf32, #fusion.axes<#tp, [stream, -, -]>> {fusion.name = "t3"}) {
  %t2 = fusion.matmul %t0, %t1
      : tensor<8x?x4x16xf32, #fusion.axes<#tp, [-, didx("x"), -, -]>>, tensor<?x16x12xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
     -> tensor<8x?x4x12xf32, #fusion.axes<#tp, [stream, didx("x"), -, -]>>
  %t3 = fusion.reduce sum %t2 dims [1]
      : tensor<8x?x4x12xf32, #fusion.axes<#tp, [stream, didx("x"), -, -]>> -> tensor<8x4x12xf32, #fusion.axes<#tp, [stream, -, -]>>
  return %t3 : tensor<8x4x12xf32, #fusion.axes<#tp, [stream, -, -]>>
}
