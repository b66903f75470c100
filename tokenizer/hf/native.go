package hf

// The Go module itself names the libraries to link with; only the folder is ours.

// #cgo LDFLAGS: -L${SRCDIR}/native/lib -ldl -lm -lstdc++
import "C"
