import { drawOne } from '../../../base/runtime/collections.ts'
import type { RecentManners } from './shared-requests.ts'

/** Where manners are drawn from; before the first requests, from the table of this file. */
export interface MannersDeps {
  readonly manners: Pick<RecentManners, 'draw'>
  /** Uniform in [0, 1). */
  readonly random: () => number
}

/**
 * How ordinary clients ask, for the time before the first requests of customers: mostly without a temperature and a
 * limit, about half of them streamed. Each line is as frequent as the others.
 */
const ordinary: readonly Readonly<Record<string, number | boolean>>[] = [
  ...[{}, {}, {}, { temperature: 0 }, { temperature: 0, max_tokens: 512 }],
  ...[{ temperature: 0.2 }, { temperature: 0.7 }, { max_tokens: 1_024 }, { temperature: 0.7, max_tokens: 2_048 }],
  ...[{ stream: true }, { stream: true }, { stream: true }, { stream: true }, { temperature: 0, stream: true }],
  ...[
    { temperature: 0.7, stream: true },
    { temperature: 0.3, stream: true },
    { max_tokens: 4_096, stream: true },
  ],
  { temperature: 1, top_p: 0.95, stream: true },
]

/** Draws the fields of a request besides its messages: those of a request that a customer sent lately. */
export function drawFields({ manners, random }: MannersDeps): Readonly<Record<string, unknown>> {
  return manners.draw()?.fields ?? drawOne(ordinary, random)
}

/** The shortest and the longest time after which a person goes on, ms. */
const [GAP_MS_MIN, GAP_MS_MAX] = [4_000, 600_000]

/** Draws the time between two requests of a customer, ms: a real one, where it is long enough to read an answer. */
export function drawGapMs({ manners, random }: MannersDeps): number {
  const gapMs = manners.draw()?.gapMs ?? 0
  if (gapMs >= GAP_MS_MIN) return Math.min(gapMs, GAP_MS_MAX)
  return GAP_MS_MIN * (GAP_MS_MAX / GAP_MS_MIN) ** random()
}
