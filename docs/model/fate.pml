/*
 * Three rows of one table: poison, which ends the process that runs it, and innocents, which any process can finish.
 * The reaper decides which lost attempts count, and each process which of its claimed rows may run.
 * What each step stands for, what is left out and how to run it: README.md.
 */

#define READY       0
#define IN_PROGRESS 1
#define DONE        2
#define FAILED      3

#define ROWS 3
#define MAX_ATTEMPTS 2
#ifndef MAX_RETURNS
#define MAX_RETURNS 5
#endif
#ifndef POISON
#define POISON 1 /* so many of the rows */
#endif
#ifndef PROCESSES
#define PROCESSES 2 /* at once: another takes the place of each that ends */
#endif

/* The rows. The owner is the process that the token names, 0 is NULL. A note says that the row was lost beside others. */
byte status[ROWS];
byte owner[ROWS];
byte attempts[ROWS];
byte alone[ROWS];
byte together[ROWS];
bool noted[ROWS];

bool poison[ROWS];

/* What a process has done with its rows. */
#define NOTHING  0
#define CLAIMED  1
#define ADMITTED 2
#define WAITS    3 /* until others have been put back */
#define RUNS     4
#define BACK     5 /* is to be put back */

byte id[2];
byte at[2 * ROWS];
bool narrows[2 * ROWS]; /* a suspect for which others make room */
bool reserved[2];       /* the process keeps room for a suspect that it has put back */

#define AT(r)      at[w * ROWS + (r)]
#define NARROWS(r) narrows[w * ROWS + (r)]
#define ANY(s)     (AT(0) == s || AT(1) == s || AT(2) == s)
#define IN_FLIGHT  ((AT(0) != NOTHING) + (AT(1) != NOTHING) + (AT(2) != NOTHING))
#define ANY_READY  (status[0] == READY || status[1] == READY || status[2] == READY)

/* Rows that have lost one or two leases together leave room for all three. */
#define WIDTH(r) ((alone[r] > 0 || together[r] > 2) -> 1 : ROWS)
#ifdef NO_WIDTH
#define SUSPECT(r) false
#else
#define SUSPECT(r) (alone[r] + together[r] > 0)
#endif

#define ALONE(r)  (NARROWS(r) && WIDTH(r) == 1)
#define NARROW    (ALONE(0) || ALONE(1) || ALONE(2) || reserved[w])
#define MAY_CLAIM ((!NARROW || IN_FLIGHT == 0) && !ANY(CLAIMED) && !ANY(WAITS))

#define PICK(is)    if :: is(0) -> n = 0 :: is(1) -> n = 1 :: is(2) -> n = 2 fi
#define IS_READY(r) (status[r] == READY)
#define IS_RUN(r)   (AT(r) == RUNS)
#define IS_BACK(r)  (AT(r) == BACK)

inline leave(r) {
    AT(r) = NOTHING;
    NARROWS(r) = false
}

#ifdef NO_WAIT
#define STAYS true
#else
#define STAYS (!(known && backs)) /* nothing has to be put back before a suspect runs */
#endif

/* admit of workqueue/internal/flow/isolation.go, with claims in the order of the rows. */
inline admit() {
    inflight = IN_FLIGHT - (AT(0) == CLAIMED) - (AT(1) == CLAIMED) - (AT(2) == CLAIMED);
    width = (NARROW -> 1 : ROWS);
    first = true;
    for (n : 0 .. ROWS - 1) {
        if
        :: AT(n) == CLAIMED ->
            own = ((SUSPECT(n) && WIDTH(n) < width) -> WIDTH(n) : width);
            if
#ifdef WAITS_CLAIMED
            :: !backs && inflight >= own && SUSPECT(n) && first ->
                AT(n) = ADMITTED;
                NARROWS(n) = true;
                known = true;
                backs = true
#endif
            :: !backs && inflight < own ->
                AT(n) = ADMITTED;
                inflight++;
                reserved[w] = false;
                if
                :: SUSPECT(n) -> width = own; NARROWS(n) = true; known = true
                :: else
                fi
            :: else ->
                AT(n) = BACK;
                reserved[w] = reserved[w] || (!backs && SUSPECT(n) && first);
                backs = true
            fi;
            first = false
        :: else
        fi
    }
    for (n : 0 .. ROWS - 1) {
        if
        :: AT(n) == ADMITTED && STAYS -> AT(n) = RUNS
        :: AT(n) == ADMITTED && !STAYS -> AT(n) = WAITS
        :: else
        fi
    }
    n = 0; own = 0; inflight = 0; width = 0; first = false; backs = false; known = false
}

/* Its owner's id: one that is in no row, and no process's. */
inline begin_process() {
    id[w] = 0;
    n = 1;
    do
    :: n == id[0] || n == id[1] || n == owner[0] || n == owner[1] || n == owner[2] -> n++
    :: else -> break
    od;
    id[w] = n;
    n = 0
}

