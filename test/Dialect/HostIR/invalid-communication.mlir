// RUN: tandem-opt %s --split-input-file --verify-diagnostics

// collective_c1
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32>, %g: memref<4x3xf32>, %h: memref<4x3xf16>) {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [collectives]
  // expected-error @+1 {{expected an output of shape 4x3, found 3}}
  hostir.collective all_gather %a to %b via %ch on %main : memref<3xf32> to memref<3xf32>
}

// -----

// collective_c1
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32>, %g: memref<4x3xf32>, %h: memref<4x3xf16>) {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [collectives]
  // expected-error @+1 {{expected equal element types, found 'f32' and 'f16'}}
  hostir.collective all_gather %a to %h via %ch on %main : memref<3xf32> to memref<4x3xf16>
}

// -----

// collective_c1
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32>, %g: memref<4x3xf32>, %h: memref<4x3xf16>) {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [collectives]
  // expected-error @+1 {{expected an output of shape 3, found 4x3}}
  hostir.collective all_reduce %a to %g via %ch on %main : memref<3xf32> to memref<4x3xf32>
}

// -----

// collective_c1
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32>, %g: memref<4x3xf32>, %h: memref<4x3xf16>) {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [collectives]
  // expected-error @+1 {{expected an input whose first extent is the group's size 4, found 3}}
  hostir.collective reduce_scatter %a to %b via %ch on %main : memref<3xf32> to memref<3xf32>
}

// -----

// collective_c1
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32>, %g: memref<4x3xf32>, %h: memref<4x3xf16>) {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [collectives]
  // expected-error @+1 {{expected an output of shape 3, found 4x3}}
  hostir.collective reduce_scatter %g to %g via %ch on %main : memref<4x3xf32> to memref<4x3xf32>
}

// -----

// collective_c1
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32>, %g: memref<4x3xf32>, %h: memref<4x3xf16>) {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [collectives]
  // expected-error @+1 {{expected an output of shape 4x3, found 3}}
  hostir.collective all_to_all %g to %a via %ch on %main : memref<4x3xf32> to memref<3xf32>
}

// -----

// collective_c1
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32>, %g: memref<4x3xf32>, %h: memref<4x3xf16>) {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [collectives]
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected an output of shape 3, found 4x3}}
  hostir.collective broadcast %a to %g root %c0 via %ch on %main : memref<3xf32> to memref<4x3xf32>
}

// -----

// collective_c1
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32>, %g: memref<4x3xf32>, %h: memref<4x3xf16>) {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [collectives]
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected an output of shape 4x3, found 3}}
  hostir.collective gather %a to %b root %c0 via %ch on %main : memref<3xf32> to memref<3xf32>
}

// -----

// collective_c1
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32>, %g: memref<4x3xf32>, %h: memref<4x3xf16>) {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [collectives]
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected an input whose first extent is the group's size 4, found 3}}
  hostir.collective scatter %a to %b root %c0 via %ch on %main : memref<3xf32> to memref<3xf32>
}

// -----

// collective_c2
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32>, %g: memref<4x3xf32>, %h: memref<4x3xf16>) {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [collectives]
  // expected-error @+1 {{expected a root of 'reduce', found none}}
  hostir.collective reduce %a to %b via %ch on %main : memref<3xf32> to memref<3xf32>
}

// -----

// collective_c2
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32>, %g: memref<4x3xf32>, %h: memref<4x3xf16>) {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [collectives]
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected no root of 'all_reduce'}}
  hostir.collective all_reduce %a to %b root %c0 via %ch on %main : memref<3xf32> to memref<3xf32>
}

// -----

// collective_c2
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32>, %g: memref<4x3xf32>, %h: memref<4x3xf16>) {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [collectives]
  %c4 = arith.constant 4 : index
  // expected-error @+1 {{expected a root in the channel's group of 4, found 4}}
  hostir.collective broadcast %a to %b root %c4 via %ch on %main : memref<3xf32> to memref<3xf32>
}

// -----

