// All-gather and matmul, point-to-point (stream-lowering document, `AG_matmul_P2p`): each device sends its rows while
// it multiplies those that have arrived.
#tp = #fusion.mesh<"tp", ["x" = ?]>

func.func @allgather_matmul_p2p(
    %t0: tensor<?x16x32xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
        {fusion.name = "t0", fusion.shape = ["x", 16, 32]},
    %t1: tensor<32x16xf32, #fusion.axes<#tp, [-, -]>> {fusion.name = "t1"})
    -> (tensor<?x16x16xf32, #fusion.axes<#tp, [stream, -, -]>> {fusion.name = "t2"}) {
  %t2 = fusion.matmul %t0, %t1
      : tensor<?x16x32xf32, #fusion.axes<#tp, [didx("x"), -, -]>>, tensor<32x16xf32, #fusion.axes<#tp, [-, -]>>
     -> tensor<?x16x16xf32, #fusion.axes<#tp, [stream, -, -]>>
  return %t2 : tensor<?x16x16xf32, #fusion.axes<#tp, [stream, -, -]>>
}
