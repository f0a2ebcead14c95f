package protocol_test

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/protocol"
)

type happened string

func (h happened) String() string { return string(h) }

func effects(name string, fail error) *protocol.Effects {
	return &protocol.Effects{
		Work:   []protocol.Work{{Op: uint64(len(name))}},
		Send:   []protocol.Send{{To: protocol.Address(name), Message: proto.Message(nil)}},
		Timers: []protocol.Timer{{Key: name}},
		Events: []protocol.Event{happened(name)},
		Fail:   fail,
	}
}

// The effects of an inner machine come behind those of the outer one, and the
// first failure is the one that counts.
func TestAppend(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	for _, c := range []struct{ outer, inner, want error }{
		{nil, nil, nil}, {nil, second, second}, {first, nil, first}, {first, second, first},
	} {
		e := effects("a", c.outer)
		e.Append(effects("bb", c.inner))
		if e.Fail != c.want {
			t.Errorf("%v and %v: Fail is %v", c.outer, c.inner, e.Fail)
		}
		if len(e.Work) != 2 || e.Work[1].Op != 2 || len(e.Send) != 2 || e.Send[1].To != "bb" ||
			len(e.Timers) != 2 || e.Timers[1].Key != "bb" || len(e.Events) != 2 || e.Events[1].String() != "bb" {
			t.Errorf("appended in another order, or not all: %+v", e)
		}
	}
}

// Reset leaves nothing of the step before, a failure least of all.
func TestReset(t *testing.T) {
	e := effects("a", errors.New("before"))
	e.Reset()
	if len(e.Work)+len(e.Send)+len(e.Timers)+len(e.Events) > 0 || e.Fail != nil {
		t.Errorf("left: %+v", e)
	}
}

// An assertion that holds does nothing; one that fails panics with an Assertion,
// which is an error that names the values.
func TestAssert(t *testing.T) {
	protocol.Assert(true, "never %d", 1)
	defer func() {
		a, ok := recover().(protocol.Assertion)
		if !ok || a.Error() != "assertion failed: 3 is not 4" {
			t.Errorf("panicked with %v", a)
		}
	}()
	protocol.Assert(false, "%d is not %d", 3, 4)
	t.Error("a failed assertion did not panic")
}

// The first operation is 1, so that 0 can mean none; none is numbered twice.
func TestOps(t *testing.T) {
	var ops protocol.Ops
	for want := uint64(1); want < 4; want++ {
		if got := ops.Next(); got != want {
			t.Errorf("operation %d, want %d", got, want)
		}
	}
}
