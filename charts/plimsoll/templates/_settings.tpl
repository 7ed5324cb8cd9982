{{/*
Settings files: what the chart knows better than the program's defaults (paths, names, the mode), and over it what
`settings` and `webhook.settings` say. Everything else stays the program's own default.
*/}}

{{/* Takes root and mode. */}}
{{- define "plimsoll.agentSettings" -}}
{{- $root := .root -}}
{{- $own := dict
  "act" (dict "mode" .mode "excludedNamespaces" (include "plimsoll.excludedNamespaces" $root))
  "cgroup" (dict "mount" "/host/sys/fs/cgroup")
  "kubernetes" (dict "api" "on")
  "serving" (dict "address" "0.0.0.0" "port" $root.Values.agent.port "socket" "/run/plimsoll/agent.sock")
  "state" (dict "directory" "/var/lib/plimsoll")
-}}
{{- if include "plimsoll.writesCgroups" $root -}}
{{- $_ := set $own "podLimits" (dict "writeCgroups" $root.Values.podLimits.writeCgroups "qosReservedWrite" $root.Values.podLimits.qosReservedWrite) -}}
{{- end -}}
{{- if $root.Values.webhook.enabled -}}
{{- $_ := set $own "report" (dict
  "url" (printf "https://plimsoll-webhook.%s.svc" $root.Release.Namespace)
  "tokenFile" "/var/run/secrets/plimsoll/token"
  "caFile" "/var/run/secrets/plimsoll/ca.crt") -}}
{{- end -}}
{{- toYaml (mergeOverwrite $own (deepCopy $root.Values.settings)) -}}
{{- end }}

{{/* What agent and webhook both read must be the same to both: those sections are handed on. */}}
{{- define "plimsoll.sharedSections" -}}
recommend act plan bounds cruise vpa crane forecast logging
{{- end }}

{{- define "plimsoll.webhookSettings" -}}
{{- $own := dict
  "cluster" (dict "namespace" .Release.Namespace)
  "act" (dict "mode" (ternary "recommend" (include "plimsoll.mode" .) (not (empty .Values.enforceNodes))) "excludedNamespaces" (include "plimsoll.excludedNamespaces" .))
  "arbiter" (dict "mode" (ternary "enforce" "recommend" .Values.evictions.enabled) "protectedNamespaces" (include "plimsoll.protectedNamespaces" .))
  "certificate" (dict "source" (ternary "built-in" "secret" (eq .Values.webhook.certificate.source "built-in")) "secret" (include "plimsoll.certificateSecret" .))
-}}
{{- if not .Values.buffers.enabled -}}{{- $_ := set $own "buffers" (dict "mode" "off") -}}{{- end -}}
{{- $shared := pick .Values.settings -}}
{{- range splitList " " (include "plimsoll.sharedSections" .) -}}
{{- if hasKey $.Values.settings . -}}{{- $_ := set $shared . (deepCopy (index $.Values.settings .)) -}}{{- end -}}
{{- end -}}
{{- toYaml (mergeOverwrite $own $shared (deepCopy .Values.webhook.settings)) -}}
{{- end }}

{{- define "plimsoll.certificateSecret" -}}
{{- .Values.webhook.certificate.secretName | default "plimsoll-webhook-certificate" -}}
{{- end }}

{{/* For whom agents' tokens are that they send to the webhook. */}}
{{- define "plimsoll.audience" -}}
{{- dig "access" "audience" "plimsoll-webhook" .Values.webhook.settings -}}
{{- end }}
