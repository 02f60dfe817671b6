import type { LoadJob, LoadResult } from './load.ts'
import { type Goal, markdownTable } from './markdown.ts'
import { printProgress } from './print-progress.ts'
import { type Figure, median, spread } from './spread.ts'
import type { Subject } from './subjects/subject.ts'

/** The same load at 128 connections, of one customer and of many. Each round runs all loads, in turns. */
export type ManyCustomers = {
  loads: { name: string; rounds: CustomerRound[] }[]
  /** Updates per second of the balance row of one customer under its load. */
  balanceUpdatesPerS: number
}

/** One round. CPU times are in microseconds per request; null on systems without /proc. */
export type CustomerRound = Pick<LoadResult, 'rps' | 'p99Ms'> & { gatewayUs: Figure; databaseUs: Figure }

/** Runs one round with these header sets. `isFirstCustomer`: all requests are from the first customer of the subject. */
export type RunRound = (
  customers: Pick<LoadJob, 'headers' | 'order'>,
  options: { isFirstCustomer: boolean },
) => Promise<CustomerRound>

const MANY = 1_000
const ZIPF_CUSTOMERS = 10_000
/** More than the requests of a round, so that no sequence repeats within one. */
const DRAWS = 200_000
/** The credit of a customer of the `free` tier. */
const FREE_CREDIT_USD = 5

/** Runs every load `rounds` times after a warm-up of each. The balances of the first customer and of `paid` are far above the load. */
export async function measureManyCustomers(subject: Subject, rounds: number, run: RunRound): Promise<ManyCustomers> {
  const paid = await subject.addCustomers!(ZIPF_CUSTOMERS)
  const free = await subject.addCustomers!(ZIPF_CUSTOMERS, FREE_CREDIT_USD)
  const zipf = drawZipf(ZIPF_CUSTOMERS, DRAWS)
  const many = MANY.toLocaleString('en')
  const more = ZIPF_CUSTOMERS.toLocaleString('en')
  const loads = [
    { name: '1 customer', customers: { headers: [subject.headers] } },
    { name: `${many} customers`, customers: { headers: paid.slice(0, MANY) } },
    { name: `${more} customers, Zipf`, customers: { headers: paid, order: zipf } },
    { name: `${many} customers with ${FREE_CREDIT_USD} USD`, customers: { headers: free.slice(0, MANY) } },
    { name: `${more} customers with ${FREE_CREDIT_USD} USD, Zipf`, customers: { headers: free, order: zipf } },
  ].map(load => ({ ...load, isFirstCustomer: load.customers.headers.length === 1, rounds: [] as CustomerRound[] }))
  // Warm up: the first request of a customer looks up its key.
  for (const { customers, isFirstCustomer } of loads) await run(customers, { isFirstCustomer })
  for (let round = 0; round < rounds; round++) {
    const first = round % loads.length
    for (const load of [...loads.slice(first), ...loads.slice(0, first)]) {
      const result = await run(load.customers, load)
      load.rounds.push(result)
      const { rps, gatewayUs, databaseUs } = result
      const cpu = `${gatewayUs?.toFixed(0)} us gateway, ${databaseUs?.toFixed(0)} us PostgreSQL`
      printProgress(`${load.name}: ${Math.round(rps)} req/s, ${cpu}`)
    }
  }
  const stopWatching = await subject.watchBalanceRow!()
  const startedMs = performance.now()
  await run(loads[0]!.customers, loads[0]!)
  const seconds = (performance.now() - startedMs) / 1000
  return {
    loads: loads.map(({ name, rounds }) => ({ name, rounds })),
    balanceUpdatesPerS: (await stopWatching()) / seconds,
  }
}

export function manyCustomersTable({ loads }: ManyCustomers): string {
  const rows = loads.map(({ name, rounds }) => [
    name,
    spread(
      rounds.map(r => r.rps),
      0,
    ),
    ratiosToFirst(loads, rounds, 2),
    ...(['p99Ms', 'gatewayUs', 'databaseUs'] as const).map((figure, column) =>
      spread(
        rounds.map(r => r[figure]),
        column === 0 ? 2 : 0,
      ),
    ),
  ])
  const head = ['load', 'requests/s', '× one customer', 'p99 ms', 'gateway CPU µs/request', 'PostgreSQL CPU µs/request']
  return `## Switchyard at 128 connections: one customer and many\n\n${markdownTable(head, rows)}`
}

export function manyCustomersGoals({ loads, balanceUpdatesPerS }: ManyCustomers): Goal[] {
  const ratios = loads.slice(1).map(({ name, rounds }) => ({
    goal: `throughput of ${name}, × one customer`,
    value: median(ratiosOf(loads, rounds))!,
    limit: name.includes('Zipf') ? 0.8 : 0.9,
    isFloor: true,
  }))
  const updates = { goal: 'updates/s of the balance row of one customer', value: balanceUpdatesPerS }
  return [...ratios, { ...updates, limit: 2, isFloor: false }]
}

type Loads = ManyCustomers['loads']

/** The throughput of each round in relation to the first load in the same round. */
function ratiosOf(loads: Loads, rounds: readonly CustomerRound[]): number[] {
  return rounds.map((round, n) => round.rps / loads[0]!.rounds[n]!.rps)
}

function ratiosToFirst(loads: Loads, rounds: readonly CustomerRound[], digits: number): string {
  return rounds === loads[0]!.rounds ? '' : spread(ratiosOf(loads, rounds), digits)
}

/** Draws from 0..items-1 by a Zipf law with exponent 1: item n has the weight 1 / (n + 1). The draws are always the same. */
function drawZipf(items: number, draws: number): number[] {
  const sums: number[] = []
  let sum = 0
  for (let n = 1; n <= items; n++) {
    sum += 1 / n
    sums.push(sum)
  }
  let state = 1
  return Array.from({ length: draws }, () => {
    // A linear congruential generator with the constants of Numerical Recipes.
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    const drawn = (state / 2 ** 32) * sum
    let [low, high] = [0, items - 1]
    while (low < high) {
      const middle = (low + high) >> 1
      if (sums[middle]! < drawn) low = middle + 1
      else high = middle
    }
    return low
  })
}