// collective_c3
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32>, %g: memref<4x3xf32>, %h: memref<4x3xf16>) {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [collectives]
  // expected-error @+1 {{expected no 'reduction' of 'all_gather'}}
  hostir.collective all_gather %a to %g via %ch on %main {reduction = #tandem<reduce_kind sum>} : memref<3xf32> to memref<4x3xf32>
}

// -----

// collective_c4
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32>) {
  %main = hostir.main_stream
  // expected-note @+1 {{channel "ch" cannot}}
  %ch = hostir.channel "ch" over #tp ["x"] can [one_sided]
  // expected-error @+1 {{expected a channel with 'collectives' or 'two_sided'}}
  hostir.collective all_reduce %a to %b via %ch on %main : memref<3xf32> to memref<3xf32>
}

// -----

// group_c1
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32>, %g: memref<4x3xf32>, %h: memref<4x3xf16>) {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [two_sided]
  hostir.group via %ch on %main {
    // expected-error @+1 {{expected only sends, receives, views, 'arith' and 'scf' in a group}}
    hostir.copy %a to %b on %main : memref<3xf32> to memref<3xf32>
  }
}

// -----

// group_c2
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p() {
  %main = hostir.main_stream
  // expected-note @+1 {{channel "ch" cannot}}
  %ch = hostir.channel "ch" over #tp ["x"] can [collectives]
  // expected-error @+1 {{expected a channel with 'two_sided'}}
  hostir.group via %ch on %main {
  }
}

// -----

// send_c1
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32>, %g: memref<4x3xf32>, %h: memref<4x3xf16>) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{'hostir.send' op expected to be inside a 'hostir.group'}}
  hostir.send %a to %c0 : memref<3xf32>
}

// -----

// send_c2
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32>, %g: memref<4x3xf32>, %h: memref<4x3xf16>) {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [two_sided]
  %c5 = arith.constant 5 : index
  hostir.group via %ch on %main {
    // expected-error @+1 {{expected a peer in the channel's group of 4, found 5}}
    hostir.send %a to %c5 : memref<3xf32>
  }
}

// -----

// recv_c1
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32>, %g: memref<4x3xf32>, %h: memref<4x3xf16>) {
  %main = hostir.main_stream
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{'hostir.recv' op expected to be inside a 'hostir.group'}}
  hostir.recv %a from %c0 : memref<3xf32>
}

// -----

// recv_c2
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32>, %g: memref<4x3xf32>, %h: memref<4x3xf16>) {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [two_sided]
  %c5 = arith.constant 5 : index
  hostir.group via %ch on %main {
    // expected-error @+1 {{expected a peer in the channel's group of 4, found 5}}
    hostir.recv %a from %c5 : memref<3xf32>
  }
}

// -----

// put_c1
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32, #hostir.symmetric>, %d: memref<2xf32, #hostir.symmetric>) {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [one_sided]
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c7 = arith.constant 7 : index
  // expected-error @+1 {{expected equal shapes, found 3 and 2}}
  hostir.put %a to %d at %c1 via %ch on %main : memref<3xf32> to memref<2xf32, #hostir.symmetric>
}

// -----

// put_c2
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32, #hostir.symmetric>, %d: memref<2xf32, #hostir.symmetric>) {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [one_sided]
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c7 = arith.constant 7 : index
  // expected-error @+1 {{expected a target in symmetric memory, found 'memref<3xf32>'}}
  hostir.put %a to %a at %c1 via %ch on %main : memref<3xf32> to memref<3xf32>
}

// -----

// put_c4
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32, #hostir.symmetric>, %d: memref<2xf32, #hostir.symmetric>) {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [one_sided]
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c7 = arith.constant 7 : index
  // expected-error @+1 {{expected a peer in the channel's group of 4, found 7}}
  hostir.put %a to %b at %c7 via %ch on %main : memref<3xf32> to memref<3xf32, #hostir.symmetric>
}

// -----

// signal_c2
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p() {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [one_sided]
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c7 = arith.constant 7 : index
  // expected-error @+1 {{expected a value of at least 1, found 0}}
  hostir.signal %c0 = %c0 at %c1 via %ch on %main
}

// -----

