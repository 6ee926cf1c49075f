// RUN: rm -rf %t && tandem-opt %s --tandem-lower="snapshots=%t" -o %t.mlir && cat %t/*-fusion-insert-reshards.mlir | FileCheck %s --check-prefix=FUSION
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | FileCheck %s --check-prefix=HOSTIR

// Both axes of a mesh do the same on one dimension: one collective of all devices. Terms are scattered, then gathered.

// FUSION-LABEL: func.func @pod_whole(
// FUSION-NOT: row =
// FUSION: return
//
// HOSTIR: hostir.channel "pod.node.gpu.collectives"
// HOSTIR: hostir.collective reduce_scatter %{{.+}} to %{{.+}} via %{{.+}} {reduction = #tandem<reduce_kind max>}
// HOSTIR: hostir.collective all_gather

#pod = #tandem.mesh<"pod", ["node" = 2, "gpu" = 2]>

func.func @pod_whole(%t0: tensor<?x?x5xf32, #fusion.axes<#pod, [didx("node") * didx("gpu"), -, -]>> {fusion.name = "t0", fusion.shape = [8, 12, 5]})
    -> (tensor<?x5xf32, #fusion.axes<#pod, [-, -]>> {fusion.name = "t1"}) {
  %positive = math.absf %t0 : tensor<?x?x5xf32, #fusion.axes<#pod, [didx("node") * didx("gpu"), -, -]>>
  %negative = arith.negf %positive : tensor<?x?x5xf32, #fusion.axes<#pod, [didx("node") * didx("gpu"), -, -]>>
  %term = fusion.reduce max %negative dims [0]
      : tensor<?x?x5xf32, #fusion.axes<#pod, [didx("node") * didx("gpu"), -, -]>>
     -> tensor<?x5xf32, #fusion.axes<#pod, [-, -], partial = max ["node", "gpu"]>>
  %rows = fusion.reshard %term
      : tensor<?x5xf32, #fusion.axes<#pod, [-, -], partial = max ["node", "gpu"]>>
     -> tensor<?x5xf32, #fusion.axes<#pod, [didx("node") * didx("gpu"), -]>>
  %t1 = fusion.reshard %rows
      : tensor<?x5xf32, #fusion.axes<#pod, [didx("node") * didx("gpu"), -]>> -> tensor<?x5xf32, #fusion.axes<#pod, [-, -]>>
  return %t1 : tensor<?x5xf32, #fusion.axes<#pod, [-, -]>>
}
