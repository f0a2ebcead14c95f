package membership

import (
	"testing"

	"cutwater/internal/leak"
)

// No test leaves a goroutine or an open file behind, but for a probe of memberlist,
// which waits for its answer to the end of its time-out.
func TestMain(m *testing.M) {
	leak.VerifyTestMain(m,
		"github.com/hashicorp/memberlist.(*Memberlist).probeNode",
		"github.com/hashicorp/memberlist.(*Memberlist).handleIndirectPing.func2")
}
