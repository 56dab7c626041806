package plugin

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// FormatFlag is the flag --output of a command that prints no revisions. The value "" is allowed.
type FormatFlag struct {
	// Value is what the user gave.
	Value string
	// Allowed are the other values.
	Allowed []string
}

// AddTo adds the flag to a command.
func (f *FormatFlag) AddTo(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.Value, "output", "o", "", "Output format. One of: ("+strings.Join(f.Allowed, ", ")+").")
	RegisterValues(cmd, "output", func() []string { return f.Allowed })
}

// Check returns an error in kubectl's words if the value is not allowed.
func (f *FormatFlag) Check() error {
	if f.Value == "" || slices.Contains(f.Allowed, f.Value) {
		return nil
	}
	return fmt.Errorf("unable to match a printer suitable for the output format %q, allowed formats are: %s", f.Value, strings.Join(f.Allowed, ","))
}

// Structured prints an answer as JSON or YAML.
func Structured(w io.Writer, answer any, format string) error {
	text, err := json.MarshalIndent(answer, "", "    ")
	if err == nil && format == "yaml" {
		text, err = yaml.JSONToYAML(text)
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(w, strings.TrimSuffix(string(text), "\n"))
	return nil
}

// NewTable returns a table without rows.
func NewTable(columns ...string) *metav1.Table {
	t := &metav1.Table{}
	for _, name := range columns {
		t.ColumnDefinitions = append(t.ColumnDefinitions, metav1.TableColumnDefinition{Name: name, Type: "string"})
	}
	return t
}
