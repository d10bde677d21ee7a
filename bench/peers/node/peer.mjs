// The phases of a peer that is written for Node; bench/README.md says what each is. A peer is an object with
//
//   describe(config)     what it says of itself
//   prepare(config)      makes its tables; may be called again
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

const phases = { describe, prepare, fill, work, latency, single }

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
