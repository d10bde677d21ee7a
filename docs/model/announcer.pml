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
#define WAKES 2 /* times that each process becomes announcer */
#endif

/* The lock table. K has one exclusive holder: the announcer that is awake. F has shared holders, producers that may
 * have been silent, and at most one exclusive holder. A try fails on a waiting request, too. */
byte k = NOBODY;
byte f_shared = 0;
byte f_exclusive = NOBODY;
byte f_waiting = 0;

bool visible[ROWS];
bool told[ROWS];   /* a notification was sent when the row was visible, or with it: listeners will look */
bool silent[ROWS]; /* the producer has decided to send none */

/* A crash may cost a poll: to the rows whose producers were silent by then, and to no other. */
bool excused[ROWS];
byte faults = FAULTS;

bool stranded;

#define LOST(r)  (visible[r] && !told[r] && !excused[r])
#define STRANDED (LOST(0) || LOST(1) || LOST(2))

inline excuse(r) {
    if
    :: silent[r] && !told[r] -> excused[r] = true
    :: else
    fi
}

#define K_IS_HELD (k != NOBODY || k_waiting > 0)
#define F_IS_OPEN (f_exclusive == NOBODY && f_waiting == 0)

#ifdef QUEUES_FOR_K
byte k_waiting = 0;
byte k_shared = 0;
#else
#define k_waiting 0
#endif

/* The trigger: F by a try, then K by a try that is given back at once. */
inline take_f() {
    atomic {
        if
        :: F_IS_OPEN -> f_shared++; got = true
        :: else
        fi
    }
}

inline test_k() {
    atomic {
#ifdef SILENT_WITHOUT_F
        silent[r] = K_IS_HELD
#else
        silent[r] = K_IS_HELD && got
#endif
    }
}

active [ROWS] proctype Producer() {
    byte r = _pid;
    bool got = false; /* F */

#ifdef K_BEFORE_F
    atomic {
        silent[r] = K_IS_HELD
    };
    take_f();
    atomic {
        if
        :: !got -> silent[r] = false
        :: else
        fi
    };
#else
    take_f();
    test_k();
#endif

#ifdef F_AT_SESSION
    /* The lock of a statement: it is given back before the commit. */
    atomic {
        if
        :: got -> f_shared--; got = false
        :: else
        fi
    };
#endif

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
    atomic {
        if
        :: got -> f_shared--
        :: else
        fi
    };
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
    if
    :: f_exclusive == me -> f_exclusive = NOBODY
    :: else
    fi;
    if
    :: waits -> f_waiting--; waits = false
    :: else
    fi;
    excuse(0);
    excuse(1);
    excuse(2);
    saw[0] = false;
    saw[1] = false;
    saw[2] = false
}

active [ANNOUNCERS] proctype Announcer() {
    byte me = _pid - ROWS;
    byte wakes = WAKES;
    bool saw[ROWS];
    bool waits = false; /* for F */

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

#ifndef K_AFTER_F
    atomic { k = NOBODY };
#endif

falling_asleep:
    if
    :: atomic { !waits && NEWS }; look(); announce(); goto falling_asleep
    :: atomic { !waits -> waits = true; f_waiting++ }; goto falling_asleep
    :: atomic { waits && f_shared > 0 -> waits = false; f_waiting-- }; goto falling_asleep /* lock_timeout */
    :: atomic { waits && f_shared == 0 && f_exclusive == NOBODY -> waits = false; f_waiting--; f_exclusive = me }
    :: atomic { crash(); goto end_asleep }
    fi;

#ifndef NO_LAST_LOOK
    look();
    if
    :: announce()
    :: atomic { crash(); goto end_asleep }
    fi;
#endif
    atomic { f_exclusive = NOBODY };
#ifdef K_AFTER_F
    atomic { k = NOBODY };
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
