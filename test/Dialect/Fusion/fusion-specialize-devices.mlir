// RUN: tandem-opt %s -fusion-specialize="mesh=node=2,gpu=2,y=3 devices=0,2,1,3" | FileCheck %s

// Meshes that had a `?` and have as many devices get them.
// CHECK-DAG: #[[POD:.*]] = #tandem.mesh<"pod", ["node" = 2, "gpu" = 2], devices = [0, 2, 1, 3]>
// CHECK-DAG: #[[LINE:.*]] = #tandem.mesh<"line", ["x" = 4], devices = [3, 2, 1, 0]>
// CHECK-DAG: #[[WHOLE:.*]] = #tandem.mesh<"whole", ["a" = 4]>
// CHECK-DAG: #[[OTHER:.*]] = #tandem.mesh<"other", ["y" = 3]>
#pod = #tandem.mesh<"pod", ["node" = ?, "gpu" = ?]>
#line = #tandem.mesh<"line", ["x" = 4], devices = [3, 2, 1, 0]>
#whole = #tandem.mesh<"whole", ["a" = 4]>
#other = #tandem.mesh<"other", ["y" = ?]>

func.func @f(%a: tensor<12xf32, #fusion.axes<#pod, [-]>>, %b: tensor<12xf32, #fusion.axes<#line, [-]>>,
             %c: tensor<12xf32, #fusion.axes<#whole, [-]>>, %d: tensor<12xf32, #fusion.axes<#other, [-]>>) {
  return
}
