// RUN: tandem-opt %s --split-input-file | tandem-opt --split-input-file | FileCheck %s

// A candidate is a schedule and slices; defaults are left out.

// CHECK: a = #fusion.candidate<push, order = xor, streams = 2>
func.func private @whole() attributes {a = #fusion.candidate<push, streams = 2, order = xor, pieces = 1>}
// CHECK: a = #fusion.candidate<push, slices = 8, dim = 0>
func.func private @sliced() attributes {a = #fusion.candidate<push, dim = 0, slices = 8, per_owner = 1, reshard = 0>}
// CHECK: a = #fusion.candidate<pipeline, streams = 1, slices = 8, dim = 1, pieces = 4, per_owner = 2, to_owners = yes, reshard = 1>
func.func private @all() attributes {a = #fusion.candidate<pipeline, slices = 8, dim = 1, pieces = 4, per_owner = 2, to_owners = yes, reshard = 1, streams = 1>}
