package hf

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// loaded is the embedded model's tokenizer.
func loaded(t *testing.T) *Tokenizer {
	t.Helper()
	tok, err := Load(filepath.Join("..", "simmodel", "model", "tokenizer.json"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tok.Close()) })
	return tok
}

// residentBytes is the memory of this process; tests that need it are skipped where the system does not tell.
func residentBytes(t *testing.T) int {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip("this system does not tell a process's memory")
	}
	var size, resident int
	_, err = fmt.Sscan(string(raw), &size, &resident)
	require.NoError(t, err)
	return resident * os.Getpagesize()
}

// TestALongTextsMemoryIsGivenBack: without it, three hundred MB stay with the allocator after this text.
func TestALongTextsMemoryIsGivenBack(t *testing.T) {
	if !giveBack() {
		t.Skip("this C library's allocator gives nothing back")
	}
	tok := loaded(t)
	before := residentBytes(t)
	ids, err := tok.Encode(strings.Repeat("x ", 1<<20), false)
	require.NoError(t, err)
	require.Greater(t, len(ids), 1<<20)
	require.Less(t, residentBytes(t)-before, 100<<20)
}

func TestATextThatIsTooLongIsRefused(t *testing.T) {
	_, err := loaded(t).Encode(strings.Repeat("x", TextBytesMax+1), false)
	var bad *BadInput
	require.ErrorAs(t, err, &bad)
	require.Equal(t, "the text has 8388609 bytes, at most 8388608 can be encoded", bad.Message)
}

// TestLongListsAreDecodedOneAfterTheOther: as long texts are encoded; short ones pass them.
func TestLongListsAreDecodedOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tok := loaded(t)
		tok.huge <- struct{}{}
		done := make(chan error, 1)
		go func() {
			_, err := tok.Decode(make([]uint32, largeIDs), false)
			done <- err
		}()
		synctest.Wait()
		require.Empty(t, done)
		_, err := tok.Decode([]uint32{1, 2}, false)
		require.NoError(t, err)
		<-tok.huge
		require.NoError(t, <-done)
	})
}
