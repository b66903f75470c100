package hf

/*
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
static int giveBack(void) { malloc_trim(0); return 1; }
#else
static int giveBack(void) { return 0; }
#endif
*/
import "C"

// An encode takes the library up to 150 bytes of memory for each byte of text, all of it at once. So its size is bounded three
// times: by the longest text, by how many long ones are encoded at the same time, and by giving back what the allocator would
// else keep for the process's life.
const (
	// TextBytesMax is the longest text that Encode takes: some 2 million tokens, a second or so for each MB.
	TextBytesMax = 8 << 20
	// hugeBytes is the length from which texts are encoded one after the other: longer than most models' contexts.
	hugeBytes = 2 << 20
	// largeBytes and largeIDs are the lengths from which memory is given back afterwards; that takes a hundredth of the
	// encode's own time.
	largeBytes = 512 << 10
	largeIDs   = 128 << 10
)

// giveBack returns what the C allocator holds and does not use to the system. It says whether this allocator can.
func giveBack() bool { return C.giveBack() != 0 }
