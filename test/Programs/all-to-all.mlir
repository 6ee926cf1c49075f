// RUN: tandem-compile %s --entry=dispatch_exchange --mesh x=2 --dump --rank=1 | FileCheck %s --check-prefix=EXCHANGE
// RUN: tandem-compile %s --entry=dispatch_push --mesh x=2 --dump --rank=1 | FileCheck %s --check-prefix=PUSH

// Tokens go to their experts: [experts, tokens, features] is split by tokens, then by experts. Each device has places for
// as many tokens per expert (the capacity). A slice is what one device sends, and each device gets the part of it that is
// for its own experts. A matmul over the local experts is one command per slice.
//
// Rank 1 of 2 sends rank 0 the tokens of experts 0 to 11, multiplies its own tokens of experts 12 to 23, then what comes
// from rank 0.
//
// EXCHANGE: matmul
// EXCHANGE: group c0 of 2
// EXCHANGE-NEXT: recv c0 {{.*}} from 0
// EXCHANGE-NEXT: send c0 arg0:f32[12,24,16]{{.*}} to 0
// EXCHANGE: matmul {{.*}}f32[12,24,8]{{.*}} = {{.*}}f32[12,24,16]{{.*}} * arg1:f32[12,16,8]
//
// PUSH: put c0 {{.*}} <- arg0:f32[12,24,16]{{.*}} to 0
// PUSH: signal c0 slot 1 value 1 to 0
// PUSH: wait_signal c0 slot 0 value 1
//
#mesh = #tandem.mesh<"m", ["x" = ?]>
!tokens = tensor<24x48x16xf32, #fusion.axes<#mesh, [-, didx("x"), -]>>
!slices = tensor<24x48x16xf32, #fusion.axes<#mesh, [didx("x"), stream("x"), -]>>
!halves = tensor<24x48x16xf32, #fusion.axes<#mesh, [didx("x"), stream("x") * stream(2), -]>>
!w = tensor<24x16x8xf32, #fusion.axes<#mesh, [didx("x"), -, -]>>
!y = tensor<24x48x8xf32, #fusion.axes<#mesh, [didx("x"), stream("x"), -]>>
!yhalves = tensor<24x48x8xf32, #fusion.axes<#mesh, [didx("x"), stream("x") * stream(2), -]>>
!experts = tensor<24x48x16xf32, #fusion.axes<#mesh, [didx("x"), -, -]>>

func.func @dispatch_exchange(%x: !tokens {fusion.name = "x"}, %w: !w {fusion.name = "w"}) -> (!y {fusion.name = "y"}) {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<exchange>} : !tokens -> !slices
  %1 = fusion.matmul %0, %w : !slices, !w -> !y
  return %1 : !y
}

func.func @dispatch_push(%x: !tokens {fusion.name = "x"}, %w: !w {fusion.name = "w"}) -> (!y {fusion.name = "y"}) {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<push>} : !tokens -> !slices
  %1 = fusion.matmul %0, %w : !slices, !w -> !y
  return %1 : !y
}

func.func @dispatch_halves(%x: !tokens {fusion.name = "x"}, %w: !w {fusion.name = "w"}) -> (!yhalves {fusion.name = "y"}) {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<push>} : !tokens -> !halves
  %1 = fusion.matmul %0, %w : !halves, !w -> !yhalves
  return %1 : !yhalves
}

// What is received is also a result.
func.func @dispatch_kept(%x: !tokens {fusion.name = "x"}, %w: !w {fusion.name = "w"})
    -> (!slices {fusion.name = "z"}, !y {fusion.name = "y"}) {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<push>} : !tokens -> !slices
  %1 = fusion.matmul %0, %w : !slices, !w -> !y
  return %0, %1 : !slices, !y
}

// And back: each device hands the owner of the tokens its slice when it is computed, into its place in the result.
!back = tensor<24x48x8xf32, #fusion.axes<#mesh, [-, didx("x"), -]>>

func.func @combine_exchange(%x: !experts {fusion.name = "x"}, %w: !w {fusion.name = "w"}) -> (!back {fusion.name = "y"}) {
  %0 = fusion.matmul %x, %w : !experts, !w -> !y
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<exchange>} : !y -> !back
  return %1 : !back
}

func.func @combine_push(%x: !experts {fusion.name = "x"}, %w: !w {fusion.name = "w"}) -> (!back {fusion.name = "y"}) {
  %0 = fusion.matmul %x, %w : !experts, !w -> !y
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<push>} : !y -> !back
  return %1 : !back
}

