// RUN: tandem-compile %s --entry=rounded --dump --rank=0 | FileCheck %s --check-prefix=ROUNDED
// RUN: tandem-compile %s --entry=exact --dump --rank=0 | FileCheck %s --check-prefix=EXACT

// A term that is received, added to and passed on was rounded on the way: who compares results must know.

#tp = #tandem.mesh<"tp", ["x" = 2]>

// ROUNDED: stream program @rounded {{.*}} capabilities two_sided reduced-wire
hostir.program @rounded(%in: memref<8xbf16>, %out: memref<8xbf16> {hostir.result}) {
  %main = hostir.main_stream
  %me = hostir.device_index #tp, "x"
  %c1 = arith.constant 1 : index
  %other = arith.subi %c1, %me : index
  %ch = hostir.channel "c" over #tp ["x"] can [two_sided]
  hostir.group via %ch on %main {
    hostir.recv %out from %other : memref<8xbf16>
    hostir.send %in to %other : memref<8xbf16>
  }
  hostir.accumulate sum %in into %out on %main : memref<8xbf16> to memref<8xbf16>
}

// EXACT: stream program @exact {{.*}} capabilities two_sided{{$}}
hostir.program @exact(%in: memref<8xf32>, %out: memref<8xf32> {hostir.result}) {
  %main = hostir.main_stream
  %me = hostir.device_index #tp, "x"
  %c1 = arith.constant 1 : index
  %other = arith.subi %c1, %me : index
  %ch = hostir.channel "c" over #tp ["x"] can [two_sided]
  hostir.group via %ch on %main {
    hostir.recv %out from %other : memref<8xf32>
    hostir.send %in to %other : memref<8xf32>
  }
  hostir.accumulate sum %in into %out on %main : memref<8xf32> to memref<8xf32>
}
