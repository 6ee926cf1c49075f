// A layer of tensor parallelism, five times, and its two halves: what `tools/dev demo` runs. The rows of x and the columns of w
// are split over the devices of an axis, and each device wants all rows of its columns of x * w. Only the schedule of the
// gather differs. Give the sizes with `--mesh x=4 --shape arg0=2048x1024,arg1=1024x8192`.
#tp = #tandem.mesh<"tp", ["x" = ?]>

!x = tensor<?x?xf32, #fusion.axes<#tp, [didx("x"), -]>>
!w = tensor<?x?xf32, #fusion.axes<#tp, [-, didx("x")]>>
!whole = tensor<?x?xf32, #fusion.axes<#tp, [-, -]>>
!slices = tensor<?x?xf32, #fusion.axes<#tp, [stream("x"), -]>>
!y = tensor<?x?xf32, #fusion.axes<#tp, [-, didx("x")]>>
!yslices = tensor<?x?xf32, #fusion.axes<#tp, [stream("x"), didx("x")]>>

// No overlap: gather all rows, then multiply.
func.func @baseline(%x: !x, %w: !w) -> !y {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<pipeline>} : !x -> !whole
  %y = fusion.matmul %0, %w : !whole, !w -> !y
  return %y : !y
}

// Messages between pairs: the own rows are multiplied first, then those of one peer after another.
func.func @exchange(%x: !x, %w: !w) -> !yslices {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<exchange>} : !x -> !slices
  %y = fusion.matmul %0, %w : !slices, !w -> !yslices
  return %y : !yslices
}

// Each device forwards to its neighbour what has arrived from the other one.
func.func @ring(%x: !x, %w: !w) -> !yslices {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<ring>} : !x -> !slices
  %y = fusion.matmul %0, %w : !slices, !w -> !yslices
  return %y : !yslices
}

// Each device writes its rows into the memory of one peer after another, and signals.
func.func @push(%x: !x, %w: !w) -> !yslices {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<push>} : !x -> !slices
  %y = fusion.matmul %0, %w : !slices, !w -> !yslices
  return %y : !yslices
}

// Which is the quickest? With `--machine` the compiler chooses, and also how many slices and streams there are.
func.func @auto(%x: !x, %w: !w) -> !y {
  %y = fusion.matmul %x, %w : !x, !w -> !y
  return %y : !y
}

// Only the matmul of the own rows with own columns, whose number `--shape` gives here: no communication.
func.func @multiply(%x: !x, %w: !whole) -> !x {
  %y = fusion.matmul %x, %w : !x, !whole -> !x
  return %y : !x
}

// Only the gather.
func.func @gather(%x: !x) -> !whole {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<pipeline>} : !x -> !whole
  return %0 : !whole
}
