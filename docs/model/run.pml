/*
 * Four rows of one ordered key, which two workers take as runs. Leases end at any time, and handlers fail.
 * What each step stands for, what is left out and how to run it: README.md.
 */

#define ROWS 4

/* States of a row. A fold makes the first row that waits READY if none is READY or RUNS. */
#define NONE  0 /* not committed yet */
#define WAITS 1
#define READY 2
#define RUNS  3
#define DONE  4

/*
 * The rows in the order of their places. Row 1 has come by a join: it drew its place without the turn of the key's
 * writers, while row 0 was written and not committed. Row 2 could draw its place only after the commit of row 0.
 */
byte status[ROWS];
byte token[ROWS]; /* 0 is NULL */
bool noted[ROWS]; /* the lease was lost beside others of its run */
bool stray[ROWS]; /* in progress, and the worker does not know */
byte next = 1;    /* a fresh token */

#ifndef LOSSES
#define LOSSES 2
#endif
#ifndef FAILURES
#define FAILURES 1
#endif
byte losses = LOSSES;
byte failures = FAILURES;
byte replies = 1; /* that are lost */
byte charged[24]; /* rows of a claim whose lost lease counted */

#define LIVE(r)   (status[r] == READY || status[r] == RUNS)
#define ANY_LIVE  (LIVE(0) || LIVE(1) || LIVE(2) || LIVE(3))
#define FIRST     (status[0] == WAITS -> 0 : (status[1] == WAITS -> 1 : (status[2] == WAITS -> 2 : 3)))

/* Row o comes before row r by the order of commits, and has not ended. */
#define BEFORE(o, r) ((o) < (r) && (o) != 1 && (r) != 1 && status[o] != DONE)
#define OVERTAKES(r) (BEFORE(0, r) || BEFORE(1, r) || BEFORE(2, r))

bool two_tokens;
bool overtaken;
bool no_prefix;
bool all_charged;
bool stranded;

#define DIFFER(a, b) (status[a] == RUNS && status[b] == RUNS && token[a] != token[b])
#define STARTS(r)    (status[r] == RUNS && (BEHIND(r, 0) || BEHIND(r, 1) || BEHIND(r, 2)))
#define BEHIND(r, o) ((o) < (r) && (o) != 1 && (r) != 1 && (status[o] == WAITS || status[o] == READY))

/* After every claim: rows in progress have one token, and what comes before them is in progress or has ended. */
inline claimed() {
    two_tokens = DIFFER(0, 1) || DIFFER(0, 2) || DIFFER(0, 3) || DIFFER(1, 2) || DIFFER(1, 3) || DIFFER(2, 3);
    assert(!two_tokens);
    overtaken = STARTS(1) || STARTS(2) || STARTS(3);
    assert(!overtaken)
}

#define MINE(r) (status[r] == RUNS && token[r] == own)

inline finish(r) {
    status[r] = DONE;
    no_prefix = OVERTAKES(r);
    assert(!no_prefix)
}

active proctype Writers() {
    atomic { status[1] = WAITS; status[0] = NONE };
    atomic { status[0] = WAITS };
    atomic { status[2] = WAITS };
    atomic { status[3] = WAITS }
}

active proctype Folder() {
end:
    do
    :: atomic { !ANY_LIVE && status[0] == WAITS -> status[0] = READY }
    :: atomic { !ANY_LIVE && FIRST == 1 && status[1] == WAITS -> status[1] = READY }
    :: atomic { !ANY_LIVE && FIRST == 2 && status[2] == WAITS -> status[2] = READY }
    :: atomic { !ANY_LIVE && FIRST == 3 && status[3] == WAITS -> status[3] = READY }
    od
}

#ifdef HEAD_UNLOCKED
#define HELD true
#else
#define HELD MINE(head)
#endif

#ifdef TAKEN_AGAIN
#define ALONE true
#else
#define ALONE (!(head != 0 && LIVE(0)) && !(head != 1 && LIVE(1)) && !(head != 2 && LIVE(2)) && !(head != 3 && LIVE(3)))
#endif

#ifdef FROM_THE_HEAD
#define NOBODY_BEFORE true
#else
#define NOBODY_BEFORE (FIRST > head)
#endif

