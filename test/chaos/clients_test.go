package chaos

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"cutwater/api"
	"cutwater/api/client"
	"cutwater/cluster/secret"
	"cutwater/messages"
	"cutwater/protocol/metadata"
	"cutwater/topology"
)

const (
	// askTime bounds one question of a client.
	askTime = 4 * time.Second
	// cancelTime bounds the end of the jobs that the clients have left.
	cancelTime = 45 * time.Second
	// registers is how many names the clients use, few enough to be fought for.
	registers = 2
	// clientPause is that of a client between two operations.
	clientPause = 150 * time.Millisecond
)

// httpClient sends requests from the machine of a node.
func (c *cluster) httpClient(n *node) *http.Client {
	return &http.Client{Timeout: askTime, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return c.net.dial(ctx, n.index, address)
		}}}
}

// address is that of a node's API.
func (n *node) address() (string, error) {
	var a struct{ HTTP string }
	text, err := os.ReadFile(filepath.Join(n.dir, "addresses"))
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	return a.HTTP, err
}

// client asks a node; it must have been started once.
func (c *cluster) client(n *node) (*client.Client, error) {
	address, err := n.address()
	if err != nil {
		return nil, err
	}
	return client.New(client.Options{Address: address, Token: c.token(), Timeout: askTime, HTTP: c.httpClient(n)})
}

// token is what the API asks for.
func (c *cluster) token() string {
	s, err := secret.New([]byte(c.secret))
	if err != nil {
		return ""
	}
	return hex.EncodeToString(s.Key(secret.API))
}

// metrics are those of a node: by name, summed up over all labels, and by name with
// labels, as they are written.
func (c *cluster) metrics(n *node) (map[string]float64, error) {
	address, err := n.address()
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequest(http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.token())
	response, err := c.httpClient(n).Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the metrics of node %d: %s %w", n.index, response.Status, err)
	}
	sums := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(line, "{")
		name, _, _ = strings.Cut(name, " ")
		fields := strings.Fields(line)
		if v, err := strconv.ParseFloat(fields[len(fields)-1], 64); err == nil && !strings.HasPrefix(line, "#") {
			sums[name] += v
			sums[strings.TrimSuffix(line, " "+fields[len(fields)-1]+"\n")] = v
		}
	}
	return sums, nil
}

// clients deploy, cancel and list small jobs through all nodes.
type clients struct {
	cluster *cluster
	history *history
	names   []string
	sources []*messages.TopologySource
	running sync.WaitGroup
	stop    context.CancelFunc
}

// newClients starts one client for each node.
func newClients(c *cluster, round string, seed uint64) (*clients, error) {
	s := &clients{cluster: c, history: &history{begun: time.Now()}}
	for i := range registers {
		name := fmt.Sprintf("%s-%c", round, 'a'+i)
		text := fmt.Sprintf(`name: %s
checkpointing: {interval: 2s, storage: coordinator}
operators:
  - uid: in
    source: {datagen: {rate: 2, schema: {n: int}, fields: "n: uniform(0, 9)"}}
  - {uid: out, input: in, sink: {blackhole: {}}}
`, name)
		source, err := topology.SourceOf(filepath.Join(c.dir, name+".yaml"), []byte(text), os.LookupEnv)
		if err != nil {
			return nil, err
		}
		s.names, s.sources = append(s.names, name), append(s.sources, source)
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	for i, n := range c.nodes {
		rng := rand.New(rand.NewPCG(seed, 2+uint64(i)))
		s.running.Go(func() {
			for ctx.Err() == nil {
				if ask, err := c.client(n); err == nil {
					s.operation(ctx, i, ask, rng)
				}
				select {
				case <-ctx.Done():
				case <-time.After(clientPause):
				}
			}
		})
	}
	return s, nil
}

// operation does something. What it began it ends, whether ctx is done or not.
func (s *clients) operation(ctx context.Context, who int, ask *client.Client, rng *rand.Rand) {
	i := rng.IntN(registers)
	switch rng.IntN(4) {
	case 0:
		s.deploy(who, ask, i)
	case 1:
		_ = s.cancel(ctx, who, ask, i) // what it learned is in the history
	default:
		_, _ = s.list(who, ask)
	}
}

func (s *clients) deploy(who int, ask *client.Client, i int) {
	called := s.history.now()
	id, err := ask.Deploy(context.Background(), s.sources[i], api.DeployOptions{})
	var refused *client.Error
	out := response{Job: id}
	switch {
	case err == nil:
	case errors.As(err, &refused) && refused.Status == http.StatusConflict:
		out = response{Taken: true}
	case errors.Is(err, syscall.ECONNREFUSED):
		return // no process has heard of it
	default:
		out = response{Unknown: true}
	}
	s.history.add(who, request{Kind: deploy, Name: s.names[i]}, called, out)
}

// list reads all names at once, and returns what is on record of them.
func (s *clients) list(who int, ask *client.Client) (map[string]response, error) {
	called := s.history.now()
	jobs, err := ask.Jobs(context.Background())
	if err != nil {
		return nil, err // nothing was learned, and nothing has changed
	}
	seen := map[string]response{}
	for _, name := range s.names {
		seen[name] = response{Phase: absent}
	}
	for _, j := range jobs {
		now, ours := seen[j.Name]
		switch {
		case !ours:
			continue
		case !isEnded(j.Status) && now.Phase == living:
			now.Job += " and " + j.ID // which no history explains
		case !isEnded(j.Status):
			now.Phase, now.Job = living, j.ID
		default:
			now.Ended = append(now.Ended, j.ID)
			if now.Phase == absent {
				now.Phase = ended
			}
		}
		seen[j.Name] = now
	}
	for _, name := range s.names {
		s.history.add(who, request{Kind: list, Name: name}, called, seen[name])
	}
	return seen, nil
}

func isEnded(status string) bool {
	return metadata.Ended(messages.JobStatus(messages.JobStatus_value[status]))
}

// cancel ends the job that has the name. It is done when the job is seen to have ended.
// The error is why that is not so yet.
func (s *clients) cancel(ctx context.Context, who int, ask *client.Client, i int) error {
	seen, err := s.list(who, ask)
	job := seen[s.names[i]]
	if err != nil || job.Phase != living {
		return err
	}
	called, last := s.history.now(), error(nil)
	ctx, cancelled := context.WithTimeout(ctx, askTime)
	defer cancelled()
	for ctx.Err() == nil {
		asked := ask.Cancel(context.Background(), job.Job) // the job may be seen to have ended all the same
		j, err := ask.Job(context.Background(), job.Job)
		if err == nil && isEnded(j.Status) {
			s.history.add(who, request{Kind: cancel, Name: s.names[i], Job: job.Job}, called, response{})
			return nil
		}
		last = errors.Join(asked, err)
		time.Sleep(clientPause)
	}
	s.history.add(who, request{Kind: cancel, Name: s.names[i], Job: job.Job}, called, response{Unknown: true})
	return fmt.Errorf("job %s has not ended within %v of its cancellation: %w", job.Job, askTime, cmp.Or(last, ctx.Err()))
}

// end stops the clients and cancels what they have left.
func (s *clients) end(ctx context.Context) error {
	s.stop()
	s.running.Wait()
	ctx, cancel := context.WithTimeout(ctx, cancelTime)
	defer cancel()
	ask, err := s.cluster.client(s.cluster.nodes[0])
	if err != nil {
		return err
	}
	for i := range s.names {
		for {
			err := s.cancel(ctx, 0, ask, i)
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return err
			}
			time.Sleep(clientPause)
		}
	}
	_, err = s.list(0, ask)
	return err
}
