package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// addressesFile is the file in the data folder of a node that says where it is
// reached while it runs.
const addressesFile = "addresses"

// addresses is the content of the file.
type addresses struct {
	HTTP   string `json:"http"`
	Gossip string `json:"gossip"`
	PID    int    `json:"pid"`
}

// readAddresses reads the file of a data folder. An error wraps os.ErrNotExist if
// there is none.
func readAddresses(dataDir string) (a addresses, err error) {
	file := filepath.Join(dataDir, addressesFile)
	content, err := os.ReadFile(file)
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(content, &a); err != nil || a.HTTP == "" {
		return a, fmt.Errorf("%s does not say where the node is reached; start the node again, or give --addr", file)
	}
	return a, nil
}

// write replaces the file at once: who reads it finds the old one or the new one.
// It outlives no start, so it need not survive a loss of power.
func (a addresses) write(dataDir string) error {
	content, err := json.Marshal(a)
	if err != nil {
		return err
	}
	file := filepath.Join(dataDir, addressesFile)
	temporary := file + ".new"
	if err := os.WriteFile(temporary, append(content, '\n'), 0o644); err != nil {
		return fmt.Errorf("the addresses of the node cannot be written: %w", err)
	}
	if err := os.Rename(temporary, file); err != nil {
		return fmt.Errorf("the addresses of the node cannot be written: %w", err)
	}
	return nil
}

// removeAddresses removes the file of a node that has stopped.
func removeAddresses(dataDir string) error {
	if err := os.Remove(filepath.Join(dataDir, addressesFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
