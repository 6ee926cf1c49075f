// RUN: tandem-compile %s --entry=matmul_allreduce_direct --mesh x=2 --dump --rank=0 | FileCheck %s
// RUN: tandem-compile %s --entry=direct_two_shots --mesh x=4 --dump --rank=1 | FileCheck %s --check-prefix=TWO
// RUN: tandem-compile %s --entry=direct_layer --mesh x=4 --dump --rank=0 | FileCheck %s --check-prefix=LAYER
// RUN: tandem-compile %s --entry=direct_two_shots --mesh x=8 -o %t.tsp && tandem-check %t.tsp --queues=1 --sms=132 | FileCheck %s --check-prefix=PROVEN
// RUN: tandem-compile %s --entry=direct_signals --mesh x=4 --dump --rank=0 | FileCheck %s --check-prefix=SIGNALS
// RUN: tandem-compile %s --entry=direct_gather --mesh x=4 --dump --rank=1 | FileCheck %s --check-prefix=GATHER
// RUN: tandem-compile %s --entry=direct_scatter --mesh x=2 --dump --rank=1 | FileCheck %s --check-prefix=SCATTER
// RUN: tandem-compile %s --entry=direct_returns --mesh x=2 --dump --rank=1 | FileCheck %s --check-prefix=RETURNS
// RUN: tandem-compile %s --entry=direct_odd_rows --mesh x=2 --dump --rank=1 | FileCheck %s --check-prefix=ODD

