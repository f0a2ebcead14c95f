package command

import (
	"cmp"
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

// pick finds the job of an id, of a name, or of the beginning of one of them, in this
// order: what is written in full never means another job of which it is the beginning.
// Among names, and among beginnings, living jobs come first, and of ended ones with
// that name the newest.
func pick(jobs []api.Job, name string) (api.Job, error) {
	if name == "" {
		return api.Job{}, errors.New("the name of a job cannot be empty; `cutwater jobs -a` lists them")
	}
	for _, j := range jobs {
		if j.ID == name {
			return j, nil
		}
	}
	var exact, begun []api.Job
	for _, j := range jobs {
		switch {
		case j.Name == name:
			exact = append(exact, j)
		case strings.HasPrefix(j.ID, name), strings.HasPrefix(j.Name, name):
			begun = append(begun, j)
		}
	}
	if exact = livingFirst(exact); len(exact) > 0 {
		return slices.MaxFunc(exact, func(a, b api.Job) int { return cmp.Compare(a.CreatedMs, b.CreatedMs) }), nil
	}
	switch begun = livingFirst(begun); len(begun) {
	case 0:
	case 1:
		return begun[0], nil
	default:
		names := make([]string, len(begun))
		for i, j := range begun {
			names[i] = fmt.Sprintf("%s (%s)", j.Name, shortID(j.ID))
		}
		return api.Job{}, fmt.Errorf("%s could be one of %s: %s; write more of the name or of the id", name, count(len(begun), "job"), strings.Join(names, ", "))
	}
	return api.Job{}, fmt.Errorf("there is no job %s; `cutwater jobs -a` lists all", name)
}

// livingFirst are the living ones of some jobs, or all of them where none lives.
func livingFirst(jobs []api.Job) []api.Job {
	if living := slices.DeleteFunc(slices.Clone(jobs), func(j api.Job) bool { return ended(j.Status) }); len(living) > 0 {
		return living
	}
	return jobs
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
