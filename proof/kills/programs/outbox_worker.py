"""Works on txwork.outbox: one row in public.handled for each message, exactly once."""
import json, os, platform, secrets, select, signal, socket, threading, time, uuid
import psycopg
from psycopg.types.json import Jsonb
TABLE = "outbox"
URL, WORK = os.environ["DATABASE_URL"], int(os.environ.get("WORK_MS", "0")) / 1000
PROCESS = secrets.randbits(48) or 1
DDL = """CREATE TABLE IF NOT EXISTS public.handled (id uuid, topic text, key text, n int, pid int,
         at timestamptz DEFAULT clock_timestamp())"""
FETCH = f"""SELECT entry, id, topic, key, payload, again_in, more, cursor FROM txwork.{TABLE}_fetch(
    %s::uuid, %s::interval, 20, cursor => %s::text, heard => %s::text[], sweep => %s::boolean)"""
held, stop, mutex = {}, set(), threading.Lock()  # id -> token of what this process holds; ids to stop
term, over, fold_now = threading.Event(), threading.Event(), threading.Event()
wake_r, wake_w = socket.socketpair()
def token():
    return uuid.UUID(int=PROCESS << 80 | 8 << 76 | secrets.randbits(12) << 64 | 2 << 62 | secrets.randbits(62))
def connect():
    conn = psycopg.connect(URL, autocommit=True, connect_timeout=5, keepalives_idle=10)
    conn.execute("SELECT txwork.require(major => 1, minor => 1, features => %s::text[])", ([TABLE],))
    return conn
def background(turn):  # turn(conn) returns after how many seconds it wants to run again
    def run():
        conn = None
        while not over.is_set():
            try:
                conn = conn if conn and not conn.closed else connect()
                pause = turn(conn)
            except psycopg.Error as e:
                print(turn.__name__, e.sqlstate, e, flush=True)
                pause = 0.5
            over.wait(pause)
    threading.Thread(target=run, daemon=True).start()
beat = [0.0]
def extend(conn):
    with mutex:
        now = dict(held)
    for t in set(now.values()):
        for id, result in conn.execute(f"SELECT id, result FROM txwork.{TABLE}_extend(%s, %s, %s::interval)",
                                       (t, [i for i in now if now[i] == t], "5 s")):
            if result in ("cancelled", "lost", "gone"):
                stop.add(id)
    conn.execute(f"SELECT requeued FROM txwork.{TABLE}_reap_expired()")  # of processes that died
    if time.monotonic() >= beat[0]:
        conn.execute("CALL txwork.process_beat(%s::bigint, %s, %s, '1', %s)", (PROCESS, socket.gethostname(),
                     "python " + platform.python_version(), Jsonb([{"table": TABLE, "concurrency": 1}])))
        beat[0] = time.monotonic() + 30
    return 5 / 3
fold = {"cursor": None, "at": 0.0}
def keep_house(conn):  # rows of a key wait for a fold, and nothing else here may fold
    if fold_now.is_set() or time.monotonic() >= fold["at"]:
        fold_now.clear()
        row = conn.execute("CALL txwork.outbox_fold(cursor => %s::text)", (fold["cursor"],)).fetchone()
        fold.update(cursor=row[0], at=time.monotonic() + (row[2] if row[2] is not None else 1))
    return 0.05
def handle(conn, t, id, topic, key, payload):
    time.sleep(WORK)
    with conn.transaction():
        conn.execute("INSERT INTO public.handled (id, topic, key, n, pid) VALUES (%s, %s, %s, %s, %s)",
                     (id, topic, key, json.loads(payload)["n"], os.getpid()))
        conn.execute(f"SELECT txwork.{TABLE}_complete(%s, %s)", (t, id))
def batch(conn, t, rows):
    for id, *row in rows:
        if term.is_set():
            return
        try:
            if id not in stop:
                handle(conn, t, id, *row)
        except Exception as e:
            if conn.closed:
                raise
            code = getattr(e, "sqlstate", None)
            how = "snooze" if code in ("40001", "40P01", "55P03", "57014") else "retry"
            if code != "TXL01":
                conn.execute(f"SELECT txwork.{TABLE}_{how}(%s, %s, %s::interval, %s)",
                             (t, [id], "0 s" if how == "snooze" else None, str(e)))
        if id not in stop:  # what was cancelled is given back with the rest, and becomes cancelled
            with mutex:
                del held[id]
            fold_now.set()
def main():
    wake_w.setblocking(False), signal.set_wakeup_fd(wake_w.fileno())
    signal.signal(signal.SIGTERM, lambda *_: term.set())
    conn, cursor, heard, ready = None, None, [], False
    background(extend), background(keep_house)
    while not term.is_set() or held:
        try:
            if conn is None or conn.closed:
                conn, sweep = connect(), True
                conn.add_notify_handler(lambda n: heard.append(n.payload) or (n.payload.startswith("note:") and fold_now.set()))
                conn.execute(f'LISTEN "txwork.{TABLE}"')
            if not ready:
                with conn.transaction():  # one process at a time
                    conn.execute("SELECT pg_advisory_xact_lock(4711)")
                    ready = bool(conn.execute(DDL))
            for t in set(held.values()):  # what a lost connection or SIGTERM left: never repeat, give it back
                conn.execute(f"SELECT result FROM txwork.{TABLE}_release(%s, %s)", (t, [i for i in held if held[i] == t]))
            with mutex:
                held.clear(), stop.clear()
            if term.is_set():
                break
            t, said = token(), heard[:]
            *rows, end = conn.execute(FETCH, (t, "5 s", cursor, said, sweep or None)).fetchall()
            del heard[:len(said)]
            cursor, sweep = end[7], False
            with mutex:
                held.update((r[1], t) for r in rows)
            batch(conn, t, [r[1:5] for r in rows])
            if not end[6] and not held and not heard:
                if select.select([conn, wake_r], [], [], min(end[5], 5))[0]:
                    conn.execute("SELECT 1")  # dispatches notifications, or finds the connection closed
        except psycopg.Error as e:
            print("worker", e.sqlstate, e, flush=True)
            if e.sqlstate in ("TXV01", "22023", "42501", "55000"):
                raise
            if term.is_set():
                break  # the server is away: the leases end by themselves
            term.wait(0.5)
    over.set()
main()