// Reshards of few bytes by one kernel (schedule `direct`). An all-reduce after the matmul. One shot: the partial sums go to slot 0
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
// Two shots: device 1 sends rows 0-11 to device 0, adds rows 12-23 of all, and stores their sums to all. What has
// arrived is copied to the result, which peers cannot write.
//
// TWO: s0 fused_exchange 23 parts by 1 blocks
// TWO-NEXT: s0   copy sym[[SLOTS:[0-9]+]]+768:f32[12,16] <- buf[[OWN:[0-9]+]]+768:f32[12,16]
// TWO-NEXT: s0   put c0 sym[[SLOTS]]+768:f32[12,16] <- buf[[OWN]]:f32[12,16] to 0
// TWO: s0   wait_signal c0 slot 0 value 1
// TWO-NEXT: s0   reduce sum arg2+768:f32[12,16] <- sym[[SLOTS]]:f32[4,12,16] dims 0x1
// TWO-NEXT: s0   put c0 sym[[SUMS:[0-9]+]]+768:f32[12,16] <- arg2+768:f32[12,16] to 0
// TWO: s0   signal c0 slot 5 value 1 to 0
// TWO: s0   wait_signal c0 slot 4 value 1
// TWO-NEXT: s0   copy arg2+1536:f32[12,16] <- sym[[SUMS]]+1536:f32[12,16]
// TWO-NEXT: s0   copy arg2+2304:f32[12,16] <- sym[[SUMS]]+2304:f32[12,16]
// TWO-NEXT: s0   copy arg2:f32[12,16] <- sym[[SUMS]]:f32[12,16]
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
// SIGNALS: s0 fused_exchange 11 parts by 1 blocks protocol ll
// SIGNALS-NEXT: s0   copy
// SIGNALS: s0 fused_exchange 11 parts by 1 blocks protocol ll
// SIGNALS: s0 fused_exchange 23 parts by 2 blocks protocol block
//
// A gather stores the own shard to one place of all.
//
// GATHER: s0 fused_exchange 10 parts by 1 blocks
// GATHER-NEXT: s0   copy sym[[ALL:[0-9]+]]+1152:f32[12,24] <- arg0:f32[12,24]
// GATHER-NEXT: s0   put c0 sym[[ALL]]+1152:f32[12,24] <- arg0:f32[12,24] to {{[023]}}
// GATHER: s0   wait_signal
// GATHER: s0 matmul arg2:f32[48,4] = sym[[ALL]]:f32[48,24]
//
// A reduce-scatter is the first half of two shots: each device gets its rows, or columns, of all, and adds them.
//
// SCATTER: s0 fused_exchange 5 parts by 2 blocks
// SCATTER-NEXT: s0   copy sym[[ROWS:[0-9]+]]+1536:f32[24,16] <- buf[[P:[0-9]+]]+1536:f32[24,16]
// SCATTER-NEXT: s0   put c0 sym[[ROWS]]+1536:f32[24,16] <- buf[[P]]:f32[24,16] to 0
// SCATTER: s0   reduce sum arg2:f32[24,16] <- sym[[ROWS]]:f32[2,24,16] dims 0x1
// SCATTER: s0 fused_exchange 5 parts by 1 blocks protocol block
// SCATTER-NEXT: s0   copy sym[[COLUMNS:[0-9]+]]+1536:f32[48,8] <- buf[[Q:[0-9]+]]+32:f32[48,8]{16,1}
// SCATTER-NEXT: s0   put c0 sym[[COLUMNS]]+1536:f32[48,8] <- buf[[Q]]:f32[48,8]{16,1} to 0
// SCATTER: s0   reduce sum arg3:f32[48,8] <- sym[[COLUMNS]]:f32[2,48,8] dims 0x1
//
// RETURNS: s0 fused_exchange 6 parts by 1 blocks protocol block
// RETURNS-NEXT: s0   copy sym[[ALL:[0-9]+]]+2304:f32[24,24] <- arg0:f32[24,24]
// RETURNS-NEXT: s0   copy arg3+2304:f32[24,24] <- arg0:f32[24,24]
// RETURNS-NEXT: s0   put c0 sym[[ALL]]+2304:f32[24,24] <- arg0:f32[24,24] to 0
// RETURNS: s0   wait_signal
// RETURNS-NEXT: s0   copy arg3:f32[24,24] <- sym[[ALL]]:f32[24,24]
// RETURNS: s0 fused_exchange 9 parts by 1 blocks protocol block
// RETURNS: s0   copy arg4
//
// ODD: s0 fused_exchange 9 parts by 1 blocks protocol block
// ODD-NEXT: s0   copy sym[[SLOTS:[0-9]+]]+224:f32[56] <- buf[[OWN:[0-9]+]]+224:f32[56]
// ODD-NEXT: s0   put c0 sym[[SLOTS]]+224:f32[56] <- buf[[OWN]]:f32[56] to 0
// ODD: s0   reduce sum arg2+224:f32[56] <- sym[[SLOTS]]:f32[2,56] dims 0x1
// ODD: s0   copy arg2:f32[56] <- sym
// ODD: s0 fused_exchange 8 parts by 1 blocks
// ODD-NEXT: s0   copy sym{{.*}}:f32[56] <- buf{{.*}}:f32[56]

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
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<direct, shots = "one", protocol = "ll">} : !t -> !y
  %2 = fusion.matmul %t, %w : !x1, !w -> !t1
  %3 = fusion.reshard %2 {schedule = #fusion.schedule<direct, shots = "one", protocol = "ll">} : !t1 -> !y1
  %4 = fusion.matmul %t, %w : !x1, !w -> !t1
  %5 = fusion.reshard %4 {schedule = #fusion.schedule<direct, shots = "two", protocol = "block", blocks = 2>} : !t1 -> !y1
  return %1, %3, %5 : !y, !y1, !y1
}

// The other reshards: rows are gathered, and rows or columns of partial sums are scattered.

!gx = tensor<48x24xf32, #fusion.axes<#tp, [didx("x"), -]>>
!gg = tensor<48x24xf32, #fusion.axes<#tp, [-, -]>>
!gw = tensor<24x16xf32, #fusion.axes<#tp, [-, didx("x")]>>
!gy = tensor<48x16xf32, #fusion.axes<#tp, [-, didx("x")]>>
func.func @direct_gather(%x: !gx {fusion.name = "x"}, %w: !gw {fusion.name = "w"}) -> (!gy {fusion.name = "y"}) {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<direct>} : !gx -> !gg
  %1 = fusion.matmul %0, %w : !gg, !gw -> !gy
  return %1 : !gy
}

