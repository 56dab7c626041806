{{- /* Values of KubeStellar's core-chart: what means the same is accepted, and the rest is refused with what to use. */}}

{{- /* kubestellar-entry returns an entry of ITSes or WDSes with our names: (dict "entry" ENTRY). */}}
{{- define "starling.kubestellar-entry" -}}
{{- $entry := deepCopy .entry }}
{{- $name := $entry.name }}
{{- if has $entry.type (list "vcluster" "k8s") }}
{{- fail (printf "space %q: type %q is one of KubeFlex: use hosted for a new space, or kubeflex for a ControlPlane that exists" $name $entry.type) }}
{{- end }}
{{- with $entry.bootstrapSecret }}
{{- if ne $entry.type "external" }}
{{- fail (printf "space %q: bootstrapSecret is for type external" $name) }}
{{- else if $entry.kubeconfigSecret }}
{{- fail (printf "space %q: bootstrapSecret and kubeconfigSecret mean the same: remove one of them" $name) }}
{{- end }}
{{- $_ := set $entry "kubeconfigSecret" (.name | default (printf "%s-bootstrap" $name)) }}
{{- $_ := set $entry "kubeconfigNamespace" (.namespace | default "") }}
{{- $_ := set $entry "kubeconfigKey" (.key | default "kubeconfig-incluster") }}
{{- end }}
{{- if hasKey $entry "install_clusteradm" }}
{{- if and $entry.install_clusteradm (ne $entry.type "hosted") }}
{{- fail (printf "space %q: install_clusteradm: Starling installs Open Cluster Management in a space of type hosted only. Run `clusteradm init` in this one, and set install_clusteradm to false" $name) }}
{{- else if and (not $entry.install_clusteradm) (eq $entry.type "hosted") }}
{{- fail (printf "space %q: install_clusteradm: an ITS of type hosted always has Open Cluster Management: remove it" $name) }}
{{- end }}
{{- end }}
{{- toYaml (omit $entry "bootstrapSecret" "install_clusteradm") }}
{{- end }}

{{- /* kubestellar-check refuses values that have another place or no meaning here. */}}
{{- define "starling.kubestellar-check" }}
{{- $instead := dict
  "KUBESTELLAR_VERSION" "use image.tag"
  "TRANSPORT_VERSION" "use image.tag"
  "OCM_STATUS_ADDON_VERSION" "use image.tag, or statusAgent.image"
  "CLUSTERADM_VERSION" "Starling runs no clusteradm: remove it"
  "HELM_VERSION" "Starling runs no image of Helm: remove it"
  "KUBECTL_VERSION" "Starling runs no image of kubectl: remove it"
  "kubeflex-operator" "Starling does not install KubeFlex: use type hosted, or type kubeflex for ControlPlanes that exist"
  "argocd" "install Argo CD with its own chart"
  "InstallPCHs" "there are no PostCreateHooks: remove it"
  "transport_controller" "use transportController.extraArgs, with the same flags"
  "status_controller" "use statusAgentManager.extraArgs"
  "status_agent" "its agents need no such settings: remove it" }}
{{- range $value, $text := $instead }}
{{- if hasKey $.Values $value }}
{{- fail (printf "%s is a value of KubeStellar: %s" $value $text) }}
{{- end }}
{{- end }}
{{- range $program, $text := dict "clusteradm" "Starling runs no clusteradm: remove it" "status_agent" "agents log at their default level: remove it" }}
{{- if hasKey $.Values.verbosity $program }}
{{- fail (printf "verbosity.%s is a value of KubeStellar: %s" $program $text) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* verbosity returns the log level of a controller. */}}
{{- define "starling.verbosity" -}}
{{- $all := .root.Values.verbosity }}
{{- $key := get (dict "binding-controller" "kubestellar" "transport-controller" "transport" "status-agent-manager" "status_controller") .component }}
{{- $own := get $all ($key | default "default") }}
{{- if or (kindIs "invalid" $own) (kindIs "string" $own) }}{{ $all.default }}{{ else }}{{ $own }}{{ end }}
{{- end }}
