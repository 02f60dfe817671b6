import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { addCustomer } from '../src/accounts/customers.ts'
import { issueKey } from '../src/auth/keys.ts'
import { transaction } from '../src/db/pool.ts'
import { openAccount } from '../src/ledger/accounts/open-account.ts'
import { type Gateway, startGateway, withDatabase } from './gateway.ts'
import type { AttackJob, AttackResult } from './hostile/attacker.ts'
import type { Behaviour } from './hostile/behaviour.ts'
import { behaviours } from './hostile/behaviours.ts'
import { describePinning, type Machine, prepareMachine, reportHead } from './machine.ts'
import { goalsSection, markdownPage, markdownTable } from './markdown.ts'
import type { PacedJob, PacedResult } from './paced-load.ts'
import { printProgress } from './print-progress.ts'
import { ask, pin, type Running, startLoad, startUpstream } from './process.ts'
import { readRssMb } from './process-usage.ts'
import { wholeBody } from './request-bodies.ts'
import { makeBenchmarkDir, runBenchmark } from './run-benchmark.ts'
import { benchConfig } from './subjects/switchyard.ts'
import { writeReport } from './write-report.ts'

/** `npm run bench:hostile`: measures a bystander, a customer with small requests, while others are hostile. See bench/README.md. */
const { values } = parseArgs({ options: { only: { type: 'string' }, seconds: { type: 'string', default: '10' } } })
const seconds = Number(values.seconds)
const chosen = behaviours.filter(({ name }) => name.includes(values.only ?? ''))
if (!(seconds >= 1) || chosen.length === 0) {
  printProgress('--seconds must be at least 1, and --only a part of the name of a behaviour')
  process.exit(2)
}

const BYSTANDER_PER_S = 100
const P99_MS_MAX = 100
const RSS_SAMPLE_MS = 200
/** The credit of the hostile customer: too little for a bulk lease. */
const CREDIT_NANOS = 5_000_000_000n

const dir = makeBenchmarkDir()
await runBenchmark(dir, async () => {
  const { cores, machine } = prepareMachine()
  const upstream = await startUpstream(cores, dir)
  const load = startLoad('paced-load.ts', cores, dir)
  const gatewayDir = join(dir, 'switchyard')
  mkdirSync(gatewayDir)
  const config = { ...benchConfig(upstream.origin), demo: { enabled: true, tokens_per_second: 100_000 } }
  const gateway = await startGateway({ dir: gatewayDir, cores, config })
  for (const pid of gateway.processes()) pin(pid, cores?.subject)
  const bystander = await addKey(gateway, 1_000_000_000_000_000n)
  await measure(load, gateway, bystander)

  const rows: Row[] = []
  for (const [index, behaviour] of chosen.entries()) {
    const attacker = startLoad('hostile/attacker.ts', cores, dir)
    const quiet = await measure(load, gateway, bystander)
    const headers = await addKey(gateway, CREDIT_NANOS)
    const job: AttackJob = { name: behaviour.name, origin: gateway.origin, headers, seconds: seconds + 2 }
    const attack = ask<AttackJob, AttackResult>(attacker, job, (seconds + 60) * 1000)
    await delay(500)
    const attacked = await measure(load, gateway, bystander)
    const { events } = await attack
    await attacker.stop()
    rows.push({ behaviour, quiet, attacked, events })
    printProgress(`${index + 1}/${chosen.length} ${behaviour.name}: p99 ${attacked.p99Ms.toFixed(1)} ms`)
  }
  await gateway.stop()
  const report = hostileReport(machine, rows)
  process.stdout.write(report)
  if (values.only === undefined && seconds >= 10) printProgress(`wrote ${writeReport('hostile', report)}`)
})

type Bystander = { meanMs: number; p99Ms: number; failed: number; rssMaxMb: number }
type Row = { behaviour: Behaviour; quiet: Bystander; attacked: Bystander; events: Record<string, number> }

async function addKey(gateway: Gateway, creditNanos: bigint): Promise<Record<string, string>> {
  const key = await withDatabase(gateway, pool =>
    transaction(pool, async sql => {
      const email = `${crypto.randomUUID()}@example.com`
      const { customerId } = (await addCustomer(sql, { email, accountTier: 'bench' }))!
      await openAccount(sql, customerId, creditNanos)
      return (await issueKey(sql, { customerId, name: 'bench' })).key
    }),
  )
  return { authorization: `Bearer ${key}` }
}

async function measure(load: Running, gateway: Gateway, headers: Record<string, string>): Promise<Bystander> {
  const url = `${gateway.origin}/v1/chat/completions`
  const job: PacedJob = { url, headers, body: wholeBody, ratePerS: BYSTANDER_PER_S, seconds, pid: null }
  let rssMaxMb = 0
  const sampling = setInterval(() => {
    rssMaxMb = Math.max(rssMaxMb, readRssMb(gateway.pid) ?? 0)
  }, RSS_SAMPLE_MS)
  const result = await ask<PacedJob, PacedResult>(load, job, (seconds + 60) * 1000)
  clearInterval(sampling)
  return { meanMs: result.meanMs, p99Ms: result.p99Ms, failed: result.failed + result.skipped, rssMaxMb }
}

function hostileReport(machine: Machine, rows: readonly Row[]): string {
  const ms = (value: number) => value.toFixed(1)
  const head = [
    'behaviour',
    'party',
    'mean ms',
    'p99 ms',
    'mean ms without',
    'p99 ms without',
    'failed',
    'RSS MB',
    'what it got',
  ]
  return markdownPage([
    reportHead('Hostile customers and strangers', 'npm run bench:hostile', machine, [
      ...describePinning(machine),
      `- bystander: ${BYSTANDER_PER_S} small requests a second for ${seconds} s, alone and then beside each behaviour`,
    ]),
    markdownTable(
      head,
      rows.map(({ behaviour, quiet, attacked, events }) => [
        behaviour.name,
        behaviour.party,
        ms(attacked.meanMs),
        ms(attacked.p99Ms),
        ms(quiet.meanMs),
        ms(quiet.p99Ms),
        String(attacked.failed),
        attacked.rssMaxMb.toFixed(0),
        Object.entries(events)
          .map(([event, count]) => `${event}: ${count}`)
          .join(', '),
      ]),
    ),
    goalsSection([
      {
        goal: 'highest p99 of the bystander, ms',
        value: Math.max(...rows.map(row => row.attacked.p99Ms)),
        limit: P99_MS_MAX,
        isFloor: false,
      },
      {
        goal: 'failed requests of the bystander',
        value: rows.reduce((sum, row) => sum + row.attacked.failed, 0),
        limit: 0,
        isFloor: false,
      },
    ]),
  ])
}
