// RUN: tandem-compile %s --entry=zigzag_ring --mesh x=4 --target=cpu-local -o %t.tsp && tandem-compile --dump %t.tsp --rank=0 | grep -c matmul >%t.0 && tandem-compile --dump %t.tsp --rank=3 | grep -c matmul >%t.3 && diff %t.0 %t.3
// RUN: tandem-compile %s --entry=causal_exchange --mesh x=4 --target=cpu-local -o %t.tsp && tandem-compile --dump %t.tsp --rank=0 | FileCheck %s --check-prefix=FIRST
// RUN: tandem-compile --dump %t.tsp --rank=3 | FileCheck %s --check-prefix=LAST
// RUN: tandem-compile %s --entry=attention_ring --mesh x=4 --target=cuda-peer --machine=h200x8 --explain | FileCheck %s --check-prefix=RING
// RUN: tandem-compile %s --entry=attention_buffers --mesh x=8 --target=cpu-local --dump --rank=0 | FileCheck %s --check-prefix=BUFFERS

// Attention over devices that each have some tokens: keys and values move, queries stay (ring attention). Keys and values
// are gathered by one loop, which folds each slice into a running softmax as it arrives.
//
// RING: all-gather and all-gather at {{.*}}: ring, by annotation
//
// With two buffers, no device has the keys or values of all (2 x 48 x 8 x 4 bytes).
//
// BUFFERS-NOT: size 3072
// BUFFERS: recv c0 {{.*}}f32[2,6,8] from 1
//
// A device computes only on keys of its own tokens and earlier ones: two matmuls for each slice. With `zigzag` all devices
// compute equally much.
//
// FIRST-COUNT-2: s0 matmul
// FIRST-NOT: s0 matmul
// LAST-COUNT-8: s0 matmul
// LAST-NOT: s0 matmul

#tp = #tandem.mesh<"tp", ["x" = ?]>
#rows = #fusion.axes<#tp, [-, didx("x"), -]>
#slices = #fusion.axes<#tp, [-, stream("x"), -]>
#halves = #fusion.axes<#tp, [-, stream("x") * stream(2), -]>

func.func @attention(%q: tensor<2x48x8xf32, #rows> {fusion.name = "q"}, %k: tensor<2x48x8xf32, #rows> {fusion.name = "k"},
    %v: tensor<2x48x12xf32, #rows> {fusion.name = "v"}) -> (tensor<2x48x12xf32, #rows> {fusion.name = "y"}) {
  %y = fusion.attention %q, %k, %v : tensor<2x48x8xf32, #rows>, tensor<2x48x8xf32, #rows>, tensor<2x48x12xf32, #rows>
    -> tensor<2x48x12xf32, #rows>
  return %y : tensor<2x48x12xf32, #rows>
}

