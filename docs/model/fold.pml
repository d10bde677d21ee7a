/*
 * One ordered key: whatever may concern it appends a note, and one folder at a time applies notes. Two writers, two
 * folders, a worker that settles, operators. What each step stands for, what is left out and how to run it: README.md.
 *
 * A process here is one client. Only what is committed is global; whatever is in an atomic block is one statement's
 * snapshot, one row lock or one commit. Between two of them any other process may run for any length of time.
 */

#define ROWS 3

/* States of a row. LIVE is Ready or InProgress and not waiting: retries and expired leases leave it LIVE. */
#define NONE    0
#define WAITING 1
#define LIVE    2
#define DEAD    3 /* a dead letter with policy Block: an obstacle for the rows behind it */
#define ENDED   4 /* done, cancelled, deleted, or a dead letter that is no obstacle */

#define NOBODY 2
#define NO_ROW 3

#ifndef FAULTS
#define FAULTS 1 /* folds that crash or that the server ends */
#endif
#ifndef OPERATORS
#define OPERATORS 1
#endif

byte row[ROWS];
byte seq[ROWS];
bool came[ROWS];    /* it drew its place without the key's turn, so a writer may still hold an earlier one */
bool locked[ROWS];  /* by an operator's transaction or by a fold */
bool changed[ROWS]; /* committed anew since the folder's snapshot, still waiting */
byte next = 1;      /* the sequence */

bool turn = false;   /* of writers: a transaction-level advisory lock */
byte fold = NOBODY;  /* who holds the lock of folders */
byte notes = 0;      /* committed, and not taken by a fold that is still open */
byte noted = 0;      /* whose places these notes carry: a bit of each row that came; and ANEW */
byte bound = 0;      /* what folds know: no row before this place has not ended, unless a note carries its place */
bool asked[2] = true; /* this folder has been woken, or has just been started, and has not yet had the lock */

byte faults = FAULTS;

#ifdef READ_BEFORE_LOCK
byte saw[2]; /* notes in the folder's old snapshot that nobody has taken since */
#endif

/* What the checks need to know, and no client sees: the place of an insert among the commits of all inserts. */
byte commits = 0;
byte nth[ROWS];

#define LIVE_ROWS ((row[0] == LIVE) + (row[1] == LIVE) + (row[2] == LIVE))

#define BEFORE(o, r) (row[o] == DEAD && seq[o] < seq[r])
#define FREE(r)      (row[r] == WAITING && !BEFORE(0, r) && !BEFORE(1, r) && !BEFORE(2, r))
#define STRANDED     (LIVE_ROWS == 0 && (FREE(0) || FREE(1) || FREE(2)))

#define OVERTAKES(r, o) (row[o] == WAITING && nth[o] != 0 && nth[o] < nth[r])

bool two_live;
bool overtaken;
bool stranded;

/* After every commit that lets a row through. */
inline check(r) {
    two_live = LIVE_ROWS > 1;
    assert(!two_live);
    overtaken = OVERTAKES(r, 0) || OVERTAKES(r, 1) || OVERTAKES(r, 2);
    assert(!overtaken)
}

/* A row that comes back may not be the only one: its note says to look at all of them. */
#define ANEW 8

/* A note that becomes visible, and the notification that comes with it. That of a row which waits now carries its place. */
inline arrive(r) {
#ifndef NO_PLACE
    noted = noted | (1 << r);
#endif
    announce()
}

inline again() {
    noted = noted | ANEW;
    announce()
}

inline announce() {
    notes++;
    asked[0] = true;
    asked[1] = true
}

/* A worker promises to fold after its commit, so its notes wake nobody else. */
inline promise(f) {
#ifndef SETTLE_WITHOUT_NOTE
    notes++;
    asked[f] = true
#else
    skip
#endif
}

