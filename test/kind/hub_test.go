package kindtest

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/starlinghq/starling/test/testenv"
)

// hub is Starling as a chart installs it in a hosting cluster, with the clusters that have joined.
type hub struct {
	host     *Cluster
	release  *release
	its, wds *testenv.Space
	// prod and edge are clusters with these names, and with the label "env" of the same value.
	prod, edge *Cluster
	// plugin is the program kubectl-starling.
	plugin string
	// images are the images of Starling that the clusters have, tag is the tag that is installed.
	images []name.Tag
	tag    string

	start time.Time
	uid   map[*Cluster]string
}

// Ports of the nodes of the hosting cluster at which its spaces are reached.
const (
	portITS = 30443
	portWDS = 30444
)

// TestHub: the chart "starling" installs an ITS, a WDS and the controllers in a cluster. Two other
// clusters join. The stories follow one after the other, on the same hub.
func TestHub(t *testing.T) {
	h := newHub(t)
	failed := map[string]bool{}
	for _, story := range []struct {
		name string
		// needs is the story that creates what this one changes.
		needs string
		tell  func(*hub, *testing.T)
	}{
		{"Deployment", "", (*hub).deployment},
		{"Package", "", (*hub).packages},
		{"NetworkCut", "Deployment", (*hub).networkCut},
		{"Upgrade", "Deployment", (*hub).upgrade},
		{"InstalledAgain", "Upgrade", (*hub).installedAgain},
		{"Restore", "Deployment", (*hub).restore}, // the last one: the values of the others know no restoration
	} {
		if failed[story.needs] {
			failed[story.name] = true
			h.since(t, "story "+story.name+" is left out: story "+story.needs+" has failed")
			continue
		}
		failed[story.name] = !t.Run(story.name, func(t *testing.T) {
			if late := beginUntil(t); !late.IsZero() && time.Now().After(late) {
				t.Skip("left out: STARLING_KIND_UNTIL has passed; run make e2e-kind")
			}
			story.tell(h, t)
		})
		h.since(t, "story "+story.name)
		if story.name == "Package" {
			logMemory(t, h.host) // later stories load the hub
		}
	}
}

// beginUntil returns the time until which stories may begin, from STARLING_KIND_UNTIL in seconds of
// Unix; the zero time if there is none. A slow machine has told all stories in more time than CI
// has.
func beginUntil(t *testing.T) time.Time {
	t.Helper()
	value := os.Getenv("STARLING_KIND_UNTIL")
	if value == "" {
		return time.Time{}
	}
	seconds, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		t.Fatalf("STARLING_KIND_UNTIL: %v", err)
	}
	return time.Unix(seconds, 0)
}

// newHub creates the clusters, installs the chart in one of them, and lets the others join.
func newHub(t *testing.T) *hub {
	t.Helper()
	images := os.Getenv("STARLING_IMAGES")
	if images == "" {
		t.Skip("it needs the images of Starling: run `make e2e-kind`, or set STARLING_IMAGES to the archive of `make images`")
	}
	h := &hub{images: tags(t, images), plugin: plugin(t), start: time.Now(), uid: map[*Cluster]string{}}
	h.tag = h.images[0].TagStr()
	clusters := CreateAll(t, []string{"starling-host", "starling-prod", "starling-edge"}, images, buildProbe(t))
	h.host, h.prod, h.edge = clusters[0], clusters[1], clusters[2]
	h.since(t, "the clusters run")

	h.release = newRelease(t, h.host)
	h.release.install(t, h.values(h.tag))
	h.its = connectSpace(t, h.host, "its1", portITS)
	h.wds = connectSpace(t, h.host, "wds1", portWDS)
	h.since(t, "the chart is installed")
	h.neverFailed(t)
	for name, cluster := range map[string]*Cluster{"prod": h.prod, "edge": h.edge} {
		h.join(t, cluster, name)
		h.since(t, "cluster "+name+" has joined")
	}
	return h
}

// neverFailed: in a new installation, the servers of the spaces wait for each other. None ends
// because another one is not there yet.
func (h *hub) neverFailed(t *testing.T) {
	t.Helper()
	list, err := h.host.Client(t).CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	servers := 0
	for _, pod := range list.Items {
		for _, s := range pod.Status.ContainerStatuses {
			if s.Name != "kube-apiserver" && s.Name != "kube-controller-manager" {
				continue
			}
			servers++
			if s.RestartCount > 0 {
				t.Errorf("container %s of pod %s was started %d times: %s", s.Name, pod.Name, s.RestartCount+1, text(s.LastTerminationState))
			}
		}
	}
	if servers < 4 {
		t.Errorf("there are only %d servers", servers)
	}
}

// values are the values of a minimal installation.
func (h *hub) values(tag string) map[string]any {
	space := func(name string, port int) any {
		node := h.host.Node()
		return map[string]any{"name": name, "type": "hosted", "apiServer": map[string]any{
			"hosts":   []any{node},
			"url":     url(node, port),
			"service": map[string]any{"type": "NodePort", "nodePort": port},
		}}
	}
	return map[string]any{
		"image": map[string]any{"tag": tag},
		"ITSes": []any{space("its1", portITS)},
		"WDSes": []any{space("wds1", portWDS)},
	}
}

func (h *hub) since(t *testing.T, what string) {
	t.Helper()
	t.Logf("%5.1f s: %s", time.Since(h.start).Seconds(), what)
}
