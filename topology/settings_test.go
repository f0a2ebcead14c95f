package topology_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"cutwater/topology"
)

// Settings of a topology in Go are those of a file with the same keys, and other
// keys are none.
func TestSettingsAlone(t *testing.T) {
	for _, text := range []string{"", "checkpointing: {interval: 2s, dir: chk}\nstate: {backend: bolt}\nrestart: {strategy: none}\nbuffer-timeout: 5ms"} {
		src := text + "\n" + strings.Replace(flightsPrefix, "checkpointing: {interval: 1s}", "", 1) + "  - {uid: o, input: in, sink: {blackhole: {}}}\n"
		top, err := topology.Load("folder/t.yaml", []byte(src), buildable(), environment)
		if err != nil {
			t.Fatal(err)
		}
		got, err := topology.Settings("folder/t.yaml", []byte(text), environment)
		if err != nil || !proto.Equal(got, top.Settings) {
			t.Errorf("%q gives %v, %v; want %v", text, got, err, top.Settings)
		}
	}
	for text, want := range map[string]string{
		"checkpointing: {intervall: 1s}": `t.yaml:1:17: error CW002`,
		"operators: []":                  `there is no key "operators"`,
		"state: {backend: rocksdb}":      "backend",
		"a: [":                           "CW001",
	} {
		if _, err := topology.Settings("t.yaml", []byte(text), environment); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
