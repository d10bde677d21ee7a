/* A log, and one lane of a subscription: three transactions that write a message each, tickers, two consumers, and a
 * maintainer. docs/model/README.md says what is checked, and which statement each step stands for. */

#ifndef TAKEN
#define TAKEN 1 /* times that a page is taken from a consumer, because its lease has ended */
#endif
#ifdef NO_TICK_LOCK
#define TICKERS 2
#else
#define TICKERS 1 /* who holds the lock of the tickers is alone */
#endif

#define NOBODY 7
#define BIT(t) (1 << t)

/* Of transaction t: its id, which it has from its first write on; its message's number; and what became of it. */
byte xid[3];
byte seq[3];
byte committed = 0; /* a bit of each */
byte ended = 0;     /* committed or rolled back */
byte written = 0;   /* the message is in the table, visible or not */
byte gone = 0;      /* removed by the maintainer */
byte next_xid = 1;
byte next_seq = 1;
bool turn = false;  /* of the writers of a key: messages 0 and 1 have it */

/* Ticks: what a snapshot saw. Tick 0 saw nothing. */
byte high[4];
byte open[4];
#ifdef BY_SEQUENCE
byte drawn[4]; /* the sequence's value */
#endif
bool there[4];
byte newest = 0;
bool ticking = false; /* the lock of the tickers */

/* The position: what it has seen, the batch and the page in hand. */
byte p_n, p_high, p_open;
byte u_n, u_high, u_open; /* 0: no batch */
byte done, page;
bool whole, leased;
byte token = NOBODY;

/* What the checks need to know, and no client sees. */
byte settled = 0;
byte earlier = NOBODY; /* of the messages of the key, the one that was committed first */
bool flushed = true; /* all that was committed so far would survive a crash of the server */
byte taken = TAKEN;

bool skipped, twice, overtaken, removed, phantom, stranded;

#define ASSIGNED(t)       (xid[t] != 0)
#define SAW(h, o, t)      (ASSIGNED(t) && xid[t] < (h) && !((o) & BIT(t)))
#define READABLE(t)       (committed & BIT(t) && !(gone & BIT(t)))

#ifdef READS_STANDBY
byte standby = 0; /* what a lagging copy of the server has */
#define VISIBLE(t)        (READABLE(t) && standby & BIT(t))
#else
#define VISIBLE(t)        READABLE(t)
#endif

/* A batch: what u saw, and p did not. */
#ifdef NO_OPEN
#define FRESH(t)          (ASSIGNED(t) && xid[t] >= p_high && xid[t] < u_high)
#else
#define FRESH(t)          (ASSIGNED(t) && xid[t] >= p_high && xid[t] < u_high && !(u_open & BIT(t)))
#endif
#ifdef NO_LATE
#define BATCH(t)          FRESH(t)
#else
#define BATCH(t)          (FRESH(t) || (p_open & BIT(t) && SAW(u_high, u_open, t)))
#endif

#ifdef READ_BEFORE_LOCK
#define FROM              from
#else
#define FROM              done
#endif
#define LISTED(t)         (VISIBLE(t) && BATCH(t) && seq[t] > FROM)

/* What the position passes, and no consumer has settled. */
#define PASSED(t)         (committed & BIT(t) && SAW(p_high, p_open, t))
#define SKIPPED(t)        (PASSED(t) && !(settled & BIT(t)))

active [3] proctype Writer() {
    byte t = _pid;

    /* The first write of the transaction, which may be another row: the id is older than the message. */
    atomic { xid[t] = next_xid; next_xid++ };
#ifndef NO_TURN
    if
    :: t < 2 -> atomic { !turn -> turn = true }
    :: t == 2
    fi;
#endif
    /* The INSERT. The number is drawn under the key's lock. */
    atomic { seq[t] = next_seq; next_seq++; written = written | BIT(t) };
    if
    :: t == 2 -> goto end_open /* the application never ends its transaction: nobody may wait for it */
    :: skip
    fi;
    atomic {
        if
        :: written & BIT(t) -> /* COMMIT, which may return before it is flushed */
            committed = committed | BIT(t);
            flushed = false;
            if
            :: t < 2 && earlier == NOBODY -> earlier = t
            :: else
            fi
        :: skip /* ROLLBACK */
        fi;
        ended = ended | BIT(t);
        if
        :: t < 2 -> turn = false
        :: else
        fi
    }
    goto done_;

end_open:
    false;
done_:
    skip
}

#ifdef READS_STANDBY
active proctype Replay() {
end_replay:
    do
    :: atomic { standby != committed -> standby = committed }
    od
}
#endif

/* A message that has ended, and that the newest tick has not seen end. */
#define NEWS(t)           (READABLE(t) && !SAW(high[newest], open[newest], t))
#ifdef BY_SEQUENCE
#define HAS_NEWS          (next_seq - 1 != drawn[newest])
#else
#define HAS_NEWS          (NEWS(0) || NEWS(1) || NEWS(2))
#endif

