package replicated

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"cutwater/messages"
)

const (
	// maxRequests bounds how many requests of one connection are served at a time; the
	// asker's further ones wait in its connection.
	maxRequests = 64
	// answerTimeout bounds how long an answer may take to be written.
	answerTimeout = 5 * time.Second
)

// serve answers the requests of one connection until it ends.
func (s *Store) serve(c net.Conn) {
	var writing sync.Mutex
	var serving sync.WaitGroup
	defer serving.Wait()
	slots := make(chan struct{}, maxRequests)
	for {
		request := &messages.MetadataRequest{}
		if err := readFrame(c, request); err != nil {
			s.log.Debug("a connection ended", "from", c.RemoteAddr(), "error", err)
			return
		}
		select {
		case slots <- struct{}{}:
		case <-s.ctx.Done():
			return
		}
		serving.Go(func() {
			defer func() { <-slots }()
			response := s.answer(request)
			response.Id = request.Id
			frame, err := frameOf(response)
			if err != nil {
				frame, err = frameOf(&messages.MetadataResponse{Id: request.Id, Failure: err.Error()})
			}
			writing.Lock()
			defer writing.Unlock()
			if err = errors.Join(err, c.SetWriteDeadline(time.Now().Add(answerTimeout))); err == nil {
				err = write(c, frame)
			}
			if err != nil {
				_ = c.Close() // half an answer may be out; the asker sees the end
			}
		})
	}
}

// answer serves one request; only what the leader may say is said by others too.
func (s *Store) answer(request *messages.MetadataRequest) *messages.MetadataResponse {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(request.TimeoutMs)*time.Millisecond)
	defer cancel()
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return &messages.MetadataResponse{Unavailable: true, Failure: err.Error()}
	}
	defer end()
	response := &messages.MetadataResponse{}
	switch err := s.handle(ctx, request, response); {
	case errors.Is(err, errElsewhere):
		return &messages.MetadataResponse{Unavailable: true, Failure: err.Error()}
	case err != nil:
		return &messages.MetadataResponse{Failure: err.Error()}
	}
	return response
}

func (s *Store) handle(ctx context.Context, request *messages.MetadataRequest, response *messages.MetadataResponse) error {
	if request.GetProgress() != nil {
		response.LastIndex = s.raft.LastIndex()
		response.YieldedTo = s.fsm.progress().yieldedTo
		return nil
	}
	leader, _ := s.Leadership()
	if !leader.Here || request.Term != 0 && request.Term != leader.Term {
		return errElsewhere
	}
	switch r := request.Request.(type) {
	case *messages.MetadataRequest_Propose:
		if r.Propose.GetCommand() == nil {
			return errNewer
		}
		body, err := encodeCommand(r.Propose)
		if err == nil {
			response.Result, err = s.commit(ctx, body)
		}
		return err
	case *messages.MetadataRequest_Read:
		err := s.confirm(ctx, leader.Term)
		if err == nil {
			err = s.readJobs(r.Read, response)
		}
		return err
	case *messages.MetadataRequest_Leave:
		return s.dismiss(ctx, r.Leave.NodeId)
	}
	return errNewer
}

// errNewer goes back to an asker whose request this node does not know.
var errNewer = errors.New("the leader knows no such request; update it, or ask an older version's")