active [2] proctype Worker() {
    byte own;   /* the token */
    byte head;
    byte mine;  /* the rows that it knows of: a bit each */
    byte r;
    bool lost; /* the reply to the run */
    bool stop;
    bool fails;

end:
    do
    :: atomic { status[0] == READY || status[1] == READY || status[2] == READY || status[3] == READY ->
        if
        :: status[0] == READY -> head = 0
        :: status[1] == READY -> head = 1
        :: status[2] == READY -> head = 2
        :: status[3] == READY -> head = 3
        fi;
        own = next;
        next++;
        status[head] = RUNS;
        token[head] = own;
        noted[head] = false;
        mine = 1 << head;
        claimed()
       };
        /* The run: any number of the rows that follow. If its reply is lost, the head goes back. */
        do
        :: atomic { HELD && ALONE && NOBODY_BEFORE && status[FIRST] == WAITS ->
            if
            :: replies > 0 -> replies--; lost = true
            :: skip
            fi;
            r = head + 1;
            do
            :: r < ROWS && status[r] == DONE -> r++
            :: r < ROWS && status[r] == WAITS ->
                status[r] = RUNS;
                token[r] = own;
                noted[r] = false;
                if
                :: lost -> stray[r] = true
                :: else -> mine = mine | (1 << r)
                fi;
                r++;
                if
                :: break
                :: skip
                fi
            :: else -> break
            od;
            r = 0;
            claimed();
#ifdef TAKEN_AGAIN
            if
            :: lost -> lost = false
            :: else -> break
            fi
#else
            break
#endif
           }
        :: break
        od;
        /* It works, however long: leases may end meanwhile. Then it settles, in one transaction. */
        atomic {
#ifdef LOST_GOES_ON
            stop = false;
#else
            stop = lost;
#endif
            for (r : 0 .. ROWS - 1) {
                if
                :: mine & (1 << r) ->
                    fails = false;
                    if
                    :: !stop && failures > 0 && MINE(r) -> fails = true; failures--
                    :: skip
                    fi;
                    if
#ifdef NO_PREFIX
                    :: MINE(r) && !fails -> finish(r)
#else
                    :: MINE(r) && !fails && !stop -> finish(r)
#endif
                    :: MINE(r) && fails -> status[r] = READY
#ifndef NO_PREFIX
                    :: MINE(r) && !fails && stop ->
#ifdef BACK_IS_READY
                        status[r] = READY
#else
                        status[r] = WAITS
#endif
#endif
                    :: else
                    fi;
                    stop = stop || status[r] != DONE
                :: else
                fi
            }
            own = 0;
            head = 0;
            mine = 0;
            r = 0;
            stop = false;
            lost = false;
            fails = false
        }
    od
}

/*
 * Leases end at any time, of any rows: so often by the choice of the model, and always of rows that no worker knows of.
 * A call of the reaper takes one row; the next takes another.
 */
#define BESIDE(o)  (o != r && status[o] == RUNS && token[o] == token[r])
#define EXPIRES(r) (status[r] == RUNS && (losses > 0 || stray[r]))

inline note(o) {
    if
    :: BESIDE(o) -> noted[o] = true
    :: else
    fi
}

active proctype Reaper() {
    byte r;

end:
    do
    :: atomic { EXPIRES(0) || EXPIRES(1) || EXPIRES(2) || EXPIRES(3) ->
        if
        :: EXPIRES(0) -> r = 0
        :: EXPIRES(1) -> r = 1
        :: EXPIRES(2) -> r = 2
        :: EXPIRES(3) -> r = 3
        fi;
        if
        :: !stray[r] -> losses--
        :: else
        fi;
        stray[r] = false;
#ifndef COUNTS_ALL
        if
        :: noted[r] || BESIDE(0) || BESIDE(1) || BESIDE(2) || BESIDE(3) -> note(0); note(1); note(2); note(3)
        :: else -> charged[token[r]]++
        fi;
#else
        charged[token[r]]++;
#endif
        all_charged = charged[token[r]] > 1;
        assert(!all_charged);
        token[r] = 0;
#ifdef REAPED_IS_READY
        status[r] = READY;
#else
        status[r] = WAITS;
#endif
        r = 0
       }
    od
}

/* When nobody has anything left to do, every row has ended. */
#define STRANDED (status[0] != DONE || status[1] != DONE || status[2] != DONE || status[3] != DONE)

active proctype Rest() {
end_rest:
    do
    :: atomic { timeout -> stranded = STRANDED; assert(!stranded) }
    od
}
