// RUN: tandem-opt %s --hostir-expand-collectives | FileCheck %s --check-prefix=NONE
// RUN: tandem-opt %s --hostir-expand-collectives="channels-without-collectives=b log" --verify-diagnostics | FileCheck %s --check-prefix=B

#tp = #tandem.mesh<"tp", ["x" = 4]>

// A channel keeps its collectives unless the option takes them away; one that has none is always expanded.
// NONE-LABEL: hostir.program @channels
// NONE: hostir.channel "a" over #tp ["x"] can [collectives]
// NONE: hostir.channel "b" over #tp ["x"] can [one_sided, collectives]
// NONE: hostir.collective all_reduce
// NONE: hostir.collective all_reduce
// NONE-NOT: hostir.collective
// NONE: hostir.group

// B-LABEL: hostir.program @channels
// B: %[[A:.*]] = hostir.channel "a" over #tp ["x"] can [collectives]
// B: %[[B:.*]] = hostir.channel "b" over #tp ["x"] can [two_sided, one_sided]
// B: %[[C:.*]] = hostir.channel "c" over #tp ["x"] can [two_sided]
// B: hostir.collective all_reduce %{{.*}} via %[[A]]
// B-NOT: hostir.collective
// B: hostir.group via %[[B]]
// B: hostir.group via %[[C]]
hostir.program @channels(%x: memref<8xf32>, %y: memref<8xf32> {hostir.result}) {
  %s = hostir.main_stream
  %a = hostir.channel "a" over #tp ["x"] can [collectives]
  %b = hostir.channel "b" over #tp ["x"] can [one_sided, collectives]
  %c = hostir.channel "c" over #tp ["x"] can [two_sided]
  hostir.collective all_reduce %x to %y via %a on %s : memref<8xf32> to memref<8xf32>
  // expected-remark @+1 {{hostir-expand-collectives: expanded all_reduce among 4 devices}}
  hostir.collective all_reduce %x to %y via %b on %s : memref<8xf32> to memref<8xf32>
  // expected-remark @+1 {{hostir-expand-collectives: expanded all_reduce among 4 devices}}
  hostir.collective all_reduce %x to %y via %c on %s : memref<8xf32> to memref<8xf32>
}
