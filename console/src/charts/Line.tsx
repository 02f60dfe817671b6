import { t } from '@lingui/core/macro'
import { scaleLinear, scalePoint } from 'd3-scale'
import { type KeyboardEvent, useState } from 'react'
import { AXIS_PX, AxisLabels, DIGIT_PX, pointOfKey } from './axis.tsx'
import styles from './charts.module.css'
import { distinctTicks } from './distinct-ticks.ts'
import { useWidth } from './use-width.ts'

export interface LinePoint {
  /** Shown below the axis and in the reading. */
  readonly label: string
  /** Null: the line has a gap. */
  readonly value: number | null
  /** The period goes on, so the value still changes: its part of the line is dashed. */
  readonly isOpen?: boolean
}

const HEIGHT_PX = 120

/**
 * One line over time, also below zero. The arrow keys move between points, and a line above the chart reads the chosen
 * one.
 *
 * @param props.text writes a value
 */
export function Line({
  label,
  points,
  text,
}: {
  label: string
  points: readonly LinePoint[]
  text: (value: number) => string
}) {
  const { ref, width } = useWidth()
  const [chosen, setChosen] = useState<number | null>(null)
  const values = points.flatMap(({ value }) => value ?? [])
  const [low, high] = [Math.min(0, ...values), Math.max(0, ...values)]
  const y = scaleLinear()
    .domain([low, high === low ? low + 1 : high])
    .nice(2)
    .range([HEIGHT_PX - AXIS_PX, 8])
  const ticks = distinctTicks(count => y.ticks(count), 2, text)
  const left = Math.max(...ticks.map(tick => tick.label.length)) * DIGIT_PX + 8
  const x = scalePoint<number>()
    .domain(points.map((_, index) => index))
    .range([left, Math.max(left, width - 4)])
  const step = x.step() || 1
  const onKeyDown = (event: KeyboardEvent) => {
    const next = pointOfKey(event.key, chosen, points.length)
    if (next === undefined) return
    event.preventDefault()
    setChosen(next)
  }
  const read = chosen === null ? undefined : points[chosen]
  return (
    <div>
      <p className={styles.reading} aria-live="polite">
        {read && (
          <>
            <b>{read.label}</b>
            <b>{read.value === null ? t`no request` : text(read.value)}</b>
            {read.isOpen && <span>{t`not over yet`}</span>}
          </>
        )}
      </p>
      <div ref={ref} style={{ height: HEIGHT_PX }}>
        {width > 0 && (
          <svg
            className={styles.chart}
            height={HEIGHT_PX}
            viewBox={`0 0 ${width} ${HEIGHT_PX}`}
            role="img"
            aria-label={t`${label}. Use the arrow keys to read single days.`}
            // biome-ignore lint/a11y/noNoninteractiveTabindex: the arrow keys choose a point
            tabIndex={0}
            onKeyDown={onKeyDown}
            onPointerLeave={() => setChosen(null)}
            onBlur={() => setChosen(null)}
          >
            {ticks.map(tick => (
              <g key={tick.value} transform={`translate(0 ${y(tick.value)})`}>
                <line className={styles.gridLine} x1={left} x2={width} />
                <text className={styles.axisText} x={left - 8} y={4} textAnchor="end">
                  {tick.label}
                </text>
              </g>
            ))}
            {points.map((_, index) => (
              <rect
                key={index}
                className={styles.hit}
                data-is-chosen={chosen === index}
                width={step}
                height={HEIGHT_PX - AXIS_PX}
                x={x(index)! - step / 2}
                onPointerEnter={() => setChosen(index)}
              />
            ))}
            {points.slice(1).map(({ value, isOpen }, at) => {
              const before = points[at]!.value
              if (value === null || before === null) return null
              return (
                <line
                  key={at}
                  className={styles.line}
                  data-is-open={isOpen === true}
                  x1={x(at)}
                  y1={y(before)}
                  x2={x(at + 1)}
                  y2={y(value)}
                />
              )
            })}
            {points.map(({ value }, index) =>
              value === null ? null : (
                <circle key={index} className={styles.dot} cx={x(index)} cy={y(value)} r={chosen === index ? 4 : 2} />
              ),
            )}
            <AxisLabels points={points} width={width} height={HEIGHT_PX} x={x} />
          </svg>
        )}
      </div>
    </div>
  )
}
