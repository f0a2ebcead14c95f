package replicated

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"cutwater/cluster/metadata"
	"cutwater/messages"
)

// errElsewhere: nothing came of a request, and another member, or this one later, may
// serve it.
var errElsewhere = errors.New("this node does not lead")

// Propose implements metadata.Store. Where no leader takes the command in time the
// error is metadata.ErrUnavailable.
func (s *Store) Propose(ctx context.Context, command *messages.MetadataCommand) (*messages.MetadataResult, error) {
	if command.GetCommand() == nil {
		return nil, errors.New("metadata: the command is empty or from a newer version of the program; update this node")
	}
	body, err := encodeCommand(command)
	if err != nil {
		return nil, err
	}
	var result *messages.MetadataResult
	err = s.ask(ctx, func(ctx context.Context, leader Leadership, changed <-chan struct{}) error {
		var err error
		if leader.Here {
			result, err = s.commit(ctx, body)
			return err
		}
		request := &messages.MetadataRequest{Request: &messages.MetadataRequest_Propose{Propose: command}}
		response, sent, err := s.forward(ctx, leader, changed, request)
		switch {
		case err != nil && sent:
			result = unknown("the connection to the leader was lost: " + err.Error())
			return nil
		case err != nil:
			return err
		}
		result = response.Result
		return nil
	})
	return result, err
}

// Job implements metadata.Store.
func (s *Store) Job(ctx context.Context, job string) (*messages.JobRecord, error) {
	if job == "" {
		return &messages.JobRecord{}, nil
	}
	response, err := s.read(ctx, &messages.ReadRecords{Job: job})
	records := response.GetJobs()
	switch {
	case err != nil:
		return nil, err
	case len(records) == 0:
		return &messages.JobRecord{}, nil
	}
	return records[0], nil
}

// Jobs implements metadata.Store.
func (s *Store) Jobs(ctx context.Context) ([]*messages.JobRecord, error) {
	response, err := s.read(ctx, &messages.ReadRecords{})
	return response.GetJobs(), err
}

// Standing implements metadata.Store.
func (s *Store) Standing(ctx context.Context, since uint64) ([]*messages.JobRecord, uint64, error) {
	response, err := s.read(ctx, &messages.ReadRecords{Standing: true, Since: since})
	return response.GetJobs(), response.GetRevision(), err
}

func (s *Store) read(ctx context.Context, what *messages.ReadRecords) (response *messages.MetadataResponse, err error) {
	err = s.ask(ctx, func(ctx context.Context, leader Leadership, changed <-chan struct{}) error {
		var err error
		if leader.Here {
			if err = s.confirm(ctx, leader.Term); err == nil {
				response = &messages.MetadataResponse{}
				err = s.readJobs(what, response)
			}
			return err
		}
		var sent bool
		request := &messages.MetadataRequest{Request: &messages.MetadataRequest_Read{Read: what}}
		response, sent, err = s.forward(ctx, leader, changed, request)
		switch {
		case err != nil && sent:
			return fmt.Errorf("%w: %w", errElsewhere, err) // a read may be repeated
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return response, nil
}

// ask calls once with the leader of the moment, and again after errElsewhere, until
// the time is up.
func (s *Store) ask(ctx context.Context, once func(context.Context, Leadership, <-chan struct{}) error) error {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		leader, changed := s.Leadership()
		err := errElsewhere
		if ctx.Err() == nil && (leader.Here || leader.ID != "" && leader.ID != s.options.NodeID) {
			err = once(ctx, leader, changed)
		}
		if !errors.Is(err, errElsewhere) {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
			timer.Stop()
			return s.unavailable(ctx, leader, err)
		}
		timer.Stop()
	}
}

const (
	firstPause = 10 * time.Millisecond
	lastPause  = 320 * time.Millisecond
)

// unavailable says what was missing all the time.
func (s *Store) unavailable(ctx context.Context, leader Leadership, cause error) error {
	if s.ctx.Err() != nil {
		return metadata.ErrClosed
	}
	status := s.Status()
	switch {
	case status.Failure != nil:
		return status.Failure
	case status.Members == 0:
		return fmt.Errorf("%w: node %s is no member of a cluster yet; wait until it has joined one: %w", metadata.ErrUnavailable, s.options.NodeID, ctx.Err())
	case leader.ID == "":
		return fmt.Errorf("%w: no leader is elected; %d of %d voters must reach each other: %w", metadata.ErrUnavailable, status.Voters/2+1, status.Voters, ctx.Err())
	}
	return fmt.Errorf("%w: the leader, node %s at %s, does not answer: %w: %w", metadata.ErrUnavailable, leader.ID, leader.Addr, cause, ctx.Err())
}

// commit appends an entry as the leader, and returns what became of it.
func (s *Store) commit(ctx context.Context, body []byte) (*messages.MetadataResult, error) {
	deadline, _ := ctx.Deadline()
	f := s.raft.Apply(body, max(time.Millisecond, time.Until(deadline)))
	err := s.await(ctx, f)
	switch {
	case err == nil:
		if result, ok := f.Response().(*messages.MetadataResult); ok {
			return result, nil
		}
		return unknown("the machine of this node stands still"), nil
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress), errors.Is(err, raft.ErrEnqueueTimeout):
		return nil, fmt.Errorf("%w: %w", errElsewhere, err)
	case ctx.Err() != nil:
		return unknown("the wait for a majority has ended: " + err.Error()), nil
	}
	return unknown(err.Error()), nil
}

func unknown(why string) *messages.MetadataResult {
	return &messages.MetadataResult{Outcome: messages.MetadataOutcome_UNKNOWN, Failure: why}
}

// confirm has a majority say that this node leads in the term, still. The machine
// then holds every command that was answered before: those of earlier terms it
// applied before it was leader Here, those of its own before it answered.
func (s *Store) confirm(ctx context.Context, term uint64) error {
	if err := s.await(ctx, s.raft.VerifyLeader()); err != nil {
		return fmt.Errorf("%w: %w", errElsewhere, err)
	}
	if s.raft.CurrentTerm() != term {
		return errElsewhere
	}
	return nil
}

// forward asks the leader. The answer that nothing came of it is errElsewhere.
func (s *Store) forward(ctx context.Context, leader Leadership, changed <-chan struct{}, request *messages.MetadataRequest) (response *messages.MetadataResponse, sent bool, err error) {
	request.Term = leader.Term
	response, sent, err = s.links.call(ctx, leader.Addr, changed, request)
	switch {
	case err != nil && !sent:
		return nil, false, fmt.Errorf("%w: %w", errElsewhere, err)
	case err != nil:
		return nil, true, err
	case response.Unavailable:
		return nil, false, fmt.Errorf("%w: %s", errElsewhere, response.Failure)
	case response.Failure != "":
		return nil, false, fmt.Errorf("metadata: node %s at %s: %s", leader.ID, leader.Addr, response.Failure)
	}
	return response, true, nil
}
