package logbook

import (
	"io"
	"log/slog"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkLine is what a request's line costs whoever logs it: to a file that takes everything, straight and through a book.
func BenchmarkLine(b *testing.B) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(b, err)
	defer null.Close() //nolint:errcheck // nothing is in it
	queue := func(b *testing.B) io.Writer {
		b.Helper()
		book, err := Open(DefaultConfig(), Deps{To: null, Dropped: func(Cause, int) {}, Missing: func(io.Writer, int) {}})
		require.NoError(b, err)
		b.Cleanup(book.Close)
		return book
	}
	for name, to := range map[string]func(*testing.B) io.Writer{
		"straight": func(*testing.B) io.Writer { return null },
		"book":     queue,
	} {
		b.Run("to="+name, func(b *testing.B) {
			log := slog.New(slog.NewTextHandler(to(b), nil))
			b.ReportAllocs()
			for b.Loop() {
				line(b, log)
			}
		})
		b.Run("to="+name+"/parallel", func(b *testing.B) {
			log := slog.New(slog.NewTextHandler(to(b), nil))
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					line(b, log)
				}
			})
		})
	}
}

func line(b *testing.B, log *slog.Logger) {
	b.Helper()
	log.LogAttrs(b.Context(), slog.LevelInfo, "request", slog.String("request", "0123456789abcdef0123456789abcdef"),
		slog.String("route", "chat"), slog.String("tenant", "default"), slog.Int("status", 200), slog.Float64("seconds", 1.25),
		slog.Int("prompt_tokens", 1200), slog.Int("completion_tokens", 200))
}
