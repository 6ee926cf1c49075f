// RUN: tandem-compile %s --entry=no_tokens -o %t.tsp && tandem-run %t.tsp --channel=local --verify
// RUN: tandem-compile %s --entry=no_sequences -o %t.tsp && tandem-run %t.tsp --channel=local --verify
// REQUIRES: runtime

// Causal attention without tokens or sequences has an empty result. The numbers of its tokens were divided by an extent of 0,
// which ended the compiler by a signal.

#m = #tandem.mesh<"m", ["x" = 2]>
#rows = #fusion.axes<#m, [-, didx("x"), -]>
!empty = tensor<2x0x4xf32, #rows>
!none = tensor<0x8x4xf32, #rows>

func.func @no_tokens(%q: !empty {fusion.name = "q"}, %k: !empty {fusion.name = "k"}, %v: !empty {fusion.name = "v"})
    -> (!empty {fusion.name = "y"}) {
  %y = fusion.attention %q, %k, %v {causal, zigzag = 1 : i64} : !empty, !empty, !empty -> !empty
  return %y : !empty
}

func.func @no_sequences(%q: !none {fusion.name = "q"}, %k: !none {fusion.name = "k"}, %v: !none {fusion.name = "v"})
    -> (!none {fusion.name = "y"}) {
  %y = fusion.attention %q, %k, %v {causal} : !none, !none, !none -> !none
  return %y : !none
}
