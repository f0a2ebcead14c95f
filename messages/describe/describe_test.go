package describe

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
)

// Fields stand in the order of their numbers, unset ones are left out, enums have
// their names, and long or binary bytes are cut and told by their length.
func TestText(t *testing.T) {
	long := make([]byte, 100)
	for i := range long {
		long[i] = 'x'
	}
	for _, c := range []struct {
		m    proto.Message
		want string
	}{
		{nil, "nil"},
		{(*messages.Credit)(nil), "Credit{}"},
		{&messages.Credit{}, "Credit{}"},
		{&messages.Credit{Bytes: 5, Attempt: 3, Open: true}, "Credit{attempt:3 bytes:5 open:true}"},
		{&messages.Split{Id: "a b", Group: "g"}, `Split{id:"a b" group:g}`},
		{&messages.Split{Payload: []byte("text")}, `Split{payload:"text"}`},
		{&messages.Split{Payload: []byte{0xff, 0}}, "Split{payload:0xff00}"},
		{&messages.Split{Payload: long}, `Split{payload:"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"..(100 bytes)}`},
		{&messages.TaskStateChanged{State: messages.TaskState_TASK_RUNNING, Task: &messages.TaskId{Vertex: "v"}}, "TaskStateChanged{task:{vertex:v} state:TASK_RUNNING}"},
		{&messages.TaskStateChanged{State: 99}, "TaskStateChanged{state:99}"},
		{&messages.JobSettings{DroppedState: []string{"a", ""}}, `JobSettings{dropped_state:[a ""]}`},
	} {
		for range 3 { // it never varies
			if got := Text(c.m); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		}
	}
}
