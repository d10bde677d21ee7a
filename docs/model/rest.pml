/* A subscription with two lanes, whose destination comes and goes, and what is settled ahead of a position: two
 * consumers. docs/model/README.md says what is checked, and which statement each step stands for. */

#ifndef TAKEN
#define TAKEN 2 /* leases that end while their consumer is at work */
#endif
#ifndef REFUSALS
#define REFUSALS 3 /* times that the destination is unavailable */
#endif
#ifndef SILENT
#define SILENT 1 /* probes that are snoozed, and so say nothing */
#endif

#define NOBODY 7

/* Messages 0 and 1 are in the first lane, message 2 is in the second. Masks have a bit of each. */
byte done = 0;  /* what the positions have passed */
byte ahead = 0; /* what is settled behind them */
byte token[2];
bool leased[2];
bool rests[2];  /* the lane has the rest of the subscription */
bool over[2];   /* and somebody may probe */

/* What the checks need to know, and no client sees. */
byte ok = 0;       /* settled */
bool probing[2];
byte taken = TAKEN;
byte refusals = REFUSALS;
byte silent = SILENT;

bool two_probes, two_rests, twice, skipped, stranded;

#define OF(l)      ((l) == 0 -> 3 : 4)
#define LEFT(l)    (OF(l) & ~done)
#define RESTING    (rests[0] || rests[1])
#ifdef TWO_PROBES
#define MAY(l)     (!RESTING || over[0] || over[1])
#else
#define MAY(l)     (!RESTING || (rests[l] && over[l]))
#endif
#define FREE(l)    (!leased[l] && LEFT(l) != 0 && MAY(l))

inline give_back() {
    leased[l] = false;
    token[l] = NOBODY;
    probing[l] = false
}

/* The batch has ended: without messages the lane could not probe. */
inline finish() {
    done = done | OF(l);
    ahead = ahead & ~OF(l);
#ifndef EMPTY_RESTS
    rests[l] = false;
    over[l] = false;
#endif
    give_back()
}

inline check() {
    skipped = (done & ~ok) != 0;
    assert(!skipped)
}

inline forget() {
    rows = 0;
    good = 0;
    l = 0;
    probes = false;
    away = false;
    snoozed = false;
    resting = false
}

active [2] proctype Consumer() {
    byte c = _pid;
    byte l = 0;
    byte rows = 0; /* of the page, handed out */
    byte good = 0; /* handled */
    bool probes = false, away = false, snoozed = false, resting = false;

end_idle:
    /* outbox_log_fetch, under the position's lock. */
    atomic {
        if
        :: FREE(0) -> l = 0
        :: FREE(1) -> l = 1
        fi;
        leased[l] = true;
        token[l] = c;
        probes = RESTING;
#ifdef AHEAD_FORGOTTEN
        rows = LEFT(l);
#else
        rows = LEFT(l) & ~ahead;
#endif
        if
        :: rows == 0 -> finish(); check(); forget(); goto end_idle
        :: else
        fi;
        if
        :: probes && rows == 3 -> rows = 1 /* one message */
        :: else
        fi;
        twice = (rows & ok) != 0;
        assert(!twice);
        probing[l] = probes;
        two_probes = probing[0] && probing[1];
        assert(!two_probes)
    };

    /* Handlers. Those of a page run at once: what is behind a message that is unavailable may have been handled. */
    atomic {
        if
        :: good = rows
        :: refusals > 0 -> refusals--; away = true
        :: refusals > 0 && rows == 3 -> refusals--; away = true; good = 1
        :: refusals > 0 && rows == 3 -> refusals--; away = true; good = 2
        :: probes && silent > 0 -> silent--; good = rows; snoozed = true
        fi
    };

    /* outbox_log_settle: the position, and what is ahead of it. */
    atomic {
        if
        :: !leased[l] || token[l] != c -> forget(); goto end_idle /* lost */
        :: else
        fi;
        ok = ok | good;
        if
        :: !away && rows == 2 -> done = done | 3
        :: !away && rows != 2 -> done = done | rows
        :: away && good == 1 -> done = done | 1
        :: away && good == 2 -> ahead = ahead | 2
        :: away && good == 0
        fi;
#ifdef AHEAD_PASSES
        if
        :: ahead & 2 -> done = done | 3
        :: else
        fi;
#endif
        check();
        if
        :: probes && !away && !snoozed -> /* it has answered */
            rests[0] = false;
            rests[1] = false;
            over[0] = false;
            over[1] = false
        :: probes && snoozed -> over[l] = false /* the first rest begins anew */
        :: else
        fi;
        if
        :: away
        :: !away && (LEFT(l) & ~ahead) == 0 -> finish(); check(); forget(); goto end_idle
        :: !away && (LEFT(l) & ~ahead) != 0 -> give_back(); forget(); goto end_idle /* or goes on */
        fi
    };

    /* outbox_log_unavailable: the lane is given back, and rests if no other does. */
#ifdef NO_REST_LOCK
    resting = RESTING;
#endif
    atomic {
        if
        :: leased[l] && token[l] == c ->
#ifndef NO_REST_LOCK
            resting = RESTING;
#endif
            if
            :: rests[l] || !resting -> rests[l] = true; over[l] = false
            :: else
            fi;
            two_rests = rests[0] && rests[1];
            assert(!two_rests);
            give_back()
        :: else /* lost */
        fi;
        forget()
    };
    goto end_idle
}

/* Rests end, and leases, whether or not their consumers are dead. */
active proctype Clock() {
end_idle:
    do
    :: atomic { rests[0] && !over[0] -> over[0] = true }
    :: atomic { rests[1] && !over[1] -> over[1] = true }
    :: atomic { taken > 0 && leased[0] -> taken--; leased[0] = false; token[0] = NOBODY; probing[0] = false }
    :: atomic { taken > 0 && leased[1] -> taken--; leased[1] = false; token[1] = NOBODY; probing[1] = false }
    od
}

/* When nobody has anything left to do, every message is settled. */
active proctype Rest() {
end:
    do
    :: atomic { timeout -> stranded = ok != 7; assert(!stranded) }
    od
}
