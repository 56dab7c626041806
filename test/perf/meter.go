package main

import (
	"context"
	"fmt"
	"time"
)

// meter sums the CPU time of the WDS's processes and their children between start and stop. Unlike
// durations, CPU time is comparable on a machine with other load.
type meter struct {
	pids   map[string]int
	before map[string]time.Duration
	spent  map[string]time.Duration
}

func (p *packageStage) meter(ctx context.Context) (*meter, error) {
	m := &meter{pids: map[string]int{packageServer: p.controllers[0].pid}, before: map[string]time.Duration{}, spent: map[string]time.Duration{}}
	for what, component := range map[string]string{"kube-apiserver": "wds1/kube-apiserver", "etcd": "etcd"} {
		pid, err := componentPID(ctx, p.dir, component)
		if err != nil {
			return nil, err
		}
		m.pids[what] = pid
	}
	return m, nil
}

func (m *meter) begin() (err error) {
	for what, pid := range m.pids {
		if m.before[what], err = familyCPU(pid); err != nil {
			return err
		}
	}
	return nil
}

func (m *meter) end() error {
	for what, pid := range m.pids {
		now, err := familyCPU(pid)
		if err != nil {
			return err
		}
		m.spent[what] += now - m.before[what]
	}
	return nil
}

// figure returns the CPU time of each of n operations.
func (m *meter) figure(what string, n int) figure {
	return figure{what: fmt.Sprintf("%s: CPU, ms (%s)", what, shares(m.spent, n)), value: ms(sum(m.spent) / time.Duration(n))}
}
