/*===- fusion.h - the gather that the projects compile ------------*- C -*-===*\
|*                                                                            *|
|* Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.        *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef TANDEM_TEST_INTEGRATION_INSTALL_FUSION_H
#define TANDEM_TEST_INTEGRATION_INSTALL_FUSION_H

static const char fusion[] =
    "#tp = #tandem.mesh<\"tp\", [\"x\" = ?]>\n"
    "#rows = #fusion.axes<#tp, [didx(\"x\"), -]>\n"
    "#all = #fusion.axes<#tp, [-, -]>\n"
    "func.func @gather(%a: tensor<2x3xf32, #rows>) -> tensor<2x3xf32, #all> {\n"
    "  %b = fusion.reshard %a : tensor<2x3xf32, #rows> -> tensor<2x3xf32, #all>\n"
    "  return %b : tensor<2x3xf32, #all>\n"
    "}\n";

#endif /* TANDEM_TEST_INTEGRATION_INSTALL_FUSION_H */
