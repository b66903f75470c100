package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

// numKind is a level of Python's numeric tower as this package represents it.
type numKind uint8

const (
	notNumber numKind = iota
	smallInt
	bigInt
	floating
)

// number is a bool, int or float taken apart: one field counts, by kind.
type number struct {
	kind  numKind
	small int64
	big   *big.Int
	float float64
}

func asNumber(v Value) number {
	switch x := v.(type) {
	case bool:
		if x {
			return number{kind: smallInt, small: 1}
		}
		return number{kind: smallInt}
	case int64:
		return number{kind: smallInt, small: x}
	case *big.Int:
		return number{kind: bigInt, big: x}
	case float64:
		return number{kind: floating, float: x}
	}
	return number{}
}

// isInteger reports whether n is an int of any size.
func (n number) isInteger() bool { return n.kind == smallInt || n.kind == bigInt }

// toBig returns an integer as a big one. It must not be written to.
func (n number) toBig() *big.Int {
	if n.kind == smallInt {
		return big.NewInt(n.small)
	}
	return n.big
}

// toFloat is float(n).
func (n number) toFloat() float64 {
	switch n.kind {
	case smallInt:
		return float64(n.small)
	case bigInt:
		f, _ := new(big.Float).SetInt(n.big).Float64()
		return f
	case floating, notNumber:
	}
	return n.float
}

// fromBig returns b as the smallest kind of int that holds it.
func fromBig(b *big.Int) Value {
	if b.IsInt64() {
		return b.Int64()
	}
	return b
}

// unordered is what compare functions return for a NaN.
const unordered = 2

// compareNumbers returns -1, 0, 1 or unordered; ok is false if one of the values is no number.
func compareNumbers(a, b Value) (order int, ok bool) {
	x, y := asNumber(a), asNumber(b)
	switch {
	case x.kind == notNumber || y.kind == notNumber:
		return 0, false
	case x.kind == smallInt && y.kind == smallInt:
		return compareOrdered(x.small, y.small), true
	case x.kind == floating || y.kind == floating:
		f, g := x.toFloat(), y.toFloat()
		if math.IsNaN(f) || math.IsNaN(g) {
			return unordered, true
		}
		return compareOrdered(f, g), true
	}
	return x.toBig().Cmp(y.toBig()), true
}

func compareOrdered[T int64 | float64](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// maxIntegerDigits is how many decimal digits Python converts between int and str
// (sys.set_int_max_str_digits); beyond it raises ValueError.
const maxIntegerDigits = 4300

// integerText is str(b).
func integerText(b *big.Int) string {
	if b.BitLen() > maxIntegerDigits*4 {
		throw(KindValue, "Exceeds the limit (%d digits) for integer string conversion", maxIntegerDigits)
	}
	t := b.String()
	if len(strings.TrimPrefix(t, "-")) > maxIntegerDigits {
		throw(KindValue, "Exceeds the limit (%d digits) for integer string conversion", maxIntegerDigits)
	}
	return t
}

// floatText is repr(f): the shortest digits that read back as f, with an exponent below 1e-4 and from 1e16 on.
func floatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	s := strconv.FormatFloat(f, 'e', -1, 64)
	mantissa, exponent, _ := strings.Cut(s, "e")
	exp, err := strconv.Atoi(exponent)
	if err == nil && (exp < -4 || exp >= 16) {
		sign := "+"
		if exp < 0 {
			sign, exp = "-", -exp
		}
		digits := strconv.Itoa(exp)
		if len(digits) < 2 {
			digits = "0" + digits
		}
		return mantissa + "e" + sign + digits
	}
	s = strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// needInt returns an index-sized integer or fails.
func needInt(v Value) int64 {
	n := asNumber(v)
	switch n.kind {
	case smallInt:
		return n.small
	case bigInt:
		throw(KindOverflow, "Python int too large to convert to C ssize_t")
	case floating, notNumber:
		failIfUndefined(v)
		throw(KindType, "'%s' object cannot be interpreted as an integer", typeName(v))
	}
	return 0
}
