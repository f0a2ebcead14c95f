package policy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// read returns a file of the module as text.
func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// used finds flags, as --flag, and variables of the environment.
var used = regexp.MustCompile(`--([a-z][a-z-]+)|\b(CUTWATER_[A-Z_]+)`)

// The files for systemd, Docker and Kubernetes use flags of `cutwater start` and
// variables that the command reads, or that the unit itself sets.
func TestDeployedFlagsExist(t *testing.T) {
	source := read(t, "cmd/node/command/start.go") + read(t, "cmd/node/command/connect.go")
	for _, name := range []string{"deploy/systemd/cutwater.service", "deploy/docker/Dockerfile", "deploy/kubernetes/cutwater.yaml"} {
		content := read(t, name)
		var known []string
		switch filepath.Ext(name) {
		case ".service":
			known = []string{"CUTWATER_BIND"} // of its EnvironmentFile
		case "":
			known = []string{"--from", "--chown"} // of COPY
		}
		found := 0
		for _, m := range used.FindAllString(content, -1) {
			if slices.Contains(known, m) {
				continue
			}
			found++
			if !strings.Contains(source, `"`+strings.TrimPrefix(m, "--")+`"`) {
				t.Errorf("%s: %s is unknown to the command", name, m)
			}
		}
		if found == 0 {
			t.Errorf("%s mentions neither a flag nor a variable", name)
		}
	}
}

// instruction is the beginning of a line of a Dockerfile.
var instruction = regexp.MustCompile(`^(FROM|WORKDIR|COPY|RUN|USER|VOLUME|EXPOSE|STOPSIGNAL|ENTRYPOINT) \S`)

// The Dockerfile has known instructions only; its last stage begins with nothing, runs
// as nobody in particular, and is stopped by the signal that lets a node leave.
func TestDockerfile(t *testing.T) {
	var last []string // the instructions of the last stage
	for _, line := range strings.Split(strings.TrimSpace(read(t, "deploy/docker/Dockerfile")), "\n") {
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			continue
		case !instruction.MatchString(line):
			t.Errorf("not an instruction: %s", line)
		case strings.HasPrefix(line, "FROM "):
			last = nil
		}
		last = append(last, line)
	}
	for _, want := range []string{"FROM scratch", "USER 65532:65532", "STOPSIGNAL SIGTERM"} {
		if !slices.Contains(last, want) {
			t.Errorf("the last stage lacks %q", want)
		}
	}
	if version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "go.mod")); !strings.Contains(read(t, "deploy/docker/Dockerfile"), "golang:"+version[1]+" ") {
		t.Errorf("the image does not build with Go %s, as go.mod says", version[1])
	}
}

