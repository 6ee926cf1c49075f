// RUN: tandem-opt %s --split-input-file --verify-diagnostics --fusion-form-loops --fusion-select-schedule --convert-fusion-to-hostir

// What the schedule push does not take, said at the reshard that names it.

#tp = #tandem.mesh<"tp", ["x" = 4]>

func.func @whole(%0: tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>) -> tensor<16x8xf32, #fusion.axes<#tp, [-, -]>> {
  // expected-error @below {{schedule push gathers into slices: stream digits in place of the device's; found [didx("x"), -] on #tp to [-, -] on #tp}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<push>} : tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<16x8xf32, #fusion.axes<#tp, [-, -]>>
  return %1 : tensor<16x8xf32, #fusion.axes<#tp, [-, -]>>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

// Slices of several owners.
func.func @columns(%0: tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>) -> tensor<16x8xf32, #fusion.axes<#tp, [-, stream(4)]>> {
  // expected-error @below {{schedule push gathers slices of one owner each, along one mesh axis or neighbours in one dimension; found}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<push>} : tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<16x8xf32, #fusion.axes<#tp, [-, stream(4)]>>
  return %1 : tensor<16x8xf32, #fusion.axes<#tp, [-, stream(4)]>>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 3]>

func.func @xor_of_three(%0: tensor<12x8xf32, #fusion.axes<#tp, [didx("x"), -]>>) -> tensor<12x8xf32, #fusion.axes<#tp, [stream(3), -]>> {
  // expected-error @below {{schedule push, order xor: expected a number of devices that is a power of 2, found 3; order rotated takes any}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<push, order = xor>} : tensor<12x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<12x8xf32, #fusion.axes<#tp, [stream(3), -]>>
  return %1 : tensor<12x8xf32, #fusion.axes<#tp, [stream(3), -]>>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

func.func @sum(%0: tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>) -> tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -]>> {
  // expected-error @below {{schedule push: expected 'merge' to sum to the 4 devices, the own one among them, found 5}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<push, merge = [1, 4]>} : tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -]>>
  return %1 : tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -]>>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

func.func @apart(%0: tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>) -> tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -]>> {
  // expected-error @below {{expected each number of 'merge' to be a power of 2 that divides the number of devices before it, found 2 with 1}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<push, order = xor, merge = [1, 2, 1]>} : tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -]>>
  return %1 : tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -]>>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

func.func @slices(%0: tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>) -> tensor<16x8xf32, #fusion.axes<#tp, [stream(8), -]>> {
  // expected-error @below {{schedule push: expected one slice per device with 'merge', found 2}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<push, merge = [1, 3]>} : tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<16x8xf32, #fusion.axes<#tp, [stream(8), -]>>
  return %1 : tensor<16x8xf32, #fusion.axes<#tp, [stream(8), -]>>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

