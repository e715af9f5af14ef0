#!/usr/bin/env bash
# The gateway for any client, here curl: a provider and a gateway on free ports, three requests, and what was read.
#
# Needs `holdfast` on the PATH, or HOLDFAST=.venv/bin/holdfast. Everything it starts it stops; nothing stays behind.
set -euo pipefail
holdfast=${HOLDFAST:-holdfast}
place=$(mktemp -d)
export HOLDFAST_HOME=$place/home

start() { # name, arguments…: starts a server and waits for the line that says its address
    local name=$1
    shift
    "$holdfast" "$@" >"$place/$name" 2>"$place/$name.err" &
    pids+=($!)
    until address=$(grep -o -m 1 'http://[0-9.:]*' "$place/$name"); do
        kill -0 "${pids[-1]}" || { cat "$place/$name.err" >&2; exit 1; }
        sleep 0.1
    done
}

pids=()
trap 'kill "${pids[@]}" 2>/dev/null; wait; rm -rf "$place"' EXIT
start provider simulate --port 0 --quiet
export HOLDFAST_UPSTREAM_ANTHROPIC=$address
start gateway serve --port 0

rules=$(printf 'Answer in one sentence. %.0s' {1..400})
said=''
for question in 'What is a prefix?' 'What is a cache?' 'Thank you.'; do
    said+="${said:+,}{\"role\":\"user\",\"content\":\"$question\"}"
    curl --silent --fail-with-body "$address/v1/messages" --dump-header "$place/headers" \
        -H 'x-api-key: any' -H 'anthropic-version: 2023-06-01' -H 'content-type: application/json' \
        -d "{\"model\":\"claude-opus-5-5\",\"max_tokens\":50,\"system\":\"$rules\",\"messages\":[$said]}" |
        grep -o '"cache_read_input_tokens":[0-9]*'
    grep -i '^x-holdfast-plan' "$place/headers"
    said+=',{"role":"assistant","content":"Yes."}'
done
"$holdfast" sessions
