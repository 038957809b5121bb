#!/usr/bin/env bash
# h2spec.sh: all of h2spec's cases, strict ones too, three times against the machines of `wire::h2`, as
# crates/wire/examples/h2c.rs serves them, and against the server itself, without TLS and within it, where it is built. Exit status: 0 all passed and none was skipped, 1 not so, 2 there is no Go
# (it says so). h2spec is taken from H2SPEC or the path; else Go's proxy brings it, once, into target/h2spec.
set -euo pipefail
cd "$(dirname "$0")/.."
CASES=146

PATH=$PATH:/usr/local/go/bin
h2spec=${H2SPEC:-$(command -v h2spec || true)}
if [ -z "$h2spec" ]; then
    h2spec=$PWD/target/h2spec/bin/h2spec
    if [ ! -x "$h2spec" ]; then
        if ! command -v go >/dev/null; then
            echo "h2spec: SKIPPED: it needs Go to be built (https://go.dev/dl), or H2SPEC=/the/program" >&2
            exit 2
        fi
        echo "h2spec: building it, two minutes, once"
        # The last version that Go's module proxy has.
        GOPATH=$PWD/target/h2spec GOFLAGS=-modcacherw go install github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible
    fi
fi

cargo build -q -p wire --example h2c
work=$(mktemp -d)
target/debug/examples/h2c 0 >"$work/address" &
server=$!
trap 'kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
# The address comes when the server listens.
until [ -s "$work/address" ]; do kill -0 "$server"; sleep 0.02; done

# judge WHAT PORT [OPTION...]
judge() {
    for round in 1 2 3; do
        "$h2spec" -S -h 127.0.0.1 -p "$2" "${@:3}" >"$work/$round" || { cat "$work/$round"; exit 1; }
        last=$(grep ' tests, ' "$work/$round")
        echo "h2spec, $1, round $round: $last"
        [ "$last" = "$CASES tests, $CASES passed, 0 skipped, 0 failed" ] || { cat "$work/$round"; exit 1; }
    done
}

judge "the machines" "$(cut -d: -f2 "$work/address")"
kill "$server"

if [ ! -e .venv/built ]; then
    echo "h2spec: the server itself is SKIPPED: it is not built (make build)" >&2
    exit 0
fi
# serve TARGET SCHEME SERVER'S-OPTION... -- H2SPEC'S-OPTION...
serve() {
    target=$1 scheme=$2 theirs=()
    shift 2
    while [ "$1" != -- ]; do theirs+=("$1"); shift; done
    shift
    mkfifo "$work/ready"
    (cd tests/apps && exec ../../.venv/bin/python -m forehand "$target" --bind "$scheme://127.0.0.1:0" "${theirs[@]}" --workers 0 \
        --lifespan off --ready-fd 3) 3>"$work/ready" 2>"$work/log" >&2 &
    server=$!
    read -r told <"$work/ready" || { cat "$work/log"; exit 1; }
    rm "$work/ready"
    judge "$target at $scheme://" "$(sed -E "s/.*$scheme:\/\/127\.0\.0\.1:([0-9]+).*/\1/" <<<"$told")" "$@"
    kill "$server"
    wait "$server" || true
}

for target in many:application many:app; do
    serve "$target" h2c --
    serve "$target" https --tls-self-signed -- -t -k
done