// Copies of one sum: each device would begin with another slice.
func.func @copies(%0: tensor<8x16xf32, #fusion.axes<#tp, [-, didx("x")]>>, %w: tensor<16x8xf32, #fusion.axes<#tp, [-, -]>>)
    -> tensor<8x8xf32, #fusion.axes<#tp, [-, -]>> {
  // expected-error @below {{schedule push begins with the own slices, each device with others, but here slices are added up to a result of which devices hold copies: these would differ in rounding; pipeline has one order}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<push>} : tensor<8x16xf32, #fusion.axes<#tp, [-, didx("x")]>> -> tensor<8x16xf32, #fusion.axes<#tp, [-, stream(4)]>>
  %2 = fusion.matmul %1, %w : tensor<8x16xf32, #fusion.axes<#tp, [-, stream(4)]>>, tensor<16x8xf32, #fusion.axes<#tp, [-, -]>> -> tensor<8x8xf32, #fusion.axes<#tp, [-, -]>>
  return %2 : tensor<8x8xf32, #fusion.axes<#tp, [-, -]>>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

// Partial slices that somebody else reads too.
func.func @used(%0: tensor<16x8xf32, #fusion.axes<#tp, [-, didx("x")]>>, %w: tensor<8x8xf32, #fusion.axes<#tp, [didx("x"), -]>>)
    -> (tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>, tensor<16x8xf32, #fusion.axes<#tp, [-, -]>>) {
  %p = fusion.matmul %0, %w : tensor<16x8xf32, #fusion.axes<#tp, [-, didx("x")]>>, tensor<8x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -], partial = ["x"]>>
  // expected-error @below {{schedule push: expected what is reduced to have no other users}}
  %1 = fusion.reshard %p {schedule = #fusion.schedule<push>} : tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -], partial = ["x"]>> -> tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
  %2 = fusion.reshard %p : tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -], partial = ["x"]>> -> tensor<16x8xf32, #fusion.axes<#tp, [-, -]>>
  return %1, %2 : tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>, tensor<16x8xf32, #fusion.axes<#tp, [-, -]>>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

// The loop also adds up its slices.
func.func @adds_up(%0: tensor<16x8xf32, #fusion.axes<#tp, [stream(4), didx("x")]>>, %w: tensor<8x8xf32, #fusion.axes<#tp, [didx("x"), -]>>)
    -> (tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>, tensor<8xf32, #fusion.axes<#tp, [didx("x")]>>) {
  %s = math.tanh %0 : tensor<16x8xf32, #fusion.axes<#tp, [stream(4), didx("x")]>>
  %p = fusion.matmul %s, %w : tensor<16x8xf32, #fusion.axes<#tp, [stream(4), didx("x")]>>, tensor<8x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -], partial = ["x"]>>
  %r = fusion.reduce sum %s dims [0] : tensor<16x8xf32, #fusion.axes<#tp, [stream(4), didx("x")]>> -> tensor<8xf32, #fusion.axes<#tp, [didx("x")]>>
  // expected-error @below {{schedule push: expected no other op to combine slices in a loop whose slices go to their owners}}
  %1 = fusion.reshard %p {schedule = #fusion.schedule<push>} : tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -], partial = ["x"]>> -> tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
  return %1, %r : tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>, tensor<8xf32, #fusion.axes<#tp, [didx("x")]>>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

// A second reshard, which is annotated too. (Without the annotation it gets a loop of its own.)
func.func @two(%0: tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>) -> tensor<16x8xf32, #fusion.axes<#tp, [stream(4), didx("x")]>> {
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<push>} : tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -]>>
  %2 = math.tanh %1 : tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -]>>
  // expected-error @below {{schedule push gathers slices of one owner each, along one mesh axis or neighbours in one dimension; found [stream(4), -] on #tp to [stream(4), didx("x")] on #tp}}
  %3 = fusion.reshard %2 {schedule = #fusion.schedule<push>} : tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -]>> -> tensor<16x8xf32, #fusion.axes<#tp, [stream(4), didx("x")]>>
  return %3 : tensor<16x8xf32, #fusion.axes<#tp, [stream(4), didx("x")]>>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

// The slices of a reduction are those of nobody.
func.func @reduces(%0: tensor<16x8xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>) -> tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -]>> {
  // expected-error @below {{schedule push: expected an all-reduce of what its loop computes for it alone}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<push>} : tensor<16x8xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>> -> tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -]>>
  return %1 : tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -]>>
}

// -----

#pod = #tandem.mesh<"pod", ["node" = 2, "gpu" = 2]>

// Neighbours among devices of two axes are no run of slices.
func.func @merged_pod(%0: tensor<16x8xf32, #fusion.axes<#pod, [didx("node") * didx("gpu"), -]>>) -> tensor<16x8xf32, #fusion.axes<#pod, [stream(4), -]>> {
  // expected-error @below {{schedule push: 'merge' takes slices of devices along one mesh axis, found 2}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<push, merge = [1, 3]>} : tensor<16x8xf32, #fusion.axes<#pod, [didx("node") * didx("gpu"), -]>> -> tensor<16x8xf32, #fusion.axes<#pod, [stream(4), -]>>
  return %1 : tensor<16x8xf32, #fusion.axes<#pod, [stream(4), -]>>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

// A device computes its own rows alone and those of two peers at once: the replicas could differ in rounding.
func.func @merged_replicas(%0: tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>, %w: tensor<8x8xf32, #fusion.axes<#tp, [-, -]>>) -> tensor<16x8xf32, #fusion.axes<#tp, [stream("x"), -]>> {
  // expected-error @below {{schedule push: 'merge' takes matmuls whose results differ between the devices along "x", found a result that is replicated there}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<push, merge = [1, 1, 2]>} : tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<16x8xf32, #fusion.axes<#tp, [stream("x"), -]>>
  %2 = fusion.matmul %1, %w : tensor<16x8xf32, #fusion.axes<#tp, [stream("x"), -]>>, tensor<8x8xf32, #fusion.axes<#tp, [-, -]>> -> tensor<16x8xf32, #fusion.axes<#tp, [stream("x"), -]>>
  return %2 : tensor<16x8xf32, #fusion.axes<#tp, [stream("x"), -]>>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!rows = tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
!slices = tensor<16x8xf32, #fusion.axes<#tp, [stream("x"), -]>>
!keys = tensor<6x8xf32, #fusion.axes<#tp, [-, -]>>

// The same for the matmuls of an attention, and for sums.
func.func @merged_queries(%0: !rows, %k: !keys) -> !slices {
  // expected-error @below {{schedule push: 'merge' takes matmuls whose results differ between the devices along "x", found a result that is replicated there}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<push, merge = [1, 1, 2]>} : !rows -> !slices
  %2 = fusion.attention %1, %k, %k : !slices, !keys, !keys -> !slices
  return %2 : !slices
}
func.func @merged_sums(%0: !rows) -> tensor<16xf32, #fusion.axes<#tp, [stream("x")]>> {
  // expected-error @below {{schedule push: 'merge' takes matmuls whose results differ between the devices along "x", found a result that is replicated there}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<push, merge = [1, 1, 2]>} : !rows -> !slices
  %2 = fusion.reduce sum %1 dims [1] : !slices -> tensor<16xf32, #fusion.axes<#tp, [stream("x")]>>
  return %2 : tensor<16xf32, #fusion.axes<#tp, [stream("x")]>>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
#whole = #fusion.axes<#tp, [-, -]>
!terms = tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -], partial = ["x"]>>
!slices = tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -]>>
!w = tensor<8x8xf32, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!y = tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>

// A replicated product in the loop of a reduction.
func.func @merged_reduction(%0: tensor<16x8xf32, #whole>, %1: tensor<8x8xf32, #whole>, %w: !w) -> (!y, !slices) {
  %2 = fusion.matmul %0, %1 : tensor<16x8xf32, #whole>, tensor<8x8xf32, #whole> -> !slices
  %3 = fusion.matmul %2, %w : !slices, !w -> !terms
  // expected-error @below {{schedule push: 'merge' takes matmuls whose results differ between the devices along "x", found a result that is replicated there}}
  %4 = fusion.reshard %3 {schedule = #fusion.schedule<push, merge = [1, 1, 2]>} : !terms -> !y
  return %4, %2 : !y, !slices
}

// -----

#pod = #tandem.mesh<"pod", ["node" = 2, "gpu" = 2]>

// Owners on two dimensions.
func.func @two_dims(%0: tensor<16x8xf32, #fusion.axes<#pod, [didx("node"), didx("gpu")]>>) -> tensor<16x8xf32, #fusion.axes<#pod, [stream(2), stream(2)]>> {
  // expected-error @below {{schedule push gathers slices of one owner each, along one mesh axis or neighbours in one dimension; found}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<push>} : tensor<16x8xf32, #fusion.axes<#pod, [didx("node"), didx("gpu")]>> -> tensor<16x8xf32, #fusion.axes<#pod, [stream(2), stream(2)]>>
  return %1 : tensor<16x8xf32, #fusion.axes<#pod, [stream(2), stream(2)]>>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

func.func @merged_copies(%0: tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>) -> tensor<16x8xf32, #fusion.axes<#tp, [stream("x"), -]>> {
  // expected-error @below {{schedule push: expected no 'copies' with 'merge', found both}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<push, copies = 2, merge = [2, 2]>} : tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<16x8xf32, #fusion.axes<#tp, [stream("x"), -]>>
  return %1 : tensor<16x8xf32, #fusion.axes<#tp, [stream("x"), -]>>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

func.func @copies_by_sms(%0: tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>) -> tensor<16x8xf32, #fusion.axes<#tp, [stream("x"), -]>> {
  // expected-error @below {{schedule push: expected no by = sms with 'copies', found both}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<push, copies = 2, by = sms>} : tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<16x8xf32, #fusion.axes<#tp, [stream("x"), -]>>
  return %1 : tensor<16x8xf32, #fusion.axes<#tp, [stream("x"), -]>>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

func.func @all_reduce(%0: tensor<16x8xf32, #fusion.axes<#tp, [stream("x"), -], partial = ["x"]>>) -> tensor<16x8xf32, #fusion.axes<#tp, [stream("x"), -]>> {
  // expected-error @below {{schedule push: expected a gather or an all-to-all or a reduction with 'copies', found an all-reduce}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<push, copies = 2>} : tensor<16x8xf32, #fusion.axes<#tp, [stream("x"), -], partial = ["x"]>> -> tensor<16x8xf32, #fusion.axes<#tp, [stream("x"), -]>>
  return %1 : tensor<16x8xf32, #fusion.axes<#tp, [stream("x"), -]>>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!p = tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -], partial = ["x"]>>
!r = tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>

!x = tensor<16x8xf32, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<8x8xf32, #fusion.axes<#tp, [didx("x"), -]>>

func.func @reduction_by_sms(%0: !x, %1: !w) -> !r {
  %2 = fusion.matmul %0, %1 : !x, !w -> !p
  // expected-error @below {{schedule push: expected a gather with by = sms, found a reduction}}
  %3 = fusion.reshard %2 {schedule = #fusion.schedule<push, by = sms>} : !p -> !r
  return %3 : !r
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

func.func @blocks_of_engines(%0: tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>) -> tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -]>> {
  // expected-error @below {{schedule push: expected 'blocks' only with by = sms}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<push, blocks = 4>} : tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -]>>
  return %1 : tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -]>>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>

func.func @many_blocks(%0: tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>) -> tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -]>> {
  // expected-error @below {{schedule push: expected at most 1024 thread blocks, found 1025}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<push, by = sms, blocks = 1025>} : tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -]>>
  return %1 : tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -]>>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!s = tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
!g = tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -]>>

func.func @two_gathers_by_sms(%0: !s, %1: !s) -> !g {
  // expected-error @below {{schedule push, by = sms: expected one gather, found 2}}
  %2 = fusion.stream_loop schedule <push, by = sms> from annotation (%0, %1) : (!s, !s) -> !g {
  ^bb0(%a: !s, %b: !s):
    %c = fusion.reshard %a : !s -> !g
    %d = fusion.reshard %b : !s -> !g
    %e = arith.addf %c, %d : !g
    fusion.yield %e : !g
  }
  return %2 : !g
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>
!g = tensor<16x8xf32, #fusion.axes<#tp, [stream(2), -]>>

func.func @gather_with_sum(%0: tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>) -> !g {
  // expected-error @below {{schedule push: expected a reduction or an all-reduce with sum = matmul, found a gather}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<push, sum = matmul>} : tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> !g
  return %1 : !g
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!x = tensor<16x8xf32, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<8x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
!p = tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -], partial = ["x"]>>
!r = tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>

func.func @four_with_sum(%0: !x, %1: !w) -> !r {
  %2 = fusion.matmul %0, %1 : !x, !w -> !p
  // expected-error @below {{schedule push, sum = matmul: expected 2 devices, found 4}}
  %3 = fusion.reshard %2 {schedule = #fusion.schedule<push, sum = matmul>} : !p -> !r
  return %3 : !r
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>
!x = tensor<16x8xf32, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<8x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
!p = tensor<16x8xf32, #fusion.axes<#tp, [stream(2), -], partial = ["x"]>>
!r = tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>

func.func @other_terms_with_sum(%0: !x, %1: !w) -> !r {
  %p = fusion.matmul %0, %1 : !x, !w -> !p
  %2 = arith.addf %p, %p : !p
  // expected-error @below {{schedule push, sum = matmul: expected a sum of products without bias}}
  %3 = fusion.reshard %2 {schedule = #fusion.schedule<push, sum = matmul>} : !p -> !r
  return %3 : !r
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 2]>
!x = tensor<16x8xf32, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<8x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
!p = tensor<16x8xf32, #fusion.axes<#tp, [stream(2), -], partial = ["x"]>>
!r = tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>

func.func @merge_with_sum(%0: !x, %1: !w) -> !r {
  %2 = fusion.matmul %0, %1 : !x, !w -> !p
  // expected-error @below {{schedule push: expected no 'merge' with sum = matmul, found both}}
  %3 = fusion.reshard %2 {schedule = #fusion.schedule<push, sum = matmul, merge = [1, 1]>} : !p -> !r
  return %3 : !r
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!g = tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -]>>

func.func @gather_by_epilogue(%0: tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>) -> !g {
  // expected-error @below {{schedule push: expected a reduction or an all-reduce with by = epilogue, found a gather}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<push, by = epilogue>} : tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>> -> !g
  return %1 : !g
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!x = tensor<16x8xf32, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<8x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
!p = tensor<16x8xf32, #fusion.axes<#tp, [stream(4) * stream(2), -], partial = ["x"]>>
!y = tensor<16x8xf32, #fusion.axes<#tp, [stream(4) * stream(2), -]>>

func.func @all_reduce_by_epilogue(%0: !x, %1: !w) -> !y {
  %2 = fusion.matmul %0, %1 : !x, !w -> !p
  // expected-error @below {{schedule push, by = epilogue: expected one block of rows per device, found the slices [stream(4) * stream(2), -]}}
  %3 = fusion.reshard %2 {schedule = #fusion.schedule<push, by = epilogue>} : !p -> !y
  return %3 : !y
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!x = tensor<16x8xf32, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<8x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
!p = tensor<16x8xf32, #fusion.axes<#tp, [stream(4) * stream(2), -], partial = ["x"]>>
!r = tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>

func.func @two_slices_by_epilogue(%0: !x, %1: !w) -> !r {
  %2 = fusion.matmul %0, %1 : !x, !w -> !p
  // expected-error @below {{schedule push, by = epilogue: expected one block of rows per device, found the slices [stream(4) * stream(2), -]}}
  %3 = fusion.reshard %2 {schedule = #fusion.schedule<push, by = epilogue>} : !p -> !r
  return %3 : !r
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!x = tensor<16x8xf32, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<8x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
!p = tensor<16x8xf32, #fusion.axes<#tp, [-, stream(4)], partial = ["x"]>>
!r = tensor<16x8xf32, #fusion.axes<#tp, [-, didx("x")]>>

func.func @columns_by_epilogue(%0: !x, %1: !w) -> !r {
  %2 = fusion.matmul %0, %1 : !x, !w -> !p
  // expected-error @below {{schedule push, by = epilogue: expected one block of rows per device, found the slices [-, stream(4)]}}
  %3 = fusion.reshard %2 {schedule = #fusion.schedule<push, by = epilogue>} : !p -> !r
  return %3 : !r
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!x = tensor<16x8xf32, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<8x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
!p = tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -], partial = ["x"]>>
!r = tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>

func.func @streams_by_epilogue(%0: !x, %1: !w) -> !r {
  %2 = fusion.matmul %0, %1 : !x, !w -> !p
  // expected-error @below {{schedule push: expected no 'streams' with by = epilogue, found both}}
  %3 = fusion.reshard %2 {schedule = #fusion.schedule<push, by = epilogue, streams = 2>} : !p -> !r
  return %3 : !r
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
!x = tensor<16x8xf32, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<8x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
!p = tensor<16x8xf32, #fusion.axes<#tp, [stream(4), -], partial = ["x"]>>
!r = tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>

func.func @negative_by_epilogue(%0: !x, %1: !w) -> !r {
  %2 = fusion.matmul %0, %1 : !x, !w -> !p
  %3 = arith.negf %2 : !p
  // expected-error @below {{schedule push, by = epilogue: expected a product of two matrices to be the only op before the reduction}}
  %4 = fusion.reshard %3 {schedule = #fusion.schedule<push, by = epilogue>} : !p -> !r
  return %4 : !r
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 16]>
!x = tensor<32x16xf32, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<16x8xf32, #fusion.axes<#tp, [didx("x"), -]>>
!p = tensor<32x8xf32, #fusion.axes<#tp, [stream(16), -], partial = ["x"]>>
!r = tensor<32x8xf32, #fusion.axes<#tp, [didx("x"), -]>>

func.func @many_by_epilogue(%0: !x, %1: !w) -> !r {
  %2 = fusion.matmul %0, %1 : !x, !w -> !p
  // expected-error @below {{schedule push, by = epilogue: expected at most 8 devices, found 16}}
  %3 = fusion.reshard %2 {schedule = #fusion.schedule<push, by = epilogue>} : !p -> !r
  return %3 : !r
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 4]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#slices = #fusion.axes<#tp, [stream("x"), -]>

func.func @nothing_combined(%0: tensor<16x8xf32, #rows>) -> tensor<16x8xf32, #slices> {
  // expected-error @below {{schedule push, combine = whole: expected an op that combines slices of what the loop gathers, found none}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<push, combine = whole>} : tensor<16x8xf32, #rows> -> tensor<16x8xf32, #slices>
  return %1 : tensor<16x8xf32, #slices>
}

// -----

#tp = #tandem.mesh<"tp", ["x" = 3]>
!x = tensor<12x12xf32, #fusion.axes<#tp, [-, didx("x")]>>
!w = tensor<12x10xf32, #fusion.axes<#tp, [didx("x"), -]>>
!p = tensor<12x10xf32, #fusion.axes<#tp, [stream("x") * stream(2), -], partial = ["x"]>>
!y = tensor<12x10xf32, #fusion.axes<#tp, [stream("x") * stream(2), -]>>

func.func @all_reduce_xor_of_three(%0: !x, %1: !w) -> !y {
  %2 = fusion.matmul %0, %1 : !x, !w -> !p
  // expected-error @below {{schedule push, order xor: expected a number of devices that is a power of 2, found 3; order rotated takes any}}
  %3 = fusion.reshard %2 {schedule = #fusion.schedule<push, order = xor>} : !p -> !y
  return %3 : !y
}

// -----

// Two rows of the reshard table, both all-to-alls.
#m = #tandem.mesh<"m", ["x" = 2, "y" = 2]>
!from = tensor<16x8xf32, #fusion.axes<#m, [didx("x") * didx("y"), -]>>
!to = tensor<16x8xf32, #fusion.axes<#m, [stream(4), didx("x") * didx("y")]>>

func.func @sequence_of_all_to_alls(%0: !from) -> !to {
  // expected-error @below {{schedule push: expected a gather with by = sms, found an all-to-all}}
  %1 = fusion.reshard %0 {schedule = #fusion.schedule<push, by = sms>} : !from -> !to
  return %1 : !to
}
