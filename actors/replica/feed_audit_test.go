package replica

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"plimsoll/scoring"
)

// TestAudit says after how many requests an index is distrusted; 0: never.
func TestAudit(t *testing.T) {
	for name, c := range map[string]struct {
		predicted, found func(i int) scoring.Tokens
		want             int
	}{
		"always right":             {constant(160), constant(160), 0},
		"too little":               {constant(160), constant(320), 0},
		"nothing predicted":        {constant(0), constant(0), 0},
		"the engine holds nothing": {constant(160), constant(0), auditLeast},
		"within a block":           {constant(160), constant(145), 0},
		"one large miss": {
			func(i int) scoring.Tokens { return map[bool]scoring.Tokens{true: 100_000, false: 160}[i == 20] }, constant(160), 0,
		},
		"every tenth, whole":     {constant(160), func(i int) scoring.Tokens { return map[bool]scoring.Tokens{true: 0, false: 160}[i%10 == 9] }, 0},
		"every other, whole":     {constant(160), func(i int) scoring.Tokens { return map[bool]scoring.Tokens{true: 0, false: 160}[i%2 == 1] }, auditLeast},
		"always, a tenth":        {constant(1600), constant(1440), 0},
		"from the hundredth one": {constant(160), func(i int) scoring.Tokens { return map[bool]scoring.Tokens{true: 0, false: 160}[i >= 100] }, 116},
	} {
		t.Run(name, func(t *testing.T) {
			var a audit
			at := 0
			for i := range 1000 {
				if a.observe(c.predicted(i), c.found(i), 16) {
					at = i + 1
					break
				}
			}
			if c.want > auditLeast {
				require.InDelta(t, c.want, at, 10)
			} else {
				require.Equal(t, c.want, at)
			}
		})
	}
}

func constant(n scoring.Tokens) func(int) scoring.Tokens {
	return func(int) scoring.Tokens { return n }
}

// TestAuditInAnyOrder: who finds at least what was predicted is never distrusted, and nobody is before the least number.
func TestAuditInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var honest, other audit
		for i := range rapid.IntRange(1, 200).Draw(t, "requests") {
			predicted := scoring.Tokens(rapid.IntRange(0, 5000).Draw(t, "predicted"))
			found := scoring.Tokens(rapid.IntRange(0, 5000).Draw(t, "found"))
			require.False(t, honest.observe(predicted, predicted+found, 16))
			if other.observe(predicted, found, 16) {
				require.GreaterOrEqual(t, i+1, auditLeast)
			}
		}
	})
}