// signal_c2
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p() {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [one_sided]
  %c1 = arith.constant 1 : index
  %m1 = arith.constant -1 : index
  // expected-error @+1 {{expected a slot of at least 0, found -1}}
  hostir.signal %m1 = %c1 at %c1 via %ch on %main
}

// -----

// signal_c3
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p() {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [one_sided]
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c7 = arith.constant 7 : index
  // expected-error @+1 {{expected a peer in the channel's group of 4, found 7}}
  hostir.signal %c0 = %c1 at %c7 via %ch on %main
}

// -----

// wait_signal_c1
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p() {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [one_sided]
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c7 = arith.constant 7 : index
  // expected-error @+1 {{expected a value of at least 1, found 0}}
  hostir.wait_signal %c0 >= %c0 via %ch on %main
}

// -----

// wait_signal_c1
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p() {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [one_sided]
  %c1 = arith.constant 1 : index
  %m1 = arith.constant -1 : index
  // expected-error @+1 {{expected a slot of at least 0, found -1}}
  hostir.wait_signal %m1 >= %c1 via %ch on %main
}

// -----

// put_c3
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32, #hostir.symmetric>) {
  %main = hostir.main_stream
  %c1 = arith.constant 1 : index
  // expected-note @+1 {{channel "ch" cannot}}
  %ch = hostir.channel "ch" over #tp ["x"] can [two_sided]
  // expected-error @+1 {{expected a channel with 'one_sided'}}
  hostir.put %a to %b at %c1 via %ch on %main : memref<3xf32> to memref<3xf32, #hostir.symmetric>
}

// -----

// signal_c1
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32, #hostir.symmetric>) {
  %main = hostir.main_stream
  %c1 = arith.constant 1 : index
  // expected-note @+1 {{channel "ch" cannot}}
  %ch = hostir.channel "ch" over #tp ["x"] can [two_sided]
  // expected-error @+1 {{expected a channel with 'one_sided'}}
  hostir.signal %c1 = %c1 at %c1 via %ch on %main
}

// -----

// peer_exchange_c1
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32>, %c: memref<4x3xf32>, %s: memref<4x3xf32, #hostir.symmetric>, %d: memref<4x2xf32, #hostir.symmetric>) {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [one_sided]
  // expected-error @+1 {{expected a scratch of shape 4x3}}
  hostir.peer_exchange one_shot_all_reduce %a to %b scratch %d slot 0 blocks 1 via %ch on %main : memref<3xf32> to memref<3xf32> scratch memref<4x2xf32, #hostir.symmetric>
}

// -----

// peer_exchange_c1
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32>, %c: memref<4x3xf32>, %s: memref<4x3xf32, #hostir.symmetric>, %d: memref<4x2xf32, #hostir.symmetric>) {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [one_sided]
  // expected-error @+1 {{expected an input whose first extent is the group's size 4, found 3}}
  hostir.peer_exchange reduce_scatter %a to %b scratch %s slot 0 blocks 1 via %ch on %main : memref<3xf32> to memref<3xf32> scratch memref<4x3xf32, #hostir.symmetric>
}

// -----

// peer_exchange_c1
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32>, %c: memref<4x3xf32>, %s: memref<4x3xf32, #hostir.symmetric>, %d: memref<4x2xf32, #hostir.symmetric>) {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [one_sided]
  // expected-error @+1 {{expected 'cut' to be a dimension that is a multiple of 4, found 1 of 4x3}}
  hostir.peer_exchange two_shot_all_reduce %c to %s scratch %s cut 1 slot 0 blocks 1 via %ch on %main : memref<4x3xf32> to memref<4x3xf32, #hostir.symmetric> scratch memref<4x3xf32, #hostir.symmetric>
}

// -----

// peer_exchange_c1
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32>, %c: memref<4x3xf32>, %s: memref<4x3xf32, #hostir.symmetric>, %d: memref<4x2xf32, #hostir.symmetric>) {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [one_sided]
  // expected-error @+1 {{expected one input and one output, or as many of both of an all_gather or put_all, found 2 and 2}}
  hostir.peer_exchange one_shot_all_reduce %a, %b to %b, %a scratch %s slot 0 blocks 1 via %ch on %main : memref<3xf32>, memref<3xf32> to memref<3xf32>, memref<3xf32> scratch memref<4x3xf32, #hostir.symmetric>
}

