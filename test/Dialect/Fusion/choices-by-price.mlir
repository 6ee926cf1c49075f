// RUN: %round > %t.json
// RUN: %round links.node.topology='"mesh"' links.node.sharing=null links.node.bandwidth='[50, "GB/s"]' > %t.mesh.json
// RUN: tandem-opt %s -split-input-file -fusion-propagate-axes=machine=%t.json | FileCheck %s --check-prefixes=PRICE,BOTH
// RUN: tandem-opt %s -split-input-file -fusion-propagate-axes | FileCheck %s --check-prefixes=RULES,BOTH
// RUN: tandem-opt %s -split-input-file -fusion-propagate-axes -fusion-insert-reshards='gather=cost machine=%t.mesh.json' | FileCheck %s --check-prefixes=RESHARDS,SPLIT
// RUN: tandem-opt %s -split-input-file -fusion-propagate-axes -fusion-insert-reshards='gather=cost machine=%t.json' | FileCheck %s --check-prefixes=RESHARDS,WHOLE
// RUN: tandem-opt %s -split-input-file -fusion-propagate-axes -fusion-insert-reshards='gather=cost machine=%t.mesh.json log' -o /dev/null 2>&1 | FileCheck %s --check-prefix=LOG

// Large weights: tokens go to their experts. By the rules the result decides, and weights go to the tokens.
#tp = #tandem.mesh<"tp", ["x" = 8]>
!x = tensor<8x4096x4096xbf16, #fusion.axes<#tp, [-, didx("x"), -]>>
!v = tensor<8x4096x14336xbf16, #fusion.axes<#tp, [didx("x"), -, -]>>
!w = tensor<8x14336x4096xbf16, #fusion.axes<#tp, [didx("x"), -, -]>>

// BOTH-LABEL: func.func @experts
// PRICE: fusion.matmul {{.*}} -> tensor<8x4096x14336xbf16, #fusion.axes<#tp, [didx("x"), -, -]>>
// RULES: fusion.matmul {{.*}} -> tensor<8x4096x14336xbf16, #fusion.axes<#tp, [-, didx("x"), -]>>
func.func @experts(%x: !x, %v: !v, %w: !w) -> !x {
  %h = fusion.matmul %x, %v : !x, !v -> tensor<8x4096x14336xbf16>
  %a = math.tanh %h : tensor<8x4096x14336xbf16>
  %y = fusion.matmul %a, %w : tensor<8x4096x14336xbf16>, !w -> !x
  return %y : !x
}

// -----

// Small weights go to the tokens, either way.
#tp = #tandem.mesh<"tp", ["x" = 8]>
!x = tensor<8x65536x512xbf16, #fusion.axes<#tp, [-, didx("x"), -]>>
!w = tensor<8x512x512xbf16, #fusion.axes<#tp, [didx("x"), -, -]>>

// BOTH-LABEL: func.func @tokens
// BOTH: fusion.matmul {{.*}} -> tensor<8x65536x512xbf16, #fusion.axes<#tp, [-, didx("x"), -]>>
func.func @tokens(%x: !x, %v: !w, %w: !w) -> !x {
  %h = fusion.matmul %x, %v : !x, !w -> tensor<8x65536x512xbf16>
  %a = math.tanh %h : tensor<8x65536x512xbf16>
  %y = fusion.matmul %a, %w : tensor<8x65536x512xbf16>, !w -> !x
  return %y : !x
}

// -----

// A large all-reduce becomes a reduce-scatter, which overlaps the matmul, and an all-gather where there is a link between
// each two devices, or stays whole where slices of it overlap as well (a switch). A small one stays; so does one with an annotation.
#tp = #tandem.mesh<"tp", ["x" = 8]>
!x = tensor<65536x32768xbf16, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<32768x8192xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!y = tensor<65536x8192xbf16, #fusion.axes<#tp, [-, -]>>

// LOG: remark: fusion-insert-reshards: split the all-reduce into a reduce-scatter and an all-gather, which are faster on round
// RESHARDS-LABEL: func.func @all_reduce
// SPLIT: fusion.reshard {{.*}} partial = ["x"]>> -> tensor<65536x8192xbf16, #fusion.axes<#tp, {{.*}}didx("x")
// SPLIT-NEXT: fusion.reshard {{.*}} -> tensor<65536x8192xbf16, #fusion.axes<#tp, [-, -]>>
// WHOLE: fusion.reshard {{.*}} partial = ["x"]>> -> tensor<65536x8192xbf16, #fusion.axes<#tp, [-, -]>>
// RESHARDS-LABEL: func.func @annotated
// RESHARDS: fusion.reshard {{.*}} {schedule = #fusion.schedule<pipeline>} {{.*}} partial = ["x"]>> -> tensor<65536x8192xbf16, #fusion.axes<#tp, [-, -]>>
func.func @all_reduce(%x: !x, %w: !w) -> !y {
  %y = fusion.matmul %x, %w : !x, !w -> !y
  return %y : !y
}
func.func @annotated(%x: !x, %w: !w) -> !y {
  %y = fusion.matmul %x, %w {fusion.schedule = #fusion.schedule<pipeline>} : !x, !w -> !y
  return %y : !y
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 8]>
!x = tensor<64x64xbf16, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<64x64xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!y = tensor<64x64xbf16, #fusion.axes<#tp, [-, -]>>

// RESHARDS-LABEL: func.func @small
// RESHARDS: fusion.reshard {{.*}} partial = ["x"]>> -> tensor<64x64xbf16, #fusion.axes<#tp, [-, -]>>
func.func @small(%x: !x, %w: !w) -> !y {
  %y = fusion.matmul %x, %w : !x, !w -> !y
  return %y : !y
}
