// RUN: tandem-opt %s --fusion-specialize --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir --canonicalize --cse | FileCheck %s --check-prefix=HOSTIR
// RUN: tandem-compile %s --target=cpu-local -o %t.tsp && tandem-compile --dump %t.tsp --rank=2 | FileCheck %s --check-prefix=RANK2

// One device has all rows; each gets those of its own. The mesh counts its devices backwards.

// HOSTIR: hostir.collective scatter %{{.+}} to %{{.+}} root %c1 via %{{.+}} on %{{.+}} : memref<4x3x5xf32> to memref<3x5xf32>
//
// RANK2: s0 collective c0 scatter arg1:f32[3,5] <- arg0:f32[4,3,5] root 2

#tp = #tandem.mesh<"tp", ["x" = 4], devices = [3, 2, 1, 0]>
#root = #tandem.mesh<"root", [], devices = [2]>

func.func @scatter(%t0: tensor<?x5xf32, #fusion.axes<#root, [-, -]>> {fusion.name = "t0", fusion.shape = [12, 5]})
    -> (tensor<?x5xf32, #fusion.axes<#tp, [didx("x"), -]>> {fusion.name = "t1"}) {
  %t1 = fusion.reshard %t0
      : tensor<?x5xf32, #fusion.axes<#root, [-, -]>> -> tensor<?x5xf32, #fusion.axes<#tp, [didx("x"), -]>>
  return %t1 : tensor<?x5xf32, #fusion.axes<#tp, [didx("x"), -]>>
}