// -----

// peer_exchange_c2
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32>, %c: memref<4x3xf32>, %s: memref<4x3xf32, #hostir.symmetric>, %d: memref<4x2xf32, #hostir.symmetric>) {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [one_sided]
  // expected-error @+1 {{expected symmetric memory where peers store, found 'memref<4x3xf32>'}}
  hostir.peer_exchange all_gather %a to %c slot 0 blocks 1 via %ch on %main : memref<3xf32> to memref<4x3xf32>
}

// -----

// peer_exchange_c3
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32>, %c: memref<4x3xf32>, %s: memref<4x3xf32, #hostir.symmetric>, %d: memref<4x2xf32, #hostir.symmetric>) {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [one_sided]
  // expected-error @+1 {{expected no copies, found 1}}
  hostir.peer_exchange one_shot_all_reduce %a to %b copies %a scratch %s slot 0 blocks 1 via %ch on %main : memref<3xf32> to memref<3xf32> copies memref<3xf32> scratch memref<4x3xf32, #hostir.symmetric>
}

// -----

// peer_exchange_c3
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32>, %c: memref<4x3xf32>, %s: memref<4x3xf32, #hostir.symmetric>, %d: memref<4x2xf32, #hostir.symmetric>) {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [one_sided]
  // expected-error @+1 {{expected a scratch}}
  hostir.peer_exchange one_shot_all_reduce %a to %b slot 0 blocks 1 via %ch on %main : memref<3xf32> to memref<3xf32>
}

// -----

// peer_exchange_c4
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32>, %c: memref<4x3xf32>, %s: memref<4x3xf32, #hostir.symmetric>, %d: memref<4x2xf32, #hostir.symmetric>) {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [one_sided]
  // expected-error @+1 {{expected 1 to 1024 thread blocks, found 0}}
  hostir.peer_exchange one_shot_all_reduce %a to %b scratch %s slot 0 blocks 0 via %ch on %main : memref<3xf32> to memref<3xf32> scratch memref<4x3xf32, #hostir.symmetric>
}

// -----

// peer_exchange_c4
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32>, %c: memref<4x3xf32>, %s: memref<4x3xf32, #hostir.symmetric>, %d: memref<4x2xf32, #hostir.symmetric>) {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [one_sided]
  // expected-error @+1 {{expected a slot of at least 0, found -1}}
  hostir.peer_exchange one_shot_all_reduce %a to %b scratch %s slot -1 blocks 1 via %ch on %main : memref<3xf32> to memref<3xf32> scratch memref<4x3xf32, #hostir.symmetric>
}

// -----

// peer_exchange_c4
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %b: memref<3xf32>, %c: memref<4x3xf32>, %s: memref<4x3xf32, #hostir.symmetric>, %d: memref<4x2xf32, #hostir.symmetric>) {
  %main = hostir.main_stream
  // expected-note @+1 {{channel "ch" cannot}}
  %ch = hostir.channel "ch" over #tp ["x"] can [two_sided]
  // expected-error @+1 {{expected a channel with 'one_sided'}}
  hostir.peer_exchange one_shot_all_reduce %a to %b scratch %s slot 0 blocks 1 via %ch on %main : memref<3xf32> to memref<3xf32> scratch memref<4x3xf32, #hostir.symmetric>
}

// -----

// peer_exchange_c5
#tp = #tandem.mesh<"tp", ["x" = 4]>
hostir.program @p(%a: memref<3xf32>, %s: memref<3xf32, #hostir.symmetric>) {
  %main = hostir.main_stream
  %ch = hostir.channel "ch" over #tp ["x"] can [one_sided]
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{expected a value of at least 1, found 0}}
  hostir.peer_exchange put_all %a to %s slot 0 value %c0 blocks 1 via %ch on %main : memref<3xf32> to memref<3xf32, #hostir.symmetric>
}
