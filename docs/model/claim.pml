/*
 * One row of a work-queue table: two workers, a reaper, an operator, lost messages, stalls and crashes.
 * What each step stands for, what is left out and how to run it: README.md.
 *
 * A process here is one client. Whatever is in an atomic block is one statement of the database on this row;
 * between two of them any other process may run for any length of time, so every stall is among the runs.
 */

#define READY       0
#define IN_PROGRESS 1
#define DONE        2
#define FAILED      3

#define NOBODY  2
#define UNKNOWN 3

#define ACK     0
#define ABANDON 1
#define FAIL    2
#define RELEASE 3

#ifndef MAX_ATTEMPTS
#define MAX_ATTEMPTS 2
#endif
#ifndef FAULTS
#define FAULTS 2 /* claims rolled back and messages lost, all together; crashes and stalls are not counted */
#endif
#ifndef RELEASES
#define RELEASES 1 /* each gives an attempt back, so that without a bound nobody need ever finish */
#endif
#ifndef RENEWALS
#define RENEWALS 1 /* of one claim */
#endif

/* The row. Token 0 is NULL. */
byte status = READY;
byte attempts = 0;
byte token = 0;
bool lease_over = false;
bool cancelled = false;

bool locked = false; /* a claim's transaction is open on the row */

byte faults = FAULTS;
byte releases = RELEASES;

/* What the checks need to know, and no client sees. */
byte current = NOBODY; /* the worker whose claim is the row's, also where it knows of it no more */
byte counted = 0;      /* claims since the row was last made ready from the start, less the released ones */
byte terminals = 0;    /* terminal transitions since then */

/* Of each worker: the token that it would name, 0 where it has no claim; and whether its handler runs. */
byte mine[2];
bool runs[2];

/* The guards, and what the broken variants make of them. */

#ifdef NO_TOKEN
#define SAME(w) true
#else
#define SAME(w) (token == mine[w])
#endif

#define HELD(w) (status == IN_PROGRESS && SAME(w))

#ifdef ATTEMPT_AS_TOKEN
#define NEW_TOKEN (attempts + 1)
#endif
#ifdef TOKEN_PER_PROCESS
#define NEW_TOKEN 1 /* both workers are handlers of one process */
#endif
#ifndef NEW_TOKEN
/* One that is neither in the row nor in anybody's hands: which has been used before, nobody can tell. */
#define USED(t)   (t == token || t == mine[0] || t == mine[1])
#define NEW_TOKEN (!USED(1) -> 1 : (!USED(2) -> 2 : (!USED(3) -> 3 : 4)))
#endif

#ifdef UNGUARDED_REAPER
#define REAPABLE true
#else
#define REAPABLE (status == IN_PROGRESS && lease_over)
#endif

#define SPENT (attempts >= MAX_ATTEMPTS || cancelled)

/* I3, I5 and I6, after every change of the row. */
inline check() {
    assert(!(mine[0] != 0 && mine[1] != 0 && HELD(0) && HELD(1)));
    assert(terminals <= 1);
    assert(attempts <= MAX_ATTEMPTS);
    assert(attempts == counted)
}

inline end_as(s) {
    status = s;
    terminals++;
    lease_over = false;
    current = NOBODY
}

inline again() {
    status = READY;
    lease_over = false;
    current = NOBODY
}

/* retry_or_fail.sql: the one place that decides. */
inline retry_or_fail() {
    if
    :: SPENT -> end_as(FAILED)
    :: else -> again()
    fi
}

inline forget(w) {
    if
    :: current == w -> current = UNKNOWN
    :: else
    fi;
    mine[w] = 0;
    runs[w] = false;
    changed = false;
    renewals = 0;
    want = ACK
}

/* A settle's UPDATE found its row. I4: nobody but the holder of the current claim gets here. */
inline settle(w, want) {
    assert(current == w);
#ifdef COUNT_AT_FAILURE
    if
    :: want == ABANDON -> attempts++; counted++
    :: else
    fi;
#endif
    if
    :: want == ACK -> end_as(DONE)
    :: want == FAIL -> end_as(FAILED)
    :: want == ABANDON -> retry_or_fail()
    :: want == RELEASE && cancelled -> end_as(FAILED)
    :: want == RELEASE && !cancelled -> again();
#ifndef COUNT_AT_FAILURE
        attempts--; counted--
#endif
    fi;
    changed = true;
    check()
}

