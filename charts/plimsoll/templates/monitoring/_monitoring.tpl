{{/* Refuse objects whose kind the cluster does not have; `helm template` knows of it by --api-versions. */}}
{{- define "plimsoll.monitoringApi" -}}
{{- if not (.root.Capabilities.APIVersions.Has (print "monitoring.coreos.com/v1/" .kind)) -}}
{{- fail (printf "monitoring.%s.enabled needs the kind %s of monitoring.coreos.com/v1, which this cluster does not have: install the Prometheus Operator's CRDs first, or set it to false (helm template: --api-versions monitoring.coreos.com/v1/%s)" .value .kind .kind) -}}
{{- end -}}
{{- end }}

{{/* Prometheus refuses a scrape that may take longer than its interval. */}}
{{- define "plimsoll.scrapeTimes" -}}
{{- if gt (int .of.scrapeTimeoutSeconds) (int .of.intervalSeconds) -}}
{{- fail (printf "monitoring.%s.scrapeTimeoutSeconds is %v and intervalSeconds is %v: the timeout must not be longer; lower it or raise the interval" .value .of.scrapeTimeoutSeconds .of.intervalSeconds) -}}
{{- end -}}
{{- end }}
