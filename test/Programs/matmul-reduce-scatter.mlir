// Matmul, then each device gets its rows of the sum, slice by slice (stream-lowering document, `matmul_RS_through_bcast`).
// The broadcast of the weights is a view.
#tp = #fusion.mesh<"tp", ["x" = ?]>

func.func @matmul_reduce_scatter(
    %t0: tensor<8x?x?x4x16xf32, #fusion.axes<#tp, [-, didx("x"), -, -, -]>>
        {fusion.name = "t0", fusion.shape = [8, "x", "x", 4, 16]},
    %t1: tensor<?x16x12xf32, #fusion.axes<#tp, [didx("x"), -, -]>> {fusion.name = "t1", fusion.shape = ["x", 16, 12]})
    -> (tensor<8x?x4x12xf32, #fusion.axes<#tp, [stream, didx("x"), -, -]>> {fusion.name = "t4"}) {
  %t2 = fusion.broadcast %t1 dims [1, 3, 4]
      : tensor<?x16x12xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
     -> tensor<1x?x1x16x12xf32, #fusion.axes<#tp, [-, didx("x"), -, -, -]>>
  %t3 = fusion.matmul %t0, %t2
      : tensor<8x?x?x4x16xf32, #fusion.axes<#tp, [-, didx("x"), -, -, -]>>,
        tensor<1x?x1x16x12xf32, #fusion.axes<#tp, [-, didx("x"), -, -, -]>>
     -> tensor<8x?x?x4x12xf32, #fusion.axes<#tp, [stream, didx("x"), -, -, -]>>
  %t4 = fusion.reduce sum %t3 dims [1]
      : tensor<8x?x?x4x12xf32, #fusion.axes<#tp, [stream, didx("x"), -, -, -]>>
     -> tensor<8x?x4x12xf32, #fusion.axes<#tp, [stream, didx("x"), -, -]>>
  return %t4 : tensor<8x?x4x12xf32, #fusion.axes<#tp, [stream, didx("x"), -, -]>>
}
