package discovery

import (
	"testing"

	"cutwater/internal/leak"
)

// No test leaves a goroutine or an open file behind.
func TestMain(m *testing.M) { leak.VerifyTestMain(m) }
