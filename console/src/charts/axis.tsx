import styles from './charts.module.css'

/** At most the width of a digit of an axis. */
export const DIGIT_PX = 7
/** The height of the line of labels below a chart. */
export const AXIS_PX = 20

/** Chooses the points with a label: the first, the last, and as many between them as fit. */
function labelledPoints(count: number, width: number): number[] {
  if (count === 0) return []
  const wanted = Math.max(2, Math.min(5, Math.floor(width / 120)))
  const step = Math.max(1, (count - 1) / (wanted - 1))
  const indexes = Array.from({ length: wanted }, (_, at) => Math.min(count - 1, Math.round(at * step)))
  return [...new Set(indexes)]
}

/** Where a label stands, so that the first and the last stay inside of the chart. */
function anchorOf(index: number, count: number): 'start' | 'middle' | 'end' {
  if (index === 0) return 'start'
  return index === count - 1 ? 'end' : 'middle'
}

/** The labels below a chart that fit its width, both in px. `x` says where a point stands. */
export function AxisLabels({
  points,
  width,
  height,
  x,
}: {
  points: readonly { readonly label: string }[]
  width: number
  height: number
  x: (index: number) => number | undefined
}) {
  return labelledPoints(points.length, width).map(index => (
    <text
      key={index}
      className={styles.axisText}
      x={x(index)}
      y={height - 4}
      textAnchor={anchorOf(index, points.length)}
    >
      {points[index]!.label}
    </text>
  ))
}

/** Returns the point that a key chooses; undefined for other keys. */
export function pointOfKey(key: string, chosen: number | null, count: number): number | undefined {
  const last = count - 1
  const next = { ArrowRight: (chosen ?? -1) + 1, ArrowLeft: (chosen ?? last + 1) - 1, Home: 0, End: last }[key]
  return next === undefined ? undefined : Math.max(0, Math.min(last, next))
}
