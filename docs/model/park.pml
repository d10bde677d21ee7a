/* The messages of one ordered key in one lane of a log: two consumers, the core's worker, which runs those that were
 * parked, and an operator. docs/model/README.md says what is checked, and which statement each step stands for. */

#ifndef TAKEN
#define TAKEN 2 /* times that a page is taken from a consumer, because its lease has ended */
#endif
#ifndef FAILURES
#define FAILURES 3 /* of handlers, by whomever they are called */
#endif

#define MESSAGES 3
#define ALL      7
#define NOBODY   7
#define BIT(m)   (1 << m)
#define BELOW(m) (BIT(m) - 1)

/* Rows of parked messages. */
mtype = { NONE, READY, RUNNING, DONE, DEAD, DISCARDED };
mtype row[MESSAGES] = NONE;

/* The position: messages below done are settled; those below page are in hand. */
byte done = 0;
byte page = 0;
byte withheld = 0;
byte token = NOBODY;
bool leased = false;

/* What the checks need to know, and no client sees. */
byte ok = 0; /* ended: settled as handled, or its row has ended */
byte taken = TAKEN;
byte failures = FAILURES;

bool skipped, twice, overtaken, stranded;

#define UNFINISHED(m)     (row[m] == READY || row[m] == RUNNING)
#ifdef DEAD_IS_PASSED
#define BLOCKS(m)         UNFINISHED(m)
#else
#define BLOCKS(m)         (UNFINISHED(m) || row[m] == DEAD)
#endif
#define BLOCKED           (BLOCKS(0) || BLOCKS(1) || BLOCKS(2))

/* Before message m is handled, all before it have ended. */
inline begin(m, known) {
    overtaken = (BELOW(m) & ~(ok | known)) != 0;
    assert(!overtaken)
}

/* What the position passes, and nobody has handled or parked. */
#define LOST(m) (row[m] == NONE && !(ok & BIT(m)) && upto > m)

/* The INSERT of a row. */
inline park(m) {
    twice = row[m] != NONE || ok & BIT(m);
    assert(!twice);
    row[m] = READY
}

inline forget() {
    rows = 0;
    good = 0;
    bad = NOBODY;
    upto = 0;
    m = 0;
    blocked = false
}

