package state

import (
	"testing"

	"cutwater/internal/leak"
)

// Nothing that a test starts or opens outlives it.
func TestMain(m *testing.M) { leak.VerifyTestMain(m) }
