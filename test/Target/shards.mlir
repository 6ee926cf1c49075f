// RUN: tandem-compile %s --dump --rank=1 --ranks=6 | FileCheck %s
// RUN: tandem-compile %s --dump --rank=4 --ranks=6 | FileCheck %s --check-prefix=FOUR
// RUN: tandem-compile %s --dump --rank=0 --ranks=6 | FileCheck %s --check-prefix=OUTSIDE
// RUN: tandem-compile %s --dump --rank=reference | FileCheck %s --check-prefix=REFERENCE

// Where the pieces of arguments lie, on a mesh that is a part of the world; and the reference, whose arguments are whole.

#part = #tandem.mesh<"part", ["x" = 2, "y" = 2], devices = [5, 1, 4, 2]>
#one = #tandem.mesh<"one", []>

// CHECK: stream program @shards version {{[0-9]+}} ranks 6
// CHECK: argument arg0 input "arg0" f16[8,4] axes [serial(2) * didx("y"), didx("x")] mesh @part["x" = 2, "y" = 2]
// CHECK: argument arg1 input "terms" f16[8,4] axes [-, -] mesh @part{{.*}} partial max of 2
// CHECK: argument arg2 result "res0" f16[8,4] axes [stream, didx("x")]
// CHECK: reference bytes
// CHECK: program @shards rank 1 of 6
// CHECK: argument arg0 {{.*}} local [4,2] shard 8+[2,2,2]:[16,4,1]
// CHECK: argument arg1 {{.*}} partial max term 0 of 2 local [8,4] shard 0+[8,4]:[4,1]
// CHECK: argument arg2 {{.*}} local [8,2] shard 0+[8,2]:[4,1]
// CHECK: 0 s0 copy

// FOUR: program @shards rank 4 of 6
// FOUR: argument arg1 {{.*}} partial max term 1 of 2 local [8,4] shard 0+[8,4]:[4,1]

// OUTSIDE: program @shards rank 0 of 6
// OUTSIDE-NEXT: streams 1, events 0, arena 0, symmetric 2x0, signals [], commands 0
// OUTSIDE-NEXT: argument arg0 {{.*}} absent
// OUTSIDE-NEXT: argument arg1 {{.*}} absent
// OUTSIDE-NEXT: argument arg2 {{.*}} absent
// OUTSIDE-NOT: 0 s0

// REFERENCE: program @shards reference of 1
// REFERENCE: argument arg0 {{.*}} local [8,4] shard 0+[8,4]:[4,1]
// REFERENCE: 0 s0 copy arg2:f16[8,4] <- arg0:f16[8,4] bytes 64

hostir.program @shards(
    %a: memref<4x2xf16> {hostir.type = tensor<8x4xf16, #fusion.axes<#part, [serial(2) * didx("y"), didx("x")]>>},
    %b: memref<8x4xf16> {hostir.name = "terms", hostir.type = tensor<8x4xf16, #fusion.axes<#part, [-, -], partial = max ["x"]>>},
    %c: memref<8x2xf16> {hostir.result, hostir.type = tensor<8x4xf16, #fusion.axes<#part, [stream, didx("x")]>>}) {
  %main = hostir.main_stream
  %mine = hostir.in_mesh #part
  scf.if %mine {
    %half = memref.subview %c[0, 0] [4, 2] [1, 1] : memref<8x2xf16> to memref<4x2xf16, strided<[2, 1]>>
    hostir.copy %a to %half on %main : memref<4x2xf16> to memref<4x2xf16, strided<[2, 1]>>
  }
}

hostir.program private @shards_reference(
    %a: memref<8x4xf16> {hostir.type = tensor<8x4xf16, #fusion.axes<#one, [-, -]>>},
    %b: memref<8x4xf16> {hostir.name = "terms", hostir.type = tensor<8x4xf16, #fusion.axes<#one, [-, -]>>},
    %c: memref<8x4xf16> {hostir.result, hostir.type = tensor<8x4xf16, #fusion.axes<#one, [-, -]>>})
    attributes {reference_of = @shards} {
  %main = hostir.main_stream
  hostir.copy %a to %c on %main : memref<8x4xf16> to memref<8x4xf16>
}
