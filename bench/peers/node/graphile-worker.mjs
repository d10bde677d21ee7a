// The peer graphile-worker. See README.md for where its settings come from.

import { EventEmitter } from 'node:events'
import { Logger, makeWorkerUtils, run, runMigrations } from 'graphile-worker'
import { inTurn, main, ofProfile, queuesOf, versionOf } from './peer.mjs'

const task = 'bench'

const concurrency = 24

const settings = {
  bench: config => ({
    concurrentJobs: config.concurrency || concurrency,
    maxPoolSize: (config.concurrency || concurrency) + 1,
    localQueue: { size: 2000 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0
  }),
  defaults: config => config.concurrency ? { concurrentJobs: config.concurrency } : {}
}

const profiles = {
  bench: 'one process, concurrentJobs 24, maxPoolSize 25, localQueue.size 2000, completeJobBatchDelay and failJobBatchDelay 0; ' +
    'filled by the SQL function add_jobs',
  defaults: 'one process, concurrentJobs 1, maxPoolSize 10, no local queue, no batched completion; filled by the SQL function add_jobs'
}

/** Its log, a line for each job by default, is off but for trouble. */
const logger = new Logger(() => (level, message) => {
  if (level === 'error' || level === 'warning') console.error(message)
})

function options (config, extra) {
  return { preset: { worker: { connectionString: config.database_url, logger, ...extra } } }
}

// The library's addJobs is the same, but reads every inserted row back.
const addJobs = `
  SELECT count(*) FROM graphile_worker.add_jobs(
    ARRAY(SELECT json_populate_recordset(NULL::graphile_worker.job_spec, $1::json)))`

function specs (payloads) {
  return JSON.stringify(payloads.map(payload => ({ identifier: task, payload })))
}

await main({
  describe: () => ({
    name: 'graphile-worker',
    version: versionOf('graphile-worker'),
    profiles,
    retained: false,
    deleted: true,
    unfinished_sql: 'SELECT count(*) FROM graphile_worker._private_jobs'
  }),

  prepare: config => runMigrations(options(config)),

  async producer (config) {
    const utils = await makeWorkerUtils(options(config, { maxPoolSize: config.connections }))
    const next = inTurn(queuesOf(config, task))
    return {
      insertMany: payloads => utils.withPgClient(client => client.query(addJobs, [specs(payloads)])),
      insertOne: payload => utils.addJob(next(), payload),
      close: () => utils.release()
    }
  },

  async worker (config, { handle, started }) {
    const events = new EventEmitter().once('pool:create', started)
    const { preset } = options(config, { ...ofProfile(config, settings)(config), events })
    const taskList = Object.fromEntries(queuesOf(config, task).map(name => [name, () => handle()]))
    return run({ preset, noHandleSignals: true, taskList })
  }
})
