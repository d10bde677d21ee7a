// The peer pg-boss. See README.md for where its settings come from.

import { setTimeout as sleep } from 'node:timers/promises'
import { PgBoss } from 'pg-boss'
import { inTurn, main, ofProfile, queuesOf, versionOf } from './peer.mjs'

const queue = 'bench'

const batchSize = 2000
const localConcurrency = 2

/** How long the deleted mode rests when there is nothing to do, in milliseconds: pg-boss's shortest interval. */
const idle = 500

const settings = {
  bench: {
    boss: { useListenNotify: true },
    queue: { partition: true, notify: true },
    work: config => ({ batchSize, localConcurrency: config.concurrency || localConcurrency, burstWhenBatchFull: true })
  },
  defaults: {
    boss: {},
    queue: {},
    work: config => config.concurrency ? { localConcurrency: config.concurrency } : {}
  }
}

const profiles = {
  bench: 'one process, a partitioned queue with notify, batchSize 2000, localConcurrency 2, burstWhenBatchFull; ' +
    'deleted mode: fetch() and deleteJob() in place of work(); filled by insert()',
  defaults: 'one process, batchSize 1, localConcurrency 1, polls every 2 s, so at most one job in 2 s; filled by insert()'
}

async function open (config, extra) {
  const boss = new PgBoss({ connectionString: config.database_url, ...ofProfile(config, settings).boss, ...extra })
  boss.on('error', error => console.error(error))
  boss.on('warning', warning => console.error(warning.message))
  await boss.start()
  return boss
}

/** Fetches and deletes until it is stopped, for pg-boss has no setting for it. */
function deleting (boss, { batchSize, localConcurrency }, handle) {
  if (!batchSize) throw new Error('there is no deleted mode with the defaults')
  let stopping = false
  const loop = async () => {
    while (!stopping) {
      const jobs = await boss.fetch(queue, { batchSize })
      jobs.forEach(handle)
      if (jobs.length) await boss.deleteJob(queue, jobs.map(job => job.id))
      else await sleep(idle)
    }
  }
  const loops = Promise.all(Array.from({ length: localConcurrency }, loop))
  return {
    async stop () {
      stopping = true
      await loops
      await boss.stop()
    }
  }
}

/** Completed jobs are done, and deleted ones. What failed for good is not. */
const unfinished = "SELECT count(*) FROM pgboss.job WHERE state <> 'completed'"

await main({
  describe: () => ({
    name: 'pg-boss',
    version: versionOf('pg-boss'),
    profiles,
    retained: true,
    deleted: true,
    unfinished_sql: unfinished
  }),

  async prepare (config) {
    const boss = await open(config)
    for (const name of queuesOf(config, queue)) await boss.createQueue(name, ofProfile(config, settings).queue)
    await boss.stop()
  },

  async producer (config) {
    const boss = await open(config, { supervise: false, schedule: false, useListenNotify: false, max: config.connections })
    const next = inTurn(queuesOf(config, queue))
    return {
      insertMany: payloads => boss.insert(queue, payloads.map(data => ({ data }))),
      insertOne: data => boss.send(next(), data),
      close: () => boss.stop()
    }
  },

  async worker (config, { handle, started }) {
    const boss = await open(config)
    const { work } = ofProfile(config, settings)
    started()
    if (config.deleted) return deleting(boss, work(config), handle)
    for (const name of queuesOf(config, queue)) await boss.work(name, work(config), async jobs => jobs.forEach(handle))
    return { stop: () => boss.stop() }
  }
})
