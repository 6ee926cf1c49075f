// What `auto` must not do worse than: `X_auto` leaves open what each `X_known...` writes. cost_model.py compiles all of them for
// a machine and simulates them.

#tp = #fusion.mesh<"tp", ["x" = 8]>
#rows = #fusion.axes<#tp, [didx("x"), -]>
#columns = #fusion.axes<#tp, [-, didx("x")]>
#whole = #fusion.axes<#tp, [-, -]>
#sliced_rows = #fusion.axes<#tp, [stream("x"), -]>
#sliced = #fusion.axes<#tp, [stream("x"), didx("x")]>
#tokens = #fusion.axes<#tp, [-, didx("x"), -]>
#experts = #fusion.axes<#tp, [didx("x"), -, -]>

// Two gathers, of which each feeds a matmul, and the sum of the two.
func.func @gathers_auto(%x: tensor<8192x8192xbf16, #rows>, %y: tensor<8192x8192xbf16, #rows>,
                        %v: tensor<8192x8192xbf16, #columns>, %w: tensor<8192x8192xbf16, #columns>)
    -> tensor<8192x8192xbf16, #columns> {
  %a = fusion.matmul %x, %v
      : tensor<8192x8192xbf16, #rows>, tensor<8192x8192xbf16, #columns> -> tensor<8192x8192xbf16, #columns>
  %b = fusion.matmul %y, %w
      : tensor<8192x8192xbf16, #rows>, tensor<8192x8192xbf16, #columns> -> tensor<8192x8192xbf16, #columns>
  %c = arith.addf %a, %b : tensor<8192x8192xbf16, #columns>
  return %c : tensor<8192x8192xbf16, #columns>
}

