// RUN: %round > %t.json
// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule=machine=%t.json | FileCheck %s --check-prefix=LOOP
// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule=machine=%t.json | tandem-opt -convert-fusion-to-hostir | FileCheck %s --check-prefix=HOST
// RUN: tandem-opt %s -fusion-form-loops -fusion-select-schedule | tandem-opt -convert-fusion-to-hostir | FileCheck %s --check-prefix=RULES

// What was priced stays with the loop, and then with the host program: the choice, the plainest candidate, and the
// quickest others, at most six.

// LOOP: fusion.stream_loop schedule <push{{.*}}> from cost
// LOOP-SAME: {candidates = [#tandem.candidate<#fusion.candidate<push{{[^>]*}}>, {{[0-9]+}}>, #tandem.candidate<#fusion.candidate<pipeline>, {{[0-9]+}}>, #tandem.candidate<#fusion.candidate<{{[^>]*}}>, {{[0-9]+}}>, #tandem.candidate<#fusion.candidate<{{[^>]*}}>, {{[0-9]+}}>, #tandem.candidate<#fusion.candidate<{{[^>]*}}>, {{[0-9]+}}>, #tandem.candidate<#fusion.candidate<{{[^>]*}}>, {{[0-9]+}}>],
// LOOP-SAME: signature = "{{[0-9a-f]+}}"}
// HOST: choices = [#tandem.choice<"all-gather" at ["{{.+}}"], #fusion.candidate<push{{[^>]*}}> from "cost",
// HOST-SAME: [<#fusion.candidate<push{{[^>]*}}>, {{[0-9]+}}>, <#fusion.candidate<pipeline>, {{[0-9]+}}>, {{.*}}], loop "{{[0-9a-f]+}}">]
// RULES: choices = [#tandem.choice<"all-gather" at ["{{.*}}"], #fusion.candidate<pipeline> from "fallback">]
#tp = #tandem.mesh<"tp", ["x" = 8]>
!x = tensor<8192x8192xbf16, #fusion.axes<#tp, [didx("x"), -]>>
!g = tensor<8192x8192xbf16, #fusion.axes<#tp, [-, -]>>
!w = tensor<8192x28672xbf16, #fusion.axes<#tp, [-, didx("x")]>>
func.func @gather_matmul(%x: !x, %w: !w) -> !w {
  %0 = fusion.reshard %x : !x -> !g
  %y = fusion.matmul %0, %w : !g, !w -> !w
  return %y : !w
}
