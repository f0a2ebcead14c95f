package topology

import (
	"fmt"
	"path/filepath"

	"cutwater/messages"
	"cutwater/stream/catalog"
)

// SourceOf packs a topology's text, with the variables that it mentions, so that any
// node builds the same program from it with LoadSource. Path becomes absolute: its
// folder is the one that relative paths refer to, on every node. The text need not
// be correct.
func SourceOf(path string, text []byte, env func(string) (string, bool)) (*messages.TopologySource, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("the path %s cannot be made absolute: %w", path, err)
	}
	s := &messages.TopologySource{File: absolute, Text: text, Variables: map[string]string{}}
	treeOf(text, func(name string) (string, bool) {
		value, ok := env(name)
		if ok {
			s.Variables[name] = value
		}
		return value, ok
	}, newReporter(path, text))
	return s, nil
}

// LoadSource is Load for a packed topology. Variables of this process do not count.
func LoadSource(s *messages.TopologySource, cat *catalog.Catalog) (*Topology, error) {
	return Load(s.GetFile(), s.GetText(), cat, func(name string) (string, bool) {
		value, ok := s.GetVariables()[name]
		return value, ok
	})
}
