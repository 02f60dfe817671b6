import { addCounts, type DecayedCounts, decayTo, noCounts } from './decayed-counts.ts'

/** What the requests of one customer have shown about a hoster. */
export interface CustomerEvidence {
  readonly reliability: DecayedCounts
  readonly conformance: DecayedCounts
}

/** A customer counts for at most this part of the requests of a hoster: a large one must not decide alone. */
const PART_MAX = 0.25
/** From this many customers on, the one with the most failures is left out. */
const TRIMMED_FROM = 4

/**
 * Adds up the evidence of all customers of a hoster. A customer that frames a hoster, with prompts that break its
 * server, is the one with the most failures: it is left out, with its successes, when there are at least four
 * customers. A group of framing customers must pay for enough requests to be a large part of the hoster's traffic.
 */
export function sumCustomers(customers: readonly CustomerEvidence[], atMs: number): CustomerEvidence {
  const now = customers.map(({ reliability, conformance }) => ({
    reliability: decayTo(reliability, atMs),
    conformance: decayTo(conformance, atMs),
  }))
  return {
    reliability: sumCounts(now.map(({ reliability }) => reliability)),
    conformance: sumCounts(now.map(({ conformance }) => conformance)),
  }
}

function sumCounts(all: readonly DecayedCounts[]): DecayedCounts {
  const counts = all.filter(({ good, bad }) => good + bad > 0)
  const worst = counts.reduce<DecayedCounts | undefined>(
    (most, one) => (one.bad > (most?.bad ?? 0) ? one : most),
    undefined,
  )
  const kept = counts.length >= TRIMMED_FROM ? counts.filter(one => one !== worst) : counts
  const total = kept.reduce((sum, { good, bad }) => sum + good + bad, 0)
  const limit = total * PART_MAX
  return kept.reduce((sum, one) => {
    const weight = one.good + one.bad
    const factor = kept.length >= TRIMMED_FROM && weight > limit ? limit / weight : 1
    const { good, bad, squares, atMs } = one
    return addCounts(sum, { good: good * factor, bad: bad * factor, squares: squares * factor * factor, atMs })
  }, noCounts)
}
