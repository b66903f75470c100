package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

// numberFilters are the filters that give numbers.
func numberFilters() map[string]filter {
	return map[string]filter{
		"int":   filterInt,
		"float": filterFloat,
		"abs":   filterAbs,
		"round": filterRound,
		"sum":   filterSum,
	}
}

func filterInt(_ *state, v Value, a args) Value {
	failIfUndefined(v)
	base := needInt(a.arg(1, "base", int64(10)))
	if r, ok := toInt(v, base); ok {
		return r
	}
	return a.arg(0, "default", int64(0))
}

// toInt is jinja2's int filter; ok is false where it gives its default.
func toInt(v Value, base int64) (Value, bool) {
	switch x := v.(type) {
	case bool, int64:
		return asNumber(x).small, true
	case *big.Int:
		return x, true
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, false
		}
		b, _ := big.NewFloat(math.Trunc(x)).Int(nil)
		return fromBig(b), true
	case string, markup:
		t, _ := asString(v)
		t = strings.TrimFunc(t, isSpace)
		if len(t) > maxIntegerDigits {
			return nil, false
		}
		if i, ok := parseInteger(t, base); ok {
			return i, true
		}
		if f, ok := parseFloat(t); ok {
			return toInt(f, 10)
		}
	}
	return nil, false
}

// parseInteger is int(t, base) for trimmed text.
func parseInteger(t string, base int64) (Value, bool) {
	if base != 0 && (base < 2 || base > 36) {
		return nil, false
	}
	prefix := map[int64]string{2: "0b", 8: "0o", 16: "0x"}[base]
	digits := strings.ToLower(strings.ReplaceAll(t, "_", ""))
	sign := ""
	if digits != "" && (digits[0] == '-' || digits[0] == '+') {
		sign, digits = digits[:1], digits[1:]
	}
	if digits == "" || digits[0] == '-' || digits[0] == '+' {
		return nil, false
	}
	if prefix != "" {
		digits = strings.TrimPrefix(digits, prefix)
	}
	b, ok := new(big.Int).SetString(sign+digits, int(base))
	if !ok {
		return nil, false
	}
	return fromBig(b), true
}

// parseFloat is float(t) for trimmed text.
func parseFloat(t string) (float64, bool) {
	f, err := strconv.ParseFloat(t, 64)
	if strings.ContainsAny(t, "xXpP") {
		return 0, false
	}
	return f, err == nil
}

func filterFloat(_ *state, v Value, a args) Value {
	failIfUndefined(v)
	if n := asNumber(v); n.kind != notNumber {
		return n.toFloat()
	}
	if t, ok := asString(v); ok {
		if f, ok := parseFloat(strings.TrimFunc(t, isSpace)); ok {
			return f
		}
	}
	return a.arg(0, "default", 0.0)
}

func filterAbs(s *state, v Value, _ args) Value {
	n := asNumber(v)
	switch n.kind {
	case smallInt:
		if n.small < 0 {
			return s.binary(opSubtract, int64(0), n.small)
		}
		return n.small
	case bigInt:
		return new(big.Int).Abs(n.big)
	case floating:
		return math.Abs(n.float)
	case notNumber:
	}
	failIfUndefined(v)
	throw(KindType, "bad operand type for abs(): '%s'", typeName(v))
	return nil
}

func filterRound(s *state, v Value, a args) Value {
	precision := needInt(a.arg(0, "precision", int64(0)))
	n := asNumber(v)
	if n.kind == notNumber {
		failIfUndefined(v)
		throw(KindType, "type %s doesn't define __round__ method", typeName(v))
	}
	power := math.Pow(10, float64(precision))
	switch s.str(a.arg(1, "method", "common")) {
	case "common":
		if n.kind == floating {
			return roundTo(n.float, precision)
		}
		if precision >= 0 {
			return fromBig(n.toBig())
		}
		return int64(roundTo(n.toFloat(), precision))
	case "ceil":
		return math.Ceil(n.toFloat()*power) / power
	case "floor":
		return math.Floor(n.toFloat()*power) / power
	}
	throw(KindArgument, "method must be common, ceil or floor")
	return nil
}

// roundTo rounds half to even, of the exact binary value, as Python does.
func roundTo(f float64, precision int64) float64 {
	const exact = 400 // more decimals than any float has before it is exact
	if precision > exact || math.IsInf(f, 0) || math.IsNaN(f) {
		return f
	}
	if precision < -exact {
		return math.Copysign(0, f)
	}
	if precision < 0 {
		power := math.Pow(10, float64(-precision))
		return math.RoundToEven(f/power) * power
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(f, 'f', int(precision), 64), 64)
	if err != nil {
		return f
	}
	return rounded
}

func filterSum(s *state, v Value, a args) Value {
	get := s.getter(a.arg(0, "attribute", nil), nil)
	total := a.arg(1, "start", int64(0))
	for _, x := range s.iterate(v) {
		s.work(1)
		total = s.binary(opAdd, total, get(x))
	}
	return total
}