#define NEWS_SEEN(t)      (NEWS(t) && SAW(h, o, t))
#ifdef BY_SEQUENCE
#define STORES            (newest == last && s != drawn[newest])
#else
#define STORES            (newest == last && (NEWS_SEEN(0) || NEWS_SEEN(1) || NEWS_SEEN(2)))
#endif

#ifdef NO_TICK_LOCK
#define LOCK_IS_FREE      true
#undef STORES
#define STORES            (newest < 3)
#define TICKS_LAST        (newest < 3) /* of three ticks, two may be for nothing */
#else
#define TICKS_LAST        true
#define LOCK_IS_FREE      (!ticking)
#endif

/* Any consumer ticks. Looking in vain changes nothing. */
active [TICKERS] proctype Ticker() {
    byte h, o, s, last;

end_idle:
    atomic { HAS_NEWS && newest < 3 && LOCK_IS_FREE -> ticking = true; last = newest };
    atomic { /* the snapshot: a statement after the lock */
        h = next_xid;
        o = 0;
#ifdef BY_SEQUENCE
        s = next_seq - 1;
#endif
        if :: ASSIGNED(0) && !(ended & 1) -> o = o | 1 :: else fi;
        if :: ASSIGNED(1) && !(ended & 2) -> o = o | 2 :: else fi;
        if :: ASSIGNED(2) && !(ended & 4) -> o = o | 4 :: else fi
    };
    atomic {
        if
        :: STORES ->
            newest++;
            high[newest] = h;
            open[newest] = o;
#ifdef BY_SEQUENCE
            drawn[newest] = s;
#endif
            there[newest] = true;
            flushed = false
        :: else
        fi;
        ticking = false;
        h = 0; o = 0; s = 0; last = 0
    };
    goto end_idle
}

/* Removes ticks, and messages that all have passed. A slot is one message, or all. */
#define IN(t)             (slot & BIT(t))
#ifdef TRIM_BY_HIGH
#define PASSES(t)         (!IN(t) || !READABLE(t) || xid[t] < p_high && xid[t] < high[old])
#else
#define PASSES(t)         (!IN(t) || !READABLE(t) || SAW(p_high, p_open, t) && SAW(high[old], open[old], t))
#endif
#define PASSED_BY_ALL     (PASSES(0) && PASSES(1) && PASSES(2))
#define IN_TABLE(t)       (IN(t) && READABLE(t))
#define WRITES(t)         (IN(t) && written & BIT(t) && !(ended & BIT(t)))
#ifdef TRIM_UNLOCKED
#define LOCKABLE          true
#else
#define LOCKABLE          (!WRITES(0) && !WRITES(1) && !WRITES(2)) /* ACCESS EXCLUSIVE */
#endif

active proctype Maintainer() {
    byte slot, old;

    do
    :: atomic { there[1] && newest > 1 -> there[1] = false }
    :: atomic { there[2] && newest > 2 -> there[2] = false }
    :: atomic { newest > 0 && !removed ->
        if
        :: old = newest
        :: there[1] -> old = 1
        :: there[2] -> old = 2
        fi;
        if
        :: slot = 1
        :: slot = 2
        :: slot = 4
        :: slot = 7
        fi;
        if
        :: PASSED_BY_ALL && LOCKABLE && (IN_TABLE(0) || IN_TABLE(1) || IN_TABLE(2)) ->
            /* TRUNCATE: what the slot has is gone, seen or not */
            removed = (committed & slot & ~settled) != 0;
#ifdef TRIM_UNLOCKED
            removed = removed || WRITES(0) || WRITES(1) || WRITES(2);
#endif
            assert(!removed);
            gone = gone | (slot & committed)
        :: else
        fi;
        slot = 0;
        old = 0
       }
    :: true -> break
    od
}

#define WORK              (u_n != 0 || p_n < newest)

inline pass() {
    p_n = u_n;
    p_high = u_high;
    p_open = u_open;
    u_n = 0;
    u_high = 0;
    u_open = 0;
    done = 0;
    page = 0;
    whole = false;
    assert_passed()
}

inline assert_passed() {
    skipped = SKIPPED(0) || SKIPPED(1) || SKIPPED(2);
    assert(!skipped)
}

/* The first message of a mask in the order of numbers. */
inline first(mask, t) {
    t = NOBODY;
    if :: mask & 1 -> t = 0 :: else fi;
    if :: mask & 2 && (t == NOBODY || seq[1] < seq[t]) -> t = 1 :: else fi;
    if :: mask & 4 && (t == NOBODY || seq[2] < seq[t]) -> t = 2 :: else fi
}

