package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cutwater/api"
	"cutwater/messages"
	"cutwater/protocol/metadata"
)

// completionTimeout bounds how long the shell waits for names of jobs.
const completionTimeout = time.Second

// find asks the cluster for the job that a user names.
func (t *target) find(ctx context.Context, name string) (api.Job, error) {
	jobs, err := t.Jobs(ctx)
	if err != nil {
		return api.Job{}, t.fail(err)
	}
	j, err := pick(jobs, name)
	if err != nil {
		return j, coded(exitNotFound, err)
	}
	return j, nil
}

// pick finds the job of an id, of a name, or of the beginning of one of them. Living
// jobs come first, and of ended ones with that name the newest.
func pick(jobs []api.Job, name string) (api.Job, error) {
	if name == "" {
		return api.Job{}, errors.New("the name of a job cannot be empty; `cutwater jobs -a` lists them")
	}
	for _, j := range jobs {
		if j.ID == name {
			return j, nil
		}
	}
	for _, living := range []bool{true, false} {
		var exact, begun []api.Job
		for _, j := range jobs {
			switch {
			case ended(j.Status) == living:
			case j.Name == name:
				exact = append(exact, j)
			case strings.HasPrefix(j.ID, name), strings.HasPrefix(j.Name, name):
				begun = append(begun, j)
			}
		}
		switch {
		case len(exact) > 0:
			return slices.MaxFunc(exact, func(a, b api.Job) int { return int(a.CreatedMs - b.CreatedMs) }), nil
		case len(begun) == 1:
			return begun[0], nil
		case len(begun) > 1:
			names := make([]string, len(begun))
			for i, j := range begun {
				names[i] = fmt.Sprintf("%s (%s)", j.Name, shortID(j.ID))
			}
			return api.Job{}, fmt.Errorf("%s could be one of %s: %s; write more of the name or of the id", name, count(len(begun), "job"), strings.Join(names, ", "))
		}
	}
	return api.Job{}, fmt.Errorf("there is no job %s; `cutwater jobs -a` lists all", name)
}

// ended reports whether a job's status is its last.
func ended(status string) bool {
	return metadata.Ended(messages.JobStatus(messages.JobStatus_value[status]))
}

// oneJob accepts the arguments of a command that works on one job.
func oneJob(cmd *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return fmt.Errorf("%s needs a job: its name, its id, or the beginning of one of them", cmd.Name())
	case 1:
		return nil
	}
	return fmt.Errorf("%s takes one job, and these are %d: %s", cmd.Name(), len(args), strings.Join(args, " "))
}

// jobNames completes the names of jobs in a shell: of all jobs, or of living ones.
func jobNames(f *nodeFlags, all bool) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		t, err := f.connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
		defer cancel()
		jobs, _ := t.Jobs(ctx) // without an answer there are no names
		var names []string
		for _, j := range jobs {
			if all || !ended(j.Status) {
				names = append(names, cobra.CompletionWithDesc(j.Name, j.Status+" "+shortID(j.ID)))
			}
		}
		slices.Sort(names)
		return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
	}
}

// topologyFiles completes the names of topology files in a shell.
func topologyFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}