proctype Worker(byte w) {
    byte n, one, own, inflight, width;
    bool first, backs, known;

end:
    do
    :: atomic { /* claim.sql: one or more of the rows that are ready */
        MAY_CLAIM && ANY_READY ->
        PICK(IS_READY);
        one = n;
        n = 0;
        do
        :: n < ROWS ->
            if
            :: n == one || IS_READY(n) && !NARROW ->
                status[n] = IN_PROGRESS;
                owner[n] = id[w];
                attempts[n]++;
                noted[n] = false;
                AT(n) = CLAIMED
            :: n != one
            fi;
            n++
        :: else -> break
        od;
        n = 0;
        one = 0
       }
    :: d_step { ANY(CLAIMED) -> admit() }
    :: atomic { /* snooze.sql: the attempt does not count */
        ANY(BACK) ->
        PICK(IS_BACK);
        status[n] = READY;
        owner[n] = 0;
        attempts[n]--;
        leave(n);
        n = 0
       }
    :: d_step { /* turn */
        ANY(WAITS) && !ANY(CLAIMED) && (!NARROW || IN_FLIGHT <= 1) ->
        for (n : 0 .. ROWS - 1) {
            if
            :: AT(n) == WAITS -> AT(n) = RUNS
            :: else
            fi
        }
        n = 0
       }
    :: atomic { reserved[w] && IN_FLIGHT == 0 && !ANY_READY -> reserved[w] = false } /* turn: others have the suspect */
    :: atomic {
        ANY(RUNS) ->
        PICK(IS_RUN);
        if
        :: !poison[n] -> /* ack.sql */
            status[n] = DONE;
            owner[n] = 0;
            leave(n);
            n = 0
        :: poison[n] -> /* the process ends */
            leave(n);
            for (n : 0 .. ROWS - 1) {
#ifndef NO_WIDTH
                assert(!((AT(n) == WAITS || AT(n) == RUNS) && WIDTH(n) == 1)); /* quarantine */
#endif
                leave(n)
            }
            reserved[w] = false;
            begin_process()
        fi
       }
    od
}

#define LOST(r)      (status[r] == IN_PROGRESS && owner[r] != id[0] && owner[r] != id[1])
#define BESIDE(m, n) (m != n && status[m] == IN_PROGRESS && owner[m] == owner[n])

#ifdef NO_RETURN
#define RETURNED false
#endif
#ifdef NO_BOUND
#define RETURNED (shared[n] && alone[n] == 0)
#endif
#ifdef ALONE_RETURNS
#define RETURNED (!shared[n] || together[n] < MAX_RETURNS)
#endif
#ifndef RETURNED
#define RETURNED (shared[n] && alone[n] == 0 && together[n] < MAX_RETURNS)
#endif

/* reap_expired.sql: one or more of the lost rows, since leases end at different times and a call has a limit. */
proctype Reaper() {
    byte n, m, left;
    bool taken[ROWS], shared[ROWS];

end:
    do
    :: atomic {
        LOST(0) || LOST(1) || LOST(2) ->
        PICK(LOST);
        m = n;
        n = 0;
        do
        :: n < ROWS ->
            if
            :: LOST(n) -> taken[n] = true
            :: n != m
            fi;
            n++
        :: else -> break
        od;
        d_step {
            for (n : 0 .. ROWS - 1) {
                if
                :: taken[n] ->
                    shared[n] = noted[n];
                    left = 0;
                    for (m : 0 .. ROWS - 1) {
                        shared[n] = shared[n] || BESIDE(m, n);
                        left = left + (BESIDE(m, n) && !taken[m])
                    }
#ifndef NO_NOTE
                    for (m : 0 .. ROWS - 1) { noted[m] = noted[m] || (left == 1 && BESIDE(m, n) && !taken[m]) }
#endif
                :: else
                fi
            }
            for (n : 0 .. ROWS - 1) {
                if
                :: taken[n] ->
                    if
                    :: RETURNED -> attempts[n]--; status[n] = READY
                    :: !RETURNED && attempts[n] < MAX_ATTEMPTS -> status[n] = READY
                    :: else -> status[n] = FAILED; assert(poison[n])
                    fi;
                    if
                    :: shared[n] && together[n] < MAX_RETURNS -> together[n]++
                    :: !shared[n] && alone[n] < MAX_ATTEMPTS -> alone[n]++
                    :: else
                    fi;
                    owner[n] = 0;
                    noted[n] = false;
                    taken[n] = false;
                    shared[n] = false
                :: else
                fi
            }
            n = 0; m = 0; left = 0
        }
       }
    od
}

init {
    byte n, left = POISON;
    atomic { /* any of them, since claims take rows in their order */
        do
        :: n < ROWS && left > 0 -> poison[n] = true; left--; n++
        :: n < ROWS && ROWS - n > left -> n++
        :: n == ROWS -> break
        od;
        id[0] = ROWS + 1;
        run Worker(0);
        if
        :: PROCESSES > 1 -> id[1] = ROWS + 2; run Worker(1)
        :: else
        fi;
        run Reaper()
    }
}

/* Every row ends: poison has failed, and innocents are done, since the reaper's assertion lets no other row fail. */
ltl settles { <>[] (status[0] > IN_PROGRESS && status[1] > IN_PROGRESS && status[2] > IN_PROGRESS) }
