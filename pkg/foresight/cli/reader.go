package cli

import (
	"fmt"

	"github.com/starlinghq/starling/pkg/foresight"
	"github.com/starlinghq/starling/pkg/plugin"
)

// noITS is what is said if no ITS is known.
const noITS = "no ITS is known: name its context with --its-context or $" + plugin.ITSVariable

// factReader returns a Reader of the WDS and the ITSes of the flags. If no ITS is found, what is
// known without one is said nevertheless.
func (o *options) factReader() (*foresight.Reader, error) {
	wds, err := o.flags.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	found, err := o.itses.Find()
	if err != nil {
		return nil, err
	}
	config := foresight.Config{WDS: wds, ITSes: found, Clock: o.clock, NoITS: noITS}
	if discovery, err := o.flags.ToDiscoveryClient(); err == nil {
		config.Served = &served{discovery: discovery}
	}
	return foresight.NewReader(config)
}

// unknown says what is not known, beside what is printed.
func (o *options) unknown(notes []string) {
	for _, note := range notes {
		fmt.Fprintln(plugin.EscapingWriter{Writer: o.ErrOut}, "Unknown: "+note)
	}
}

// namespace returns that of the flags.
func (o *options) namespace() (string, error) {
	namespace, _, err := o.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", fmt.Errorf("find the namespace: %w", err)
	}
	return namespace, nil
}
