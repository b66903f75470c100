package hf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// ErrClosed is the error of every call on a [Tokenizer] after its Close.
var ErrClosed = errors.New("the tokenizer is closed")

// ErrPipeline matches the error of an Encode for which the library returned nothing though the text must have ids.
// It is the file's or the library's fault, not the client's.
var ErrPipeline = errors.New("the tokenizer's pipeline failed")

// BadInput says that a text or a list of ids can't be taken, whatever the load: the client's fault, status 400.
type BadInput struct { //nolint:errname // the name of this reason in the whole tokenizer room
	// Param names the kind of input at fault: "text" or "ids". The caller knows what the client calls it.
	Param string
	// Message says in a sentence what is wrong and where, for the client to read.
	Message string
}

func (e *BadInput) Error() string { return e.Message }

// FileError says that a file of a model's folder can't be used.
type FileError struct {
	// File is the file's path, or the name given to [Parse].
	File string
	// Key is the JSON key at fault, dots between levels; empty where the file as a whole is.
	Key string
	// Line and Column, from 1, tell the place of a JSON fault; 0 where there is no such place.
	Line, Column int
	// Err is the cause.
	Err error
}

func (e *FileError) Error() string {
	place := e.File
	if e.Line > 0 {
		place = fmt.Sprintf("%s:%d:%d", place, e.Line, e.Column)
	}
	if e.Key != "" {
		place += fmt.Sprintf(": key %q", e.Key)
	}
	return place + ": " + e.Err.Error()
}

func (e *FileError) Unwrap() error { return e.Err }

// jsonFault tells the place and the key of an error that encoding/json gave for the whole text raw of a file.
func jsonFault(name string, raw []byte, err error) *FileError {
	fault := &FileError{File: name, Err: err}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	offset := int64(-1)
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &kind):
		offset = kind.Offset
		fault.Key = kind.Field
		fault.Err = fmt.Errorf("is a JSON %s, want %s", kind.Value, jsonKind(kind.Type))
	}
	if offset >= 0 {
		// The offsets of encoding/json count the bytes read, the one at fault included.
		before := raw[:max(0, min(offset-1, int64(len(raw))))]
		fault.Line = bytes.Count(before, []byte("\n")) + 1
		fault.Column = len(before) - bytes.LastIndexByte(before, '\n')
	}
	return fault
}

// jsonKind says in JSON's words what a Go type is decoded from.
func jsonKind(t reflect.Type) string {
	switch t.Kind() { //nolint:exhaustive // the types that this package decodes into; any other has its Go name
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Uint32:
		return "a whole number from 0 to 4294967295"
	case reflect.Slice:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	default:
		return t.String()
	}
}