func.func @attention_ring(%q: tensor<2x48x8xf32, #rows> {fusion.name = "q"}, %k: tensor<2x48x8xf32, #rows> {fusion.name = "k"},
    %v: tensor<2x48x12xf32, #rows> {fusion.name = "v"}) -> (tensor<2x48x12xf32, #rows> {fusion.name = "y"}) {
  %a = fusion.reshard %k {schedule = #fusion.schedule<ring>} : tensor<2x48x8xf32, #rows> -> tensor<2x48x8xf32, #slices>
  %b = fusion.reshard %v {schedule = #fusion.schedule<ring>} : tensor<2x48x12xf32, #rows> -> tensor<2x48x12xf32, #slices>
  %y = fusion.attention %q, %a, %b {scale = 0.5 : f64} : tensor<2x48x8xf32, #rows>, tensor<2x48x8xf32, #slices>, tensor<2x48x12xf32, #slices>
    -> tensor<2x48x12xf32, #rows>
  return %y : tensor<2x48x12xf32, #rows>
}

// Keys and values of two devices at a time.
func.func @attention_buffers(%q: tensor<2x48x8xf32, #rows> {fusion.name = "q"}, %k: tensor<2x48x8xf32, #rows> {fusion.name = "k"},
    %v: tensor<2x48x12xf32, #rows> {fusion.name = "v"}) -> (tensor<2x48x12xf32, #rows> {fusion.name = "y"}) {
  %a = fusion.reshard %k {schedule = #fusion.schedule<ring, directions = 2, buffers = 2>} : tensor<2x48x8xf32, #rows> -> tensor<2x48x8xf32, #slices>
  %b = fusion.reshard %v {schedule = #fusion.schedule<ring, directions = 2, buffers = 2>} : tensor<2x48x12xf32, #rows> -> tensor<2x48x12xf32, #slices>
  %y = fusion.attention %q, %a, %b {scale = 0.5 : f64} : tensor<2x48x8xf32, #rows>, tensor<2x48x8xf32, #slices>, tensor<2x48x12xf32, #slices>
    -> tensor<2x48x12xf32, #rows>
  return %y : tensor<2x48x12xf32, #rows>
}

func.func @attention_push(%q: tensor<2x48x8xf32, #rows> {fusion.name = "q"}, %k: tensor<2x48x8xf32, #rows> {fusion.name = "k"},
    %v: tensor<2x48x12xf32, #rows> {fusion.name = "v"}) -> (tensor<2x48x12xf32, #rows> {fusion.name = "y"}) {
  %a = fusion.reshard %k {schedule = #fusion.schedule<push>} : tensor<2x48x8xf32, #rows> -> tensor<2x48x8xf32, #halves>
  %b = fusion.reshard %v {schedule = #fusion.schedule<push>} : tensor<2x48x12xf32, #rows> -> tensor<2x48x12xf32, #halves>
  %y = fusion.attention %q, %a, %b : tensor<2x48x8xf32, #rows>, tensor<2x48x8xf32, #halves>, tensor<2x48x12xf32, #halves>
    -> tensor<2x48x12xf32, #rows>
  return %y : tensor<2x48x12xf32, #rows>
}

func.func @causal(%q: tensor<2x48x8xf32, #rows> {fusion.name = "q"}, %k: tensor<2x48x8xf32, #rows> {fusion.name = "k"},
    %v: tensor<2x48x12xf32, #rows> {fusion.name = "v"}) -> (tensor<2x48x12xf32, #rows> {fusion.name = "y"}) {
  %y = fusion.attention %q, %k, %v {causal} : tensor<2x48x8xf32, #rows>, tensor<2x48x8xf32, #rows>, tensor<2x48x12xf32, #rows>
    -> tensor<2x48x12xf32, #rows>
  return %y : tensor<2x48x12xf32, #rows>
}

func.func @causal_exchange(%q: tensor<2x48x8xf32, #rows> {fusion.name = "q"}, %k: tensor<2x48x8xf32, #rows> {fusion.name = "k"},
    %v: tensor<2x48x12xf32, #rows> {fusion.name = "v"}) -> (tensor<2x48x12xf32, #rows> {fusion.name = "y"}) {
  %a = fusion.reshard %k {schedule = #fusion.schedule<exchange>} : tensor<2x48x8xf32, #rows> -> tensor<2x48x8xf32, #slices>
  %b = fusion.reshard %v {schedule = #fusion.schedule<exchange>} : tensor<2x48x12xf32, #rows> -> tensor<2x48x12xf32, #slices>
  %y = fusion.attention %q, %a, %b {causal} : tensor<2x48x8xf32, #rows>, tensor<2x48x8xf32, #slices>, tensor<2x48x12xf32, #slices>
    -> tensor<2x48x12xf32, #rows>
  return %y : tensor<2x48x12xf32, #rows>
}

func.func @causal_pipeline(%q: tensor<2x48x8xf32, #rows> {fusion.name = "q"}, %k: tensor<2x48x8xf32, #rows> {fusion.name = "k"},
    %v: tensor<2x48x12xf32, #rows> {fusion.name = "v"}) -> (tensor<2x48x12xf32, #rows> {fusion.name = "y"}) {
  %a = fusion.reshard %k {schedule = #fusion.schedule<pipeline>} : tensor<2x48x8xf32, #rows> -> tensor<2x48x8xf32, #slices>
  %b = fusion.reshard %v {schedule = #fusion.schedule<pipeline>} : tensor<2x48x12xf32, #rows> -> tensor<2x48x12xf32, #slices>
  %y = fusion.attention %q, %a, %b {causal} : tensor<2x48x8xf32, #rows>, tensor<2x48x8xf32, #slices>, tensor<2x48x12xf32, #slices>
    -> tensor<2x48x12xf32, #rows>
  return %y : tensor<2x48x12xf32, #rows>
}

func.func @zigzag_ring(%q: tensor<2x48x8xf32, #rows> {fusion.name = "q"}, %k: tensor<2x48x8xf32, #rows> {fusion.name = "k"},
    %v: tensor<2x48x12xf32, #rows> {fusion.name = "v"}) -> (tensor<2x48x12xf32, #rows> {fusion.name = "y"}) {
  %a = fusion.reshard %k {schedule = #fusion.schedule<ring>} : tensor<2x48x8xf32, #rows> -> tensor<2x48x8xf32, #slices>
  %b = fusion.reshard %v {schedule = #fusion.schedule<ring>} : tensor<2x48x12xf32, #rows> -> tensor<2x48x12xf32, #slices>
  %y = fusion.attention %q, %a, %b {causal, zigzag = 12 : i64} : tensor<2x48x8xf32, #rows>, tensor<2x48x8xf32, #slices>, tensor<2x48x12xf32, #slices>
    -> tensor<2x48x12xf32, #rows>
  return %y : tensor<2x48x12xf32, #rows>
}

func.func @zigzag_both(%q: tensor<2x48x8xf32, #rows> {fusion.name = "q"}, %k: tensor<2x48x8xf32, #rows> {fusion.name = "k"},
    %v: tensor<2x48x12xf32, #rows> {fusion.name = "v"}) -> (tensor<2x48x12xf32, #rows> {fusion.name = "y"}) {
  %a = fusion.reshard %k {schedule = #fusion.schedule<ring, directions = 2>} : tensor<2x48x8xf32, #rows> -> tensor<2x48x8xf32, #slices>
  %b = fusion.reshard %v {schedule = #fusion.schedule<ring, directions = 2>} : tensor<2x48x12xf32, #rows> -> tensor<2x48x12xf32, #slices>
  %y = fusion.attention %q, %a, %b {causal, zigzag = 12 : i64} : tensor<2x48x8xf32, #rows>, tensor<2x48x8xf32, #slices>, tensor<2x48x12xf32, #slices>
    -> tensor<2x48x12xf32, #rows>
  return %y : tensor<2x48x12xf32, #rows>
}

func.func @zigzag_push(%q: tensor<2x48x8xf32, #rows> {fusion.name = "q"}, %k: tensor<2x48x8xf32, #rows> {fusion.name = "k"},
    %v: tensor<2x48x12xf32, #rows> {fusion.name = "v"}) -> (tensor<2x48x12xf32, #rows> {fusion.name = "y"}) {
  %a = fusion.reshard %k {schedule = #fusion.schedule<push>} : tensor<2x48x8xf32, #rows> -> tensor<2x48x8xf32, #slices>
  %b = fusion.reshard %v {schedule = #fusion.schedule<push>} : tensor<2x48x12xf32, #rows> -> tensor<2x48x12xf32, #slices>
  %y = fusion.attention %q, %a, %b {causal, zigzag = 12 : i64} : tensor<2x48x8xf32, #rows>, tensor<2x48x8xf32, #slices>, tensor<2x48x12xf32, #slices>
    -> tensor<2x48x12xf32, #rows>
  return %y : tensor<2x48x12xf32, #rows>
}

// Heads on devices: nothing moves. Cross attention: other numbers of rows and keys, and no batch dimension.
#heads = #fusion.axes<#tp, [didx("x"), -, -]>
#flat = #fusion.axes<#tp, [didx("x"), -]>
func.func @heads(%q: tensor<24x20x8xf32, #heads> {fusion.name = "q"}, %k: tensor<24x20x8xf32, #heads> {fusion.name = "k"},
    %v: tensor<24x20x12xf32, #heads> {fusion.name = "v"}) -> (tensor<24x20x12xf32, #heads> {fusion.name = "y"}) {
  %y = fusion.attention %q, %k, %v {causal} : tensor<24x20x8xf32, #heads>, tensor<24x20x8xf32, #heads>, tensor<24x20x12xf32, #heads>
    -> tensor<24x20x12xf32, #heads>
  return %y : tensor<24x20x12xf32, #heads>
}

func.func @cross_attention(%q: tensor<24x8xf32, #flat> {fusion.name = "q"}, %k: tensor<48x8xf32, #flat> {fusion.name = "k"},
    %v: tensor<48x12xf32, #flat> {fusion.name = "v"}) -> (tensor<24x12xf32, #flat> {fusion.name = "y"}) {
  %y = fusion.attention %q, %k, %v : tensor<24x8xf32, #flat>, tensor<48x8xf32, #flat>, tensor<48x12xf32, #flat>
    -> tensor<24x12xf32, #flat>
  return %y : tensor<24x12xf32, #flat>
}

// Two blocks of rows on each device.
#cyclic = #fusion.axes<#tp, [-, serial(2) * didx("x"), -]>
func.func @cyclic(%q: tensor<2x48x8xf32, #cyclic> {fusion.name = "q"}, %k: tensor<2x48x8xf32, #cyclic> {fusion.name = "k"},
    %v: tensor<2x48x12xf32, #cyclic> {fusion.name = "v"}) -> (tensor<2x48x12xf32, #cyclic> {fusion.name = "y"}) {
  %y = fusion.attention %q, %k, %v {causal} : tensor<2x48x8xf32, #cyclic>, tensor<2x48x8xf32, #cyclic>, tensor<2x48x12xf32, #cyclic>
    -> tensor<2x48x12xf32, #cyclic>
  return %y : tensor<2x48x12xf32, #cyclic>
}

// Kernels of two scales, which are alike in their first digits, and rows in slices that cross chunks.
func.func @two_scales(%q: tensor<24x20x8xf32, #heads> {fusion.name = "q"}, %k: tensor<24x20x8xf32, #heads> {fusion.name = "k"},
    %v: tensor<24x20x12xf32, #heads> {fusion.name = "v"})
    -> (tensor<24x20x12xf32, #heads> {fusion.name = "y"}, tensor<24x20x12xf32, #heads> {fusion.name = "z"}) {
  %y = fusion.attention %q, %k, %v {scale = 0.701 : f64} : tensor<24x20x8xf32, #heads>, tensor<24x20x8xf32, #heads>, tensor<24x20x12xf32, #heads>
    -> tensor<24x20x12xf32, #heads>
  %z = fusion.attention %q, %k, %v {scale = 0.704 : f64} : tensor<24x20x8xf32, #heads>, tensor<24x20x8xf32, #heads>, tensor<24x20x12xf32, #heads>
    -> tensor<24x20x12xf32, #heads>
  return %y, %z : tensor<24x20x12xf32, #heads>, tensor<24x20x12xf32, #heads>
}

#ragged = #fusion.axes<#tp, [-, didx("x") * stream(4), -]>
func.func @zigzag_ragged(%q: tensor<2x120x8xf32, #rows> {fusion.name = "q"}, %k: tensor<2x120x8xf32, #rows> {fusion.name = "k"},
    %v: tensor<2x120x12xf32, #rows> {fusion.name = "v"}) -> (tensor<2x120x12xf32, #ragged> {fusion.name = "y"}) {
  %y = fusion.attention %q, %k, %v {causal, zigzag = 15 : i64} : tensor<2x120x8xf32, #rows>, tensor<2x120x8xf32, #rows>, tensor<2x120x12xf32, #rows>
    -> tensor<2x120x12xf32, #ragged>
  return %y : tensor<2x120x12xf32, #ragged>
}
