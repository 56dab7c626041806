// Command runtime is runc for a host that withholds CAP_SYS_RESOURCE from Docker. An old Docker
// asks for it for each privileged container, and runc then fails. The command removes it from what
// Docker asks for, and also limits of resources, which cannot be raised without it.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
)

const withheld = "CAP_SYS_RESOURCE"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "runtime:", err)
		os.Exit(1)
	}
}

// run changes the files that the arguments name, and becomes runc.
func run(args []string) error {
	if bundle := valueOf(args, "--bundle"); bundle != "" {
		if err := changeFile(filepath.Join(bundle, "config.json"), func(config map[string]any) {
			if process, ok := config["process"].(map[string]any); ok {
				reduce(process)
			}
		}); err != nil {
			return err
		}
	}
	if process := valueOf(args, "--process"); process != "" {
		if err := changeFile(process, reduce); err != nil {
			return err
		}
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		return err
	}
	return syscall.Exec(runc, append([]string{"runc"}, args...), os.Environ())
}

func valueOf(args []string, flag string) string {
	if i := slices.Index(args, flag); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}

// reduce removes from a process of the runtime specification what the host does not grant.
func reduce(process map[string]any) {
	delete(process, "rlimits")
	sets, _ := process["capabilities"].(map[string]any)
	for name, set := range sets {
		if names, ok := set.([]any); ok {
			sets[name] = slices.DeleteFunc(names, func(c any) bool { return c == withheld })
		}
	}
}

func changeFile(file string, change func(map[string]any)) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var content map[string]any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber() // some numbers have more digits than a float64
	if err := decoder.Decode(&content); err != nil {
		return fmt.Errorf("decode %s: %w", file, err)
	}
	change(content)
	if raw, err = json.Marshal(content); err != nil {
		return err
	}
	return os.WriteFile(file, raw, 0o600)
}
