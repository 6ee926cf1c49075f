// RUN: tandem-opt %s --fusion-specialize --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: tandem-compile %s --target=cpu-local -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=RANK1

// Collective permute: the same devices in another order, so whole pieces turn round.

// HOSTIR: hostir.channel "tp.x.two_sided" over #{{.+}} ["x"] can [two_sided]
// HOSTIR: hostir.group
//
// RANK1: s0 group c0 of 2
// RANK1-NEXT: recv c0 arg1:f32[3,5] from 0 tag 0
// RANK1-NEXT: s0 send c0 arg0:f32[3,5] to 2 tag 0

#tp = #tandem.mesh<"tp", ["x" = 4]>
#turned = #tandem.mesh<"turned", ["x" = 4], devices = [1, 2, 3, 0]>

func.func @permute(%t0: tensor<?x5xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "t0", fusion.shape = [12, 5]})
    -> (tensor<?x5xf32, #fusion.axes<#turned, [didx("x"), -]>> {fusion.name = "t1"}) {
  %t1 = fusion.reshard %t0
      : tensor<?x5xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<?x5xf32, #fusion.axes<#turned, [didx("x"), -]>>
  return %t1 : tensor<?x5xf32, #fusion.axes<#turned, [didx("x"), -]>>
}
