// RUN: tandem-opt %s --fusion-specialize --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR

// Two meshes that share devices, of different sizes: what a device of both keeps it copies, the rest goes point to point,
// in blocks that have one owner on either side.

// HOSTIR: hostir.channel "few+many.rank.two_sided" over #{{.+}} ["rank"]
// HOSTIR: hostir.copy
// HOSTIR: hostir.group
// HOSTIR: hostir.recv %{{.+}} : memref<2x5xf32, {{.+}}>
// HOSTIR: hostir.send %{{.+}} : memref<2x5xf32, {{.+}}>

#few = #tandem.mesh<"few", ["x" = 2], devices = [0, 3]>
#many = #tandem.mesh<"many", ["y" = 3], devices = [3, 1, 2]>

func.func @overlapping(%t0: tensor<?x5xf32, #fusion.axes<#few, [didx("x"), -]>> {fusion.name = "t0", fusion.shape = [12, 5]})
    -> (tensor<?x5xf32, #fusion.axes<#many, [didx("y"), -]>> {fusion.name = "t1"}) {
  %t1 = fusion.reshard %t0
      : tensor<?x5xf32, #fusion.axes<#few, [didx("x"), -]>> -> tensor<?x5xf32, #fusion.axes<#many, [didx("y"), -]>>
  return %t1 : tensor<?x5xf32, #fusion.axes<#many, [didx("y"), -]>>
}
