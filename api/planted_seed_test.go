package api_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cutwater/api"
	"cutwater/api/apitest"
	"cutwater/cluster/discovery"
	"cutwater/node"
)

// A seed that is dead is named within three seconds, by what the node that answers says
// of its sources, an event and a metric, and by none of them when it has come back.
func TestPlantedDeadSeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var alive atomic.Bool
		seeds, err := discovery.NewSeeds([]string{"192.0.2.7:7946"}, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var events []string
		loop := discovery.NewLoop(discovery.Config{Sources: []discovery.Discoverer{seeds}, Seed: 5,
			Join: func(context.Context, netip.AddrPort) error {
				if !alive.Load() {
					return errors.New("connection refused")
				}
				return nil
			},
			Changed: func(s discovery.Status) {
				mu.Lock()
				defer mu.Unlock()
				events = append(events, node.SourceChanged{Source: s.Name, Error: s.Error}.String())
			},
		})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go loop.Run(ctx)
		told := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(events)
		}
		look := func() (problem, metric string) {
			b := apitest.NewBackend()
			for _, s := range loop.Status() {
				b.Node.Sources = append(b.Node.Sources, api.NodeSource{Name: s.Name, Addresses: s.Addresses, Failed: s.Failed, Error: s.Error})
				problem = s.Error
			}
			answer := httptest.NewRecorder()
			api.New(api.Options{Backend: b}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/metrics", nil))
			for line := range strings.Lines(answer.Body.String()) {
				if strings.HasPrefix(line, "cutwater_discovery_failing{") {
					metric = strings.TrimSpace(line)
				}
			}
			return problem, metric
		}
		time.Sleep(3 * interval)
		synctest.Wait()
		problem, metric := look()
		if want := "192.0.2.7:7946: connection refused"; problem != want {
			t.Errorf("the source has the problem %q, not %q", problem, want)
		}
		if want := `cutwater_discovery_failing{node="0123456789abcdef0123456789abcdef",source="join 192.0.2.7:7946"} 1`; metric != want {
			t.Errorf("the metric is %s, not %s", metric, want)
		}
		if want := "join 192.0.2.7:7946: no node was joined: 192.0.2.7:7946: connection refused"; !slices.Contains(told(), want) {
			t.Errorf("no event says %q, but %q", want, told())
		}
		alive.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if problem, metric := look(); problem != "" || !strings.HasSuffix(metric, " 0") {
			t.Errorf("the seed is back, and the problem is %q, the metric %s", problem, metric)
		}
		if want := "join 192.0.2.7:7946: nothing is wrong any more"; told()[len(told())-1] != want {
			t.Errorf("the events are %q, the last not %q", told(), want)
		}
	})
}