// The same with slices.
func.func @sliced_gathers_auto(%x: tensor<8192x8192xbf16, #rows>, %y: tensor<8192x8192xbf16, #rows>,
                               %v: tensor<8192x8192xbf16, #columns>, %w: tensor<8192x8192xbf16, #columns>)
    -> tensor<8192x8192xbf16, #sliced> {
  %a = fusion.matmul %x, %v
      : tensor<8192x8192xbf16, #rows>, tensor<8192x8192xbf16, #columns> -> tensor<8192x8192xbf16, #sliced>
  %b = fusion.matmul %y, %w
      : tensor<8192x8192xbf16, #rows>, tensor<8192x8192xbf16, #columns> -> tensor<8192x8192xbf16, #sliced>
  %c = arith.addf %a, %b : tensor<8192x8192xbf16, #sliced>
  return %c : tensor<8192x8192xbf16, #sliced>
}
func.func @sliced_gathers_known_exchange(%x: tensor<8192x8192xbf16, #rows>, %y: tensor<8192x8192xbf16, #rows>,
                                         %v: tensor<8192x8192xbf16, #columns>, %w: tensor<8192x8192xbf16, #columns>)
    -> tensor<8192x8192xbf16, #sliced> {
  %a = fusion.matmul %x, %v {fusion.schedule = #fusion.schedule<exchange>}
      : tensor<8192x8192xbf16, #rows>, tensor<8192x8192xbf16, #columns> -> tensor<8192x8192xbf16, #sliced>
  %b = fusion.matmul %y, %w {fusion.schedule = #fusion.schedule<exchange>}
      : tensor<8192x8192xbf16, #rows>, tensor<8192x8192xbf16, #columns> -> tensor<8192x8192xbf16, #sliced>
  %c = arith.addf %a, %b : tensor<8192x8192xbf16, #sliced>
  return %c : tensor<8192x8192xbf16, #sliced>
}

// A matmul whose terms all devices need: an all-reduce, or a reduce-scatter and an all-gather.
func.func @all_reduce_auto(%x: tensor<8192x8192xbf16, #columns>, %w: tensor<8192x8192xbf16, #rows>)
    -> tensor<8192x8192xbf16, #whole> {
  %y = fusion.matmul %x, %w
      : tensor<8192x8192xbf16, #columns>, tensor<8192x8192xbf16, #rows> -> tensor<8192x8192xbf16, #whole>
  return %y : tensor<8192x8192xbf16, #whole>
}
func.func @all_reduce_known_in_two(%x: tensor<8192x8192xbf16, #columns>, %w: tensor<8192x8192xbf16, #rows>)
    -> tensor<8192x8192xbf16, #whole> {
  %y = fusion.matmul %x, %w
      : tensor<8192x8192xbf16, #columns>, tensor<8192x8192xbf16, #rows> -> tensor<8192x8192xbf16, #rows>
  %z = fusion.reshard %y : tensor<8192x8192xbf16, #rows> -> tensor<8192x8192xbf16, #whole>
  return %z : tensor<8192x8192xbf16, #whole>
}

// Experts: tokens go to the weights, or weights to the tokens. The hidden type is open.
func.func @experts_auto(%x: tensor<8x4096x4096xbf16, #tokens>, %v: tensor<8x4096x14336xbf16, #experts>,
                        %w: tensor<8x14336x4096xbf16, #experts>) -> tensor<8x4096x4096xbf16, #tokens> {
  %h = fusion.matmul %x, %v
      : tensor<8x4096x4096xbf16, #tokens>, tensor<8x4096x14336xbf16, #experts> -> tensor<8x4096x14336xbf16>
  %a = math.tanh %h : tensor<8x4096x14336xbf16>
  %y = fusion.matmul %a, %w
      : tensor<8x4096x14336xbf16>, tensor<8x14336x4096xbf16, #experts> -> tensor<8x4096x4096xbf16, #tokens>
  return %y : tensor<8x4096x4096xbf16, #tokens>
}
func.func @experts_known_to_weights(%x: tensor<8x4096x4096xbf16, #tokens>, %v: tensor<8x4096x14336xbf16, #experts>,
                                    %w: tensor<8x14336x4096xbf16, #experts>) -> tensor<8x4096x4096xbf16, #tokens> {
  %h = fusion.matmul %x, %v
      : tensor<8x4096x4096xbf16, #tokens>, tensor<8x4096x14336xbf16, #experts> -> tensor<8x4096x14336xbf16, #experts>
  %a = math.tanh %h : tensor<8x4096x14336xbf16, #experts>
  %y = fusion.matmul %a, %w
      : tensor<8x4096x14336xbf16, #experts>, tensor<8x14336x4096xbf16, #experts> -> tensor<8x4096x4096xbf16, #tokens>
  return %y : tensor<8x4096x4096xbf16, #tokens>
}

// The other way round: few weights, many tokens.
func.func @tokens_auto(%x: tensor<8x65536x512xbf16, #tokens>, %v: tensor<8x512x512xbf16, #experts>,
                       %w: tensor<8x512x512xbf16, #experts>) -> tensor<8x65536x512xbf16, #tokens> {
  %h = fusion.matmul %x, %v
      : tensor<8x65536x512xbf16, #tokens>, tensor<8x512x512xbf16, #experts> -> tensor<8x65536x512xbf16>
  %a = math.tanh %h : tensor<8x65536x512xbf16>
  %y = fusion.matmul %a, %w
      : tensor<8x65536x512xbf16>, tensor<8x512x512xbf16, #experts> -> tensor<8x65536x512xbf16, #tokens>
  return %y : tensor<8x65536x512xbf16, #tokens>
}
func.func @tokens_known_to_tokens(%x: tensor<8x65536x512xbf16, #tokens>, %v: tensor<8x512x512xbf16, #experts>,
                                  %w: tensor<8x512x512xbf16, #experts>) -> tensor<8x65536x512xbf16, #tokens> {
  %h = fusion.matmul %x, %v
      : tensor<8x65536x512xbf16, #tokens>, tensor<8x512x512xbf16, #experts> -> tensor<8x65536x512xbf16, #tokens>
  %a = math.tanh %h : tensor<8x65536x512xbf16, #tokens>
  %y = fusion.matmul %a, %w
      : tensor<8x65536x512xbf16, #tokens>, tensor<8x512x512xbf16, #experts> -> tensor<8x65536x512xbf16, #tokens>
  return %y : tensor<8x65536x512xbf16, #tokens>
}
