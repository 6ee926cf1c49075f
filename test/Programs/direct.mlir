// RUN: tandem-compile %s --entry=matmul_allreduce_direct --mesh x=2 --dump --rank=0 | FileCheck %s
// RUN: tandem-compile %s --entry=direct_two_shots --mesh x=4 --dump --rank=1 | FileCheck %s --check-prefix=TWO
// RUN: tandem-compile %s --entry=direct_layer --mesh x=4 --dump --rank=0 | FileCheck %s --check-prefix=LAYER
// RUN: tandem-compile %s --entry=direct_two_shots --mesh x=8 -o %t.tsp && tandem-check %t.tsp --queues=1 --sms=132 | FileCheck %s --check-prefix=PROVEN
// RUN: tandem-compile %s --entry=direct_signals --mesh x=4 --dump --rank=0 | FileCheck %s --check-prefix=SIGNALS

// An all-reduce of few bytes by one kernel (schedule `direct`), after the matmul. One shot: the partial sums go to slot 0
// of both devices, and each adds the two slots.
//
// CHECK: s0 matmul buf[[OWN:.*]]:f32[48,16] = arg0
// CHECK-NEXT: s0 fused_exchange 5 parts by 1 blocks
// CHECK-NEXT: s0   copy sym[[SLOTS:[0-9]+]]:f32[48,16] <- buf[[OWN]]:f32[48,16]
// CHECK-NEXT: s0   put c0 sym[[SLOTS]]:f32[48,16] <- buf[[OWN]]:f32[48,16] to 1
// CHECK-NEXT: s0   signal c0 slot 0 value 1 to 1
// CHECK-NEXT: s0   wait_signal c0 slot 1 value 1
// CHECK-NEXT: s0   reduce sum arg2:f32[48,16] <- sym[[SLOTS]]:f32[2,48,16] dims 0x1
// CHECK-NOT: s0
//
// Two shots: device 1 sends columns 0-3 to device 0, adds columns 4-7 of all, and stores their sums to all.
//
// TWO: s0 fused_exchange 20 parts by 1 blocks
// TWO-NEXT: s0   copy sym[[SLOTS:[0-9]+]]+768:f32[48,4] <- buf[[OWN:[^+]*]]+16:f32[48,4]{16,1}
// TWO-NEXT: s0   put c0 sym[[SLOTS]]+768:f32[48,4] <- buf[[OWN]]:f32[48,4]{16,1} to 0
// TWO: s0   wait_signal c0 slot 0 value 1
// TWO-NEXT: s0   reduce sum sym[[SUMS:[0-9]+]]+16:f32[48,4]{16,1} <- sym[[SLOTS]]:f32[4,48,4] dims 0x1
// TWO-NEXT: s0   put c0 sym[[SUMS]]+16:f32[48,4]{16,1} <- sym[[SUMS]]+16:f32[48,4]{16,1} to 0
// TWO: s0   signal c0 slot 5 value 1 to 0
// TWO: s0   wait_signal c0 slot 4 value 1
// TWO-NEXT: s0 copy arg2:f32[48,16] <- sym[[SUMS]]:f32[48,16]
//
// What follows reads the sums where they are.
//
// LAYER: s0 fused_exchange
// LAYER: s0   reduce sum sym[[SUMS:[0-9]+]]
// LAYER: s0 launch {{.*}}sym[[SUMS]]
// LAYER-NEXT: s0 matmul
//
// PROVEN: no error
//
// How the kernel signals is a word of the command. Its parts are the same.
//
// SIGNALS: s0 fused_exchange 11 parts by 1 blocks signals word
// SIGNALS-NEXT: s0   copy
// SIGNALS: s0 fused_exchange 11 parts by 1 blocks signals word
// SIGNALS: s0 fused_exchange 20 parts by 2 blocks signals block

#tp = #tandem.mesh<"tp", ["x" = ?]>
!x = tensor<48x24xf32, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<24x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
!t = tensor<48x16xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!y = tensor<48x16xf32, #fusion.axes<#tp, [-, -]>>

func.func @matmul_allreduce_direct(%x: !x {fusion.name = "x"}, %w: !w {fusion.name = "w"}) -> (!y {fusion.name = "y"}) {
  %0 = fusion.matmul %x, %w : !x, !w -> !t
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<direct>} : !t -> !y
  return %1 : !y
}

func.func @direct_two_shots(%x: !x {fusion.name = "x"}, %w: !w {fusion.name = "w"}) -> (!y {fusion.name = "y"}) {
  %0 = fusion.matmul %x, %w : !x, !w -> !t
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<direct, shots = "two">} : !t -> !y
  return %1 : !y
}

!v = tensor<16x12xf32, #fusion.axes<#tp, [-, -]>>
!z = tensor<48x12xf32, #fusion.axes<#tp, [-, -]>>
func.func @direct_layer(%x: !x {fusion.name = "x"}, %w: !w {fusion.name = "w"}, %v: !v {fusion.name = "v"}) -> (!z {fusion.name = "z"}) {
  %0 = fusion.matmul %x, %w : !x, !w -> !t
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<direct, shots = "two", blocks = 3>} : !t -> !y
  %2 = math.tanh %1 : !y
  %3 = fusion.matmul %2, %v : !y, !v -> !z
  return %3 : !z
}

// One token. Two shots cut its columns.

!x1 = tensor<1x24xf32, #fusion.axes<#tp, [-, didx("x")]>>
!t1 = tensor<1x16xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!y1 = tensor<1x16xf32, #fusion.axes<#tp, [-, -]>>
func.func @direct_token(%x: !x1 {fusion.name = "x"}, %w: !w {fusion.name = "w"}) -> (!y1 {fusion.name = "y"}, !y1 {fusion.name = "z"}) {
  %0 = fusion.matmul %x, %w : !x1, !w -> !t1
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<direct, shots = "two">} : !t1 -> !y1
  %2 = fusion.matmul %x, %w : !x1, !w -> !t1
  %3 = fusion.reshard %2 {schedule = #fusion.schedule<direct, shots = "one">} : !t1 -> !y1
  return %1, %3 : !y1, !y1
}

// 256 tokens: an all-reduce alone.

!a = tensor<?x256x16xf32, #fusion.axes<#tp, [didx("x"), -, -]>>
!b = tensor<256x16xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!c = tensor<256x16xf32, #fusion.axes<#tp, [-, -]>>
func.func @direct_alone(%a: !a {fusion.name = "a", fusion.shape = ["x", 256, 16]}) -> (!c {fusion.name = "b"}) {
  %0 = fusion.reduce sum %a dims [0] : !a -> !b
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<direct>} : !b -> !c
  return %1 : !c
}

// Signals with words, twice and of two sizes, and of blocks.

func.func @direct_signals(%x: !x {fusion.name = "x"}, %t: !x1 {fusion.name = "t"}, %w: !w {fusion.name = "w"})
    -> (!y {fusion.name = "y"}, !y1 {fusion.name = "z"}, !y1 {fusion.name = "u"}) {
  %0 = fusion.matmul %x, %w : !x, !w -> !t
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<direct, shots = "one", signals = "word">} : !t -> !y
  %2 = fusion.matmul %t, %w : !x1, !w -> !t1
  %3 = fusion.reshard %2 {schedule = #fusion.schedule<direct, shots = "one", signals = "word">} : !t1 -> !y1
  %4 = fusion.matmul %t, %w : !x1, !w -> !t1
  %5 = fusion.reshard %4 {schedule = #fusion.schedule<direct, shots = "two", signals = "block", blocks = 2>} : !t1 -> !y1
  return %1, %3, %5 : !y, !y1, !y1
}
