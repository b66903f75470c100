// Package chaos injects faults.
package chaos
