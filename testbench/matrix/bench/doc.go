// Command bench runs the matrix of routing policies and writes its results: make bench-policy. A run that was ended goes on
// where it stopped; flags take a part of the matrix. It owns the file of measured cells while it runs.
package main
