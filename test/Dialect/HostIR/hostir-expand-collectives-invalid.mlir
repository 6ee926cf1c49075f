// RUN: tandem-opt %s --hostir-expand-collectives="channels-without-collectives=*" --split-input-file --verify-diagnostics

#tp = #tandem.mesh<"tp", ["x" = 4]>

// A channel that has come through a loop is not known.
hostir.program @hidden(%x: memref<8xf32>, %y: memref<8xf32> {hostir.result}) {
  %s = hostir.main_stream
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = hostir.channel "a" over #tp ["x"] can [collectives]
  %b = scf.for %i = %c0 to %c1 step %c1 iter_args(%c = %a) -> !hostir.channel {
    // expected-error @+1 {{expected a channel of 'hostir.channel', found another value}}
    hostir.collective all_reduce %x to %y via %c on %s : memref<8xf32> to memref<8xf32>
    scf.yield %c : !hostir.channel
  }
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

// A channel that cannot do collectives any longer cannot do what needs them, but what it does do is verified.
hostir.program @one_sided(%x: memref<8xf32>, %y: memref<8xf32> {hostir.result}) {
  %s = hostir.main_stream
  // expected-note @+1 {{channel "a" cannot}}
  %a = hostir.channel "a" over #tp ["x"] can [one_sided]
  // expected-error @+1 {{expected a channel with 'collectives' or 'two_sided'}}
  hostir.collective all_reduce %x to %y via %a on %s : memref<8xf32> to memref<8xf32>
}
