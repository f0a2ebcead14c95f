package node

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"

	"cutwater/messages"
	"cutwater/stream/operator"
)

// maxPrograms bounds the programs that are kept; the oldest is forgotten, and built
// again when it is wanted again.
const maxPrograms = 128

// programs finds the code of jobs: what the binary has registered, and what is built
// from topologies that came with a deployment.
type programs struct {
	// registered finds what the binary has.
	registered func(name string) (operator.Program, error)
	// build makes a program of a topology.
	build func(*messages.TopologySource) (operator.Program, error)

	mu    sync.Mutex
	built map[string]*builtProgram
	order []string // of built, the oldest first
}

// builtProgram is built once, by whoever asks first.
type builtProgram struct {
	once    sync.Once
	source  *messages.TopologySource
	program operator.Program
	err     error
}

// ProgramName names the program of a topology: equal sources have equal names.
func ProgramName(s *messages.TopologySource) string {
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(s)
	if err != nil {
		return "" // text that is no UTF-8: it was never deployed
	}
	sum := sha256.Sum256(encoded)
	return "topology:" + hex.EncodeToString(sum[:16])
}

// offer remembers the source of a program, which is built when it is first found.
func (p *programs) offer(name string, source *messages.TopologySource) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if source == nil || p.built[name] != nil {
		return
	}
	if p.built == nil {
		p.built = make(map[string]*builtProgram)
	}
	if len(p.order) == maxPrograms {
		delete(p.built, p.order[0])
		p.order = p.order[1:]
	}
	p.built[name] = &builtProgram{source: source}
	p.order = append(p.order, name)
}

// find returns the program of that name. It may take as long as building it does.
func (p *programs) find(name string) (operator.Program, error) {
	p.mu.Lock()
	b := p.built[name]
	p.mu.Unlock()
	switch {
	case b != nil:
		b.once.Do(func() { b.program, b.err = p.build(b.source) })
		return b.program, b.err
	case p.registered != nil:
		return p.registered(name)
	}
	return nil, fmt.Errorf("this node does not know the program %q; deploy the job again", name)
}
