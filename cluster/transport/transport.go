package transport

import (
	"errors"

	"google.golang.org/protobuf/proto"

	"cutwater/protocol"
)

// Transport is one node's end of its connections to all others. It is safe for
// concurrent use.
type Transport struct{ options Options }

// Open begins to accept connections; it dials nobody before there is something to
// send. The error wraps ErrNeedsSecret, or says what is missing; the listeners are
// closed then.
func Open(o Options) (*Transport, error) {
	if err := o.check(); err != nil {
		for _, l := range []interface{ Close() error }{o.Control, o.Data} {
			if l != nil {
				err = errors.Join(err, l.Close())
			}
		}
		return nil, err
	}
	return &Transport{options: o.withDefaults()}, nil
}

// Send delivers the message to the actor, or loses it; it does not block. It keeps
// nothing of the message when it returns.
func (t *Transport) Send(from, to protocol.Address, m proto.Message) {}

// Close says goodbye to all nodes that there are connections with, and ends. When it
// returns all sockets are closed, and no function of the options runs any more. More
// calls do nothing.
func (t *Transport) Close() error {
	return errors.Join(t.options.Control.Close(), t.options.Data.Close())
}

// Counts is what has happened so far.
func (t *Transport) Counts() Counts { return Counts{} }
