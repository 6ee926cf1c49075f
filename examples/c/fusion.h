/*===- fusion.h - a gather, as text -----------------------------*- C -*-===*\
|*                                                                            *|
|* Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef TANDEM_EXAMPLES_C_FUSION_H
#define TANDEM_EXAMPLES_C_FUSION_H

static const char fusion[] =
    "#tp = #tandem.mesh<\"tp\", [\"x\" = ?]>\n"
    "#rows = #fusion.axes<#tp, [didx(\"x\"), -]>\n"
    "#all = #fusion.axes<#tp, [-, -]>\n"
    "func.func @gather(%a: tensor<2x3xf32, #rows>) -> tensor<2x3xf32, #all> {\n"
    "  %b = fusion.reshard %a : tensor<2x3xf32, #rows> -> tensor<2x3xf32, #all>\n"
    "  return %b : tensor<2x3xf32, #all>\n"
    "}\n";

#endif /* TANDEM_EXAMPLES_C_FUSION_H */
