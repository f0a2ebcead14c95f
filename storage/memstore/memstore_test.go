package memstore_test

import (
	"errors"
	"strings"
	"testing"

	"cutwater/storage"
	"cutwater/storage/memstore"
	"cutwater/storage/storagetest"
	"cutwater/storage/vfs"
)

// The storage kind "coordinator" keeps the contract.
func TestConformance(t *testing.T) {
	storagetest.Run(t, func(fsys vfs.FS, job string, epoch uint64) storage.Store {
		return memstore.New(memstore.Options{FS: fsys, Job: job, Epoch: epoch})
	})
}

// State above the limit is refused with the operator's uid and its size; state at
// the limit is taken.
func TestTooLarge(t *testing.T) {
	s := memstore.New(memstore.Options{Job: storagetest.Job})
	w := storagetest.File(4, 0, "keyed", "")
	if _, err := s.Write(t.Context(), w, storagetest.Content(memstore.MaxStateBytes, 1)); err != nil {
		t.Error(err)
	}
	_, err := s.Write(t.Context(), w, storagetest.Content(memstore.MaxStateBytes+1, 1))
	if !errors.Is(err, storage.ErrTooLarge) || !strings.Contains(err.Error(), `"counts/per key"`) || !strings.Contains(err.Error(), "5242881 bytes") {
		t.Errorf("error is %v", err)
	}
}
