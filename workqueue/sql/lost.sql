{{- /* The process of a claim: the first 48 bits of its owner token. */ -}}
{{define "process"}}substring(uuid_send({{.}}.owner_token) FROM 1 FOR 6){{end}}

{{- /* How many leases a row has lost, alone or together with others of a process. Producers may write any header, so
what is no small number counts as 0. */ -}}
{{define "lost"}}coalesce(substring(r.headers ->> 'txwork-lost-{{.}}' FROM '^[0-9]{1,4}$')::int, 0){{end}}
