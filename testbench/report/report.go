package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Quantile is the smallest value that at least the part q of all values does not exceed (nearest rank); false if there is
// none. values need not be sorted and stay as they are.
func Quantile[T ~int | ~int64 | ~float64](values []T, q float64) (T, bool) {
	if len(values) == 0 {
		var none T
		return none, false
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1], true
}

// Milliseconds writes a quantile of times in milliseconds, - if there are none.
func Milliseconds(values []time.Duration, q float64) string {
	v, ok := Quantile(values, q)
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(v)/float64(time.Millisecond))
}

// Table lays rows out in columns; the first row is the head. Numbers stand to the right.
func Table(rows [][]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range rows {
		_, _ = fmt.Fprintln(w, strings.Join(row, "\t")+"\t") // a builder takes everything
	}
	_ = w.Flush()
	return b.String()
}
