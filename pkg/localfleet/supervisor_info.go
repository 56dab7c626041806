package localfleet

import (
	"encoding/json"
	"fmt"
	"os"
)

// supervisorInfo identifies the process of the supervisor. The supervisor serves it at infoPath,
// and writes it to SupervisorFile for commands to which it does not respond.
type supervisorInfo struct {
	PID       int    `json:"pid"`
	StartTime string `json:"startTime"`
	Version   string `json:"version"`
}

const infoPath = "/supervisor"

// newSupervisorInfo returns the supervisorInfo of this process.
func newSupervisorInfo(version string) (*supervisorInfo, error) {
	started, err := startTime(os.Getpid())
	if err != nil {
		return nil, err
	}
	return &supervisorInfo{PID: os.Getpid(), StartTime: started, Version: version}, nil
}

func (i *supervisorInfo) save(l Layout) error {
	data, err := json.Marshal(i)
	if err != nil {
		return err
	}
	return writeFile(l.SupervisorFile(), data)
}

// loadSupervisorInfo reads SupervisorFile. It returns the zero value if the file cannot be read.
func loadSupervisorInfo(l Layout) supervisorInfo {
	var info supervisorInfo
	data, err := os.ReadFile(l.SupervisorFile())
	if err != nil || json.Unmarshal(data, &info) != nil {
		return supervisorInfo{}
	}
	return info
}

// alive reports whether that process runs.
func (i *supervisorInfo) alive() bool { return alive(i.PID, i.StartTime) }

// unresponsiveError means that a supervisor runs and does not respond.
type unresponsiveError struct {
	info  supervisorInfo
	dir   string
	cause error
}

func (e *unresponsiveError) Error() string {
	process, end := "", fmt.Sprintf("the process \"starling supervise --dir %s\"", shellQuote(e.dir))
	if e.info.PID > 0 {
		process, end = fmt.Sprintf(" (process %d)", e.info.PID), fmt.Sprintf("it and all processes of the fleet with: kill -KILL %d", e.info.PID)
	}
	return fmt.Sprintf("the supervisor of the fleet in %q%s runs but does not respond: %v. End %s. "+
		"The data of the fleet stays. Then run this command again", e.dir, process, e.cause, end)
}

func (e *unresponsiveError) Unwrap() error { return e.cause }
