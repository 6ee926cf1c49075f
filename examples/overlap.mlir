// One layer on the devices of an axis, four times, and its two halves: what `tools/dev demo` runs. The rows of x are spread
// over the devices, and each device wants all rows of x * w. Only the schedule of the gather differs. Give the sizes with
// `--mesh x=4 --shape arg0=2048x1024,arg1=1024x2048`.
#tp = #tandem.mesh<"tp", ["x" = ?]>

!x = tensor<?x?xf32, #fusion.axes<#tp, [didx("x"), -]>>
!w = tensor<?x?xf32, #fusion.axes<#tp, [-, -]>>
!whole = tensor<?x?xf32, #fusion.axes<#tp, [-, -]>>
!slices = tensor<?x?xf32, #fusion.axes<#tp, [stream("x"), -]>>

// No overlap: gather all rows, then multiply.
func.func @baseline(%x: !x, %w: !w) -> !whole {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<pipeline>} : !x -> !whole
  %y = fusion.matmul %0, %w : !whole, !w -> !whole
  return %y : !whole
}

// Messages between pairs: the own rows are multiplied first, then those of one peer after another.
func.func @exchange(%x: !x, %w: !w) -> !slices {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<exchange>} : !x -> !slices
  %y = fusion.matmul %0, %w : !slices, !w -> !slices
  return %y : !slices
}

// Each device forwards to its neighbour what has arrived from the other one.
func.func @ring(%x: !x, %w: !w) -> !slices {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<ring>} : !x -> !slices
  %y = fusion.matmul %0, %w : !slices, !w -> !slices
  return %y : !slices
}

// Each device writes its rows into the memory of one peer after another, and signals.
func.func @push(%x: !x, %w: !w) -> !slices {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<push>} : !x -> !slices
  %y = fusion.matmul %0, %w : !slices, !w -> !slices
  return %y : !slices
}

// Only the matmul of the own rows: no communication.
func.func @multiply(%x: !x, %w: !w) -> !x {
  %y = fusion.matmul %x, %w : !x, !w -> !x
  return %y : !x
}

// Only the gather.
func.func @gather(%x: !x) -> !whole {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<pipeline>} : !x -> !whole
  return %0 : !whole
}
