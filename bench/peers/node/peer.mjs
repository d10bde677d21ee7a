// The phases of a peer that is written for Node; bench/README.md says what each is. A peer is an object with
//
//   describe(config)     its description of itself
//   prepare(config)      creates its tables; may be called again
//   producer(config)     {insertMany(payloads), insertOne(payload), close()}, ready to be called
//   worker(config, {handle, started})
//                        runs jobs until its stop() is called: started() once it begins, handle() in each job's handler
//
// where config is BENCH_CONFIG.

import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'

/** The main function of a peer's process. */
export async function main (peer) {
  const [name] = process.argv.slice(2)
  const phase = phases[name]
  if (!phase) {
    console.error(`usage: PEER ${Object.keys(phases).join('|')}, see bench/README.md`)
    process.exit(2)
  }
  await phase(peer, JSON.parse(process.env.BENCH_CONFIG ?? '{}'))
}

/** What of choices is the config's profile. A profile that the peer does not describe is an error. */
export function ofProfile (config, choices) {
  const choice = choices[config.profile]
  if (!choice) throw new Error(`there is no profile ${JSON.stringify(config.profile)}`)
  return choice
}

/** The version of an installed package. Not every package exports its package.json, so this looks beside its code. */
export function versionOf (name) {
  const main = createRequire(import.meta.url).resolve(name)
  const dir = main.slice(0, main.lastIndexOf(`/node_modules/${name}/`)) + `/node_modules/${name}`
  return JSON.parse(readFileSync(`${dir}/package.json`, 'utf8')).version
}

const phases = { describe, prepare, fill, work, latency, single, pace }

function describe (peer, config) {
  say({ event: 'peer', ...peer.describe(config) })
}

function prepare (peer, config) {
  return peer.prepare(config)
}

async function fill (peer, config) {
  const producer = await peer.producer(config)
  let took = 0
  for (let left = config.jobs; left > 0;) {
    const payloads = Array.from({ length: Math.min(left, config.batch || 1) }, () => payload(config))
    const begun = performance.now()
    await producer.insertMany(payloads)
    took += performance.now() - begun
    left -= payloads.length
  }
  await producer.close()
  say({ event: 'filled', jobs: config.jobs, seconds: took / 1000 })
}

/** Runs until it is stopped from outside: whether the jobs are done, the database tells. */
async function work (peer, config) {
  if (!peer.describe(config)[config.deleted ? 'deleted' : 'retained']) {
    throw new Error(`its done jobs cannot be ${config.deleted ? 'deleted' : 'retained'}`)
  }
  const stopped = untilStopped()
  let count = 0
  const worker = await peer.worker(config, {
    started: () => say({ event: 'started' }),
    handle: () => {
      if (++count === config.jobs) say({ event: 'handled', jobs: count })
    }
  })
  await stopped
  await worker.stop()
}

/** How long a job may wait for an idle worker, in milliseconds. */
const startLimit = 30_000

async function latency (peer, config) {
  let arrived = () => {}
  const begun = Promise.withResolvers()
  const producer = await peer.producer(config)
  const worker = await peer.worker(config, {
    started: begun.resolve,
    handle: () => arrived(performance.now())
  })
  await begun.promise
  await sleep(1000) // its first, empty fetch is behind it
  const ms = []
  while (ms.length < config.jobs) {
    await sleep(20 + Math.random() * 40)
    const handled = Promise.withResolvers()
    arrived = handled.resolve
    const limit = setTimeout(() => handled.reject(new Error(`a job has not started within ${startLimit} ms`)), startLimit)
    const at = performance.now()
    await producer.insertOne(payload(config))
    ms.push(await handled.promise - at)
    clearTimeout(limit)
  }
  await worker.stop()
  await producer.close()
  say({ event: 'latencies', ms })
}

async function single (peer, config) {
  const producer = await peer.producer(config)
  const begun = performance.now()
  const end = begun + config.seconds * 1000
  let jobs = 0
  await Promise.all(Array.from({ length: config.connections }, async () => {
    while (performance.now() < end) {
      await producer.insertOne(payload(config))
      jobs++
    }
  }))
  const seconds = (performance.now() - begun) / 1000
  await producer.close()
  say({ event: 'filled', jobs, seconds })
}

/** How long a load goes on before it is measured, at most, in milliseconds. */
const warmUp = 3000

async function pace (peer, config) {
  const stopped = untilStopped()
  let handled = 0
  const begun = Promise.withResolvers()
  const producer = await peer.producer(config)
  const worker = await peer.worker(config, { started: begun.resolve, handle: () => { handled++ } })
  await begun.promise
  const length = config.seconds * 1000
  await load(config, producer, Math.min(warmUp, length), () => handled)
  say({ event: 'started' })
  const before = handled
  const from = performance.now()
  const used = process.cpuUsage()
  await load(config, producer, length, () => handled)
  const { user, system } = process.cpuUsage(used)
  say({ event: 'filled', jobs: handled - before, seconds: (performance.now() - from) / 1000, cpu_seconds: (user + system) / 1e6 })
  await stopped
  await worker.stop()
  await producer.close()
}

/** Writes at the config's rate for a while, or longer where that is more than can be done, and waits until all is handled. */
async function load (config, producer, length, handled) {
  const already = handled()
  const begun = performance.now()
  let turns = 0
  let written = 0
  await Promise.all(Array.from({ length: config.connections }, async () => {
    for (;;) {
      const at = config.rate > 0 ? ++turns / config.rate * 1000 : length
      await sleep(Math.max(0, Math.min(at, length) - (performance.now() - begun)))
      if (at >= length) return
      await producer.insertOne(payload(config))
      written++
    }
  }))
  for (const limit = performance.now() + startLimit; handled() - already < written;) {
    if (performance.now() > limit) throw new Error(`${written - handled() + already} of ${written} jobs have not started within ${startLimit} ms`)
    await sleep(1)
  }
}

/** The names of as many queues as are wanted, or the one that the other phases use. */
export function queuesOf (config, name) {
  return config.queues ? Array.from({ length: config.queues }, (_, i) => `${name}_${i}`) : [name]
}

/** Gives each of some values in turn. */
export function inTurn (values) {
  let turn = 0
  return () => values[turn++ % values.length]
}

function say (event) {
  process.stdout.write(JSON.stringify(event) + '\n')
}

/** A payload of so many bytes as JSON, or the smallest there is. */
function payload (config) {
  return { p: 'x'.repeat(Math.max(0, config.payload_bytes - '{"p":""}'.length)) }
}

/** Resolves when standard input is closed, or at SIGTERM. */
function untilStopped () {
  const { promise, resolve } = Promise.withResolvers()
  process.once('SIGTERM', resolve)
  process.stdin.once('end', resolve).once('error', resolve).resume()
  return promise.then(() => process.stdin.destroy())
}