/* Message t is handed out: an earlier one of its key is settled, or comes before it in the page. */
#define AHEAD(t, o)       (earlier == o && !(settled & BIT(o)) && !(rows & BIT(o) && seq[o] < seq[t]))

active [2] proctype Consumer() {
    byte c = _pid;
    byte rows = 0; /* of the page, handed out */
    byte n, t, upto;
    bool ends;
#ifdef READ_BEFORE_LOCK
    byte from;
#endif

end_idle:
#ifdef READ_BEFORE_LOCK
    atomic { WORK || leased -> from = done };
#endif
    /* outbox_log_fetch, one statement under the position's lock. */
    atomic {
        if
        :: token == c && leased
        :: !(token == c && leased) && !leased && WORK -> token = c; page = 0; whole = false
        :: !(token == c && leased) && leased && taken > 0 -> taken--; token = c; page = 0; whole = false
        fi;
        leased = true;
        if
        :: u_n == 0 && p_n >= newest -> leased = false; goto end_idle
        :: u_n == 0 && p_n < 1 && there[1] -> u_n = 1; u_high = high[1]; u_open = open[1]
        :: u_n == 0 && p_n < 2 && there[2] -> u_n = 2; u_high = high[2]; u_open = open[2]
        :: u_n == 0 && p_n < 3 && there[3] -> u_n = 3; u_high = high[3]; u_open = open[3]
        :: u_n != 0
        fi;
#ifdef TICK_BY_NUMBER
        if
        :: p_n > 0 && !there[p_n] -> p_high = u_high; p_open = u_open; assert_passed() /* no tick, no difference */
        :: else
        fi;
#endif
        rows = 0;
        if :: LISTED(0) && (page == 0 || seq[0] <= page) -> rows = rows | 1 :: else fi;
        if :: LISTED(1) && (page == 0 || seq[1] <= page) -> rows = rows | 2 :: else fi;
        if :: LISTED(2) && (page == 0 || seq[2] <= page) -> rows = rows | 4 :: else fi;
        n = (rows & 1) + ((rows >> 1) & 1) + ((rows >> 2) & 1);
        if
        :: page != 0 /* the page in hand, again */
        :: page == 0 && n > 0 -> /* a page of one, or of more than there is */
            if
            :: first(rows, t); rows = BIT(t); page = seq[t]; whole = false
            :: whole = true;
                page = 0;
                if :: rows & 1 && seq[0] > page -> page = seq[0] :: else fi;
                if :: rows & 2 && seq[1] > page -> page = seq[1] :: else fi;
                if :: rows & 4 && seq[2] > page -> page = seq[2] :: else fi
            fi
        :: page == 0 && n == 0 -> leased = false; pass(); n = 0; t = 0; goto end_idle
        fi;
        n = 0;
        t = 0;
        twice = (rows & settled) != 0;
        assert(!twice);
        overtaken = rows & 1 && AHEAD(0, 1) || rows & 2 && AHEAD(1, 0);
        assert(!overtaken);
#ifndef ASYNC_CLAIM
        flushed = true; /* synchronous_commit: and so is all that was committed before */
#endif
        phantom = !flushed;
        assert(!phantom)
    };

    if
    :: atomic { rows = 0; goto end_idle } /* it dies, or forgets the page */
    :: skip
    fi;

    /* outbox_log_settle, after handlers: up to any of the messages that were handed out, or of all. */
    atomic {
        if
        :: rows & 1 -> upto = seq[0]
        :: rows & 2 -> upto = seq[1]
        :: rows & 4 -> upto = seq[2]
        fi;
#ifdef UNFENCED
        if
        :: leased && u_n != 0 ->
            if
            :: upto > done ->
#else
        if
        :: token == c && leased && u_n != 0 ->
            if
            :: upto > done ->
#endif
#ifdef SHORT_PAGE_ENDS
                ends = whole;
#else
                ends = whole && upto >= page;
#endif
                if :: rows & 1 && seq[0] <= upto -> settled = settled | 1 :: else fi;
                if :: rows & 2 && seq[1] <= upto -> settled = settled | 2 :: else fi;
                if :: rows & 4 && seq[2] <= upto -> settled = settled | 4 :: else fi;
                if
                :: ends -> leased = false; pass()
                :: else ->
                    done = upto;
                    if
                    :: upto >= page -> page = 0; whole = false
                    :: else
                    fi
                fi
            :: else /* repeated */
            fi
        :: else /* lost */
        fi;
        ends = false;
        rows = 0;
        upto = 0
    };
    goto end_idle
}

/* When nobody has anything left to do, all that was committed is settled: also while a transaction is open. */
active proctype Rest() {
end:
    do
    :: atomic { timeout -> stranded = (committed & ~settled) != 0 && TICKS_LAST; assert(!stranded) }
    od
}
