// RUN: rm -rf %t && tandem-opt %s --tandem-lower="snapshots=%t" -o %t.mlir && cat %t/*-fusion-insert-reshards.mlir | FileCheck %s --check-prefix=FUSION
// RUN: cat %t/*-convert-fusion-to-hostir.mlir | FileCheck %s --check-prefix=HOSTIR

// A mesh of two axes: rows of nodes and their devices become columns of nodes, and rows of devices alone; then all goes to
// one device. The first is two kinds at once, written out.

// FUSION-LABEL: func.func @pod_turn(
// FUSION: fusion.reshard %{{.+}} {part} : {{.*}} -> tensor<12x8xf32, #fusion.axes<#{{.+}}, [serial(2) * didx("gpu"), didx("node")]>>
// FUSION: fusion.reshard %{{.+}} {part} : {{.*}} -> tensor<12x8xf32, #fusion.axes<#{{.+}}, [didx("gpu"), didx("node")]>>
// FUSION: fusion.reshard %{{.+}} : {{.*}} -> tensor<12x8xf32, #fusion.axes<#{{.+}}, [-, -]>>
//
// HOSTIR: hostir.collective all_to_all %{{.+}} to %{{.+}} via %[[NODE:.+]] on
// HOSTIR: hostir.collective all_to_all %{{.+}} to %{{.+}} via %[[GPU:.+]] on
// HOSTIR: hostir.group

#pod = #tandem.mesh<"pod", ["node" = 2, "gpu" = 2]>
#root = #tandem.mesh<"root", [], devices = [2]>

func.func @pod_turn(%t0: tensor<?x?xf32, #fusion.axes<#pod, [didx("node") * didx("gpu"), -]>> {fusion.name = "t0", fusion.shape = [12, 8]})
    -> (tensor<?x?xf32, #fusion.axes<#root, [-, -]>> {fusion.name = "t1"}) {
  %turned = fusion.reshard %t0
      : tensor<?x?xf32, #fusion.axes<#pod, [didx("node") * didx("gpu"), -]>> -> tensor<?x?xf32, #fusion.axes<#pod, [didx("gpu"), didx("node")]>>
  %t1 = fusion.reshard %turned
      : tensor<?x?xf32, #fusion.axes<#pod, [didx("gpu"), didx("node")]>> -> tensor<?x?xf32, #fusion.axes<#root, [-, -]>>
  return %t1 : tensor<?x?xf32, #fusion.axes<#root, [-, -]>>
}
