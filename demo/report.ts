import { setTimeout as delay } from 'node:timers/promises'
import type { HosterView, Joined } from './join-market.ts'
import type { TrafficCount } from './traffic.ts'

/** Prints how the market goes, now and then, and at once what happens to a hoster. Ends when `signal` is aborted. */
export async function report(
  joined: readonly Joined[],
  { count, minutes, days, signal }: { count: TrafficCount; minutes: number; days: number; signal: AbortSignal },
): Promise<void> {
  const startedMs = performance.now()
  const everyMs = Math.min(LOOK_MS, minutes * 6_000)
  const quarantined = new Set<string>()
  for (let looks = 1; !signal.aborted; looks++) {
    await delay(everyMs, undefined, { signal }).catch(() => {})
    // A gateway that is stopping answers no more.
    const hosters = await Promise.all(joined.map(each => each.show())).catch(() => [])
    for (const hoster of hosters) {
      if (hoster.quarantineReason === null || quarantined.has(hoster.name)) continue
      quarantined.add(hoster.name)
      console.log(`\n${hoster.name} is quarantined. ${hoster.quarantineReason} Its payouts are frozen.`)
    }
    if (looks % LOOKS_PER_LINE === 1 || signal.aborted) {
      const elapsedS = (performance.now() - startedMs) / 1000
      const day = Math.min(days, Math.floor((elapsedS / (minutes * 60)) * days) + 1)
      const { sent, answered, refused, failed } = count
      console.log(`\nDay ${day} of ${days}: ${sent} sent, ${answered} answered, ${refused} refused, ${failed} failed`)
      for (const hoster of hosters) console.log(line(hoster))
    }
  }
}

const LOOK_MS = 10_000
/** The table is printed at every third look. */
const LOOKS_PER_LINE = 3

function line({ name, state, score, audits, earnedUsd }: HosterView): string {
  const cells = [
    name.replace('Simulated - ', '').padEnd(20),
    state.padEnd(11),
    `trust ${score.toFixed(2)}`,
    `audits ${String(audits).padStart(3)}`,
    `earned ${earnedUsd.toFixed(6)} USD`,
  ]
  return `  ${cells.join('  ')}`
}
