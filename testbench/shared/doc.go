// Package shared finds the data that tests share with other tools: goldens of tokenizers and chat templates,
// recordings of real engines, traces. It lies outside the repository, because part of it belongs to others.
//
// The root is the environment's PLIMSOLL_SHARED, by default the folder ../shared beside the repository. Where neither is
// there, a test skips that part with a message. A PLIMSOLL_SHARED that names no folder fails every test that asks, as does a
// folder that lacks what a test asks for. A test that finds the folder runs every file that lies in it, however many there are.
// What is taken before a change is (.ci/run) demands the data.
// Tests of all rooms call it; it holds no state.
package shared
