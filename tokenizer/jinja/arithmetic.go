package jinja

import (
	"math"
	"math/big"
)

// arithmetic is x op y for two numbers.
func (s *state) arithmetic(op operator, x, y number) Value {
	if x.kind == floating || y.kind == floating || op == opDivide {
		return floatArithmetic(op, x.toFloat(), y.toFloat())
	}
	if x.kind == smallInt && y.kind == smallInt {
		if v, ok := smallArithmetic(op, x.small, y.small); ok {
			return v
		}
	}
	return s.bigArithmetic(op, x.toBig(), y.toBig())
}

func floatArithmetic(op operator, x, y float64) Value {
	switch op {
	case opAdd:
		return x + y
	case opSubtract:
		return x - y
	case opMultiply:
		return x * y
	case opPower:
		if x == 0 && y < 0 {
			throw(KindZeroDivision, "0.0 cannot be raised to a negative power")
		}
		return math.Pow(x, y)
	case opDivide, opFloor, opModulo:
	}
	if y == 0 {
		throw(KindZeroDivision, "division by zero")
	}
	if op == opDivide {
		return x / y
	}
	// CPython's float_floor_div and float_rem: the remainder has the sign of the divisor.
	mod := math.Mod(x, y)
	div := (x - mod) / y
	if mod != 0 && (y < 0) != (mod < 0) {
		mod += y
		div--
	}
	if op == opModulo {
		return mod
	}
	if div == 0 {
		return math.Copysign(0, x/y)
	}
	floor := math.Floor(div)
	if div-floor > 0.5 {
		floor++
	}
	return floor
}

// smallArithmetic is a op b if neither of them nor the result is beyond int64.
func smallArithmetic(op operator, a, b int64) (Value, bool) {
	switch op {
	case opAdd:
		r := a + b
		return r, (r > a) == (b > 0)
	case opSubtract:
		r := a - b
		return r, (r < a) == (b > 0)
	case opMultiply:
		if a == 0 || b == 0 {
			return int64(0), true
		}
		r := a * b
		return r, r/b == a && (a != -1 || b != math.MinInt64) && (b != -1 || a != math.MinInt64)
	case opFloor, opModulo:
		if b == 0 {
			throw(KindZeroDivision, "integer division or modulo by zero")
		}
		quotient, rest := a/b, a%b
		if rest != 0 && (rest < 0) != (b < 0) {
			quotient--
			rest += b
		}
		if op == opModulo {
			return rest, true
		}
		return quotient, a != math.MinInt64 || b != -1
	case opPower, opDivide:
	}
	return nil, false
}

func (s *state) bigArithmetic(op operator, x, y *big.Int) Value {
	s.scan(x.BitLen() + y.BitLen())
	r := new(big.Int)
	switch op {
	case opAdd:
		r.Add(x, y)
	case opSubtract:
		r.Sub(x, y)
	case opMultiply:
		s.bits(int64(x.BitLen()) + int64(y.BitLen()))
		r.Mul(x, y)
	case opPower:
		return s.bigPower(x, y)
	case opFloor, opModulo:
		if y.Sign() == 0 {
			throw(KindZeroDivision, "integer division or modulo by zero")
		}
		rest := new(big.Int)
		r.DivMod(x, y, rest) // Euclidean: the remainder is never negative
		if y.Sign() < 0 && rest.Sign() != 0 {
			r.Sub(r, big.NewInt(1))
			rest.Add(rest, y)
		}
		if op == opModulo {
			r = rest
		}
	case opDivide: // always in floating point
	}
	s.bits(int64(r.BitLen()))
	return fromBig(r)
}

func (s *state) bigPower(x, y *big.Int) Value {
	if y.Sign() < 0 {
		return floatArithmetic(opPower, number{kind: bigInt, big: x}.toFloat(), number{kind: bigInt, big: y}.toFloat())
	}
	if x.BitLen() > 1 { // -1, 0 and 1 stay small
		if !y.IsInt64() || y.Int64() > int64(s.limits.IntegerBits) {
			s.bits(math.MaxInt64)
		}
		s.bits(int64(x.BitLen()-1) * y.Int64())
	} else if y.BitLen() > 2 {
		y = big.NewInt(2 + int64(y.Bit(0))) // for -1, 0 and 1 only the parity counts
	}
	return fromBig(new(big.Int).Exp(x, y, nil))
}

// bits fails if an integer of so many bits is too large.
func (s *state) bits(n int64) {
	if n > int64(s.limits.IntegerBits) {
		throw(KindLimit, "an integer would have more than %d bits", s.limits.IntegerBits)
	}
	s.alloc(int(n) / 8)
}