!sy = tensor<48x16xf32, #fusion.axes<#tp, [didx("x"), -]>>
!sz = tensor<48x16xf32, #fusion.axes<#tp, [-, didx("x")]>>
func.func @direct_scatter(%x: !x {fusion.name = "x"}, %w: !w {fusion.name = "w"}) -> (!sy {fusion.name = "y"}, !sz {fusion.name = "z"}) {
  %0 = fusion.matmul %x, %w : !x, !w -> !t
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<direct, blocks = 2>} : !t -> !sy
  %2 = fusion.matmul %x, %w : !x, !w -> !t
  %3 = fusion.reshard %2 {schedule = #fusion.schedule<direct, protocol = "block">} : !t -> !sz
  return %1, %3 : !sy, !sz
}

// With words, each of another size: rows that are gathered for a matmul and for a result, rows and columns of partial sums.

!px = tensor<?x7xf32, #fusion.axes<#tp, [didx("x"), -]>>
!pg = tensor<?x7xf32, #fusion.axes<#tp, [-, -]>>
func.func @direct_words(%x: !gx {fusion.name = "x"}, %v: !x {fusion.name = "v"}, %w: !w {fusion.name = "w"}, %u: !gw {fusion.name = "u"}, %p: !px {fusion.name = "p", fusion.shape = ["x", 7]})
    -> (!gy {fusion.name = "y"}, !sy {fusion.name = "r"}, !sz {fusion.name = "c"}, !pg {fusion.name = "g"}) {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<direct, protocol = "ll", blocks = 3>} : !gx -> !gg
  %1 = fusion.matmul %0, %u : !gg, !gw -> !gy
  %2 = fusion.matmul %v, %w : !x, !w -> !t
  %3 = fusion.reshard %2 {schedule = #fusion.schedule<direct, protocol = "ll">} : !t -> !sy
  %4 = fusion.matmul %v, %w : !x, !w -> !t
  %5 = fusion.reshard %4 {schedule = #fusion.schedule<direct, protocol = "ll">} : !t -> !sz
  %6 = fusion.reshard %p {schedule = #fusion.schedule<direct, protocol = "ll">} : !px -> !pg
  return %1, %3, %5, %6 : !gy, !sy, !sz, !pg
}

// Results of the program: the kernel copies to them what has arrived.

func.func @direct_returns(%x: !gx {fusion.name = "x"}, %v: !x {fusion.name = "v"}, %w: !w {fusion.name = "w"})
    -> (!gg {fusion.name = "g"}, !y {fusion.name = "y"}) {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<direct, protocol = "block">} : !gx -> !gg
  %1 = fusion.matmul %v, %w : !x, !w -> !t
  %2 = fusion.reshard %1 {schedule = #fusion.schedule<direct, shots = "two", protocol = "block">} : !t -> !y
  return %0, %2 : !gg, !y
}

// Rows that the devices do not divide: the elements are cut as one row.

!ox = tensor<7x24xf32, #fusion.axes<#tp, [-, didx("x")]>>
!ot = tensor<7x16xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!oy = tensor<7x16xf32, #fusion.axes<#tp, [-, -]>>
func.func @direct_odd_rows(%x: !ox {fusion.name = "x"}, %w: !w {fusion.name = "w"}) -> (!oy {fusion.name = "y"}, !oy {fusion.name = "z"}) {
  %0 = fusion.matmul %x, %w : !ox, !w -> !ot
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<direct, shots = "two", protocol = "block">} : !ot -> !oy
  %2 = fusion.matmul %x, %w : !ox, !w -> !ot
  %3 = fusion.reshard %2 {schedule = #fusion.schedule<direct, shots = "two">} : !ot -> !oy
  %4 = math.tanh %3 : !oy
  return %1, %4 : !oy, !oy
}
