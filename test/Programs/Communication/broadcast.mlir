// RUN: tandem-opt %s --fusion-specialize --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: tandem-compile %s --target=cpu-local -o %t.tsp && tandem-compile --dump %t.tsp --rank=1 | FileCheck %s --check-prefix=RANK1
// RUN: tandem-opt %s --tandem-lower | FileCheck %s --check-prefix=EXPANDED

// What one device has, all get: a broadcast per slice, rooted where the device stands in the mesh.

// HOSTIR: hostir.channel "tp.x.collectives" over #{{.+}} ["x"] can [collectives]
// HOSTIR: scf.for
// HOSTIR: hostir.collective broadcast %{{.+}} to %{{.+}} root %c2 via
//
// RANK1: s1 collective c0 broadcast arg1:f32[2,5] <- none root 2
// RANK1: s3 collective c0 broadcast arg1+80:f32[2,5] <- none root 2
//
// EXPANDED-NOT: hostir.collective
// EXPANDED: hostir.send

#tp = #tandem.mesh<"tp", ["x" = 4]>
#root = #tandem.mesh<"root", [], devices = [2]>

func.func @broadcast(%t0: tensor<6x5xf32, #fusion.axes<#root, [-, -]>> {fusion.name = "t0"})
    -> (tensor<6x5xf32, #fusion.axes<#tp, [stream(3), -]>> {fusion.name = "t1"}) {
  %t1 = fusion.reshard %t0
      : tensor<6x5xf32, #fusion.axes<#root, [-, -]>> -> tensor<6x5xf32, #fusion.axes<#tp, [stream(3), -]>>
  return %t1 : tensor<6x5xf32, #fusion.axes<#tp, [stream(3), -]>>
}
