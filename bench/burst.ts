import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { Agent, createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { transaction } from '../src/base/db/pool.ts'
import { issueKey } from '../src/identity/auth/keys.ts'
import { addCustomer } from '../src/money/accounts/customers.ts'
import { openAccount } from '../src/money/ledger/accounts/open-account.ts'
import { type Gateway, startGateway, withDatabase } from './gateway.ts'
import { readMachine, reportHead } from './machine.ts'
import { markdownPage, markdownTable } from './markdown.ts'
import { percentile } from './percentile.ts'
import { printProgress } from './print-progress.ts'
import { makeBenchmarkDir, runBenchmark } from './run-benchmark.ts'
import { benchConfig } from './subjects/switchyard.ts'
import { writeReport } from './write-report.ts'

/** `npm run bench:burst`: a customer with credit for 200 requests sends 2,000 at once, and again. See bench/README.md. */
const REQUESTS = 2_000
const AFFORDED = 200
const ANSWER_TOKENS = 100
/** The worst case is six times the charge. */
const MAX_TOKENS = 600
const ANSWER_MS = 200
const USD_PER_MILLION = 1
const CHARGE_NANOS = BigInt(ANSWER_TOKENS * USD_PER_MILLION * 1_000)
const BYSTANDER_PER_S = 20
const QUIET_MS = 4_000

const { wait } = parseArgs({ options: { wait: { type: 'string', default: '5000' } } }).values

const MODEL = 'bench'
const body = JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: 'Hello!' }], max_tokens: MAX_TOKENS })
const completion = JSON.stringify({
  id: 'answer',
  object: 'chat.completion',
  created: 0,
  model: MODEL,
  choices: [
    { index: 0, message: { role: 'assistant', content: ' word'.repeat(ANSWER_TOKENS) }, finish_reason: 'stop' },
  ],
  usage: { prompt_tokens: 9, completion_tokens: ANSWER_TOKENS, total_tokens: 9 + ANSWER_TOKENS },
})

interface Answered {
  readonly status: number
  readonly code: string
  readonly ms: number
}

const dir = makeBenchmarkDir()
await runBenchmark(dir, async () => {
  const machine = readMachine(null)
  const upstream = createServer(async (incoming, response) => {
    incoming.resume()
    await delay(ANSWER_MS)
    response.writeHead(200, { 'content-type': 'application/json' }).end(completion)
  }).listen(0, '127.0.0.1')
  await once(upstream, 'listening')
  const usual = benchConfig(`http://127.0.0.1:${(upstream.address() as AddressInfo).port}`)
  const [endpoint] = usual.endpoints
  const models = [{ id: MODEL, price_per_million_usd: { input: 0, output: USD_PER_MILLION } }]
  mkdirSync(join(dir, 'switchyard'))
  const limits = { wait_for_credit_ms: Number(wait) }
  const config = { ...usual, limits, endpoints: [{ ...endpoint, models }] }
  const gateway = await startGateway({ dir: join(dir, 'switchyard'), cores: null, config })
  const agent = new Agent({ keepAlive: true, maxSockets: REQUESTS })
  try {
    const key = await addKey(gateway, CHARGE_NANOS * BigInt(AFFORDED))
    const bystander = await addKey(gateway, 1_000_000_000_000n)
    const send = (from: string) => ask(gateway, agent, from)
    await send(bystander)
    const quiet = watchBystander(() => send(bystander))
    await delay(QUIET_MS)
    const quietMs = await quiet()
    const busy = watchBystander(() => send(bystander))
    const startedMs = performance.now()
    const sendBurst = () => Promise.all(Array.from({ length: REQUESTS }, () => send(key)))
    const phases: Phase[] = [await measure('2,000 at once', startedMs, sendBurst)]
    phases.push(await measure('2,000 at once again', startedMs, sendBurst))
    phases.push(await measure('one after the other', startedMs, () => trickle(() => send(key))))
    const busyMs = await busy()
    const served = phases.reduce((sum, { answers }) => sum + answers.filter(isServed).length, 0)
    await gateway.command('ledger', 'audit')
    const credits = (await (
      await fetch(`${gateway.origin}/v1/credits`, { headers: { authorization: `Bearer ${key}` } })
    ).json()) as Record<string, unknown>
    const report = markdownPage([
      reportHead('A burst on a small balance', 'npm run bench:burst', machine, [
        `- \`limits.wait_for_credit_ms\`: ${wait}`,
      ]),
      `A customer with credit for ${AFFORDED} requests sends ${REQUESTS} at once, ${REQUESTS} again when they are answered, and then one after the other until three are refused. ` +
        `The worst case of a request is six times its charge, and an answer takes ${ANSWER_MS} ms. The ledger audit is clean.`,
      markdownTable(['', 'served', ...codesOf(phases), 'last answer served after, s'], phases.map(rowOf(phases))),
      `Served: ${served} of ${AFFORDED} (${((served / AFFORDED) * 100).toFixed(1)} %). Credit left: ${JSON.stringify(credits)}.`,
      `A bystander with ${BYSTANDER_PER_S} requests a second: p50 ${at(quietMs, 0.5)} ms and p99 ${at(quietMs, 0.99)} ms before, p50 ${at(busyMs, 0.5)} ms and p99 ${at(busyMs, 0.99)} ms during the bursts.`,
    ])
    process.stdout.write(report)
    if (wait === '5000') printProgress(`wrote ${writeReport('burst', report)}`)
  } finally {
    agent.destroy()
    upstream.close()
    await gateway.stop()
  }
})

