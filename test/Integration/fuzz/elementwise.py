# Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random elementwise ops: a part of generator.py.

A comparison, a rounding and a cast to integers jump where their operand hardly changes. So they stand only on *exact*
values, which are the same to the last bit however the program runs; or they choose between what they have compared.
"""

import math

UNARY = ("arith.negf", "math.absf", "math.tanh", "math.exp", "math.expm1", "math.erf", "math.erfc", "math.sin",
         "math.cos")
#: Of numbers that are not too near to 0.
UNARY_POSITIVE = ("math.sqrt", "math.rsqrt", "math.log", "math.log1p")
#: Integers of floats.
WHOLE = ("math.floor", "math.ceil", "math.round", "math.roundeven", "math.trunc")
#: What keeps a value exact.
EXACT = ("arith.negf", "math.absf", "arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf") + WHOLE
BINARY = ("arith.addf", "arith.subf", "arith.mulf", "arith.maximumf", "arith.minimumf", "arith.maxnumf",
          "arith.minnumf")
BINARY_INTEGER = ("arith.addi", "arith.subi", "arith.muli", "arith.maxsi", "arith.minsi", "arith.andi", "arith.ori",
                  "arith.xori", "arith.divsi", "arith.remsi")
ORDERED = ("olt", "ole", "ogt", "oge", "oeq", "one")
SIGNED = ("slt", "sle", "sgt", "sge", "eq", "ne")


class Elementwise:
    def constant(self, like, number):
        return self.add("constant", [], like.shape, like.axes, abs(float(number)), like.dtype, floor=abs(float(number)),
                        exact=True, number=number)

    def any_constant(self, like):
        return self.constant(like, self.random.choice(("0.5", "2.0", "-1.5")) if like.dtype != "i32" else "3")

    def unary(self, value):
        r = self.random
        if value.dtype == "i32":
            if self.chance(0.3):
                return self.add("math.absi", [value], value.shape, value.axes, value.bound, exact=True)
            return self.binary(value)
        kind = r.choice(UNARY)
        if self.chance(0.15):
            kind = r.choice(UNARY_POSITIVE)
            value = self.away_from_zero(value)
        elif value.exact and self.chance(0.1):
            kind = r.choice(WHOLE)
        if kind in ("math.exp", "math.expm1") and value.bound > 3:
            kind = "math.tanh"
        if kind in ("math.sin", "math.cos") and value.bound > 20:
            kind = "math.erf"
        floor = {"arith.negf": value.floor, "math.absf": value.floor, "math.exp": math.exp(-min(value.bound, 3))}
        bound = {"math.exp": math.exp(min(value.bound, 3)), "math.expm1": math.exp(min(value.bound, 3)), "math.erfc": 2,
                 "math.log1p": 8, "math.rsqrt": (value.floor or 1) ** -0.5, "math.log": 8,
                 "math.sqrt": value.bound ** 0.5, "arith.negf": value.bound, "math.absf": value.bound,
                 **dict.fromkeys(WHOLE, value.bound + 1)}
        return self.add(kind, [value], value.shape, value.axes, bound.get(kind, 1), floor=floor.get(kind, 0),
                        exact=value.exact and kind in EXACT)

    def away_from_zero(self, value):
        """Positive, and not small: what may be divided by."""
        if value.bound <= 2 and self.chance(0.5):
            return self.add("math.exp", [value], value.shape, value.axes, math.exp(value.bound),
                            floor=math.exp(-value.bound))
        positive = self.add("math.absf", [value], value.shape, value.axes, exact=value.exact)
        return self.add("arith.addf", [positive, self.constant(value, "0.5")], value.shape, value.axes,
                        value.bound + 0.5, floor=0.5)

    def partner(self, value, condition=lambda v: True):
        """A value of the same shape and dtype, and both as an elementwise op takes them."""
        other = self.pick(lambda v: v.shape == value.shape and v.dtype == value.dtype and condition(v))
        if not other:
            return None, None
        if value.axes == other.axes:
            return value, other
        # Decided and undecided have two types; there is no reshard to undecided ones, nor to terms.
        to_value, to_other = (v.axes and not v.axes.partial for v in (value, other))
        if to_value and (not to_other or self.chance(0.5)):
            return value, self.alike(other, value)
        return (self.alike(value, other), other) if to_other else (value, value)

    def binary(self, value):
        kind = self.random.choice(BINARY if value.dtype != "i32" else BINARY_INTEGER)
        if self.chance(0.2):
            value, other = value, self.any_constant(value)
        else:
            value, other = self.partner(value)
        product = value.bound * other.bound
        bound = value.bound + other.bound if kind[6:9] in ("add", "sub") else product if "mul" in kind else None
        if bound and bound > 1000 and value.dtype != "i32":
            return None
        operands = [value, other] if self.chance(0.5) else [other, value]
        return self.add(kind, operands, value.shape, value.axes, bound,
                        exact=value.exact and other.exact and (value.dtype == "i32" or kind in EXACT))

    def divide(self, value):
        if value.dtype == "i32":
            return self.binary(value)
        by = self.pick(lambda v: v.shape == value.shape and v.dtype == value.dtype and v.axes == value.axes and v.floor)
        if not by or self.chance(0.5):
            by = self.away_from_zero(value)
        if value.bound / by.floor > 500:
            return None
        return self.add("arith.divf", [value, by], value.shape, value.axes, value.bound / by.floor)

    def condition(self, value):
        """A truth value of the shape and axes of an exact one; None if there is none."""
        r = self.random
        kind, words = ("arith.cmpi", SIGNED) if value.dtype == "i32" else ("arith.cmpf", ORDERED)
        if self.chance(0.4):
            first, other = value, self.any_constant(value)
        else:
            first, other = self.partner(value, lambda v: v.exact)
            if not other:
                return None
        truth = self.add(kind, [first, other], first.shape, first.axes, 1, "i1", exact=True, predicate=r.choice(words))
        if self.chance(0.2):
            again = self.add(kind, [first, other], first.shape, first.axes, 1, "i1", exact=True,
                             predicate=r.choice(words))
            kind = r.choice(("arith.andi", "arith.ori", "arith.xori"))
            truth = self.add(kind, [truth, again], first.shape, first.axes, 1, "i1", exact=True)
        return truth

    def choose(self, value):
        """A comparison, perhaps of other values, and what it selects."""
        r = self.random
        if not value.exact:
            # The greater or the smaller one, or what is above a number: continuous.
            if self.chance(0.4):
                other = self.constant(value, "0.0" if value.dtype != "i32" else "0")
            else:
                value, other = self.partner(value)
            kind = "arith.cmpi" if value.dtype == "i32" else "arith.cmpf"
            truth = self.add(kind, [value, other], value.shape, value.axes, 1, "i1", predicate=r.choice(
                SIGNED[:4] if value.dtype == "i32" else ORDERED[:4]))
            chosen = [value, other] if self.chance(0.5) else [other, value]
            return self.add("arith.select", [truth, *chosen], value.shape, value.axes, max(value.bound, other.bound),
                            value.dtype)
        truth = self.condition(value)
        if not truth:
            return None
        if self.chance(0.15):
            kind, dtype = (("arith.extui", "i32") if self.dtype == "i32" else ("arith.uitofp", self.dtype))
            return self.add(kind, [truth], truth.shape, truth.axes, 1, dtype, exact=True)
        fits = lambda v: v.shape == truth.shape and (truth.axes or not v.axes)
        first = self.pick(fits)
        second = self.pick(lambda v: fits(v) and v.dtype == first.dtype)
        first, second = self.alike(first, truth), self.alike(second, truth)
        return self.add("arith.select", [truth, first, second], truth.shape, truth.axes, max(first.bound, second.bound),
                        first.dtype, exact=first.exact and second.exact)

    def number(self, value):
        """Integer work beside floats: shifts, masks, numbers of what is exact, and back."""
        r = self.random
        if value.dtype == "i32":
            if self.chance(0.4):
                shift = self.constant(value, str(r.randint(1, 4)))
                return self.add(r.choice(("arith.shli", "arith.shrsi")), [value, shift], value.shape, value.axes,
                                value.bound * 16, exact=True)
            if value.bound > 1000 or self.dtype == "i32":
                return self.binary(value)
            return self.add("arith.sitofp", [value], value.shape, value.axes, value.bound, "f32", exact=True)
        if not value.exact or value.bound > 1000:
            return None
        return self.add("arith.fptosi", [value], value.shape, value.axes, value.bound, "i32", exact=True)

    def cast(self, value):
        if value.dtype == "i32":
            return None
        kind, dtype = ("arith.extf", "f32") if value.dtype in ("f16", "bf16") else ("arith.truncf",
                                                                                    self.random.choice(("f16", "bf16")))
        return self.add(kind, [value], value.shape, value.axes, dtype=dtype, floor=value.floor / 2,
                        exact=value.exact)
