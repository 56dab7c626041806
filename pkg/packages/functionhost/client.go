package functionhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/starlinghq/starling/pkg/core/packages/kpt/functions"
)

// ErrNotListed is the error for an image that no host has.
var ErrNotListed = errors.New("no function host has this image")

// MaxBytes is the default of the size of a package, and of what a function makes of it: here, and
// between a server and its workers. Of two different limits, the lower one would count.
const MaxBytes = 32 << 20

// Client runs functions in hosts. It is safe for concurrent use.
type Client struct {
	hosts    map[string]string
	maxBytes int64
	http     *http.Client
}

// NewClient returns a Client of hosts: their URLs by images, as packages name these. An answer may
// have so many bytes.
func NewClient(hosts map[string]string, maxBytes int64) (*Client, error) {
	for image, host := range hosts {
		if at, err := url.Parse(host); err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
			return nil, fmt.Errorf("the host of function %s must be an http or https URL, is %q", image, host)
		}
	}
	return &Client{hosts, maxBytes, &http.Client{}}, nil
}

// Run runs the function of an image on a ResourceList. It blocks until the function has ended, or
// the context ends.
func (c *Client) Run(ctx context.Context, image, list string) (functions.Container, error) {
	var answer functions.Container
	host, listed := c.hosts[image]
	if !listed {
		return answer, ErrNotListed
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(host, "/")+"/run", strings.NewReader(list))
	if err != nil {
		return answer, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return answer, fmt.Errorf("its host does not answer: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, c.maxBytes+1))
	switch {
	case err != nil:
		return answer, fmt.Errorf("its host does not answer: %w", err)
	case int64(len(body)) > c.maxBytes:
		return answer, fmt.Errorf("its host answers with more than %d bytes", c.maxBytes)
	case response.StatusCode != http.StatusOK:
		return answer, fmt.Errorf("its host: %s", strings.TrimSpace(string(body[:min(len(body), maxStderr)])))
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return answer, errors.New("its host does not answer with the result of a function")
	}
	return answer, nil
}
