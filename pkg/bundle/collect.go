package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/starlinghq/starling/pkg/core/redact"
	"github.com/starlinghq/starling/pkg/version"
)

// Server is an API server, by the name of its context.
type Server struct {
	Name   string
	Config *rest.Config
}

// Request is what to collect.
type Request struct {
	// Spaces are WDSes, ITSes and WECs.
	Spaces []Server
	// Host, if its Config is not nil, is the hosting cluster, and HostNamespace is where Starling
	// runs in it.
	Host          Server
	HostNamespace string
	// Fleet is the directory of a local fleet, or empty.
	Fleet string
	// ConfigMaps includes the data of ConfigMaps in the HostNamespace.
	ConfigMaps bool
}

// Result is what was collected.
type Result struct {
	// Objects and Logs are their numbers.
	Objects, Logs int
	// Problems are what could not be read. They are in the bundle too.
	Problems []string
}

type collector struct {
	archive  *archive
	progress io.Writer
	// found has the number of objects by directory and resource.
	found    map[string]map[string]int
	versions map[string]string
	problems []string
	dirs     map[string]bool
}

// Collect writes a bundle, all of whose files are in a directory of the name, and reports progress.
// It returns an error if the bundle could not be written, or if nothing could be read.
func Collect(ctx context.Context, w io.Writer, progress io.Writer, name string, now time.Time, r Request) (Result, error) {
	c := &collector{
		archive:  newArchive(w, name, now, redact.Options{ConfigMaps: r.ConfigMaps}),
		progress: progress, found: map[string]map[string]int{}, versions: map[string]string{}, dirs: map[string]bool{},
	}
	var result Result
	for _, space := range r.Spaces {
		dir := c.newDir("spaces/" + fileName(space.Name))
		if reader := c.connect(space, dir); reader != nil {
			result.Objects += c.collectObjects(ctx, reader, dir, "", kindsOfSpaces())
			c.collectReadiness(ctx, reader, dir)
		}
	}
	if r.Host.Config != nil {
		const dir = "host"
		if reader := c.connect(r.Host, dir); reader != nil {
			result.Objects += c.collectObjects(ctx, reader, dir, r.HostNamespace, kindsOfHost())
			client, err := kubernetes.NewForConfig(limited(r.Host.Config))
			if err != nil {
				return result, err
			}
			result.Logs += c.collectPodLogs(ctx, client, dir, r.HostNamespace)
		}
	}
	if r.Fleet != "" {
		fmt.Fprintf(progress, "Reading the logs of the fleet in %s\n", r.Fleet)
		result.Logs += c.collectFleet(r.Fleet)
	}
	result.Problems = c.problems
	if err := ctx.Err(); err != nil {
		return result, err
	}
	if len(c.versions) == 0 && result.Logs == 0 {
		return result, fmt.Errorf("nothing could be read: %s", strings.Join(c.problems, "; "))
	}
	return result, errors.Join(c.addIndex(now), c.archive.close())
}

// connect returns a reader, or nil if the API server does not respond.
func (c *collector) connect(server Server, dir string) *reader {
	fmt.Fprintf(c.progress, "Reading context %s\n", server.Name)
	reader, version, err := newReader(limited(server.Config))
	if err != nil {
		c.problem(dir, err)
		return nil
	}
	c.versions[dir] = version
	return reader
}

// limited returns a configuration with which nothing takes long.
func limited(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst, config.Timeout = 50, 100, 30*time.Second
	return config
}

// problem notes what could not be read.
func (c *collector) problem(where string, err error) {
	c.problems = append(c.problems, redact.Text(fmt.Sprintf("%s: %v", where, err)))
}

func (c *collector) index(dir, resource string, objects int) {
	if c.found[dir] == nil {
		c.found[dir] = map[string]int{}
	}
	c.found[dir][resource] = objects
}

// addIndex adds the table of contents.
func (c *collector) addIndex(now time.Time) error {
	text, err := yaml.Marshal(map[string]any{
		"created": now.UTC().Format(time.RFC3339), "version": version.Get(), "servers": c.versions, "found": c.found, "problems": c.problems,
	})
	if err != nil {
		return err
	}
	return c.archive.add("index.yaml", string(text))
}

// newDir returns the name, or another one if two contexts have it.
func (c *collector) newDir(name string) string {
	dir := name
	for i := 2; c.dirs[dir]; i++ {
		dir = fmt.Sprintf("%s-%d", name, i)
	}
	c.dirs[dir] = true
	return dir
}

var notInFileName = regexp.MustCompile(`[^A-Za-z0-9._-]`)

// fileName returns the name of a context without characters that file names cannot have.
func fileName(context string) string {
	return strings.TrimLeft(notInFileName.ReplaceAllString(context, "_"), ".")
}
