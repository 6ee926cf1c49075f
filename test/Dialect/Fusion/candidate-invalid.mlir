// RUN: tandem-opt %s --split-input-file --verify-diagnostics

// candidate_c1
// expected-error @below {{expected positive numbers 'slices' and 'dim', and with them 'pieces', 'per_owner', 'reshard' and to_owners = yes}}
func.func private @noDim() attributes {a = #fusion.candidate<push, slices = 8>}

// -----

// expected-error @below {{expected positive numbers 'slices' and 'dim'}}
func.func private @noSlices() attributes {a = #fusion.candidate<push, pieces = 2>}

// -----

// expected-error @below {{expected positive numbers 'slices' and 'dim'}}
func.func private @zero() attributes {a = #fusion.candidate<push, slices = 0, dim = 0>}

// -----

// expected-error @below {{expected positive numbers 'slices' and 'dim'}}
func.func private @word() attributes {a = #fusion.candidate<push, slices = 4, dim = 0, to_owners = no>}

// -----

// expected-error @below {{schedule push has no option 'stream'; did you mean 'streams'?}}
func.func private @option() attributes {a = #fusion.candidate<push, stream = 4, slices = 4, dim = 0>}

// -----

// expected-error @below {{expected 'slices' at most once, found it twice}}
func.func private @twice() attributes {a = #fusion.candidate<push, slices = 4, slices = 8, dim = 0>}
