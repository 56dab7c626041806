package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestOptions(t *testing.T) {
	for name, tc := range map[string]struct {
		args    []string
		wantErr string
	}{
		"Defaults":   {nil, ""},
		"Loopback":   {[]string{"--bind-address=127.0.0.1", "--secure-port=9443", "--enforce-gates=false"}, ""},
		"Name":       {[]string{"--bind-address=localhost"}, "--bind-address"},
		"NoPort":     {[]string{"--secure-port=0"}, "--secure-port"},
		"NoKey":      {[]string{"--tls-cert-file=a"}, "must be set together"},
		"NoWorkers":  {[]string{"--workers=0"}, "--workers"},
		"NoTime":     {[]string{"--function-timeout=0"}, "--function-timeout"},
		"NoMemory":   {[]string{"--function-memory=1"}, "--function-memory"},
		"NoRequest":  {[]string{"--request-timeout=0"}, "--request-timeout"},
		"SmallBody":  {[]string{"--max-request-bytes=10"}, "--max-request-bytes"},
		"SmallList":  {[]string{"--max-list-bytes=10"}, "--max-list-bytes"},
		"SmallWork":  {[]string{"--max-work-bytes=10"}, "--max-work-bytes"},
		"NoneAtOnce": {[]string{"--max-requests-inflight=0"}, "at least 1"},
		"Busy":       {[]string{"--collect-every=1ms"}, "--collect-every"},
		"NoName":     {[]string{"--wds-name="}, "--wds-name"},
		"NoRate":     {[]string{"--wds-qps=0"}, "--wds-qps"},
		"Context":    {[]string{"--wds-context=x"}, "unknown flag"},
	} {
		o, flags := newOptions(), pflag.NewFlagSet("", pflag.ContinueOnError)
		o.addFlags(flags)
		err := flags.Parse(tc.args)
		if err == nil {
			err = o.validate()
		}
		if tc.wantErr == "" && err != nil || tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
			t.Errorf("%s: error %v, want one that says %q", name, err, tc.wantErr)
		}
	}
}
