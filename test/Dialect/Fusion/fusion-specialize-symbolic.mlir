// RUN: tandem-opt %s | tandem-opt | FileCheck %s
// RUN: tandem-opt %s --emit-bytecode | tandem-opt | FileCheck %s
// RUN: tandem-opt %s -fusion-specialize="mesh=tp.x=4" | FileCheck %s --check-prefix=FOUR
// RUN: tandem-opt %s -fusion-specialize="mesh=tp.x=3" | FileCheck %s --check-prefix=THREE
// RUN: tandem-opt %s -fusion-specialize="mesh=tp.x=5" -fusion-pad-extents | FileCheck %s --check-prefix=FIVE

// Digits named after a mesh axis have its size: one file gathers in as many slices as there are devices.

#tp = #tandem.mesh<"tp", ["x" = ?]>
#known = #tandem.mesh<"known", ["x" = 2, "y" = 6]>

// CHECK-LABEL: @gather(
// CHECK-SAME:    -> tensor<24x6xf32, #fusion.axes<#tp, [stream("x"), -]>>
// CHECK:         fusion.reshard {{.*}} -> tensor<24x6xf32, #fusion.axes<#tp, [stream("x"), -]>>
// FOUR-LABEL: @gather(
// FOUR-SAME:    -> tensor<24x6xf32, #fusion.axes<#tp, [stream(4), -]>>
// FOUR:         fusion.reshard {{.*}} -> tensor<24x6xf32, #fusion.axes<#tp, [stream(4), -]>>
// THREE-LABEL: @gather(
// THREE-SAME:    -> tensor<24x6xf32, #fusion.axes<#tp, [stream(3), -]>>
// FIVE-LABEL: @gather(
// FIVE-SAME:    -> (tensor<25x6xf32, #fusion.axes<#tp, [stream(5), -]>> {fusion.extents = array<i64: 24, 6>})
func.func @gather(%0: tensor<24x6xf32, #fusion.axes<#tp, [didx("x"), -]>>) -> tensor<24x6xf32, #fusion.axes<#tp, [stream("x"), -]>> {
  %1 = fusion.reshard %0 : tensor<24x6xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<24x6xf32, #fusion.axes<#tp, [stream("x"), -]>>
  return %1 : tensor<24x6xf32, #fusion.axes<#tp, [stream("x"), -]>>
}

// Beside all other digits, and beside a partial axis of the same name, for it takes none of the devices.
// CHECK-LABEL: @mixed(
// CHECK-SAME:    #fusion.axes<#tp, [serial("x") * didx("x") * stream(2), -]>
// CHECK-SAME:    #fusion.axes<#tp, [stream(2) * stream("x"), serial("x") * stream], partial = ["x"]>
// FOUR-LABEL: @mixed(
// FOUR-SAME:    #fusion.axes<#tp, [serial(4) * didx("x") * stream(2), -]>
// FOUR-SAME:    #fusion.axes<#tp, [stream(2) * stream(4), serial(4) * stream], partial = ["x"]>
func.func private @mixed(tensor<288x6xf32, #fusion.axes<#tp, [serial("x") * didx("x") * stream(2), -]>>,
                         tensor<?x12xf32, #fusion.axes<#tp, [stream(2) * stream("x"), serial("x") * stream], partial = ["x"]>>)

// Over a mesh that has numbers they are these numbers from the start.
// CHECK-LABEL: @known(
// CHECK-SAME:    #fusion.axes<#known, [serial(6) * didx("x"), stream(2)]>
func.func private @known(tensor<24x6xf32, #fusion.axes<#known, [serial("y") * didx("x"), stream("x")]>>)
