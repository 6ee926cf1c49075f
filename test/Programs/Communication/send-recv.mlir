// RUN: tandem-opt %s --fusion-specialize --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: tandem-compile %s --target=cpu-local -o %t.tsp && tandem-compile --dump %t.tsp --rank=0 | FileCheck %s --check-prefix=RANK0
// RUN: tandem-compile --dump %t.tsp --rank=3 | FileCheck %s --check-prefix=RANK3

// Whole pieces go to another mesh: each device of it receives one.

// HOSTIR: hostir.channel "here+there.rank.two_sided" over #{{.+}} ["rank"] can [two_sided]
// HOSTIR: hostir.group
//
// RANK0-NOT: recv c0
// RANK0: send c0 arg0:f32[3,5] to 3 tag 0
// RANK3-NOT: send c0
// RANK3: recv c0 arg1:f32[3,5] from 0 tag 0

#here = #tandem.mesh<"here", ["x" = 2], devices = [0, 1]>
#there = #tandem.mesh<"there", ["y" = 2], devices = [3, 2]>

func.func @send_recv(%t0: tensor<?x5xf32, #fusion.axes<#here, [didx("x"), -]>> {fusion.name = "t0", fusion.shape = [6, 5]})
    -> (tensor<?x5xf32, #fusion.axes<#there, [didx("y"), -]>> {fusion.name = "t1"}) {
  %t1 = fusion.reshard %t0
      : tensor<?x5xf32, #fusion.axes<#here, [didx("x"), -]>> -> tensor<?x5xf32, #fusion.axes<#there, [didx("y"), -]>>
  return %t1 : tensor<?x5xf32, #fusion.axes<#there, [didx("y"), -]>>
}
