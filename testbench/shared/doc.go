// Package shared finds the data that tests share with other tools: goldens of tokenizers and chat templates,
// recordings of real engines, traces. It lies outside the repository, because part of it belongs to others.
//
// The root is the environment's PLIMSOLL_SHARED, by default the folder ../shared beside the repository. A test that
// finds no data skips that part with a message; a test that finds the folder runs every file that lies in it.
// Tests of all rooms call it; it holds no state.
package shared