active [2] proctype Writer() {
    byte r = _pid;
#ifdef LETS_ITSELF_THROUGH
    bool alone;
#endif

    /* The INSERT: it takes the key's turn and draws the place under it. Nobody sees the row and the note yet. */
#ifdef NO_TURN
    atomic {
#else
end_turn:
    atomic { !turn ->
        turn = true;
#endif
#ifdef LETS_ITSELF_THROUGH
        alone = (LIVE_ROWS == 0 && row[0] != WAITING && row[1] != WAITING && row[2] != WAITING);
#endif
        seq[r] = next;
        next++
    }
    if
    :: atomic { /* COMMIT */
        row[r] = WAITING;
        commits++;
        nth[r] = commits;
#ifdef LETS_ITSELF_THROUGH
        if
        :: alone -> row[r] = LIVE; check(r)
        :: !alone -> arrive(r)
        fi
#else
        arrive(r)
#endif
       }
    :: skip /* ROLLBACK */
    :: goto end_open /* the application never ends its transaction: nobody may wait for it but the other writer */
    fi;
    turn = false;
    goto done;

end_open:
    false;
done:
    skip
}

#define NOTED(r) (places & (1 << r))
#define SEEN(r)  (seq[r] >= from)

#define LIVE_SEEN ((row[0] == LIVE && SEEN(0)) || (row[1] == LIVE && SEEN(1)) || (row[2] == LIVE && SEEN(2)))

inline lower(r) {
    if
    :: NOTED(r) && seq[r] < from -> from = seq[r]
    :: else
    fi
}

/* The smallest place among the rows that wait: NO_ROW where the key has a live row, or an obstacle before it. Both are
 * looked for from the known place on, or from an earlier one that a note carries. */
inline look() {
    from = bound;
    lower(0);
    lower(1);
    lower(2);
    if
    :: places & ANEW -> from = 0
    :: else
    fi;
    head = NO_ROW;
    if
    :: row[0] == WAITING && SEEN(0) -> head = 0
    :: else
    fi;
    if
    :: row[1] == WAITING && SEEN(1) && (head == NO_ROW || seq[1] < seq[0]) -> head = 1
    :: else
    fi;
    if
    :: row[2] == WAITING && SEEN(2) && (head == NO_ROW || seq[2] < seq[head]) -> head = 2
    :: else
    fi;
    if
    :: !(places & ANEW) || LIVE_SEEN
    :: else -> from = (head != NO_ROW && seq[head] < bound -> seq[head] : bound)
    fi;
    if
    :: head != NO_ROW && (LIVE_SEEN || !FREE(head)) -> head = NO_ROW
    :: else
    fi;
    changed[0] = false;
    changed[1] = false;
    changed[2] = false
}

#ifdef TWO_FOLDERS
#define LOCK_IS_FREE true
#else
#define LOCK_IS_FREE (fold == NOBODY)
#endif

#ifdef POLL
#define ASKS (notes > 0) /* nobody is told anything, everybody looks from time to time; looking in vain changes nothing */
#else
#define ASKS (asked[f])
#endif

#define LOCKABLE(r) (row[r] == WAITING && !locked[r] && !changed[r])

inline forget() {
    fold = NOBODY;
    taken = 0;
    places = 0;
    from = 0;
    head = NO_ROW;
    mine = false;
    later = false
}

/* The process or its backend dies, or the server ends a fold that takes too long: everything is as before. */
inline crash() {
    faults > 0 ->
#ifndef BOUND_TOO_SHORT
    faults--;
#endif
#ifndef NOTE_DELETED_OUTSIDE
    notes = notes + taken;
    noted = noted | places;
#endif
    if
    :: mine -> locked[head] = false
    :: else
    fi;
    forget();
    asked[f] = true /* the process that takes its place folds when it starts */
}

active [2] proctype Folder() {
    byte f = _pid - 2;
    byte taken = 0;
    byte places = 0; /* that the notes carry which it took */
    byte from = 0;
    byte head = NO_ROW;
    bool mine = false;  /* the head is locked by this fold */
    bool later = false; /* a new note, not committed yet */

end_idle:
#ifdef READ_BEFORE_LOCK
    atomic { ASKS -> look(); saw[f] = notes };
#endif
    if
    :: atomic { ASKS && LOCK_IS_FREE -> /* pg_try_advisory_xact_lock; who fails asks again */
        fold = f;
        asked[f] = false
       }
#ifdef TRY_ONCE
    :: atomic { ASKS && !LOCK_IS_FREE -> asked[f] = false; goto end_idle }
#endif
    fi;

    /* First snapshot: deletes notes, all that it sees or a bounded number. */
    if
#ifdef READ_BEFORE_LOCK
    :: atomic { taken = (saw[f] < notes -> saw[f] : notes); notes = notes - taken; saw[1 - f] = 0 }
#else
    :: atomic { taken = notes; notes = 0; places = noted; noted = 0 }
    :: atomic { notes > 1 -> /* there are more: it will ask again */
        taken = 1;
        notes--;
        asked[f] = true;
        if
        :: skip
        :: places = noted & 1
        :: places = noted & 2
        :: places = noted & 4
        :: places = noted & ANEW
        fi;
        noted = noted - places
       }
#endif
    :: atomic { crash(); goto end_idle }
    fi;

    /* Second snapshot. */
    if
    :: atomic { taken == 0 -> forget(); goto end_idle } /* COMMIT */
#ifdef READ_BEFORE_LOCK
    :: taken > 0
#else
    :: atomic { taken > 0 -> look() }
#endif
    :: atomic { crash(); goto end_idle }
    fi;
#ifdef ENDLESS_FOLD
    if
    :: skip
    :: goto end_open
    fi;
#endif

    /* FOR NO KEY UPDATE SKIP LOCKED, and the UPDATE of what that returned. */
    if
    :: head == NO_ROW
#ifdef FOLD_TAKES_TURN
    :: atomic { head != NO_ROW && LOCKABLE(head) && !turn -> mine = true; locked[head] = true }
#else
    :: atomic { head != NO_ROW && LOCKABLE(head) -> mine = true; locked[head] = true }
#endif
    :: atomic { head != NO_ROW && !LOCKABLE(head) ->
#ifdef SKIPS_HEAD
        if
        :: LOCKABLE(0) -> head = 0; mine = true; locked[0] = true
        :: LOCKABLE(1) -> head = 1; mine = true; locked[1] = true
        :: LOCKABLE(2) -> head = 2; mine = true; locked[2] = true
        :: else -> later = true
        fi
#else
#ifdef NOTE_FOR_LOCKED_ONLY
        later = locked[head]
#else
        later = true
#endif
#endif
       }
    :: atomic { crash(); goto end_idle }
    fi;

    if
    :: atomic { /* COMMIT: the notes are gone, the row is live, the lock is free */
#ifdef BOUND_STAYS
        from = bound;
#endif
        bound = from;
        if
#ifdef COMERS_ARE_KNOWN
        :: mine -> row[head] = LIVE; locked[head] = false; bound = seq[head]; check(head)
#else
        :: mine && !came[head] -> row[head] = LIVE; locked[head] = false; bound = seq[head]; check(head)
#endif
        :: mine -> row[head] = LIVE; locked[head] = false; check(head) /* what is known is not written for each row */
        :: !mine
        fi;
#ifndef NO_RETRY_NOTE
        if
        :: later -> notes++; asked[f] = true /* it knows when the note is due */
        :: else
        fi;
#endif
        forget()
       }
    :: atomic { crash() }
    fi;
    goto end_idle;

#ifdef ENDLESS_FOLD
end_open:
    false
#endif
}

/* A settle is one commit, however long its transaction was open; one that is rolled back is none. */
active proctype Worker() {
    byte r;

end_idle:
    do
    :: atomic { LIVE_ROWS > 0 ->
        r = (row[0] == LIVE -> 0 : (row[1] == LIVE -> 1 : 2));
        if
        :: row[r] = ENDED
        :: row[r] = DEAD
        fi;
        if
        :: promise(0)
        :: promise(1)
        fi;
        r = 0
       }
    :: true -> break /* it stops: a live row may stay so */
    od
}

/* Each does one thing at most. None of them takes a turn. */
active [OPERATORS] proctype Operator() {
    byte r;
    byte place;
    bool drawn = false;

    select(r : 0 .. 2);
end_idle:
    if
    :: atomic { row[r] == WAITING && !locked[r] -> locked[r] = true };
        if
        :: atomic { locked[r] = false } /* looked at it, or rolled back */
        :: atomic { locked[r] = false; changed[r] = true } /* changed it, such as its payload: no note */
        :: atomic { locked[r] = false; row[r] = ENDED; announce() } /* cancelled or deleted it */
        fi
    :: atomic { row[r] == DEAD && !locked[r] -> row[r] = ENDED; announce() } /* deletes a dead letter, or skips it */
    :: atomic { /* redrives a row, or a join releases one: it waits, behind the others or where it was */
        (row[r] == DEAD || row[r] == ENDED || (r == 2 && row[r] == NONE)) && !locked[r] ->
        locked[r] = true;
        if
        :: row[r] != NONE -> place = seq[r]
        :: place = next; next++; drawn = true
        fi
       };
        if
        :: atomic {
            if
            :: row[r] == DEAD && place == seq[r] /* still in its order: it was in the way of all behind it */
            :: else -> nth[r] = 0
            fi;
            row[r] = WAITING;
            seq[r] = place;
            came[r] = came[r] || drawn;
            locked[r] = false;
            if
            :: drawn -> arrive(r)
            :: else -> again()
            fi
           }
        :: atomic { locked[r] = false }
        fi
    fi;
    place = 0;
    drawn = false
}

/* When nobody has anything left to do, no row waits for nothing. */
active proctype Rest() {
end:
    do
    :: atomic { timeout -> stranded = STRANDED; assert(!stranded) }
    od
}

/* And it comes to that: folders do not keep each other busy for ever. */
ltl lets_through { <>[] !STRANDED }
