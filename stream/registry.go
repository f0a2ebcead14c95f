package stream

import (
	"fmt"
	"slices"
	"sync"

	"cutwater/stream/row"
)

// The registry gives names to code, so that a topology that travels as data can
// say which code it means. Every node of a cluster must register the same.
var registry struct {
	mu         sync.Mutex
	topologies map[string]func(*Topology)
	processes  map[string]RowProcess
	twice      map[string]bool
}

// Register gives a topology a name, under which it can be deployed. Call it at
// start-up; a name that is given twice is an error of Lookup.
func Register(name string, declare func(*Topology)) {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	if registry.topologies == nil {
		registry.topologies, registry.twice = map[string]func(*Topology){}, map[string]bool{}
	}
	if registry.topologies[name] != nil {
		registry.twice[name] = true
	}
	registry.topologies[name] = declare
}

// Lookup builds the topology that was registered under the name.
func Lookup(name string) (*Program, error) {
	registry.mu.Lock()
	declare, twice := registry.topologies[name], registry.twice[name]
	registry.mu.Unlock()
	switch {
	case declare == nil:
		return nil, fmt.Errorf("stream: this binary has no topology %q; it has %v: register it with stream.Register", name, Registered())
	case twice:
		return nil, fmt.Errorf("stream: topology %q is registered twice; give one of them another name", name)
	}
	t := New(name)
	declare(t)
	return t.Build()
}

// Registered lists the names of the registered topologies, sorted.
func Registered() []string {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	return sortedKeys(registry.topologies)
}

// RowProcess is an operator in Go that a topology.yaml can use by name, as
// `process: NAME`. One of Keyed and Each is set; which one decides whether the
// operator takes a key-by.
type RowProcess struct {
	// Keyed makes the processor of one subtask for a keyed input; the key is a
	// row of the key fields. In and out are the schemas of its records. It may be
	// called by Build, too, to see what is declared. An error says what the
	// schemas lack.
	Keyed func(in, key, out *row.Schema) (Processor[row.Row, row.Row, row.Row], error)
	// Each makes the processor of one subtask for an input without keys.
	Each func(in, out *row.Schema) (Processor[NoKey, row.Row, row.Row], error)
	// Output declares the fields of what the operator emits, for an input with
	// these fields; key is nil without key-by. If Output is nil, the topology
	// says them with the key schema, and without it they are those of the input.
	Output func(in, key *row.Schema) (*row.Schema, error)
}

// RegisterProcess gives an operator a name. Call it at start-up, before the
// topology is read: in an init, or in main before the command runs. A name that
// is given twice is an error of LookupProcess.
func RegisterProcess(name string, p RowProcess) {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	if registry.processes == nil {
		registry.processes = map[string]RowProcess{}
	}
	if _, taken := registry.processes[name]; taken || (p.Keyed == nil) == (p.Each == nil) {
		p = RowProcess{} // LookupProcess reports it
	}
	registry.processes[name] = p
}

// LookupProcess returns the operator that was registered under the name.
func LookupProcess(name string) (RowProcess, error) {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	p, ok := registry.processes[name]
	switch {
	case !ok:
		return p, fmt.Errorf("stream: this program has no process %q; it has %v: register it with stream.RegisterProcess", name, sortedKeys(registry.processes))
	case p.Keyed == nil && p.Each == nil:
		return p, fmt.Errorf("stream: the process %q was registered twice, or without exactly one of Keyed and Each", name)
	}
	return p, nil
}

// RegisteredProcesses lists the names of the registered operators, sorted.
func RegisteredProcesses() []string {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	return sortedKeys(registry.processes)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
