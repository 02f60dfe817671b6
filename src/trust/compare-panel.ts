import { extremeEValue, rankPValue } from './e-values.ts'
import { median } from './median.ts'

/** The distances that audits of one kind have measured for one model, by hoster. The latest last. */
export type Distances = ReadonlyMap<string, readonly number[]>

/** One hoster's answer in a panel: the same prompt to several servers of a model. */
export interface Panellist<Answer> {
  /** Null for a reference: a server that the operator trusts. */
  readonly hosterId: string | null
  readonly answer: Answer
}

export interface PanelResult {
  readonly hosterId: string
  /** To the reference; without one, the median distance to the other answers. */
  readonly distance: number
  readonly pValue: number
  readonly eValue: number
  /** Null: too few earlier distances to judge it. */
  readonly hasPassed: boolean | null
}

/** Without a reference, so many answers are needed: of two that differ, no one knows which is wrong. */
const PANEL_MIN = 3

/**
 * Judges the answers of a panel. A distance is extreme only among the distances that other hosters of the same model had
 * in earlier audits: honest servers differ by hardware, batching and quantization, and how much is learned, not assumed.
 *
 * @param distanceOf null if two answers cannot be compared
 */
export function comparePanel<Answer>(
  panel: readonly Panellist<Answer>[],
  distanceOf: (a: Answer, b: Answer) => number | null,
  earlier: Distances,
): PanelResult[] {
  const reference = panel.find(({ hosterId }) => hosterId === null)
  if (reference === undefined && panel.length < PANEL_MIN) return []
  const results: PanelResult[] = []
  for (const { hosterId, answer } of panel) {
    if (hosterId === null) continue
    const others = reference ? [reference] : panel.filter(other => other.hosterId !== hosterId)
    const distances = others.map(other => distanceOf(answer, other.answer)).filter(distance => distance !== null)
    if (distances.length === 0) continue
    const distance = median(distances)
    const honest = honestDistances(earlier, hosterId)
    const pValue = rankPValue(distance / TOLERANCE, honest)
    const hasPassed = honest.length < HONEST_MIN ? null : pValue > FAILED_P
    results.push({ hosterId, distance, pValue, eValue: extremeEValue(pValue), hasPassed })
  }
  return results
}

/**
 * An honest hoster fails one panel in 200, which takes 199 earlier distances to tell. With fewer, a panel neither passes nor fails: a
 * cheat must not collect passed audits before anything is known.
 */
const FAILED_P = 1 / 200
const HONEST_MIN = 199

/**
 * Ranks need hosters that could be exchanged, but an honest hoster with other hardware is always a little farther away than the
 * rest. So much farther it may be; a cheaper model that is closer than that is not found.
 */
const TOLERANCE = 1.5

/** A cheat has larger distances by a factor; honest servers differ from each other by less. */
const HONEST_FACTOR = 2

/**
 * Returns the distances of the other hosters that seem honest: those with a median of at most twice the typical one. Without
 * this limit, two cheats would hide each other.
 */
function honestDistances(earlier: Distances, hosterId: string): number[] {
  const others = [...earlier].filter(([id, distances]) => id !== hosterId && distances.length > 0)
  if (others.length === 0) return []
  const typical = median(others.map(([, distances]) => median(distances)))
  return others.flatMap(([, distances]) => (median(distances) <= typical * HONEST_FACTOR + 1e-6 ? distances : []))
}
