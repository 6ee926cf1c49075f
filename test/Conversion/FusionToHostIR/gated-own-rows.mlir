// RUN: tandem-compile %s --entry=whole_tiles --mesh x=2 --dump --rank=1 | FileCheck %s --check-prefix=PLACE
// RUN: tandem-compile %s --entry=rows_of_rows --mesh x=2 --dump --rank=1 | FileCheck %s --check-prefix=PLACE
// RUN: tandem-compile %s --entry=half_tiles --mesh x=2 --dump --rank=1 | FileCheck %s --check-prefix=COPY
// RUN: tandem-compile %s --entry=whole_tiles --mesh x=4 --dump --rank=1 | FileCheck %s --check-prefix=COPY
// RUN: tandem-compile %s --entry=one_more --mesh x=2 --dump --rank=1 | FileCheck %s --check-prefix=COPY
// RUN: tandem-compile %s --entry=no_kernels --mesh x=4 --dump --rank=1 | FileCheck %s --check-prefix=PLACE

// A kernel of a gated matmul loads tiles of rows. So it can read own rows where they lie only if they are whole tiles:
// 128 of bf16 rows can be, 64 or 129 cannot. Products without kernels have no tiles.

// PLACE-NOT: s0 copy
// PLACE: s0 gated_matmul
// PLACE-NEXT: s0   matmul {{.*}} = arg0:
// PLACE: s0   matmul {{.*}} = sym1:

// COPY: s0 copy sym1{{.*}} <- arg0:
// COPY-NEXT: s0 gated_matmul
// COPY-NEXT: s0   matmul {{.*}} = sym1+

#tp = #tandem.mesh<"tp", ["x" = ?]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
#all = #fusion.axes<#tp, [stream("x"), -]>
#blocks = #fusion.axes<#tp, [stream("x"), didx("x")]>

func.func @whole_tiles(%x: tensor<256x64xbf16, #rows>, %w: tensor<64x32xbf16, #columns>) -> tensor<256x32xbf16, #blocks> {
  %g = fusion.reshard %x {schedule = #fusion.schedule<gated>} : tensor<256x64xbf16, #rows> -> tensor<256x64xbf16, #all>
  %y = fusion.matmul %g, %w : tensor<256x64xbf16, #all>, tensor<64x32xbf16, #columns> -> tensor<256x32xbf16, #blocks>
  return %y : tensor<256x32xbf16, #blocks>
}

func.func @half_tiles(%x: tensor<128x64xbf16, #rows>, %w: tensor<64x32xbf16, #columns>) -> tensor<128x32xbf16, #blocks> {
  %g = fusion.reshard %x {schedule = #fusion.schedule<gated>} : tensor<128x64xbf16, #rows> -> tensor<128x64xbf16, #all>
  %y = fusion.matmul %g, %w : tensor<128x64xbf16, #all>, tensor<64x32xbf16, #columns> -> tensor<128x32xbf16, #blocks>
  return %y : tensor<128x32xbf16, #blocks>
}

func.func @one_more(%x: tensor<258x64xbf16, #rows>, %w: tensor<64x32xbf16, #columns>) -> tensor<258x32xbf16, #blocks> {
  %g = fusion.reshard %x {schedule = #fusion.schedule<gated>} : tensor<258x64xbf16, #rows> -> tensor<258x64xbf16, #all>
  %y = fusion.matmul %g, %w : tensor<258x64xbf16, #all>, tensor<64x32xbf16, #columns> -> tensor<258x32xbf16, #blocks>
  return %y : tensor<258x32xbf16, #blocks>
}

func.func @no_kernels(%x: tensor<128x64xf32, #rows>, %w: tensor<64x32xf32, #columns>) -> tensor<128x32xf32, #blocks> {
  %g = fusion.reshard %x {schedule = #fusion.schedule<gated>} : tensor<128x64xf32, #rows> -> tensor<128x64xf32, #all>
  %y = fusion.matmul %g, %w : tensor<128x64xf32, #all>, tensor<64x32xf32, #columns> -> tensor<128x32xf32, #blocks>
  return %y : tensor<128x32xf32, #blocks>
}

// 64 indices, of 2 rows each.
func.func @rows_of_rows(%x: tensor<128x2x64xbf16, #fusion.axes<#tp, [didx("x"), -, -]>>, %w: tensor<64x32xbf16, #columns>)
    -> tensor<128x2x32xbf16, #fusion.axes<#tp, [stream("x"), -, didx("x")]>> {
  %g = fusion.reshard %x {schedule = #fusion.schedule<gated>}
      : tensor<128x2x64xbf16, #fusion.axes<#tp, [didx("x"), -, -]>> -> tensor<128x2x64xbf16, #fusion.axes<#tp, [stream("x"), -, -]>>
  %y = fusion.matmul %g, %w
      : tensor<128x2x64xbf16, #fusion.axes<#tp, [stream("x"), -, -]>>, tensor<64x32xbf16, #columns>
     -> tensor<128x2x32xbf16, #fusion.axes<#tp, [stream("x"), -, didx("x")]>>
  return %y : tensor<128x2x32xbf16, #fusion.axes<#tp, [stream("x"), -, didx("x")]>>
}