active [2] proctype Consumer() {
    byte c = _pid;
    byte rows = 0;     /* of the page, handed out and not yet handled */
    byte good = 0;     /* handled without an error */
    byte bad = NOBODY; /* the one that failed */
    byte upto = 0;     /* all below it were handled, or are to be parked */
    byte m = 0;
    bool blocked = false;

end_idle:
#ifdef CHECK_BEFORE_LOCK
    atomic { done < MESSAGES; blocked = BLOCKED };
#endif
    /* outbox_log_fetch: under the position's lock. */
    atomic {
        if
        :: token == c && leased
        :: !(token == c && leased) && !leased && done < MESSAGES -> token = c; page = 0; withheld = 0
        :: !(token == c && leased) && leased && taken > 0 -> taken--; token = c; page = 0; withheld = 0
        fi;
        leased = true;
        if
        :: page == 0 ->
            if
            :: page = done + 1
            :: page = MESSAGES
            fi;
#ifndef CHECK_BEFORE_LOCK
            blocked = BLOCKED;
#endif
            withheld = (blocked -> (BIT(page) - 1) & ~BELOW(done) : 0)
        :: page != 0 /* the page in hand, again */
#ifdef FORGETS_REST
            -> withheld = 0
#endif
        fi;
        rows = (BIT(page) - 1) & ~BELOW(done) & ~withheld;
        twice = (rows & ok) != 0;
        assert(!twice);
        m = done;
        upto = done;
        good = 0;
        bad = NOBODY
    };

    /* Handlers, in order. What comes behind a failure is not handled. A consumer may settle a part of the page. */
    do
    :: m < page -> atomic {
        if
        :: rows & BIT(m) ->
            if
            :: token == c && leased -> begin(m, good)
            :: else /* its lease has ended, so it may repeat what another has done, or will do */
            fi;
            if
            :: good = good | BIT(m)
            :: failures > 0 -> failures--;
                bad = m;
#ifndef HANDLES_REST
                rows = 0
#endif
            fi
        :: else
        fi;
        m++;
        upto = m
       }
    :: upto > done -> break
    :: atomic { forget(); goto end_idle } /* it dies, or forgets the page */
    od;

    /* outbox_log_settle: position and rows in one transaction, the position locked first. */
#ifdef PARKS_FIRST
    atomic {
        if
        :: token == c && leased && bad != NOBODY && bad >= done -> park(bad)
        :: else
        fi
    };
    if
    :: skip
    :: atomic { taken > 0 -> forget(); goto end_idle } /* it dies in between */
    fi;
#endif
    atomic {
        if
#ifdef UNFENCED
        :: leased ->
#else
        :: token == c && leased ->
#endif
            if
            :: upto > done && upto <= page ->
#ifdef CHECK_AT_SETTLE
                withheld = (BLOCKED -> withheld : 0);
#endif
                m = done;
                do
                :: m < page ->
                    if
                    :: m < upto && (withheld & BIT(m)) ->
#if !defined(SETTLES_FIRST)
                        park(m)
#endif
                    :: m < upto && !(withheld & BIT(m)) && bad != NOBODY && m == bad ->
#if !defined(SETTLES_FIRST) && !defined(PARKS_FIRST)
                        park(m)
#endif
                    :: m < upto && !(withheld & BIT(m)) && bad != NOBODY && m > bad ->
#if !defined(SETTLES_FIRST) && !defined(PARKS_ONE)
                        park(m)
#endif
                    :: m < upto && !(withheld & BIT(m)) && (bad == NOBODY || m < bad) ->
#ifndef CHECK_AT_SETTLE
                        if
                        :: good & BIT(m) -> ok = ok | BIT(m)
                        :: else
                        fi
#else
                        ok = ok | (good & BIT(m))
#endif
                    :: m >= upto -> /* the rest of the key in the page is withheld from now on */
                        if
                        :: bad != NOBODY -> withheld = withheld | BIT(m)
                        :: else
                        fi
                    fi;
                    m++
                :: else -> break
                od;
#ifndef SETTLES_FIRST
                skipped = LOST(0) || LOST(1) || LOST(2);
                assert(!skipped);
#endif
                done = upto;
                if
                :: done >= page -> page = 0; withheld = 0; leased = false
                :: else
                fi
            :: else /* repeated */
            fi
        :: else -> forget(); goto end_idle /* lost */
        fi
    };
#ifdef SETTLES_FIRST
    if
    :: atomic {
        m = 0;
        do
        :: m < upto ->
            if
            :: bad != NOBODY && m >= bad && row[m] == NONE && !(ok & BIT(m)) -> park(m)
            :: else
            fi;
            m++
        :: else -> break
        od
       }
    :: taken > 0 /* it dies in between */
    fi;
#endif
    atomic { forget(); goto end_idle }
}

/* Rows are run as those of any ordered key: fold.pml has how. */
#define BEFORE(m) ((m > 0 && BLOCKS_ROW(0)) || (m > 1 && BLOCKS_ROW(1)))
#define BLOCKS_ROW(o) (UNFINISHED(o) || row[o] == DEAD)
#define RUNNABLE(m) (row[m] == READY && !BEFORE(m))

active proctype Core() {
    byte m;

end_idle:
    atomic {
        if
        :: RUNNABLE(0) -> m = 0
        :: RUNNABLE(1) -> m = 1
        :: RUNNABLE(2) -> m = 2
        fi;
        begin(m, 0);
        row[m] = RUNNING
    };
    atomic {
        if
        :: row[m] = DONE; ok = ok | BIT(m)
        :: failures > 0 -> failures--; row[m] = READY
        :: failures > 0 -> failures--; row[m] = DEAD
        fi;
        m = 0
    };
    goto end_idle
}

/* Redrives or discards a dead letter, once. */
active proctype Operator() {
    byte m;

end_idle:
    atomic {
        if
        :: row[0] == DEAD -> m = 0
        :: row[1] == DEAD -> m = 1
        :: row[2] == DEAD -> m = 2
        fi;
        if
        :: row[m] = READY
        :: row[m] = DISCARDED; ok = ok | BIT(m)
        fi;
        m = 0
    }
}

#define STUCK(m) (!(ok & BIT(m)) && row[m] != DEAD && !BEFORE(m))

/* When nobody has anything left to do, every message has ended, but for dead letters and what waits behind them. */
active proctype Rest() {
end:
    do
    :: atomic { timeout -> stranded = STUCK(0) || STUCK(1) || STUCK(2); assert(!stranded) }
    od
}
