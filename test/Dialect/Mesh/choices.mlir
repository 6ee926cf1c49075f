// RUN: tandem-opt %s | tandem-opt | FileCheck %s
// RUN: tandem-opt %s --emit-bytecode | tandem-opt | FileCheck %s

// How a loop is run and what else was considered: attributes that stay with dumps, whichever pass they are taken after.

// CHECK-LABEL: hostir.program @f(%{{.*}}) attributes
// CHECK-SAME: choices = [#tandem.choice<"all-gather" at ["a.mlir:1:2"], #fusion.candidate<push> from "cost", [<#fusion.candidate<push>, 812300>, <#fusion.candidate<pipeline>, 1215000>]>,
// CHECK-SAME: #tandem.choice<"all-gather and all-gather" at ["", ""], #fusion.candidate<pipeline> from "fallback">]
hostir.program @f(%a: memref<3xf32>, %b: memref<3xf32> {hostir.result}) attributes {choices = [
    #tandem.choice<"all-gather" at ["a.mlir:1:2"], #fusion.candidate<push> from "cost", [<#fusion.candidate<push>, 812300>, <#fusion.candidate<pipeline>, 1215000>]>,
    #tandem.choice<"all-gather and all-gather" at ["", ""], #fusion.candidate<pipeline> from "fallback">]} {
  %main = hostir.main_stream
  hostir.copy %a to %b on %main : memref<3xf32> to memref<3xf32>
}
