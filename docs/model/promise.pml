/* Who wakes the relays of a log: a message that was announced, two transactions that write one each, two relays of one
 * subscription each, a tick of maintenance, and a listener that is cut off. docs/model/README.md says what is checked,
 * and which statement each step stands for. */

#ifndef DEATHS
#define DEATHS 1 /* relays that die */
#endif
#ifndef STOPS
#define STOPS 1 /* relays that stop */
#endif
#ifndef CUTS
#define CUTS 1 /* times that a listener loses its connection */
#endif
#define CLOCK     2 /* a promise is for one step of the clock */
#define PRODUCERS 2
#define NOBODY    2
#define BIT(t)    (1 << t)

byte now = 0;

/* The lock of the tickers, and that of silent transactions: a bit of each that has it shared. */
bool ticking = false;
bool exclusive = false;
byte shared = 0;

/* Messages, with a bit of each. The last one is there at the beginning, and both relays have been told. */
byte committed = BIT(PRODUCERS);
byte silent = 0; /* they were not announced */

/* The newest tick: what its snapshot saw, until when producers are silent, and who has promised to tick again. */
byte seen = 0;
byte until = 0;
byte keeper = NOBODY;

/* Relays: what they have been told to do. */
bool hears[2] = true;
bool ticks[2] = true;
bool fetches[2];
bool lives[2] = true;
bool behind[2]; /* a tick has seen what the subscription has not fetched */

byte deaths = DEATHS;
byte stops = STOPS;
byte cuts = CUTS;
byte excused = 0; /* of the messages, those that may wait for a poll */
bool died = false;  /* somebody who had promised to tick */
bool stranded;

#define NEWS     ((committed & ~seen) != 0)
#define MAX(a,b) ((a) > (b) -> (a) : (b))

active [PRODUCERS] proctype Producer() {
    byte t = _pid;
    byte u;

    /* The guard. What it has read of the newest tick may be old when it goes on: so it may be that of a snapshot from
     * long before. */
    u = (until > now -> until : 0);
#ifdef STALE_PROMISE
    atomic { u = (u > now -> CLOCK + 1 : 0) };
#endif
#ifndef NO_LOCK
    atomic {
        if
        :: u <= now || exclusive -> u = 0
        :: else -> shared = shared | BIT(t)
        fi
    };
#endif
    atomic {
        if
        :: u > now -> silent = silent | BIT(t)
        :: else
        fi;
        u = 0
    };

    if
    :: atomic { /* COMMIT: the message is visible, and relays that listen are told */
        committed = committed | BIT(t);
        if
        :: !(silent & BIT(t)) ->
            ticks[0] = ticks[0] || hears[0] && lives[0];
            ticks[1] = ticks[1] || hears[1] && lives[1]
        :: else
        fi
       }
    :: t == 0 -> goto end_open /* the application never ends its transaction */
    fi;
    shared = shared & ~BIT(t); /* locks go after visibility */
    goto done;

end_open:
    false;
done:
    skip
}

/* The lock of silent transactions is tried when the promise is over. Who gets it has it until the tick ends. */
inline try_lock() {
    expects = true;
    if
    :: until > now
#ifdef FORGETS_OPEN
    :: else -> expects = false
#else
    :: until <= now && shared != 0
    :: until <= now && shared == 0 -> exclusive = true; expects = false
#endif
    fi
}

inline announce() {
    behind[0] = true;
    behind[1] = true;
    fetches[me] = lives[me];
#ifndef TICK_UNTOLD
    fetches[1 - me] = fetches[1 - me] || hears[1 - me] && lives[1 - me]
#endif
}

inline unlock() {
    ticking = false;
    exclusive = false;
    snapshot = 0;
    expects = false
}

/* A relay keeps its promise while it would find something, or would find that it need not: looking in vain changes
 * nothing. One that stops only does this. */
#define ENDS     (until <= now && shared == 0 || keeper != me)
#define TICKS    (keeps && (NEWS || ENDS) || lives[me] && ticks[me] || POLLS)
#ifdef POLL
#define POLLS    (lives[me] && NEWS)
#define LOOKS    (lives[me] && behind[me])
#else
#define POLLS    false
#define LOOKS    false
#endif

inline die() {
    me == 0 && deaths > 0 && (lives[me] || keeps) ->
    deaths--;
    lives[me] = false;
    died = died || keeps;
    keeps = false;
    ticks[me] = false;
    fetches[me] = false
}

active [2] proctype Relay() {
    byte me = _pid - PRODUCERS;
    bool keeps = false; /* it has a promise to keep */
    byte snapshot;
    bool expects;

end_idle:
    if
    :: atomic { /* outbox_log_tick */
        TICKS && !ticking ->
        ticking = true;
        ticks[me] = false;
#ifdef LOCK_LAST
        snapshot = committed
#else
        try_lock()
#endif
       }
    :: atomic { lives[me] && fetches[me] || LOOKS -> fetches[me] = false; behind[me] = false; goto end_idle }
    :: atomic { me == 0 && stops > 0 && lives[me] ->
        stops--;
        lives[me] = false;
        ticks[me] = false;
        fetches[me] = false;
        goto end_idle
       }
    :: atomic { die(); goto end_idle }
    fi;

#ifdef LOCK_LAST
    atomic { try_lock() };
#else
    snapshot = committed;
#endif
    if
    :: atomic { die(); unlock(); goto end_idle } /* it is rolled back */
    :: atomic {
        if
        :: (snapshot & ~seen) != 0 ->
            seen = snapshot;
#ifdef SHORTENED
            until = (lives[me] -> now + 1 : now);
#else
            until = MAX(until, (lives[me] -> now + 1 : now));
#endif
            keeper = me;
            keeps = true;
            announce()
        :: else ->
            if
            :: !expects || keeper != me -> keeps = false
            :: else
            fi
        fi;
        unlock()
       }
    fi;
    goto end_idle
}

/* A tick that promises nothing. */
active proctype Maintenance() {
    if
    :: atomic { NEWS && !ticking ->
        seen = committed;
#ifdef HIDES_PROMISE
        until = 0;
        keeper = NOBODY;
#endif
        behind[0] = true;
        behind[1] = true;
        fetches[0] = fetches[0] || hears[0] && lives[0];
        fetches[1] = fetches[1] || hears[1] && lives[1]
       }
    :: skip
    fi
}

active proctype Clock() {
    do
    :: atomic { now < CLOCK -> now++ }
    :: now == CLOCK -> break
    od
}

/* A listener is cut off, and looks for what it has missed once it listens again. */
active proctype Network() {
    if
    :: atomic { cuts > 0 -> cuts--; hears[1] = false }
    :: skip -> goto done
    fi;
#ifdef LOOKS_FIRST
    atomic { ticks[1] = true; fetches[1] = true };
    hears[1] = true;
#else
    atomic { hears[1] = true; ticks[1] = true; fetches[1] = true };
#endif
done:
    skip
}

/* When nobody has anything left to do, each relay that lives has fetched what was committed. */
#define LOST(r)  (lives[r] && (behind[r] || (committed & ~seen & ~excused) != 0))

active proctype Rest() {
end:
    do
    :: atomic { timeout ->
#ifndef POLL
        excused = (died -> silent : 0);
#endif
        stranded = LOST(0) || LOST(1);
        assert(!stranded)
       }
    od
}
