package binding

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/starlinghq/starling/test/testenv"
)

// TestRemovalBlock: what would take everything from most clusters of a policy waits until it is
// released or undone; what is deleted by itself does not.
func TestRemovalBlock(t *testing.T) {
	e := newEnvironment(t)
	var clusters []string
	for i := range 12 {
		name := fmt.Sprintf("%s-%02d", e.name, i)
		e.cluster(name, map[string]string{"test": e.name, "half": fmt.Sprint(i % 2)})
		clusters = append(clusters, "-> "+name)
	}
	label := map[string]string{"app": e.name}
	e.create(configMaps, object(e.name, "one", label))
	e.create(configMaps, object(e.name, "two", label))
	c := e.start()
	spec := func(cluster, value string) string {
		return fmt.Sprintf(`{"clusterSelectors":[{"matchLabels":{%q:%q}}],"downsync":[{"objectSelectors":[{"matchLabels":{"app":%q}}]}]}`, cluster, value, e.name)
	}
	policy := e.policy("p", spec("test", e.name))
	bound := func(what ...string) {
		t.Helper()
		e.eventuallyBound(policy, append(what, clusters...)...)
	}
	held := func() (token string) {
		t.Helper()
		message := e.eventuallyCondition(policy, "RemovalBlocked", "True RemovalLimitExceeded")
		e.eventuallyCondition(policy, synced, "False RemovalBlocked")
		found := regexp.MustCompile(`kubectl annotate bindingpolicy ` + policy + ` starling\.io/allow-removal=(\w+)$`).FindStringSubmatch(message)
		if found == nil {
			t.Fatalf("the message does not say how to release it: %s", message)
		}
		return found[1]
	}
	free := func() {
		t.Helper()
		testenv.Eventually(t, patience, func() (bool, string) {
			status := e.statusOf(policy)
			return !strings.Contains(status, `"type":"RemovalBlocked"`) && strings.Contains(status, `"reason":"Synced"`), status
		})
	}
	annotate := func(annotations string) {
		t.Helper()
		e.patch(policies, "", policy, `{"metadata":{"annotations":{`+annotations+`}}}`)
	}
	bound("configmaps one", "configmaps two")

	// A typo in a selector, and its correction.
	e.patch(policies, "", policy, `{"spec":`+spec("test", "nobody")+`}`)
	held()
	bound("configmaps one", "configmaps two")
	e.patch(policies, "", policy, `{"spec":`+spec("test", e.name)+`}`)
	free()

	// Half of the clusters is no more than half; then the other half is all.
	e.patch(policies, "", policy, `{"spec":`+spec("half", "0")+`}`)
	var even []string
	for i := 0; i < len(clusters); i += 2 {
		even = append(even, clusters[i])
	}
	e.eventuallyBound(policy, append([]string{"configmaps one", "configmaps two"}, even...)...)
	e.patch(policies, "", policy, `{"spec":`+spec("test", e.name)+`}`)
	bound("configmaps one", "configmaps two")

	// A script takes the labels away. What is held is held over a restart, and goes as it was
	// shown.
	for _, name := range []string{"one", "two"} {
		e.patch(configMaps, e.name, name, `{"metadata":{"labels":null}}`)
	}
	token := held()
	c.stop()
	e.start()
	if again := held(); again != token {
		t.Errorf("the token is %s after a restart, was %s", again, token)
	}
	annotate(`"starling.io/allow-removal":"wrong"`)
	testenv.Eventually(t, patience, func() (bool, string) {
		status := e.statusOf(policy)
		return strings.Contains(status, `metadata.annotations[starling.io/allow-removal]: \"wrong\" is not the token of the change that is blocked now`), status
	})
	annotate(`"starling.io/allow-removal":"` + held() + `"`)
	bound()
	free()
	testenv.Eventually(t, patience, func() (bool, string) {
		p, err := e.wds.Resource(policies).Get(t.Context(), policy, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return p.GetAnnotations()["starling.io/allow-removal"] == "", "the annotation of the release is still there"
	})

	// What is deleted by itself goes at once.
	for _, name := range []string{"one", "two"} {
		e.patch(configMaps, e.name, name, `{"metadata":{"labels":{"app":"`+e.name+`"}}}`)
	}
	bound("configmaps one", "configmaps two")
	for _, name := range []string{"one", "two"} {
		if err := e.wds.Resource(configMaps).Namespace(e.name).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	bound()
	free()

	// What goes with its Namespace does not, unless the removal block is off.
	e.create(configMaps, object(e.name, "three", label))
	e.create(configMaps, object(e.name, "four", label))
	bound("configmaps four", "configmaps three")
	if err := e.wds.Resource(namespaces).Delete(t.Context(), e.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	held()
	bound("configmaps four", "configmaps three")
	annotate(`"starling.io/removal-block":"off"`)
	bound()
	free()
}

// statusOf returns the status of a policy, in JSON.
func (e *environment) statusOf(policy string) string {
	e.t.Helper()
	p := e.getPolicy(policy)
	if p == nil {
		return ""
	}
	text, err := json.Marshal(p.Status)
	if err != nil {
		e.t.Fatal(err)
	}
	return string(text)
}

// TestAnnotationsAreCopied from a policy to its Binding, where others stay.
func TestAnnotationsAreCopied(t *testing.T) {
	e := newEnvironment(t)
	e.start()
	policy := e.policy("p", `{"downsync":[{"objectNames":["`+e.name+`"]}]}`)
	e.eventuallyCondition(policy, synced, "True Synced")
	annotations := func(want string) {
		t.Helper()
		testenv.Eventually(t, patience, func() (bool, string) {
			b, err := e.wds.Resource(bindings).Get(t.Context(), policy, metav1.GetOptions{})
			got := fmt.Sprint(b.GetAnnotations())
			return err == nil && got == want, fmt.Sprintf("annotations %s, want %s (%v)", got, want, err)
		})
	}
	e.patch(bindings, "", policy, `{"metadata":{"annotations":{"starling.io/hold":"*","starling.io/apply":"update"}}}`)
	annotations("map[starling.io/hold:*]")
	e.patch(policies, "", policy, `{"metadata":{"annotations":{"starling.io/apply":"server-side","starling.io/on-removal":"orphan","other":"x"}}}`)
	annotations("map[starling.io/apply:server-side starling.io/hold:* starling.io/on-removal:orphan]")
	e.patch(policies, "", policy, `{"metadata":{"annotations":{"starling.io/apply":null}}}`)
	annotations("map[starling.io/hold:* starling.io/on-removal:orphan]")

	// The release is the user's, on the Binding. A policy has one only while it is being deleted.
	e.patch(policies, "", policy, `{"metadata":{"annotations":{"starling.io/release":"clusters=a","starling.io/apply":"update"}}}`)
	annotations("map[starling.io/apply:update starling.io/hold:* starling.io/on-removal:orphan]")
	e.patch(policies, "", policy, `{"metadata":{"annotations":{"starling.io/release":null,"starling.io/apply":null}}}`)
	annotations("map[starling.io/hold:* starling.io/on-removal:orphan]")

	// Also while both are on their way out, which here nobody finishes.
	e.patch(bindings, "", policy, `{"metadata":{"finalizers":["example.com/stay"],"annotations":{"starling.io/release":"clusters=a"}}}`)
	e.delete(policy)
	e.eventuallyCondition(policy, synced, "False Deleting")
	e.patch(policies, "", policy, `{"metadata":{"annotations":{"starling.io/apply":"update"}}}`)
	annotations("map[starling.io/apply:update starling.io/hold:* starling.io/on-removal:orphan starling.io/release:clusters=a]")
	e.patch(policies, "", policy, `{"metadata":{"annotations":{"starling.io/apply":null,"starling.io/release":"force"}}}`)
	annotations("map[starling.io/hold:* starling.io/on-removal:orphan starling.io/release:force]")
}
