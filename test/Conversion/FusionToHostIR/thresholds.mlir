// RUN: %python -c "import json, sys; m = json.load(open(sys.argv[1])); m['selection'].update(kernel=[1, 'KiB', 'forms'], most_blocks=[3, '1', 'forms'], push_blocks=[5, '1', 'forms'], one_shot=[8, 'KiB', 'forms']); json.dump(m, sys.stdout)" %tandem_src/machines/h200x8.json > %t.json
// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule='machine=%t.json one-sided=true' | FileCheck %s --check-prefixes=LOOP,OTHER
// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule='machine=%t.json one-sided=true' | tandem-opt -convert-fusion-to-hostir | FileCheck %s --check-prefix=HOST
// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule='machine=h200x8 one-sided=true' | FileCheck %s --check-prefixes=LOOP,USUAL
// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule='machine=h200x8 one-sided=true' -convert-fusion-to-hostir | FileCheck %s --check-prefix=FILE

// Sizes of the machine file by which schedules choose their form. The loop keeps them unless they are the usual ones, so a later
// pass makes the form that was priced.

#tp = #tandem.mesh<"tp", ["x" = 8]>
!st = tensor<64x1024xbf16, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!sy = tensor<64x1024xbf16, #fusion.axes<#tp, [-, -]>>

// LOOP-LABEL: func @annotated
// LOOP: fusion.stream_loop schedule <direct> from annotation
// OTHER-SAME: thresholds = {block = 16384 : i64, {{.*}}kernel = 1024 : i64, most_blocks = 3 : i64, {{.*}}one_shot = 8192 : i64, push_blocks = 5 : i64, row = 1024 : i64}
// USUAL-NOT: thresholds
// HOST-LABEL: @annotated
// HOST: hostir.peer_exchange two_shot_all_reduce {{.*}} blocks 3 via
// FILE-LABEL: @annotated
// FILE: hostir.peer_exchange one_shot_all_reduce {{.*}} blocks 8 via
func.func @annotated(%x: !st) -> !sy {
  %0 = fusion.reshard %x {schedule = #fusion.schedule<direct>} : !st -> !sy
  return %0 : !sy
}

!mt = tensor<512x4096xbf16, #fusion.axes<#tp, [-, -], partial = ["x"]>>
!my = tensor<512x4096xbf16, #fusion.axes<#tp, [-, -]>>

// Values of more than 1 KiB are no candidates for one kernel.
// LOOP-LABEL: func @chosen
// OTHER: fusion.stream_loop schedule <pipeline> from cost
// USUAL: fusion.stream_loop schedule <direct{{.*}}> from cost
func.func @chosen(%x: !mt) -> !my {
  %0 = fusion.reshard %x : !mt -> !my
  return %0 : !my
}
