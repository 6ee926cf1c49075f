// RUN: rm -rf %t && tandem-opt %s --tandem-lower="snapshots=%t" -o %t.mlir && cat %t/*-fusion-insert-reshards.mlir | FileCheck %s --check-prefix=FUSION
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | FileCheck %s --check-prefix=HOSTIR

// Two mesh axes at once: terms of the devices of a node are reduced and scattered, then columns are gathered from the
// other nodes. The reshard is written out as the two steps that it is.

// FUSION-LABEL: func.func @pod(
// FUSION: %[[TERM:.+]] = fusion.reduce
// FUSION: %[[ROWS:.+]] = fusion.reshard %[[TERM]] {part} : {{.*}} -> tensor<12x6xf32, #fusion.axes<#{{.+}}, [didx("gpu"), didx("node")]>>
// FUSION: fusion.reshard %[[ROWS]] {part} : {{.*}} -> tensor<12x6xf32, #fusion.axes<#{{.+}}, [didx("gpu"), -]>>
//
// HOSTIR-DAG: hostir.channel "pod.gpu.collectives"
// HOSTIR-DAG: hostir.channel "pod.node.collectives"
// HOSTIR: hostir.collective reduce_scatter
// HOSTIR: hostir.collective all_gather

#pod = #tandem.mesh<"pod", ["node" = 2, "gpu" = 2]>

func.func @pod(%t0: tensor<?x?x?xf32, #fusion.axes<#pod, [didx("gpu"), -, didx("node")]>> {fusion.name = "t0", fusion.shape = [4, 12, 6]})
    -> (tensor<?x?xf32, #fusion.axes<#pod, [didx("gpu"), -]>> {fusion.name = "t1"}) {
  %term = fusion.reduce sum %t0 dims [0]
      : tensor<?x?x?xf32, #fusion.axes<#pod, [didx("gpu"), -, didx("node")]>>
     -> tensor<?x?xf32, #fusion.axes<#pod, [-, didx("node")], partial = ["gpu"]>>
  %t1 = fusion.reshard %term
      : tensor<?x?xf32, #fusion.axes<#pod, [-, didx("node")], partial = ["gpu"]>> -> tensor<?x?xf32, #fusion.axes<#pod, [didx("gpu"), -]>>
  return %t1 : tensor<?x?xf32, #fusion.axes<#pod, [didx("gpu"), -]>>
}
