package bundle

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// maxLog is how much of the end of a log is collected, in bytes, and maxLines in lines.
const (
	maxLog   = 1 << 20
	maxLines = 5000
)

// collectPodLogs adds the ends of the logs of all containers in a namespace, and of those that
// were restarted, also of the previous one. It returns the number of logs.
func (c *collector) collectPodLogs(ctx context.Context, client kubernetes.Interface, dir, namespace string) int {
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		c.problem(dir, fmt.Errorf("list pods for their logs: %w", err))
		return 0
	}
	total := 0
	for i := range pods.Items {
		pod := &pods.Items[i]
		restarts := map[string]int32{}
		for _, status := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
			restarts[status.Name] = status.RestartCount
		}
		for _, container := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
			file := fmt.Sprintf("%s/logs/%s/%s", dir, pod.Name, container.Name)
			total += c.collectPodLog(ctx, client, pod, container.Name, file+".log", false)
			if restarts[container.Name] > 0 {
				total += c.collectPodLog(ctx, client, pod, container.Name, file+".previous.log", true)
			}
		}
	}
	c.index(dir, "logs", total)
	return total
}

func (c *collector) collectPodLog(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, container, file string, previous bool) int {
	options := &corev1.PodLogOptions{Container: container, Previous: previous, TailLines: new(int64(maxLines)), LimitBytes: new(int64(maxLog))}
	text, err := client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).DoRaw(ctx)
	if err == nil {
		err = c.archive.log(file, text)
	}
	if err != nil {
		c.problem(file, fmt.Errorf("read the log: %w", err))
		return 0
	}
	return 1
}

// collectFleet adds the ends of the log files of a local fleet. It returns their number.
func (c *collector) collectFleet(fleet string) int {
	const dir = "fleet"
	files, err := filepath.Glob(filepath.Join(fleet, "logs", "*.log"))
	if err != nil {
		c.problem(dir, err)
	}
	total := 0
	for _, file := range append(files, filepath.Join(fleet, "fleet.json"), filepath.Join(fleet, "components.json")) {
		text, err := tail(file)
		if err == nil {
			err = c.archive.log(dir+"/"+filepath.Base(file), text)
		}
		if err != nil {
			c.problem(dir, fmt.Errorf("read %s: %w", filepath.Base(file), err))
			continue
		}
		if strings.HasSuffix(file, ".log") {
			total++
		}
	}
	c.index(dir, "logs", total)
	return total
}

// tail returns the end of a file, from the beginning of a line.
func tail(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	whole := info.Size() <= maxLog
	if !whole {
		if _, err := file.Seek(-maxLog, io.SeekEnd); err != nil {
			return nil, err
		}
	}
	text, err := io.ReadAll(io.LimitReader(file, maxLog))
	if err != nil || whole {
		return text, err
	}
	_, after, _ := strings.Cut(string(text), "\n")
	return []byte(after), nil
}
