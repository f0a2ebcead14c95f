//go:build race

package task

func init() { poison = true }
