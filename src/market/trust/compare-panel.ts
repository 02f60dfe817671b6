import type { AnswerDistance } from './answer-distance.ts'
import { extremeEValues, rankPValue } from './e-values.ts'
import { median } from './statistics.ts'

/** The distances that audits of one kind have measured for one model, by hoster. The latest last. */
export type Distances = ReadonlyMap<string, readonly AnswerDistance[]>

/** One hoster's answers in a panel: the same prompts to several servers of a model. */
export interface Panellist<Answer> {
  readonly hosterId: string
  readonly answer: Answer
}

export interface PanelResult {
  readonly hosterId: string
  /** The median distance to the other answers. */
  readonly distance: AnswerDistance
  /** One for each alternative of the test. */
  readonly eValues: readonly number[]
  /** Null: too few earlier distances to judge it. */
  readonly hasPassed: boolean | null
}

/** So many answers are needed: of two that differ, no one knows which is wrong. */
const PANEL_MIN = 3

/**
 * Judges the answers of a panel, by the overall distance and by that of the worst prompt. A distance is extreme only
 * among the distances that other hosters of the same model had in earlier audits: honest servers differ by hardware,
 * batching and quantization, and how much is learned, not assumed.
 *
 * @param distanceOf null if two answers cannot be compared
 */
export function comparePanel<Answer>(
  panel: readonly Panellist<Answer>[],
  distanceOf: (a: Answer, b: Answer) => AnswerDistance | null,
  earlier: Distances,
): PanelResult[] {
  if (panel.length < PANEL_MIN) return []
  const medians = new Map([...earlier].map(([id, distances]) => [id, medianOf(distances)]))
  const results: PanelResult[] = []
  for (const { hosterId, answer } of panel) {
    const others = panel.filter(other => other.hosterId !== hosterId)
    const distances = others.map(other => distanceOf(answer, other.answer)).filter(distance => distance !== null)
    if (distances.length === 0) continue
    const distance = {
      overall: median(distances.map(({ overall }) => overall)),
      worst: median(distances.map(({ worst }) => worst)),
    }
    const honest = honestDistances(earlier, medians, hosterId)
    const pValueOf = (part: keyof AnswerDistance) =>
      rankPValue(
        distance[part] / TOLERANCE - FLOOR,
        honest.map(one => one[part]),
      )
    const [overall, worst] = [pValueOf('overall'), pValueOf('worst')]
    // The two depend on each other, so their e-values are alternatives and are not multiplied.
    const eValues = [...extremeEValues(overall, honest.length), ...extremeEValues(worst, honest.length)]
    results.push({ hosterId, distance, eValues, hasPassed: honest.length < HONEST_MIN ? null : overall > FAILED_P })
  }
  return results
}

/**
 * An honest hoster fails one panel in 200, which takes 199 earlier distances to tell. With fewer, a panel neither
 * passes nor fails: a cheat must not collect passed audits before anything is known.
 */
const FAILED_P = 1 / 200
const HONEST_MIN = 199

/**
 * Ranks need hosters that could be exchanged, but an honest hoster with other hardware is always a little farther away
 * than the rest. So much farther it may be; a cheaper model that is closer than that is not found.
 */
const TOLERANCE = 1.5
/**
 * Where all others run the same software on the same hardware, their distances are zero, and any difference of an
 * honest hoster would be the largest. So much is always allowed.
 */
const FLOOR = 0.02

/** A cheat has larger distances by a factor; honest servers differ from each other by less. */
const HONEST_FACTOR = 2

/**
 * Returns the distances of the other hosters that seem honest: those with a median of at most twice the typical one.
 * Without this limit, two cheats would hide each other.
 */
function honestDistances(earlier: Distances, medians: ReadonlyMap<string, number>, hosterId: string): AnswerDistance[] {
  const others = [...earlier].flatMap(([id, distances]) => {
    const ofHoster = medians.get(id)
    return id === hosterId || ofHoster === undefined || distances.length === 0 ? [] : [{ distances, ofHoster }]
  })
  if (others.length === 0) return []
  const limit = median(others.map(({ ofHoster }) => ofHoster)) * HONEST_FACTOR + 1e-6
  return others.flatMap(({ distances, ofHoster }) => (ofHoster <= limit ? distances : []))
}

function medianOf(distances: readonly AnswerDistance[]): number {
  return distances.length === 0 ? 0 : median(distances.map(({ overall }) => overall))
}