func.func @combine_halves(%x: !experts {fusion.name = "x"}, %w: !w {fusion.name = "w"}) -> (!back {fusion.name = "y"}) {
  %0 = fusion.matmul %x, %w : !experts, !w -> !yhalves
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<push>} : !yhalves -> !back
  return %1 : !back
}

// The experts of a device in two blocks, between which those of others lie. Back they go whole.
!xblocks = tensor<48x24x16xf32, #fusion.axes<#mesh, [-, didx("x"), -]>>
!sblocks = tensor<48x24x16xf32, #fusion.axes<#mesh, [serial(2) * didx("x"), stream("x"), -]>>
!wblocks = tensor<48x16x8xf32, #fusion.axes<#mesh, [serial(2) * didx("x"), -, -]>>
!yblocks = tensor<48x24x8xf32, #fusion.axes<#mesh, [serial(2) * didx("x"), stream("x"), -]>>
!blocks = tensor<48x24x8xf32, #fusion.axes<#mesh, [-, didx("x"), -]>>

func.func @blocks(%x: !xblocks {fusion.name = "x"}, %w: !wblocks {fusion.name = "w"}) -> (!blocks {fusion.name = "y"}) {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<push>} : !xblocks -> !sblocks
  %1 = fusion.matmul %0, %w : !sblocks, !wblocks -> !yblocks
  %2 = fusion.reshard %1 : !yblocks -> !blocks
  return %2 : !blocks
}

// A mixture of experts: there, two grouped matmuls, and back. What comes back is multiplied by the gates of the tokens.
!v = tensor<24x8x16xf32, #fusion.axes<#mesh, [didx("x"), -, -]>>

func.func @experts(%x: !tokens {fusion.name = "x"}, %w: !w {fusion.name = "w"}, %v: !v {fusion.name = "v"},
                   %gates: !tokens {fusion.name = "gates"}) -> (!tokens {fusion.name = "y"}) {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<push>} : !tokens -> !slices
  %1 = fusion.matmul %0, %w : !slices, !w -> !y
  %2 = math.tanh %1 : !y
  %3 = fusion.matmul %2, %v : !y, !v -> !slices
  %4 = fusion.reshard %3 {schedule = #fusion.schedule<push>} : !slices -> !tokens
  %5 = arith.mulf %4, %gates : !tokens
  return %5 : !tokens
}

// Its gradients, without the activation: of the tokens (there, two grouped matmuls, and back) and of the second weight,
// which adds up the slices as they come.
!yslices = tensor<24x48x8xf32, #fusion.axes<#mesh, [didx("x"), stream("x"), -]>>
!hidden = tensor<24x48x8xf32, #fusion.axes<#mesh, [didx("x"), -, -]>>

func.func @experts_backward(%dy: !tokens {fusion.name = "dy"}, %h: !hidden {fusion.name = "h"}, %w: !w {fusion.name = "w"},
                            %v: !v {fusion.name = "v"}) -> (!tokens {fusion.name = "dx"}, !v {fusion.name = "dv"}) {
  %0 = fusion.reshard %dy {schedule = #fusion.schedule<push>} : !tokens -> !slices
  %1 = fusion.matmul %0, %v {transpose_b} : !slices, !v -> !yslices
  %2 = fusion.reshard %h : !hidden -> !yslices
  %3 = fusion.matmul %2, %0 {transpose_a} : !yslices, !slices -> !v
  %4 = fusion.matmul %1, %w {transpose_b} : !yslices, !w -> !slices
  %5 = fusion.reshard %4 {schedule = #fusion.schedule<push>} : !slices -> !tokens
  return %5, %3 : !tokens, !v
}

// Ulysses: attention needs all tokens of some heads: [tokens, heads, features] by tokens becomes by heads.
!q = tensor<48x24x16xf32, #fusion.axes<#mesh, [didx("x"), -, -]>>
!heads = tensor<48x24x16xf32, #fusion.axes<#mesh, [stream("x"), didx("x"), -]>>
!wq = tensor<16x8xf32, #fusion.axes<#mesh, [-, -]>>
!yq = tensor<48x24x8xf32, #fusion.axes<#mesh, [stream("x"), didx("x"), -]>>

func.func @ulysses(%q: !q {fusion.name = "q"}, %w: !wq {fusion.name = "w"}) -> (!yq {fusion.name = "y"}) {
  %0 = fusion.reshard %q {schedule = #fusion.schedule<exchange>} : !q -> !heads
  %1 = fusion.matmul %0, %w : !heads, !wq -> !yq
  return %1 : !yq
}
