#!/bin/bash
# Works on txwork.outbox with psql alone: one session of psql as a coprocess, which this shell feeds with statements.
# Environment: DATABASE_URL. ROWS: rows a fetch (20). Ends at SIGTERM after the row in hand, and releases the rest.
: "${DATABASE_URL:?}"
rows=${ROWS:-20} lease=30 process=$((((SRANDOM << 16) ^ SRANDOM) & 0xffffffffffff)) stop= in= out= pid=
((process)) || process=1
cursor=NULL sweep=NULL fold=NULL seq=0 token= ids=() heard=() next_fold=0 next_beat=0 next_maintain=0
export PGCONNECT_TIMEOUT=10 PGAPPNAME="psql_worker $$" PGCLIENTENCODING=UTF8
trap 'stop=1' TERM INT; trap '' PIPE
log() { echo "worker $$: $*" >&2; }
quote() { if [[ $1 == NULL ]]; then q=NULL; else q="'${1//\'/\'\'}'"; fi; }   # into q

# ask STATEMENTS: sends them, and puts the lines of the answer into R, notifications into heard. Fails if psql is gone.
ask() {
    local line end="@$((++seq)) $SRANDOM"
    R=()
    printf '%s\n\\echo :SQLSTATE\n\\echo %s\n' "$1" "$end" 2>/dev/null >&"$in" || return 1
    while IFS= read -r -t 90 -u "$out" line; do
        if [[ $line == "$end" ]]; then state=${R[-1]}; unset 'R[-1]'; return 0; fi
        if [[ ! $line =~ ^'Asynchronous notification "txwork.outbox" '(with payload \"(.*)\" )?'received from' ]]; then R+=("$line"); continue; fi
        heard+=("${BASH_REMATCH[2]}")
        [[ ${BASH_REMATCH[2]} == note:* ]] && next_fold=0
    done
    return 1
}

disconnect() {
    [[ $in ]] && exec {in}>&- {out}<&-
    [[ $pid ]] && { kill -9 "$pid"; wait "$pid"; } 2>/dev/null
    in= out= pid= heard=()
}

connect() {
    disconnect
    coproc P { trap '' TERM INT; exec psql -XqAt -F $'\x1f' -v VERBOSITY=terse -d "$DATABASE_URL"; }
    pid=$P_PID
    exec {out}<&"${P[0]}" {in}>&"${P[1]}" && eval "exec ${P[0]}<&- ${P[1]}>&-" || return 1
    ask "SELECT txwork.require(major => 1, minor => 1, features => '{outbox}');" || return 1
    [[ $state == TXV01 ]] && { log "wrong version"; disconnect; exit 1; }
    ask "BEGIN; SELECT pg_advisory_xact_lock(hashtext('public.handled')); SET LOCAL client_min_messages = warning;
CREATE TABLE IF NOT EXISTS public.handled
    (id uuid, topic text, key text, n int, pid int, at timestamptz DEFAULT clock_timestamp());
COMMIT; LISTEN \"txwork.outbox\";" && [[ $state == 00000 ]] || return 1
    sweep=true next_fold=0 && release
}

release() {   # gives back the rows that have not begun
    local IFS=,
    ((${#ids[@]})) || return 0
    ask "SELECT result FROM txwork.outbox_release('$token', '{${ids[*]}}');" && ids=()
}

# work ID JSON: the effect and the end of the row in one transaction. Fails only if psql is gone.
work() {
    quote "$2"
    for _ in 1 2 3; do
        ask "BEGIN;
INSERT INTO public.handled (id, topic, key, n, pid) SELECT '$1', j->>'topic', j->>'key',
    (convert_from(decode(j->>'payload', 'hex'), 'UTF8')::json->>'n')::int, $$ FROM (SELECT $q::json) AS x (j);
\\set a :SQLSTATE
\\set m :LAST_ERROR_MESSAGE
SELECT txwork.outbox_complete('$token', '$1');
\\set b :SQLSTATE
COMMIT;
\\echo :a :b :SQLSTATE" || return 1
        case "${R[-1]}" in
        "00000 00000 00000" | *TXL01*) return 0 ;;   # done, or rolled back since the row belongs to somebody else
        *40001* | *40P01* | *55P03* | *57014*) ;;   # again
        *) break ;;
        esac
    done
    log "failed $1: ${R[-1]}" && ask "SELECT result FROM txwork.outbox_retry('$token', '{$1}', NULL, error => '${R[-1]} ' || :'m');"
}

round() {   # what is due of beat, maintenance and fold; one fetch and its work; a wait
    local again=1 more=f fetched=$SECONDS line entry id secs m c json=() h=NULL i
    ((SECONDS < next_beat)) || { next_beat=$((SECONDS + 30)); ask "CALL txwork.process_beat(process => $process,
        host => '${HOSTNAME//\'/}', language => 'bash', version => '1', serves => '[{\"table\": \"outbox\"}]');" || return 1; }
    ((SECONDS < next_maintain)) || { next_maintain=$((SECONDS + 20)); ask "CALL txwork.outbox_maintain();" || return 1; }
    if ((SECONDS >= next_fold)); then
        quote "$fold"
        ask "CALL txwork.outbox_fold(cursor => $q);" || return 1
        IFS=$'\x1f' read -r fold _ again _ <<<"${R[-1]}"
        fold=${fold:-NULL} next_fold=$((SECONDS + ${again%%.*} + 1))
    fi
    for i in "${heard[@]}"; do quote "$i"; h+=",$q"; done
    [[ $h == NULL ]] || h="ARRAY[${h#NULL,}]::text[]" heard=()
    ask "SELECT txwork.owner_token(process => $process);" && token=${R[0]} || return 1
    quote "$cursor"
    ask "SELECT entry, id, again_in, more, cursor, json_build_object('topic', topic, 'key', key,
    'payload', encode(payload, 'hex')) FROM txwork.outbox_fetch('$token', '$lease s', $rows, cursor => $q, heard => $h,
    sweep => $sweep) ORDER BY place NULLS LAST;" || return 1
    [[ $state == 00000 ]] || { log "fetch: $state"; read -r -t 1 -u "$out" line; return 0; }
    for line in "${R[@]}"; do
        IFS=$'\x1f' read -r entry id secs m c line <<<"$line"
        if [[ $entry == row ]]; then ids+=("$id") json+=("$line"); else again=$secs more=$m cursor=${c:-NULL} sweep=NULL; fi
    done
    for line in "${json[@]}"; do
        [[ $stop ]] || ((SECONDS - fetched >= lease / 2)) && break
        work "${ids[0]}" "$line" || return 1
        ids=("${ids[@]:1}") next_fold=0 more=t
    done
    release || return 1
    [[ $more == t ]] && return 0
    again=$((SECONDS + (${again%%.*} < 5 ? ${again%%.*} + 1 : 5)))
    while ((!${#heard[@]} && SECONDS < again && SECONDS < next_fold)) && [[ ! $stop ]]; do
        read -r -t 0.2 -u "$out" line   # only sleeps: psql tells of notifications after a statement
        ask "SELECT;" || return 1
    done
}

while [[ ! $stop ]]; do
    if [[ $in ]] && round; then continue; fi
    [[ $in ]] && log "lost psql"
    connect || { log "cannot connect"; disconnect; read -r -t 1 <> <(:); }
done
[[ $in ]] && release || { ((!${#ids[@]})) || connect; }   # connect releases, too
disconnect; log "ended"