// The manifest is a headless Service and a StatefulSet that belong together: selector,
// ports and claims fit, and the ports are those that the image listens at.
func TestManifest(t *testing.T) {
	type port struct {
		Name          string
		Port          int
		ContainerPort int `yaml:"containerPort"`
		Protocol      string
	}
	var service struct {
		Kind     string
		Metadata struct{ Name string }
		Spec     struct {
			ClusterIP                string `yaml:"clusterIP"`
			PublishNotReadyAddresses bool   `yaml:"publishNotReadyAddresses"`
			Selector                 map[string]string
			Ports                    []port
		}
	}
	type named struct{ Name string }
	var set struct {
		Kind string
		Spec struct {
			ServiceName         string `yaml:"serviceName"`
			Replicas            int
			PodManagementPolicy string `yaml:"podManagementPolicy"`
			Selector            struct {
				MatchLabels map[string]string `yaml:"matchLabels"`
			}
			Template struct {
				Metadata struct{ Labels map[string]string }
				Spec     struct {
					Containers []struct {
						Args         []string
						Ports        []port
						VolumeMounts []named `yaml:"volumeMounts"`
					}
					Volumes []named
				}
			}
			VolumeClaimTemplates []struct{ Metadata named } `yaml:"volumeClaimTemplates"`
		}
	}
	documents := strings.Split(read(t, "deploy/kubernetes/cutwater.yaml"), "\n---\n")
	if len(documents) != 2 {
		t.Fatalf("%d documents, want a Service and a StatefulSet", len(documents))
	}
	for i, into := range []any{&service, &set} {
		if err := yaml.Unmarshal([]byte(documents[i]), into); err != nil {
			t.Fatal(err)
		}
	}
	labels := set.Spec.Template.Metadata.Labels
	switch {
	case service.Kind != "Service" || set.Kind != "StatefulSet":
		t.Fatalf("the kinds are %q and %q", service.Kind, set.Kind)
	case service.Spec.ClusterIP != "None" || !service.Spec.PublishNotReadyAddresses || set.Spec.ServiceName != service.Metadata.Name:
		t.Error("the Service is not one by which pods that are not ready find each other")
	case set.Spec.Replicas != 3 || set.Spec.PodManagementPolicy != "Parallel":
		t.Error("three nodes are not started at once")
	case labels["app"] == "" || service.Spec.Selector["app"] != labels["app"] || set.Spec.Selector.MatchLabels["app"] != labels["app"]:
		t.Error("the selectors do not select the pods")
	case len(set.Spec.Template.Spec.Containers) != 1:
		t.Fatal("a pod is not one container")
	}
	container := set.Spec.Template.Spec.Containers[0]
	if !slices.Contains(container.Args, "--join="+service.Metadata.Name+":7946") {
		t.Errorf("%v does not join the Service", container.Args)
	}
	if len(container.Ports) != len(service.Spec.Ports) {
		t.Error("the Service has other ports than the container")
	}
	image := read(t, "deploy/docker/Dockerfile")
	for i, p := range container.Ports {
		if s := service.Spec.Ports[i]; s.Name != p.Name || s.Port != p.ContainerPort || s.Protocol != p.Protocol {
			t.Errorf("port %v is %v of the Service", p, s)
		}
		if flag, isTCP := "--"+p.Name+"-port", p.Protocol == ""; isTCP && !regexp.MustCompile(`"`+flag+`", "`+strconv.Itoa(p.ContainerPort)+`"`).MatchString(image) {
			t.Errorf("the image does not listen at %s %d", flag, p.ContainerPort)
		}
	}
	volumes := set.Spec.Template.Spec.Volumes
	for _, claim := range set.Spec.VolumeClaimTemplates {
		volumes = append(volumes, claim.Metadata)
	}
	for _, mount := range container.VolumeMounts {
		if !slices.Contains(volumes, mount) {
			t.Errorf("nothing is mounted as %s", mount.Name)
		}
	}
}

// The unit is one that waits for the node and lets it leave; systemd itself, where it
// is there, has nothing to say against it.
func TestUnit(t *testing.T) {
	unit := read(t, "deploy/systemd/cutwater.service")
	section, set := "", map[string]string{}
	for _, line := range strings.Split(unit, "\n") {
		key, value, isSetting := strings.Cut(line, "=")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "["):
			section = line
		case !isSetting:
			t.Errorf("not a setting: %s", line)
		default:
			set[section+key] = value
		}
	}
	for key, want := range map[string]string{"[Service]Type": "notify", "[Service]Restart": "on-failure", "[Install]WantedBy": "multi-user.target"} {
		if set[key] != want {
			t.Errorf("%s is %q, want %q", key, set[key], want)
		}
	}
	if seconds, err := strconv.Atoi(set["[Service]TimeoutStopSec"]); err != nil || seconds <= 30 {
		t.Errorf("the node is killed after %q, and may take 30 s to leave", set["[Service]TimeoutStopSec"])
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return
	}
	here, err := os.Executable() // systemd looks whether the command is there
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cutwater.service")
	if err := os.WriteFile(file, []byte(strings.Replace(unit, "/usr/local/bin/cutwater", here, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", file).CombinedOutput(); err != nil || strings.Contains(string(out), "cutwater.service") {
		t.Errorf("systemd-analyze: %v\n%s", err, out)
	}
}
