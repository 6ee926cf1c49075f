// RUN: tandem-compile %s --entry=direct_between --mesh x=4,y=2 -o %t.tsp && tandem-check %t.tsp --queues=1 --sms=132 | FileCheck %s
// CHECK: no error

// Two shots over one axis, of blocks of rows that another axis splits further: on a device the rows follow each other.

#tp = #tandem.mesh<"tp", ["x" = ?, "y" = ?]>
!a = tensor<4x24x8xf32, #fusion.axes<#tp, [didx("x"), serial(6) * didx("y"), -]>>
!b = tensor<24x8xf32, #fusion.axes<#tp, [serial(6) * didx("y"), -], partial = ["x"]>>
!c = tensor<24x8xf32, #fusion.axes<#tp, [serial(6) * didx("y"), -]>>
func.func @direct_between(%a: !a {fusion.name = "a"}) -> (!c {fusion.name = "b"}) {
  %0 = fusion.reduce sum %a dims [0] : !a -> !b
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<direct, shots = "two">} : !b -> !c
  return %1 : !c
}
