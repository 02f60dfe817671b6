import type { ChaosCustomer, Sent } from '../customer.ts'
import { eventually } from '../eventually.ts'
import { loadTwoNodes } from '../load-two-nodes.ts'
import type { GatewayWorld } from '../world.ts'
import type { PatroniCluster } from './cluster.ts'
import type { Fault } from './faults.ts'
import type { PrimaryProbe } from './primary-probe.ts'

/** One failover, as the clients of two gateways saw it. */
export interface FailOver {
  readonly customers: readonly ChaosCustomer[]
  readonly requests: number
  /** Answered with 503 `database_unavailable`. */
  readonly refused: readonly Sent[]
  /** Whole answers and streams that broke off or failed. */
  readonly broken: readonly Sent[]
  /** Of these, what a gateway could have saved: broken ones, and those refused long after PostgreSQL took writes again. Described. */
  readonly lost: readonly string[]
  /** How long no write was committed: the share of PostgreSQL and Patroni. */
  readonly withoutPrimaryMs: number
  /** From the first refusal to the last. */
  readonly refusedMs: number
  /** Writes of the probe that were reported as committed, and that no longer exist. */
  readonly lostCommits: number
}

/** What a gateway may take to find the new primary. */
export const GATEWAY_MS_MAX = 2_000

/** Enough for the longest failover; the tag of a request limits those of a customer. */
const REQUESTS_MAX = 7_000
const GAP_MS = 40

export async function failOver(
  { world, cluster, probe, seed }: { world: GatewayWorld; cluster: PatroniCluster; probe: PrimaryProbe; seed: number },
  fault: Fault,
): Promise<FailOver> {
  const primary = await cluster.whole()
  const { customers, untilServing, stop } = await loadTwoNodes(world, {
    requestsMax: REQUESTS_MAX,
    seed,
    gapMs: GAP_MS,
  })
  let next = primary
  let beganMs = 0
  try {
    await untilServing()
    beganMs = performance.now()
    await fault.begin(cluster, primary)
    const isPrimary = (host: typeof primary) => host !== primary && probe.hasWritten(host, beganMs)
    await eventually('another machine takes writes', () => cluster.hosts.some(isPrimary))
    await untilServing()
    await fault.end(cluster, primary)
    next = await cluster.whole()
    await untilServing()
  } finally {
    await stop()
  }
  const sent = await stop()
  const [goneMs, backMs] = longestGap([beganMs, ...probe.committedAtMs.filter(atMs => atMs > beganMs)])
  const refused = sent.filter(({ errorCode, ending }) => ending === 'refused' && errorCode === 'database_unavailable')
  const broken = sent.filter(isBroken)
  const refusedAtMs = refused.map(({ endedAtMs }) => endedAtMs)
  return {
    customers,
    requests: sent.length,
    refused,
    broken,
    lost: [...broken, ...refused.filter(({ endedAtMs }) => endedAtMs > backMs + GATEWAY_MS_MAX)].map(
      ({ node, client, ending, errorCode, endedAtMs }) =>
        `${client} at ${node} was ${ending} (${errorCode}) ${Math.round(endedAtMs - backMs)} ms after the new primary took writes`,
    ),
    withoutPrimaryMs: backMs - goneMs,
    refusedMs: refused.length === 0 ? 0 : Math.max(...refusedAtMs) - Math.min(...refusedAtMs),
    lostCommits: await probe.lostCommits(next),
  }
}

function isBroken({ ending, errorCode }: Sent): boolean {
  return ['failed', 'cut', 'unanswered', 'unsent'].includes(ending) || errorCode === 'settlement_unavailable'
}

/** The neighbours with the longest time between them. */
function longestGap(timesMs: readonly number[]): readonly [number, number] {
  let longest: readonly [number, number] = [0, 0]
  for (const [index, atMs] of timesMs.entries()) {
    const beforeMs = timesMs[index - 1] ?? atMs
    if (atMs - beforeMs > longest[1] - longest[0]) longest = [beforeMs, atMs]
  }
  return longest
}
