package command

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cutwater/api/client"
	"cutwater/cluster/secret"
)

// Variables of the environment that the commands of a cluster read.
const (
	addrVariable       = "CUTWATER_ADDR"
	clusterVariable    = "CUTWATER_CLUSTER"
	secretVariable     = "CUTWATER_SECRET"
	secretFileVariable = "CUTWATER_SECRET_FILE"
)

const (
	// defaultAddress is where the first node of a machine serves its API.
	defaultAddress = "127.0.0.1:8081"
	// defaultNodeDir is the data folder of start.
	defaultNodeDir = ".cutwater/node"
	// askTimeout bounds one request.
	askTimeout = 15 * time.Second
)

// nodeFlags say which node a command asks.
type nodeFlags struct {
	addr, dataDir, secretFile string
	// givenDir: the data folder is not the default.
	givenDir func() bool
}

// newNodeFlags adds the flags to a command.
func newNodeFlags(cmd *cobra.Command) *nodeFlags {
	f := &nodeFlags{}
	flags := cmd.Flags()
	flags.StringVar(&f.addr, "addr", "", "HOST:PORT of the node to ask (default $"+addrVariable+", else what the data folder says, else "+defaultAddress+")")
	flags.StringVar(&f.dataDir, "data-dir", defaultNodeDir, "data folder of the node to ask")
	addSecretFlag(cmd, &f.secretFile)
	f.givenDir = func() bool { return flags.Changed("data-dir") }
	return f
}

func addSecretFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "secret-file", "", "file with the cluster secret (default $"+secretFileVariable+"; the text itself may be in $"+secretVariable+")")
}

// target is the node that a command asks.
type target struct {
	*client.Client
	address, token string
	// origin tells why this address, and advice what to do if nobody answers there.
	origin, advice string
}

// connect finds the node to ask. It sends nothing.
func (f *nodeFlags) connect() (*target, error) {
	t, err := f.find()
	if err != nil {
		return nil, err
	}
	s, err := readSecret(f.secretFile)
	if err != nil {
		return nil, err
	}
	t.token = apiToken(s)
	if t.Client, err = client.New(client.Options{Address: t.address, Token: t.token, Timeout: askTimeout}); err != nil {
		return nil, coded(exitUsage, fmt.Errorf("%s, which %s gives, is no address of a node: %w", t.address, t.origin, err))
	}
	return t, nil
}

// find decides on the address: flags come before the environment.
func (f *nodeFlags) find() (*target, error) {
	const elsewhere = "start a node with `cutwater start`, or say where one is with --addr or " + addrVariable
	if f.addr != "" {
		return &target{address: f.addr, origin: "--addr", advice: "check the address, and whether the node runs"}, nil
	}
	if a := os.Getenv(addrVariable); a != "" && !f.givenDir() {
		return &target{address: a, origin: addrVariable, advice: "check the address, and whether the node runs"}, nil
	}
	a, err := readAddresses(f.dataDir)
	file := filepath.Join(f.dataDir, addressesFile)
	switch {
	case err == nil:
		return &target{address: a.HTTP, origin: file, advice: fmt.Sprintf("process %d wrote the file and seems to be gone; start the node again, or name another one with --addr", a.PID)}, nil
	case !errors.Is(err, os.ErrNotExist):
		return nil, coded(exitError, err)
	case f.givenDir():
		return nil, coded(exitUnreachable, fmt.Errorf("no node runs with the data folder %s: there is no file %s; start it with `cutwater start --data-dir %s`, or give --addr", f.dataDir, file, f.dataDir))
	}
	return &target{address: defaultAddress, origin: "the default, as there is no " + file, advice: elsewhere}, nil
}

// fail gives an error of the client its exit code, and a next step where the node
// did not give one.
func (t *target) fail(err error) error {
	var (
		unreachable *client.UnreachableError
		answer      *client.Error
	)
	switch {
	case errors.As(err, &unreachable):
		return coded(exitUnreachable, fmt.Errorf("no node answers at %s (%s): %w; %s", t.address, t.origin, unreachable.Err, t.advice))
	case errors.Is(err, context.DeadlineExceeded):
		return coded(exitUnreachable, fmt.Errorf("the node at %s (%s) did not answer in time; try again, or ask another one with --addr", t.address, t.origin))
	case !errors.As(err, &answer):
		return coded(exitError, err)
	}
	said := errors.New(strings.Join(answer.Reasons, "\n"))
	if len(answer.Reasons) == 0 {
		said = fmt.Errorf("the node at %s answered with status %d and no reason", t.address, answer.Status)
	}
	switch answer.Status {
	case http.StatusUnauthorized:
		why := "answers only who knows the secret of its cluster"
		if t.token != "" {
			why = "has another cluster secret than this command"
		}
		return coded(exitError, fmt.Errorf("the node at %s %s; give the file of the secret with --secret-file or %s", t.address, why, secretFileVariable))
	case http.StatusNotFound:
		return coded(exitNotFound, said)
	case http.StatusConflict:
		return coded(exitConflict, said)
	case http.StatusServiceUnavailable:
		return coded(exitUnreachable, fmt.Errorf("%w; `cutwater nodes` shows which nodes are there", said))
	}
	return coded(exitError, said)
}

// status is the HTTP status behind an error, 0 if there is none.
func status(err error) int {
	var answer *client.Error
	if errors.As(err, &answer) {
		return answer.Status
	}
	return 0
}

// readSecret reads the cluster's secret: from the file, from that of the
// environment, or from the environment itself. Without any there is none.
func readSecret(file string) (secret.Secret, error) {
	origin := "--secret-file"
	if file == "" {
		file, origin = os.Getenv(secretFileVariable), secretFileVariable
	}
	text := []byte(os.Getenv(secretVariable))
	switch {
	case file != "":
		var err error
		if text, err = os.ReadFile(file); err != nil {
			return secret.Secret{}, coded(exitError, fmt.Errorf("the cluster secret of %s cannot be read: %w", origin, err))
		}
	case len(text) == 0:
		return secret.Secret{}, nil
	default:
		origin = secretVariable
	}
	s, err := secret.New(text)
	if err != nil {
		return s, coded(exitError, fmt.Errorf("%s: %w", origin, err))
	}
	return s, nil
}

// apiToken is what requests present; empty without a secret.
func apiToken(s secret.Secret) string { return hex.EncodeToString(s.Key(secret.API)) }
