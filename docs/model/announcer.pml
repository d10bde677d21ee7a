/*
 * One table's notifications: producers that stay silent while an announcer is awake. Three producers, two processes that
 * may become announcer. What each step stands for, what is left out and how to run it: README.md.
 *
 * A process here is one client. Only what is committed and the lock table are global; whatever is in an atomic block is
 * one lock operation, one snapshot or one commit. Between two of them any other process may run for any length of time.
 */

#define ROWS       3
#define ANNOUNCERS 2
#define NOBODY     2

#ifndef FAULTS
#define FAULTS 1 /* announcers that die, or freeze until the server ends their session */
#endif
#ifndef WAKES
#define WAKES 2 /* times that somebody becomes announcer, the same process or another */
#endif

/* The lock table. K has one exclusive holder: the announcer that is awake. F has shared holders, and everybody can see
 * who they are: producers that may be silent. */
byte k = NOBODY;
bool f[ROWS];

bool visible[ROWS];
bool told[ROWS];   /* a notification was sent when the row was visible, or with it: listeners will look */
bool silent[ROWS]; /* the producer has decided to send none */

/* A crash may cost a poll: to the rows whose producers were silent by then, and to no other. */
bool excused[ROWS];
byte faults = FAULTS;
byte wakes = WAKES;

bool stranded;

#define LOST(r)  (visible[r] && !told[r] && !excused[r])
#define STRANDED (LOST(0) || LOST(1) || LOST(2))

inline excuse(r) {
    if
    :: silent[r] && !told[r] -> excused[r] = true
    :: else
    fi
}

#ifdef QUEUES_FOR_K
byte k_waiting = 0; /* a try fails on a waiting request, too */
#else
#define k_waiting 0
#endif

#define K_IS_HELD (k != NOBODY || k_waiting > 0)

active [ROWS] proctype Producer() {
    byte r = _pid;

    /* The trigger. Each test of K is a try in shared mode that is given back at once. The first only spares producers the
     * other lock where nobody is awake. Who cannot have F, which somebody else may hold for whatever reason, notifies. */
    if
    :: atomic { !K_IS_HELD -> goto commit }
    :: atomic { K_IS_HELD -> silent[r] = true }
    fi;
    if
    :: atomic { f[r] = true }
    :: atomic { silent[r] = false; goto commit }
    fi;
#ifndef K_BEFORE_F
    atomic { silent[r] = K_IS_HELD };
#endif

#ifdef F_AT_SESSION
    /* The lock of a statement: it is given back before the commit. */
    atomic { f[r] = false };
#endif

commit:
    if
    :: atomic { /* COMMIT: the row becomes visible, and the notification of who is not silent is sent with it */
        visible[r] = true;
        if
        :: !silent[r] -> told[r] = true
        :: else
        fi
       }
    :: atomic { silent[r] = false } /* ROLLBACK, or the producer dies */
    :: goto end_open /* the application never ends its transaction: nobody may wait for it but an announcer that wants to sleep */
    fi;
    /* Locks go after visibility. */
    atomic { f[r] = false };
    goto done;

end_open:
    false;
done:
    skip
}

/* A snapshot, and the notification of what it had. */
inline look() {
    atomic {
        saw[0] = visible[0] && !told[0];
        saw[1] = visible[1] && !told[1];
        saw[2] = visible[2] && !told[2]
    }
}

inline announce() {
    atomic {
        told[0] = told[0] || saw[0];
        told[1] = told[1] || saw[1];
        told[2] = told[2] || saw[2];
        saw[0] = false;
        saw[1] = false;
        saw[2] = false
    }
}

/* Who holds F. */
inline sample() {
    atomic {
        pending[0] = f[0];
        pending[1] = f[1];
        pending[2] = f[2]
    }
}

inline forget() {
    pending[0] = false;
    pending[1] = false;
    pending[2] = false
}

/* A producer holds F once at most here, so who holds it no longer is not asked for again. */
#define IS_GONE(r) (!pending[r] || !f[r])

#define NEWS ((visible[0] && !told[0]) || (visible[1] && !told[1]) || (visible[2] && !told[2]))

/* The process dies, or freezes and the server ends its session: its locks are free, and nobody finishes its work. */
inline crash() {
    faults > 0 ->
    faults--;
#ifndef FROZEN_KEEPS_K
    if
    :: k == me -> k = NOBODY
    :: else
    fi;
#endif
    excuse(0);
    excuse(1);
    excuse(2);
    saw[0] = false;
    saw[1] = false;
    saw[2] = false;
    forget()
}

active [ANNOUNCERS] proctype Announcer() {
    byte me = _pid - ROWS;
    bool saw[ROWS];
    bool pending[ROWS]; /* producers that it waits for */

end_asleep:
    if
#ifdef QUEUES_FOR_K
    :: atomic { wakes > 0 -> wakes--; k_waiting++ };
        if
        :: atomic { k == NOBODY -> k = me; k_waiting-- }
        :: atomic { k_waiting--; goto end_asleep } /* lock_timeout */
        fi
#else
    :: atomic { wakes > 0 && k == NOBODY -> wakes--; k = me } /* pg_try_advisory_lock */
#endif
    fi;

awake:
    if
    :: NEWS -> look(); announce(); goto awake
    :: atomic { crash(); goto end_asleep }
    :: skip /* little was found for a while */
    fi;

#ifdef SAMPLE_BEFORE_RELEASE
    sample();
    atomic { k = NOBODY };
#else
    atomic { k = (k == me -> NOBODY : k) };
    sample();
#endif

falling_asleep:
    if
    :: NEWS -> look(); announce(); goto falling_asleep
#ifdef WAITS_FOR_NOBODY
    :: forget()
#else
    :: atomic { IS_GONE(0) && IS_GONE(1) && IS_GONE(2) -> forget() }
#endif
    :: atomic { crash(); goto end_asleep }
    fi;

#ifndef NO_LAST_LOOK
    look();
    if
    :: announce()
    :: atomic { crash(); goto end_asleep }
    fi;
#endif
    goto end_asleep
}

/* When nobody has anything left to do, every visible row has been told of, whoever is open or dead. */
active proctype Rest() {
end:
    do
    :: atomic { timeout -> stranded = STRANDED; assert(!stranded) }
    od
}
