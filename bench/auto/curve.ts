/** A way of choosing, as its mean cost and mean quality over all requests. */
export interface Point {
  readonly costUsd: number
  readonly quality: number
}

/** A request with the quality and cost of each model, and the predicted quality. */
export interface Judged {
  readonly quality: Readonly<Record<string, number>>
  readonly costUsd: Readonly<Record<string, number>>
  readonly predicted: Readonly<Record<string, number>>
}

/** Returns the mean cost and quality when `choose` chooses the model of each request. */
export function pointOf(requests: readonly Judged[], choose: (request: Judged) => string): Point {
  let costUsd = 0
  let quality = 0
  for (const request of requests) {
    const model = choose(request)
    costUsd += request.costUsd[model]!
    quality += request.quality[model]!
  }
  return { costUsd: costUsd / requests.length, quality: quality / requests.length }
}

/** The points of a choice by score, from cost alone to quality alone. */
export function curveOf(requests: readonly Judged[], qualityOf: (request: Judged, model: string) => number): Point[] {
  const highest = Math.max(...requests.flatMap(({ costUsd }) => Object.values(costUsd)))
  return WEIGHTS.map(weight =>
    pointOf(requests, request =>
      Object.keys(request.quality).reduce((best, model) => {
        const score = (name: string) => qualityOf(request, name) - (weight * request.costUsd[name]!) / highest
        return score(model) > score(best) ? model : best
      }),
    ),
  )
}

const WEIGHTS = [0, ...Array.from({ length: 41 }, (_, step) => 10 ** (-3 + step * 0.15))]

/**
 * Returns the mean quality over all costs between `fromUsd` and `toUsd`: the area under the best line through the points
 * (their upper convex hull, since two choices can be mixed), divided by its width.
 */
export function areaOf(points: readonly Point[], fromUsd: number, toUsd: number): number {
  const hull = upperHull(points)
  const STEPS = 1_000
  let sum = 0
  for (let step = 0; step < STEPS; step++) sum += qualityAt(hull, fromUsd + ((toUsd - fromUsd) * (step + 0.5)) / STEPS)
  return sum / STEPS
}

function upperHull(points: readonly Point[]): readonly Point[] {
  const hull: Point[] = []
  for (const point of [...points].sort((a, b) => a.costUsd - b.costUsd || b.quality - a.quality)) {
    if (hull.length > 0 && point.quality <= hull.at(-1)!.quality) continue
    while (hull.length > 1 && isBelow(hull.at(-1)!, hull.at(-2)!, point)) hull.pop()
    hull.push(point)
  }
  return hull
}

/** Whether `middle` lies below the line from `left` to `right`. */
function isBelow(middle: Point, left: Point, right: Point): boolean {
  const part = (middle.costUsd - left.costUsd) / (right.costUsd - left.costUsd)
  return middle.quality <= left.quality + part * (right.quality - left.quality)
}

/** Below the cheapest point, nothing is known to be possible: its quality counts. Above the best one, nothing is better. */
function qualityAt(hull: readonly Point[], costUsd: number): number {
  const next = hull.findIndex(point => point.costUsd >= costUsd)
  if (next === -1) return hull.at(-1)!.quality
  if (next === 0) return hull[0]!.quality
  const [left, right] = [hull[next - 1]!, hull[next]!]
  const part = (costUsd - left.costUsd) / (right.costUsd - left.costUsd)
  return left.quality + part * (right.quality - left.quality)
}
