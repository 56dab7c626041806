package main

import (
	"testing"

	"github.com/spf13/cobra"
)

// TestFlagsOfKubeStellar: the arguments of KubeStellar's status add-on have their meaning.
func TestFlagsOfKubeStellar(t *testing.T) {
	root := newCommand()
	cases := map[string]struct {
		args []string
		want map[string]string // values of our flags
	}{
		"Agent": {
			args: []string{
				"agent", "--cluster-name=c1", "--hub-kubeconfig=/hub", "--hub-qps=5", "--hub-burst=10", "--local-qps=6", "--local-burst=11", "--kubeconfig=/wec",
				"--metrics-bind-addr=:8080", "--pprof-bind-addr=:8082", "--health-probe-bind-address=:8081", "-v=2",
			},
			want: map[string]string{
				"cluster-name": "c1", "hub-kubeconfig": "/hub", "hub-qps": "5", "hub-burst": "10", "wec-qps": "6", "wec-burst": "11", "wec-kubeconfig": "/wec",
				"metrics-bind-address": ":8080", "pprof-bind-address": ":8082", "health-probe-bind-address": ":8081",
			},
		},
		"Controller": {
			args: []string{"controller", "--kubeconfig=/its", "--metrics-bind-addr=:9280", "--pprof-bind-addr=:9282", "-v=2"},
			want: map[string]string{"its-kubeconfig": "/its", "metrics-bind-address": ":9280", "pprof-bind-address": ":9282"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			command, args, err := root.Find(tc.args)
			if err != nil || command == root {
				t.Fatalf("no command %q: %v", tc.args[0], err)
			}
			if err := command.ParseFlags(args); err != nil {
				t.Fatal(err)
			}
			for flag, want := range tc.want {
				if got := value(command, flag); got != want {
					t.Errorf("--%s is %q, want %q", flag, got, want)
				}
			}
		})
	}
}

func value(command *cobra.Command, flag string) string {
	return command.Flags().Lookup(flag).Value.String()
}
