package status

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

var (
	replicaSets  = schema.GroupResource{Group: "apps", Resource: "replicasets"}
	daemonSets   = schema.GroupResource{Group: "apps", Resource: "daemonsets"}
	statefulSets = schema.GroupResource{Group: "apps", Resource: "statefulsets"}
	jobs         = schema.GroupResource{Group: "batch", Resource: "jobs"}
	pods         = schema.GroupResource{Resource: "pods"}
	claims       = schema.GroupResource{Resource: "persistentvolumeclaims"}
	services     = schema.GroupResource{Resource: "services"}
	ingresses    = schema.GroupResource{Group: "networking.k8s.io", Resource: "ingresses"}
	custom       = schema.GroupResource{Group: "test.example.com", Resource: "widgets"}
)

func TestAggregate(t *testing.T) {
	for name, tc := range map[string]struct {
		resource schema.GroupResource
		reports  []string // of c1, c2, …
		silent   []string
		want     string
	}{
		"DeploymentLeast": {
			resource: deployments,
			reports: []string{
				`{"observedGeneration":4,"replicas":3,"updatedReplicas":3,"readyReplicas":3,"availableReplicas":3,"collisionCount":7}`,
				`{"observedGeneration":3,"replicas":3,"updatedReplicas":2,"readyReplicas":1,"availableReplicas":1,"unavailableReplicas":2}`,
			},
			want: `{"observedGeneration":3,"replicas":3,"updatedReplicas":2,"readyReplicas":1,"availableReplicas":1,"unavailableReplicas":2}`,
		},
		"DeploymentAbsentIsZero": {
			resource: deployments,
			reports:  []string{`{"observedGeneration":1,"replicas":2,"readyReplicas":2}`, `{"replicas":2,"unavailableReplicas":2}`},
			want:     `{"replicas":2,"unavailableReplicas":2}`,
		},
		"DeploymentOfDifferentSize": { // one still has an old replica: 4 of 3
			resource: deployments,
			reports: []string{
				`{"observedGeneration":1,"replicas":3,"updatedReplicas":3,"readyReplicas":3,"availableReplicas":3}`,
				`{"observedGeneration":1,"replicas":4,"updatedReplicas":3,"readyReplicas":4,"availableReplicas":4}`,
			},
			want: `{"observedGeneration":1,"replicas":3,"updatedReplicas":2,"readyReplicas":3,"availableReplicas":3}`,
		},
		"DeploymentSilent": {
			resource: deployments,
			reports: []string{`{"observedGeneration":1,"replicas":3,"updatedReplicas":3,"readyReplicas":3,"availableReplicas":3,"conditions":[
				{"type":"Available","status":"True","reason":"MinimumReplicasAvailable","message":"fine","lastTransitionTime":"2026-01-01T00:00:00Z","lastUpdateTime":"2026-01-02T00:00:00Z"}]}`},
			silent: []string{"c9", "c8"},
			want: `{"replicas":3,"unavailableReplicas":3,"conditions":[
				{"type":"Available","status":"Unknown","reason":"NotReported","message":"not reported by c8, c9","lastTransitionTime":"2026-01-01T00:00:00Z","lastUpdateTime":"2026-01-02T00:00:00Z"},
				{"type":"starling.io/Incomplete","status":"True","reason":"NotReported","message":"clusters whose status is not known: c8, c9","lastTransitionTime":"2026-01-01T00:00:00Z"}]}`,
		},
		"DeploymentStuckInOne": {
			resource: deployments,
			reports: []string{
				`{"replicas":1,"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded","message":"late","lastTransitionTime":"2026-01-01T00:00:00Z"}]}`,
				`{"replicas":1,"conditions":[{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable","message":"done","lastTransitionTime":"2026-01-05T00:00:00Z"},
					{"type":"ReplicaFailure","status":"True","reason":"FailedCreate","message":"quota","lastTransitionTime":"2026-01-03T00:00:00Z"}]}`,
			},
			want: `{"replicas":1,"conditions":[
				{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded","message":"c1: late","lastTransitionTime":"2026-01-05T00:00:00Z"},
				{"type":"ReplicaFailure","status":"True","reason":"FailedCreate","message":"quota","lastTransitionTime":"2026-01-03T00:00:00Z"}]}`,
		},
		"DeploymentConditionMissingInOne": {
			resource: deployments,
			reports:  []string{`{"conditions":[{"type":"Available","status":"True"}]}`, `{}`},
			want:     `{"conditions":[{"type":"Available","status":"Unknown","reason":"NotReported","message":"not reported by c2"}]}`,
		},
		"DeploymentTerminatingReplicas": {
			resource: deployments,
			reports:  []string{`{"terminatingReplicas":0}`, `{}`},
			want:     `{"terminatingReplicas":0}`,
		},
		"ReplicaSet": {
			resource: replicaSets,
			reports:  []string{`{"replicas":2,"fullyLabeledReplicas":2,"readyReplicas":1,"availableReplicas":1,"observedGeneration":2}`, `{"replicas":0}`},
			want:     `{"replicas":0}`,
		},
		"ReplicaSetFailure": {
			resource: replicaSets,
			reports:  []string{`{"replicas":1,"conditions":[{"type":"ReplicaFailure","status":"False"}]}`, `{"replicas":1,"conditions":[{"type":"ReplicaFailure","status":"True","reason":"FailedCreate"}]}`},
			want:     `{"replicas":1,"conditions":[{"type":"ReplicaFailure","status":"True","reason":"FailedCreate"}]}`,
		},
		"DaemonSetOfDifferentNumbersOfNodes": { // 3 of 3 and 8 of 10
			resource: daemonSets,
			reports: []string{
				`{"observedGeneration":2,"desiredNumberScheduled":3,"currentNumberScheduled":3,"updatedNumberScheduled":3,"numberReady":3,"numberAvailable":3,"numberMisscheduled":0}`,
				`{"observedGeneration":2,"desiredNumberScheduled":10,"currentNumberScheduled":10,"updatedNumberScheduled":8,"numberReady":8,"numberAvailable":8,"numberUnavailable":2,"numberMisscheduled":1}`,
			},
			want: `{"observedGeneration":2,"desiredNumberScheduled":3,"currentNumberScheduled":3,"updatedNumberScheduled":1,"numberReady":1,"numberAvailable":1,"numberUnavailable":2,"numberMisscheduled":1}`,
		},
		"DaemonSetSilent": {
			resource: daemonSets,
			reports:  []string{`{"observedGeneration":2,"desiredNumberScheduled":3,"currentNumberScheduled":3,"updatedNumberScheduled":3,"numberReady":3,"numberAvailable":3,"numberMisscheduled":0}`},
			silent:   []string{"c2"},
			want: `{"desiredNumberScheduled":3,"currentNumberScheduled":0,"numberReady":0,"numberUnavailable":3,"numberMisscheduled":0,
				"conditions":[{"type":"starling.io/Incomplete","status":"True","reason":"NotReported","message":"clusters whose status is not known: c2","lastTransitionTime":"` + epoch + `"}]}`,
		},
		"StatefulSetUpdatedInOne": {
			resource: statefulSets,
			reports: []string{
				`{"observedGeneration":2,"replicas":3,"readyReplicas":3,"currentReplicas":3,"updatedReplicas":3,"availableReplicas":3,"currentRevision":"new","updateRevision":"new"}`,
				`{"observedGeneration":2,"replicas":3,"readyReplicas":2,"currentReplicas":1,"updatedReplicas":1,"availableReplicas":2,"currentRevision":"old","updateRevision":"new"}`,
			},
			want: `{"observedGeneration":2,"replicas":3,"readyReplicas":2,"currentReplicas":1,"updatedReplicas":1,"availableReplicas":2,"currentRevision":"old","updateRevision":"new"}`,
		},
		"StatefulSetUpdatedEverywhere": {
			resource: statefulSets,
			reports:  []string{`{"replicas":0,"availableReplicas":0,"currentRevision":"a","updateRevision":"a"}`, `{"replicas":0,"availableReplicas":0,"currentRevision":"b","updateRevision":"b"}`},
			want:     `{"replicas":0,"availableReplicas":0,"currentRevision":"a","updateRevision":"a"}`,
		},
		"JobCompleteInOne": {
			resource: jobs,
			reports: []string{
				`{"succeeded":1,"startTime":"2026-01-01T00:00:05Z","completionTime":"2026-01-01T00:01:00Z","ready":0,"conditions":[{"type":"SuccessCriteriaMet","status":"True"},{"type":"Complete","status":"True"}]}`,
				`{"active":1,"ready":1,"startTime":"2026-01-01T00:00:00Z"}`,
			},
			want: `{"active":1,"ready":0,"startTime":"2026-01-01T00:00:00Z","conditions":[
				{"type":"Complete","status":"Unknown","reason":"NotReported","message":"not reported by c2"},
				{"type":"SuccessCriteriaMet","status":"Unknown","reason":"NotReported","message":"not reported by c2"}]}`,
		},
		"JobCompleteEverywhere": {
			resource: jobs,
			reports: []string{
				`{"succeeded":2,"startTime":"2026-01-01T00:00:05Z","completionTime":"2026-01-01T00:01:00Z","ready":0,"conditions":[{"type":"SuccessCriteriaMet","status":"True"},{"type":"Complete","status":"True"}]}`,
				`{"succeeded":2,"failed":1,"startTime":"2026-01-01T00:00:00Z","completionTime":"2026-01-01T00:02:00Z","ready":0,"conditions":[{"type":"Complete","status":"True"},{"type":"SuccessCriteriaMet","status":"True"}]}`,
			},
			want: `{"succeeded":2,"failed":1,"startTime":"2026-01-01T00:00:00Z","completionTime":"2026-01-01T00:02:00Z","conditions":[
				{"type":"Complete","status":"True"},{"type":"SuccessCriteriaMet","status":"True"}]}`,
		},
		"JobFailedInOne": { // it will fail, and has not ended
			resource: jobs,
			reports: []string{
				`{"failed":3,"startTime":"2026-01-01T00:00:05Z","conditions":[{"type":"FailureTarget","status":"True"},{"type":"Failed","status":"True","reason":"BackoffLimitExceeded"}]}`,
				`{"active":1,"startTime":"2026-01-01T00:00:00Z"}`,
			},
			want: `{"active":1,"failed":3,"startTime":"2026-01-01T00:00:00Z","conditions":[{"type":"FailureTarget","status":"True"}]}`,
		},
		"JobFailedInOneOfAnOlderKubernetes": {
			resource: jobs,
			reports:  []string{`{"failed":3,"conditions":[{"type":"Failed","status":"True","reason":"BackoffLimitExceeded"}]}`, `{"active":1}`},
			want:     `{"active":1,"failed":3,"conditions":[{"type":"FailureTarget","status":"True","reason":"BackoffLimitExceeded"}]}`,
		},
		"JobFailedInOneCompleteInTheOther": {
			resource: jobs,
			reports: []string{
				`{"failed":3,"startTime":"2026-01-01T00:00:05Z","conditions":[{"type":"FailureTarget","status":"True"},{"type":"Failed","status":"True"}]}`,
				`{"succeeded":1,"startTime":"2026-01-01T00:00:00Z","completionTime":"2026-01-01T00:02:00Z","conditions":[{"type":"Complete","status":"True"},{"type":"SuccessCriteriaMet","status":"True"}]}`,
			},
			want: `{"failed":3,"startTime":"2026-01-01T00:00:00Z","conditions":[{"type":"Failed","status":"True"},{"type":"FailureTarget","status":"True"}]}`,
		},
		"JobCompleteWhileOneIsSilent": {
			resource: jobs,
			reports:  []string{`{"succeeded":1,"startTime":"2026-01-01T00:00:00Z","completionTime":"2026-01-01T00:02:00Z","conditions":[{"type":"Complete","status":"True"}]}`},
			silent:   []string{"c2"},
			want: `{"startTime":"2026-01-01T00:00:00Z","conditions":[{"type":"Complete","status":"Unknown","reason":"NotReported","message":"not reported by c2"},
				{"type":"starling.io/Incomplete","status":"True","reason":"NotReported","message":"clusters whose status is not known: c2","lastTransitionTime":"` + epoch + `"}]}`,
		},
		"Pod": {
			resource: pods,
			reports: []string{
				`{"phase":"Running","qosClass":"BestEffort","podIP":"10.0.0.1","startTime":"2026-01-02T00:00:00Z","conditions":[{"type":"Ready","status":"True"}]}`,
				`{"phase":"Pending","qosClass":"BestEffort","conditions":[{"type":"Ready","status":"False","message":"pulling"}]}`,
			},
			want: `{"phase":"Pending","qosClass":"BestEffort","startTime":"2026-01-02T00:00:00Z","conditions":[{"type":"Ready","status":"False","message":"c2: pulling"}]}`,
		},
		"PodSilent": {
			resource: pods,
			reports:  []string{`{"phase":"Succeeded"}`},
			silent:   []string{"c2"},
			want: `{"phase":"Pending","conditions":[
				{"type":"starling.io/Incomplete","status":"True","reason":"NotReported","message":"clusters whose status is not known: c2","lastTransitionTime":"` + epoch + `"}]}`,
		},
		"Claim": {
			resource: claims,
			reports: []string{
				`{"phase":"Bound","accessModes":["ReadWriteOnce"],"capacity":{"storage":"2Gi"}}`,
				`{"phase":"Bound","accessModes":["ReadWriteOnce"],"capacity":{"storage":"1500Mi","other":"1"}}`,
			},
			want: `{"phase":"Bound","accessModes":["ReadWriteOnce"],"capacity":{"storage":"1500Mi"}}`,
		},
		"ClaimPendingInOne": {
			resource: claims,
			reports:  []string{`{"phase":"Bound","accessModes":["ReadWriteOnce"],"capacity":{"storage":"2Gi"}}`, `{"phase":"Pending"}`},
			want:     `{"phase":"Pending"}`,
		},
		"ServiceAddresses": {
			resource: services,
			reports:  []string{`{"loadBalancer":{"ingress":[{"ip":"1.1.1.1","ipMode":"VIP"}]}}`, `{"loadBalancer":{"ingress":[{"hostname":"b"},{"ip":"1.1.1.1","ipMode":"VIP"}]}}`},
			want:     `{"loadBalancer":{"ingress":[{"ip":"1.1.1.1","ipMode":"VIP"},{"hostname":"b"}]}}`,
		},
		"ServiceAddressMissingInOne": {
			resource: services,
			reports:  []string{`{"loadBalancer":{"ingress":[{"ip":"1.1.1.1"}]}}`, `{"loadBalancer":{}}`},
			want:     `{"loadBalancer":{}}`,
		},
		"IngressSilent": {
			resource: ingresses,
			reports:  []string{`{"loadBalancer":{"ingress":[{"ip":"1.1.1.1"}]}}`},
			silent:   []string{"c2"},
			want:     `{"loadBalancer":{}}`,
		},
		"CustomEqual": {
			resource: custom,
			reports:  []string{`{"phase":"Ready","size":4,"ready":true,"list":["a"],"inner":{"x":"1","y":"2"}}`, `{"phase":"Ready","size":4,"ready":true,"list":["a"],"inner":{"x":"1","y":"3"}}`},
			want:     `{"phase":"Ready","size":4,"ready":true,"list":["a"],"inner":{"x":"1"}}`,
		},
		"CustomDifferent": {
			resource: custom,
			reports: []string{
				`{"phase":"Ready","size":4,"ready":true,"list":["a"],"readyReplicas":3,"replicas":3,"unavailableReplicas":0,"observedGeneration":3,"ratio":0.5,"shape":1,"only":"c1"}`,
				`{"phase":"Failed","size":5,"ready":false,"list":["a","b"],"replicas":3,"unavailableReplicas":3,"observedGeneration":2,"ratio":0.25,"shape":"x"}`,
			},
			want: `{"size":4,"ready":false,"readyReplicas":0,"replicas":3,"unavailableReplicas":3,"observedGeneration":2,"ratio":0.25}`,
		},
		"CustomSilent": { // nothing that is equal is known to be so everywhere
			resource: custom,
			reports:  []string{`{"phase":"Ready","size":4,"ready":true,"readyReplicas":3,"conditions":[{"type":"Ready","status":"True","reason":"R","observedGeneration":5},{"type":"Stalled","status":"False"}]}`},
			silent:   []string{"c2", "c3", "c4", "c5", "c6", "c7", "c8"},
			want: `{"ready":false,"readyReplicas":0,"conditions":[
				{"type":"Ready","status":"Unknown","reason":"NotReported","message":"not reported by c2, c3, c4, c5, c6 … and 2 more"},
				{"type":"Stalled","status":"Unknown","reason":"NotReported","message":"not reported by c2, c3, c4, c5, c6 … and 2 more"},
				{"type":"starling.io/Incomplete","status":"True","reason":"NotReported","message":"clusters whose status is not known: c2, c3, c4, c5, c6 … and 2 more","lastTransitionTime":"` + epoch + `"}]}`,
		},
		"CustomSilentWithoutConditions": {
			resource: custom, reports: []string{`{"phase":"Ready"}`}, silent: []string{"c2"}, want: `{}`,
		},
		"CustomConditions": {
			resource: custom,
			reports: []string{
				`{"conditions":[{"type":"Ready","status":"True","reason":"A","observedGeneration":5},{"type":"Synced","status":"Unknown","reason":"U"},{"type":"Degraded","status":"True","reason":"D"}]}`,
				`{"conditions":[{"type":"Ready","status":"True","reason":"B","lastTransitionTime":"2026-01-01T00:00:00Z","observedGeneration":4},{"type":"Synced","status":"True"},{"type":"Degraded","status":"False"}]}`,
			},
			want: `{"conditions":[{"type":"Degraded","status":"True","reason":"D"},
				{"type":"Ready","status":"True","reason":"B","lastTransitionTime":"2026-01-01T00:00:00Z","observedGeneration":4},{"type":"Synced","status":"Unknown","reason":"U"}]}`,
		},
		"CustomConditionsThatAreNone": {
			resource: custom, reports: []string{`{"conditions":["a"]}`, `{"conditions":["a"]}`}, want: `{"conditions":["a"]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var reported []Reported
			for i, text := range tc.reports {
				reported = append(reported, Reported{Cluster: fmt.Sprintf("c%d", i+1), Status: decoded(t, text)})
			}
			got := Aggregate(tc.resource, reported, tc.silent)
			if diff := cmp.Diff(decoded(t, tc.want), got); diff != "" {
				t.Errorf("Aggregate (-want +got):\n%s", diff)
			}
			for i, text := range tc.reports {
				if diff := cmp.Diff(decoded(t, text), reported[i].Status); diff != "" {
					t.Errorf("the report was changed:\n%s", diff)
				}
			}
		})
	}
}

func decoded(t *testing.T, text string) map[string]any {
	t.Helper()
	var object map[string]any
	if err := utiljson.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// TestAggregateInvariants checks that the order of clusters does not matter; that nothing
// looks more complete when a cluster becomes silent; and that the aggregate is valid for API
// servers if the status of each cluster is.
func TestAggregateInvariants(t *testing.T) {
	resources := []schema.GroupResource{deployments, replicaSets, daemonSets, statefulSets, jobs, pods, claims, services, ingresses, custom}
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 7))
		gr := resources[random.IntN(len(resources))]
		var reported []Reported
		for i := range 1 + random.IntN(4) {
			reported = append(reported, Reported{Cluster: fmt.Sprintf("c%d", i), Status: randomStatus(random, gr)})
		}
		var silent []string
		for i := range random.IntN(3) {
			silent = append(silent, fmt.Sprintf("s%d", i))
		}
		got := Aggregate(gr, reported, silent)
		random.Shuffle(len(reported), func(i, j int) { reported[i], reported[j] = reported[j], reported[i] })
		random.Shuffle(len(silent), func(i, j int) { silent[i], silent[j] = silent[j], silent[i] })
		if diff := cmp.Diff(got, Aggregate(gr, reported, silent)); diff != "" {
			t.Fatalf("seed %d, %s: the order of clusters matters:\n%s", seed, gr, diff)
		}
		for _, problem := range append(invalid(gr, got), lessComplete(gr, got, reported, silent)...) {
			t.Errorf("seed %d, %s: %s:\n%s\nof %s", seed, gr, problem, asText(got), asText(reported))
		}
		if t.Failed() {
			return
		}
		fallen := Aggregate(gr, reported[:1], append(silent, "fallen"))
		for _, c := range conditionsOf(fallen) {
			if fields, ok := c.(map[string]any); ok && fields["status"] == "True" && typeOf(c) != "starling.io/Incomplete" && !adverseIn(gr, typeOf(c)) {
				t.Fatalf("seed %d, %s: condition %s is True while a cluster is silent", seed, gr, typeOf(c))
			}
		}
	}
}

// goals are the counters that say how far something got, and what they are measured by.
var goals = map[schema.GroupResource]struct {
	goal  string
	parts []string
}{
	deployments:  {"replicas", []string{"updatedReplicas", "readyReplicas", "availableReplicas"}},
	replicaSets:  {"replicas", []string{"fullyLabeledReplicas", "readyReplicas", "availableReplicas"}},
	statefulSets: {"replicas", []string{"readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"}},
	daemonSets:   {"desiredNumberScheduled", []string{"currentNumberScheduled", "updatedNumberScheduled", "numberReady", "numberAvailable"}},
}

// lessComplete returns which counters are closer to their goal than in the worst cluster.
func lessComplete(gr schema.GroupResource, got map[string]any, reported []Reported, silent []string) (problems []string) {
	of := goals[gr]
	for _, part := range of.parts {
		lack := integer(got[of.goal]) - integer(got[part])
		for _, r := range reported {
			if worst := integer(r.Status[of.goal]) - integer(r.Status[part]); lack < min(worst, integer(got[of.goal])) {
				problems = append(problems, fmt.Sprintf("%s lacks %d, in %s it lacks %d", part, lack, r.Cluster, worst))
			}
		}
		if len(silent) > 0 && integer(got[part]) != 0 {
			problems = append(problems, part+" counts although a cluster is silent")
		}
	}
	return problems
}

// invalid returns what an API server would refuse.
func invalid(gr schema.GroupResource, got map[string]any) (problems []string) {
	of := goals[gr]
	for _, part := range of.parts {
		if integer(got[part]) > integer(got[of.goal]) || integer(got[part]) < 0 {
			problems = append(problems, part+" is out of bounds")
		}
	}
	if integer(got["availableReplicas"]) > integer(got["readyReplicas"]) && gr != custom {
		problems = append(problems, "more are available than ready")
	}
	if gr == jobs {
		problems = append(problems, invalidJob(got)...)
	}
	return problems
}

func invalidJob(got map[string]any) (problems []string) {
	conditions := conditionsOf(got)
	complete, failed := isTrue(conditions, "Complete"), isTrue(conditions, "Failed")
	met, target := isTrue(conditions, "SuccessCriteriaMet"), isTrue(conditions, "FailureTarget")
	for problem, is := range map[string]bool{
		"complete and failed":                   complete && failed,
		"complete without its criteria":         complete && !met,
		"failed without FailureTarget":          failed && !target,
		"criteria met and failing":              met && target,
		"finished with active Pods":             (complete || failed) && got["active"] != nil,
		"finished with terminating Pods":        (complete || failed) && integer(got["terminating"]) > 0,
		"more ready than active":                integer(got["ready"]) > integer(got["active"]),
		"complete without a time":               complete && got["completionTime"] == nil,
		"not complete with a time":              !complete && got["completionTime"] != nil,
		"finished without a start":              (complete || failed) && got["startTime"] == nil,
		"completed before it was started":       got["completionTime"] != nil && compareTimes(got["completionTime"].(string), got["startTime"].(string)) < 0,
		"unfinished condition of a Failed kind": failed && !target,
	} {
		if is {
			problems = append(problems, problem)
		}
	}
	return problems
}

func adverseIn(gr schema.GroupResource, conditionType string) bool {
	if rules, ok := kinds[gr]; ok {
		return rules.adverse(conditionType)
	}
	return adverse(conditionType)
}

func conditionsOf(status map[string]any) []any {
	conditions, _ := status["conditions"].([]any)
	return conditions
}

// randomStatus returns a status that an API server would accept.
func randomStatus(random *rand.Rand, gr schema.GroupResource) map[string]any {
	status := map[string]any{}
	if of, ok := goals[gr]; ok {
		goal := random.IntN(6)
		status[of.goal] = int64(goal)
		for _, part := range of.parts {
			status[part] = int64(random.IntN(goal + 1))
		}
		status["availableReplicas"] = min(integer(status["availableReplicas"]), integer(status["readyReplicas"]))
		status["observedGeneration"] = int64(random.IntN(4))
	}
	when := func() string { return fmt.Sprintf("2026-01-%02dT00:00:00Z", 1+random.IntN(28)) }
	var conditions []any
	condition := func(name, is string) {
		conditions = append(conditions, map[string]any{"type": name, "status": is, "reason": fmt.Sprint("R", random.IntN(9)), "lastTransitionTime": when()})
	}
	switch gr {
	case jobs:
		status["startTime"] = "2026-01-01T00:00:00Z"
		switch random.IntN(3) {
		case 0:
			active := random.IntN(3)
			status["active"], status["ready"], status["terminating"] = int64(active), int64(random.IntN(active+1)), int64(random.IntN(2))
		case 1:
			status["succeeded"], status["completionTime"] = int64(1), when()
			condition("SuccessCriteriaMet", "True")
			condition("Complete", "True")
		case 2:
			status["failed"] = int64(1)
			condition("FailureTarget", "True")
			condition("Failed", "True")
		}
	case pods:
		status["phase"] = []string{"Pending", "Running", "Succeeded", "Failed"}[random.IntN(4)]
	case services, ingresses:
		var points []any
		for range random.IntN(3) {
			points = append(points, map[string]any{"ip": fmt.Sprintf("10.0.0.%d", random.IntN(3))})
		}
		status["loadBalancer"] = map[string]any{"ingress": points}
	case custom:
		status["size"], status["ratio"], status["ready"], status["phase"] = int64(random.IntN(3)), float64(random.IntN(4))/2, random.IntN(2) == 0, "x"
		status["inner"] = map[string]any{"a": int64(random.IntN(2)), "b": fmt.Sprint(random.IntN(2)), "availableNodes": int64(random.IntN(3))}
	}
	if gr != jobs {
		for _, name := range []string{"Available", "Ready", "ReplicaFailure", "Degraded"} {
			if random.IntN(3) > 0 {
				condition(name, []string{"True", "True", "False", "Unknown"}[random.IntN(4)])
			}
		}
	}
	if len(conditions) > 0 && gr != ingresses {
		status["conditions"] = conditions
	}
	return status
}

func asText(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
