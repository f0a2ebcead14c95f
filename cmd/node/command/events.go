package command

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"cutwater/api"
	"cutwater/api/client"
)

// nodesEvery is how often a command that follows events looks for new nodes.
const nodesEvery = 2 * time.Second

// eventJSON is one line of events -o json.
type eventJSON struct {
	// Number grows with each event of the node.
	Number uint64 `json:"number"`
	At     stamp  `json:"at"`
	Node   string `json:"node"`
	// Job is the id of the job that it is about, or empty.
	Job string `json:"job"`
	// Kind is one word, such as StatusChanged; Text is one line.
	Kind string `json:"kind"`
	Text string `json:"text"`
}

func newEvents() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show what happened in the cluster",
		Long: `Show what happened in the cluster, oldest first: the events that its nodes keep,
each by its node's clock. With -f further ones are shown as they happen, until
Ctrl-C. -o json prints an object a line.

Each node is asked at its own address; what a node that does not answer knows is
missing, and a line says so.`,
		Args: cobra.NoArgs,
	}
	f := newNodeFlags(cmd)
	follow := cmd.Flags().BoolP("follow", "f", false, "wait for more")
	job := cmd.Flags().String("job", "", "only events of this job: its name, its id, or the beginning of one of them")
	_ = cmd.RegisterFlagCompletionFunc("job", jobNames(f, true)) // the flag is there
	output := formatFlag(cmd, "the events")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		t, err := f.connect()
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		s := &eventStreams{target: t, cmd: cmd, output: *output, seen: map[string]uint64{}, missing: map[string]bool{}}
		if *job != "" {
			j, err := t.find(ctx, *job)
			if err != nil {
				return err
			}
			s.job = j.ID
		}
		if err := s.past(ctx); err != nil || !*follow {
			return err
		}
		return s.follow(ctx)
	}
	return cmd
}

// eventStreams merges the events of all nodes.
type eventStreams struct {
	*target
	cmd    *cobra.Command
	output format
	job    string // id, or empty for all

	mu sync.Mutex
	// seen is the number of the last event that was shown of each node.
	seen map[string]uint64
	// missing are the nodes of which it was said that they do not answer.
	missing map[string]bool
}

// source is where the events of a node are read.
type source struct {
	name string // of the node's start, or that of the address that the user gave
	ask  *client.Client
}

// sources are the living nodes, and in any case the one that the user named.
func (s *eventStreams) sources(ctx context.Context) ([]source, error) {
	nodes, err := s.Nodes(ctx)
	if err != nil {
		return nil, s.fail(err)
	}
	var sources []source
	asked := false // the node that the user named is among them
	for _, n := range nodes {
		switch {
		case !n.Alive || n.HTTP == "":
		case n.HTTP == s.address, len(nodes) == 1:
			asked = true
			sources = append(sources, source{n.Name, s.Client})
		default:
			if other, err := client.New(client.Options{Address: n.HTTP, Token: s.token, Timeout: askTimeout}); err == nil {
				sources = append(sources, source{n.Name, other})
			}
		}
	}
	if !asked { // it has another address inside the cluster
		sources = append(sources, source{s.address, s.Client})
	}
	return sources, nil
}

// past shows what the nodes keep.
func (s *eventStreams) past(ctx context.Context) error {
	sources, err := s.sources(ctx)
	if err != nil {
		return err
	}
	var all []api.Event
	for _, from := range sources {
		bounded, cancel := context.WithTimeout(ctx, askTimeout)
		for e, err := range from.ask.Events(bounded, api.EventOptions{Job: s.job}) {
			if err != nil {
				s.miss(from, err)
				break
			}
			all = append(all, e)
		}
		if bounded.Err() != nil && ctx.Err() == nil {
			s.miss(from, bounded.Err())
		}
		cancel()
	}
	slices.SortStableFunc(all, func(a, b api.Event) int {
		return cmp.Or(cmp.Compare(a.AtMs, b.AtMs), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Number, b.Number))
	})
	// A node that was asked at two addresses has told everything twice.
	all = slices.CompactFunc(all, func(a, b api.Event) bool { return a.Node == b.Node && a.Number == b.Number })
	for _, e := range all {
		if err := s.show(e); err != nil {
			return err
		}
	}
	return nil
}

// follow shows what happens from now on, also on nodes that are yet to come, until
// ctx is done.
func (s *eventStreams) follow(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	var mu sync.Mutex
	var unwritable error // standard output
	open := map[string]bool{}
	ticker := time.NewTicker(nodesEvery)
	defer ticker.Stop()
	for {
		sources, err := s.sources(ctx)
		mu.Lock()
		failed := unwritable
		mu.Unlock()
		switch {
		case ctx.Err() != nil:
			return failed
		case err != nil:
			return err
		}
		for _, from := range sources {
			mu.Lock()
			started := open[from.name]
			open[from.name] = true
			mu.Unlock()
			if started {
				continue
			}
			running.Go(func() {
				err := s.stream(ctx, from)
				mu.Lock()
				defer mu.Unlock()
				delete(open, from.name) // while the node lives it is tried again
				if err != nil {
					unwritable = err
					stop()
				}
			})
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// stream shows the events of a node as they come. The error is that of standard
// output.
func (s *eventStreams) stream(ctx context.Context, from source) error {
	s.mu.Lock()
	first := s.seen[from.name] + 1
	s.mu.Unlock()
	for e, err := range from.ask.Events(ctx, api.EventOptions{From: first, Job: s.job, Follow: true}) {
		if err != nil {
			s.miss(from, err)
			return nil
		}
		if err := s.show(e); err != nil {
			return err
		}
	}
	return nil
}

// miss says once of a node that its events are missing.
func (s *eventStreams) miss(from source, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.missing[from.name] {
		s.missing[from.name] = true
		fmt.Fprintf(s.cmd.ErrOrStderr(), "events of node %s are missing: %v\n", shortNode(from.name), err)
	}
}

// show prints an event that was not shown before.
func (s *eventStreams) show(e api.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Number <= s.seen[e.Node] {
		return nil
	}
	s.seen[e.Node] = e.Number
	if s.output == jsonText {
		return printJSON(s.cmd, eventJSON{Number: e.Number, At: stamp(e.AtMs), Node: nodeID(e.Node), Job: e.Job, Kind: e.Kind, Text: e.Text})
	}
	return printLine(s.cmd, fmt.Sprintf("%s  %-8s  %-8s  %s", time.UnixMilli(e.AtMs).Format("2006-01-02 15:04:05.000"),
		cell(shortNode(e.Node)), cell(shortID(e.Job)), cell(e.Text)))
}
