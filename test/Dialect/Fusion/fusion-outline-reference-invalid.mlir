// RUN: tandem-opt %s -verify-diagnostics -fusion-outline-reference

#tp = #tandem.mesh<"tp", ["x" = 4]>
// expected-error @+1 {{expected the symbol @f__reference to be free for the unsharded reference, found it taken}}
func.func @f(%0: tensor<4xf32, #fusion.axes<#tp, [-]>>) {
  return
}
// expected-note @+1 {{taken here}}
func.func private @f__reference()
