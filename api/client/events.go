package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"cutwater/api"
)

// Events yields what happened, oldest first. It ends behind the newest event, or
// with Follow when ctx is done or the node closes. An error is the last it yields;
// that of ctx is not one.
func (c *Client) Events(ctx context.Context, o api.EventOptions) iter.Seq2[api.Event, error] {
	return func(yield func(api.Event, error) bool) {
		err := c.events(ctx, o, func(e api.Event) bool { return yield(e, nil) })
		if err != nil && ctx.Err() == nil {
			yield(api.Event{}, err)
		}
	}
}

// events calls yield for each event, until it returns false or there are no more.
func (c *Client) events(ctx context.Context, o api.EventOptions, yield func(api.Event) bool) error {
	query := url.Values{}
	if o.From != 0 {
		query.Set("from", strconv.FormatUint(o.From, 10))
	}
	if o.Job != "" {
		query.Set("job", o.Job)
	}
	if o.Follow {
		query.Set("follow", "true")
	}
	r, err := c.send(ctx, http.MethodGet, "/cutwater/v1/events", query, nil)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	lines := bufio.NewReader(r.Body)
	for {
		line, err := lines.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil
		case err != nil:
			return c.unreachable(err)
		}
		var e struct {
			api.Event
			Errors []string `json:"errors"`
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return c.strange(err)
		}
		if len(e.Errors) > 0 {
			return &Error{Status: http.StatusInternalServerError, Reasons: e.Errors}
		}
		if !yield(e.Event) {
			return nil
		}
	}
}
