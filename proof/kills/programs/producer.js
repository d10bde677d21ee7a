// Writes orders, and with each in one transaction an outbox message (each tenth: a job and an inbox message, too).
// Environment: DATABASE_URL, COUNT (orders of this producer in all), PRODUCER (1..9), RATE (a second, optional).
'use strict';
const { Client } = require('pg');

const URL = process.env.DATABASE_URL;
const COUNT = Number(process.env.COUNT);
const PRODUCER = Number(process.env.PRODUCER || 1);
const RATE = Number(process.env.RATE || 0);
if (!URL || !Number.isInteger(COUNT) || COUNT < 0 || !(PRODUCER >= 1 && PRODUCER <= 9) || !(RATE >= 0)) {
  console.error('usage: DATABASE_URL=… COUNT=… [PRODUCER=1..9] [RATE=…] node producer.js');
  process.exit(2);
}

let stopping = false;
let wake = () => {};
for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => { stopping = true; wake(); });
const sleep = ms => new Promise(resolve => {
  if (stopping) return resolve();
  const timer = setTimeout(resolve, ms);
  wake = () => { clearTimeout(timer); resolve(); };
});
const log = text => console.error(`producer ${PRODUCER}: ${text}`);

// What is worth another try: a lost connection, a server that starts or ends, a lost race, a wait that was too long.
function transient(e) {
  if (!e.code) return e.constructor === Error; // of the driver: "Connection terminated unexpectedly", a timeout
  return /^(08|57|53|40|25P0[23]|55P03|E[A-Z]+)/.test(e.code);
}

async function connect() {
  const c = new Client({
    connectionString: URL, connectionTimeoutMillis: 10000, query_timeout: 60000, keepAlive: true,
    application_name: `producer ${PRODUCER}`,
  });
  c.broken = false;
  c.on('error', () => { c.broken = true; });
  c.on('end', () => { c.broken = true; });
  try {
    await c.connect();
    await c.query('SET idle_in_transaction_session_timeout = 60000; SET default_transaction_isolation = \'read committed\'');
    await c.query("SELECT txwork.require(major => 1, minor => 1, features => '{outbox,inbox,jobs}')");
    await c.query('BEGIN'); // the lock: CREATE TABLE IF NOT EXISTS of two sessions may collide
    await c.query("SELECT pg_advisory_xact_lock(hashtext('public.orders'))");
    await c.query('CREATE TABLE IF NOT EXISTS public.orders (id bigint PRIMARY KEY, customer int)');
    await c.query('COMMIT');
  } catch (e) {
    drop(c);
    throw e;
  }
  return c;
}

function drop(c) {
  c.broken = true;
  c.end().catch(() => {});
  if (c.connection && c.connection.stream) c.connection.stream.destroy();
}

// One order, one transaction. If it is there, or another session is just committing it (the INSERT waits for that),
// nothing is written: so it can be repeated after a COMMIT whose reply was lost.
async function write(c, n) {
  const id = n * 10 + PRODUCER;
  await c.query('BEGIN');
  const order = await c.query(
    'INSERT INTO public.orders (id, customer) VALUES ($1::bigint, $2::int) ON CONFLICT (id) DO NOTHING', [id, id % 20]);
  if (order.rowCount === 0) {
    await c.query('ROLLBACK');
    return false;
  }
  const body = JSON.stringify({ n: id });
  const message = await c.query(
    "SELECT duplicate FROM txwork.outbox_enqueue('order', $1::text, key => $2::text, dedup_key => $3::text)",
    [body, `customer ${id % 20}`, `order ${id}`]);
  if (message.rows[0].duplicate) log(`order ${id} had a message already`);
  if (n % 10 === 0) {
    await c.query("SELECT id FROM txwork.jobs_enqueue('three', $1::text, queue => 'steps')", [body]);
    await c.query("SELECT id FROM txwork.inbox_receive('warehouse', 'shop', $1::text, $2::text, topic => 'order')",
      [`order ${id}`, body]);
  }
  await c.query('COMMIT');
  return true;
}

async function main() {
  let c = null;
  let n = null; // the last order that is certainly there
  let failures = 0;
  let next = Date.now();
  while (!stopping && (n === null || n < COUNT)) {
    try {
      if (!c || c.broken) c = await connect();
      if (n === null) {
        const r = await c.query('SELECT coalesce(max(id) / 10, 0)::int AS n FROM public.orders WHERE id % 10 = $1::int', [PRODUCER]);
        n = r.rows[0].n;
        log(`begins after ${n} of ${COUNT}`);
        continue;
      }
      if (!await write(c, n + 1)) log(`order ${(n + 1) * 10 + PRODUCER} was there`);
      n++;
      failures = 0;
      if (RATE) {
        next = Math.max(next + 1000 / RATE, Date.now() - 1000);
        if (next > Date.now()) await sleep(next - Date.now());
      }
    } catch (e) {
      log(`${e.code || ''} ${e.message}`);
      if (c) drop(c);
      c = null;
      if (!transient(e)) { process.exitCode = 1; return; }
      await sleep(Math.min(5000, 50 * 2 ** Math.min(failures++, 7)));
    }
  }
  log(`ends after ${n} of ${COUNT}`);
  if (c) await Promise.race([c.end().catch(() => {}), new Promise(r => setTimeout(r, 2000).unref())]);
}

main().then(() => process.exit(), e => { console.error(e); process.exit(1); });