interface Phase {
  readonly name: string
  readonly answers: readonly Answered[]
  /** When the last answer was served, since the start of the first phase, s. */
  readonly lastServedS: number | null
}

async function measure(name: string, startedMs: number, send: () => Promise<readonly Answered[]>): Promise<Phase> {
  const phaseMs = performance.now() - startedMs
  const answers = await send()
  const servedMs = answers.filter(isServed).map(({ ms }) => ms)
  printProgress(`${name}: ${servedMs.length} served`)
  return { name, answers, lastServedS: servedMs.length === 0 ? null : (phaseMs + Math.max(...servedMs)) / 1_000 }
}

async function trickle(send: () => Promise<Answered>): Promise<Answered[]> {
  const answers: Answered[] = []
  const startedMs = performance.now()
  for (let refused = 0; refused < 3; ) {
    const answer = await send()
    answers.push({ ...answer, ms: performance.now() - startedMs })
    refused = isServed(answer) ? 0 : refused + 1
  }
  return answers
}

function codesOf(phases: readonly Phase[]): string[] {
  const codes = phases.flatMap(({ answers }) => answers.filter(each => !isServed(each)).map(({ code }) => code))
  return [...new Set(codes)].sort()
}

function rowOf(phases: readonly Phase[]) {
  return ({ name, answers, lastServedS }: Phase) => [
    name,
    String(answers.filter(isServed).length),
    ...codesOf(phases).map(code => String(answers.filter(each => each.code === code).length)),
    lastServedS?.toFixed(1) ?? '-',
  ]
}

function isServed({ status }: Answered): boolean {
  return status === 200
}

/** Sends requests of the bystander at a steady rate. The returned function ends it and resolves with the sorted latencies. */
function watchBystander(send: () => Promise<Answered>): () => Promise<number[]> {
  const sent: Promise<Answered>[] = []
  const timer = setInterval(() => sent.push(send()), 1_000 / BYSTANDER_PER_S)
  return async () => {
    clearInterval(timer)
    const answers = await Promise.all(sent)
    const failed = answers.filter(answer => !isServed(answer))
    if (failed.length > 0) throw new Error(`the bystander got ${failed.map(({ status }) => status)}`)
    return answers.map(({ ms }) => ms).sort((a, b) => a - b)
  }
}

function at(sorted: readonly number[], share: number): string {
  return percentile(sorted, share).toFixed(0)
}

function ask({ origin }: Gateway, agent: Agent, key: string): Promise<Answered> {
  const startedMs = performance.now()
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    request(`${origin}/v1/chat/completions`, { method: 'POST', agent, headers }, async response => {
      const text = (await response.setEncoding('utf8').toArray()).join('')
      const status = response.statusCode!
      const code = status === 200 ? '' : `${status} ${(JSON.parse(text) as { error: { code: string } }).error.code}`
      resolve({ status, code, ms: performance.now() - startedMs })
    })
      .on('error', reject)
      .end(body)
  })
}

async function addKey(gateway: Gateway, creditNanos: bigint): Promise<string> {
  return withDatabase(gateway, pool =>
    transaction(pool, async sql => {
      const email = `${crypto.randomUUID()}@example.com`
      const { customerId } = (await addCustomer(sql, { email, accountTier: 'bench' }))!
      await openAccount(sql, customerId, creditNanos)
      return (await issueKey(sql, { customerId, name: 'bench' })).key
    }),
  )
}