/* claimref.go: where the row still carries the token, in a state that the settle leads to, it was applied before. */
#define APPLIED(w, want) (SAME(w) && ((want == ACK && status == DONE) || (want == FAIL && status == FAILED) || \
    ((want == ABANDON || want == RELEASE) && (status == READY || status == FAILED))))

active [2] proctype Worker() {
    byte w = _pid;
    byte want = ACK;
    byte renewals = 0;
    bool changed = false; /* some UPDATE of this claim's settle has changed the row */

    /* claim.sql: skips a row that somebody has locked. Nobody else sees the claim before its commit. */
end_idle:
    atomic {
        status == READY && !locked ->
        locked = true;
        mine[w] = NEW_TOKEN;
        renewals = RENEWALS;
#ifdef DISPATCH_BEFORE_COMMIT
        runs[w] = true;
#endif
    }
    if
    :: atomic { /* COMMIT */
        locked = false;
        status = IN_PROGRESS;
        token = mine[w];
        current = w;
        lease_over = false;
#ifndef COUNT_AT_FAILURE
        attempts++;
        counted++;
#endif
        check()
       }
    :: atomic { /* the transaction fails, or its client dies and the server rolls it back */
        faults > 0 ->
        faults--;
        locked = false;
        assert(!runs[w]); /* a handler runs under a claim that never was */
        forget(w);
        goto end_idle
       }
    fi;
    if
    :: skip
    :: atomic { /* the reply to COMMIT is lost: claimed, and nobody knows */
        faults > 0 ->
        faults--;
        forget(w);
        goto end_idle
       }
    fi;
    runs[w] = true;

working:
    if
    :: atomic { renewals > 0 -> renewals-- }; /* extend.sql */
        if
        :: atomic { HELD(w) -> assert(current == w); lease_over = false; check() }; goto working
        :: atomic { !HELD(w) -> forget(w); goto end_idle } /* told that the lease is lost: the handler is cancelled */
        fi
    :: want = ACK
    :: want = ABANDON
    :: want = FAIL
    :: atomic { releases > 0 -> releases--; want = RELEASE }
    :: atomic { forget(w); goto end_idle } /* the process dies, and another takes its place */
    fi;

settling:
    if
    :: atomic { HELD(w) -> settle(w, want) } /* ack.sql, abandon.sql, fail.sql, snooze.sql; the reply is under way */
    :: atomic { !HELD(w) -> skip }           /* nothing was changed: classify.sql asks why */
        if
        :: atomic { APPLIED(w, want) -> assert(changed) } /* I4: told success only of what it did itself */
        :: atomic { !APPLIED(w, want) -> forget(w); goto end_idle } /* told ErrLeaseLost */
        fi
    :: atomic { forget(w); goto end_idle }       /* the process dies before it sends */
    fi;
    if
    :: atomic { faults > 0 -> faults--; goto settling } /* the reply is lost: settled again */
    :: atomic { forget(w); goto end_idle }
    fi
}

/* The database's clock: a lease ends at any time after it began. */
active proctype Clock() {
end:
    do
    :: atomic { status == IN_PROGRESS && !lease_over -> lease_over = true }
    od
}

#ifndef NO_REAPER
/* reap_expired.sql: finds the row in its snapshot, and looks at it again once it has it locked. */
active proctype Reaper() {
end:
    do
    :: status == IN_PROGRESS && lease_over && !locked;
        if
        :: atomic { REAPABLE && !locked ->
            assert(status == IN_PROGRESS && lease_over); /* I5, and no live lease is taken away */
            retry_or_fail();
            token = 0;
            check()
           }
        :: atomic { !REAPABLE -> skip }
        fi
    od
}
#endif

/* Somebody who cancels and redrives, each at most once, at any time or never. */
active proctype Operator() {
    if
    :: skip
    :: atomic { /* cancel.sql */
        (status == READY || status == IN_PROGRESS) && !cancelled && !locked ->
        cancelled = true;
        if
        :: status == READY -> token = 0; end_as(FAILED)
        :: else
        fi;
        check()
       }
    fi;
    if
    :: skip
    :: atomic { /* redrive.sql */
        status == FAILED && !locked ->
        again();
        attempts = 0;
        counted = 0;
        terminals = 0;
        token = 0;
        cancelled = false;
        check()
       }
    fi;
    do
    :: true -> true /* time goes on: a row that nobody touches any more is a run for ever, which settles has to judge */
    od
}

/* Once the faults stop, the row ends, and stays so. */
ltl settles { <>[] (status == DONE || status == FAILED) }
