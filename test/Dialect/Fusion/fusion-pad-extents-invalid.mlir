// RUN: tandem-opt %s -split-input-file -verify-diagnostics -fusion-pad-extents

// Nothing here has devices.
#tp = #tandem.mesh<"tp", ["x" = 4]>
func.func @slices(%x: tensor<8xf32, #fusion.axes<#tp, [-]>>) -> tensor<8xf32, #fusion.axes<#tp, [stream(6)]>> {
  // expected-error @+1 {{expected a number of slices that leaves none empty, found 'stream(6)' of 8 indices in dimension 0}}
  %y = fusion.reshard %x : tensor<8xf32, #fusion.axes<#tp, [-]>> -> tensor<8xf32, #fusion.axes<#tp, [stream(6)]>>
  return %y : tensor<8xf32, #fusion.axes<#tp, [stream(6)]>>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
// expected-error @+1 {{expected an extent that can be padded to a multiple of 4, found 9223372036854775807}}
func.func @large(%x: tensor<9223372036854775807xf32, #fusion.axes<#tp, [didx("x")]>>) {
  return
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
// expected-error @+1 {{expected extents up to those of 'tensor<8xf32}}
func.func @more(%x: tensor<8xf32, #fusion.axes<#tp, [didx("x")]>> {fusion.extents = array<i64: 9>}) {
  return
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
// expected-error @+1 {{expected digits for dimension 0 of 10 indices of at most eight times as many pieces, found 4000}}
func.func @blocks_of_padding(%x: tensor<10xf32, #fusion.axes<#tp, [serial(1000) * didx("x")]>>) {
  return
}

// -----

// axes_c5
#tp = #tandem.mesh<"tp", ["x" = 2]>
// expected-error @+1 {{expected a number of slices that leaves none empty, found 'stream(8)' of 4 indices in dimension 0: slices of 1 leave 4 empty; accepted nearby: 4}}
func.func @slices(%x: tensor<8xf32, #fusion.axes<#tp, [didx("x") * stream(8)]>>) {
  return
}

// -----

// axes_c5
#tp = #tandem.mesh<"tp", ["x" = 2]>
// expected-error @+1 {{found 'stream(7)' of 10 indices in dimension 0: slices of 2 leave 2 empty; accepted nearby: 5 and 10}}
func.func @slices(%x: tensor<20xf32, #fusion.axes<#tp, [didx("x") * stream(7)]>>) {
  return
}

// -----

// axes_c5
#tp = #tandem.mesh<"tp", ["x" = 3]>
// expected-error @+1 {{expected digits whose product divides the extent 8 of dimension 0, found 'serial(3)'}}
func.func @serial(%x: tensor<8xf32, #fusion.axes<#tp, [serial("x")]>>) {
  return
}

// -----

// Pieces of a mesh axis of unknown size are not known either, but a factor of 3 is.
#any = #tandem.mesh<"any", ["x" = ?]>
// expected-error @+1 {{expected digits whose product divides the extent 8 of dimension 0, found 'serial(3)'}}
func.func @unknown(%x: tensor<8xf32, #fusion.axes<#any, [didx("x") * serial(3)]>>) {
  return
}
