// RUN: not tandem-opt %s -fusion-form-loops -fusion-select-schedule=machine=nowhere -o /dev/null 2>&1 | FileCheck %s
// RUN: not tandem-opt %s -fusion-form-loops -fusion-select-schedule=machine=h200x8 -o /dev/null 2>&1 | FileCheck %s --check-prefix=DEVICES
// RUN: not tandem-opt %s -fusion-insert-reshards='gather=cost machine=h200x8' -o /dev/null 2>&1 | FileCheck %s --check-prefix=DEVICES
// RUN: not tandem-opt %s -fusion-insert-reshards='gather=cost machine=nowhere' -o /dev/null 2>&1 | FileCheck %s
// RUN: not tandem-opt %s --tandem-lower=gather=cost -o /dev/null 2>&1 | FileCheck %s --check-prefix=NONE

// CHECK: error: {{.*}}nowhere.json
// DEVICES: error: the program is for 16 ranks, machine "h200x8" has 8 devices
// NONE: gather: cost needs a machine
#tp = #tandem.mesh<"tp", ["x" = 16]>
func.func @f(%x: tensor<16x4xf32, #fusion.axes<#tp, [didx("x"), -]>>) -> tensor<16x4xf32, #fusion.axes<#tp, [-, -]>> {
  %g = fusion.reshard %x : tensor<16x4xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<16x4xf32, #fusion.axes<#tp, [-, -]>>
  return %g : tensor<16x4xf32, #fusion.axes<#tp, [-, -]>>
}
