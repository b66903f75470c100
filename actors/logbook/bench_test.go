package logbook

import (
	"io"
	"log/slog"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkLine is what a request's line costs whoever logs it: straight into a pipe that is read, as by a service manager, and
// through a book.
func BenchmarkLine(b *testing.B) {
	straight := func(b *testing.B) io.Writer {
		b.Helper()
		from, to, err := os.Pipe()
		require.NoError(b, err)
		read := make(chan struct{})
		go func() {
			defer close(read)
			_, _ = io.Copy(io.Discard, from)
		}()
		b.Cleanup(func() {
			_ = to.Close()
			<-read
			_ = from.Close()
		})
		return to
	}
	queued := func(b *testing.B) io.Writer {
		b.Helper()
		book, err := Open(DefaultConfig(), Deps{To: straight(b), Dropped: func(Cause, int) {}, Missing: func(io.Writer, int) {}})
		require.NoError(b, err)
		b.Cleanup(book.Close)
		return book
	}
	for name, to := range map[string]func(*testing.B) io.Writer{"straight": straight, "book": queued} {
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
