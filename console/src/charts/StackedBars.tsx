import { t } from '@lingui/core/macro'
import { scaleBand, scaleLinear } from 'd3-scale'
import { type KeyboardEvent, useState } from 'react'
import { AXIS_PX, AxisLabels, DIGIT_PX, pointOfKey } from './axis.tsx'
import styles from './charts.module.css'
import { distinctTicks } from './distinct-ticks.ts'
import { useWidth } from './use-width.ts'

export interface Series {
  readonly name: string
  /** A colour of tokens.css, such as `var(--local)`. */
  readonly color: string
}

export interface Bar {
  /** Shown below the axis and in the reading. */
  readonly label: string
  /** In the order of the series. */
  readonly values: readonly number[]
  /** The period goes on, so the bar still grows: it is hatched. */
  readonly isOpen?: boolean
}

const HEIGHT_PX = 200

/**
 * Bars over time, stacked by series. The arrow keys move between bars, and a line above the chart reads the chosen one.
 *
 * @param props.text writes a value
 * @param props.onOpen is called with the index of a bar that the person opens by click or Enter
 */
export function StackedBars({
  label,
  series,
  bars,
  text,
  onOpen,
  height = HEIGHT_PX,
}: {
  label: string
  series: readonly Series[]
  bars: readonly Bar[]
  text: (value: number) => string
  onOpen?: (index: number) => void
  height?: number
}) {
  const { ref, width } = useWidth()
  const [chosen, setChosen] = useState<number | null>(null)
  const totals = bars.map(({ values }) => values.reduce((sum, value) => sum + value, 0))
  const hasOpen = bars.some(({ isOpen }, index) => isOpen === true && totals[index]! > 0)
  const tickCount = height < HEIGHT_PX ? 2 : 3
  const y = scaleLinear()
    .domain([0, Math.max(...totals, 0) || 1])
    .nice(tickCount)
    .range([height - AXIS_PX, 8])
  const ticks = distinctTicks(
    count => y.ticks(count),
    tickCount,
    value => (value === 0 ? '' : text(value)),
  )
  // The labels stand next to the bars, not behind them.
  const left = Math.max(...ticks.map(tick => tick.label.length)) * DIGIT_PX + 8
  const x = scaleBand<number>()
    .domain(bars.map((_, index) => index))
    .range([left, Math.max(left, width)])
    .paddingInner(0.2)
  const onKeyDown = (event: KeyboardEvent) => {
    const next = pointOfKey(event.key, chosen, bars.length)
    if (next !== undefined) {
      event.preventDefault()
      setChosen(next)
    } else if (event.key === 'Enter' && chosen !== null) onOpen?.(chosen)
  }
  return (
    <div>
      {(series.length > 1 || hasOpen) && (
        <ul className={styles.legend}>
          {series.length > 1 &&
            series.map(({ name, color }, at) => (
              <li key={at}>
                <span className={styles.swatch} style={{ background: color }} />
                {name}
              </li>
            ))}
          {hasOpen && (
            <li>
              <svg className={styles.swatch} viewBox="0 0 10 10" aria-hidden="true">
                <rect width="10" height="10" fill="var(--ink-2)" />
                <rect width="10" height="10" fill="url(#hatch)" />
              </svg>
              {t`not over yet`}
            </li>
          )}
        </ul>
      )}
      <Reading bar={chosen === null ? undefined : bars[chosen]} series={series} text={text} />
      <div ref={ref} style={{ height }}>
        {width > 0 && (
          <svg
            className={styles.chart}
            height={height}
            viewBox={`0 0 ${width} ${height}`}
            role="img"
            aria-label={t`${label}. Use the arrow keys to read single bars${onOpen ? t`, and Enter to open one` : ''}.`}
            // biome-ignore lint/a11y/noNoninteractiveTabindex: the arrow keys choose a bar
            tabIndex={0}
            onKeyDown={onKeyDown}
            onPointerLeave={() => setChosen(null)}
            onBlur={() => setChosen(null)}
          >
            <Hatch />
            {ticks.map(tick => (
              <g key={tick.value} transform={`translate(0 ${y(tick.value)})`}>
                <line className={styles.gridLine} x1={left} x2={width} />
                <text className={styles.axisText} x={left - 8} y={4} textAnchor="end">
                  {tick.label}
                </text>
              </g>
            ))}
            {bars.map((bar, index) => (
              <g key={index} transform={`translate(${x(index)} 0)`}>
                {/* biome-ignore lint/a11y/noStaticElementInteractions: the keys of the chart do the same */}
                <rect
                  className={styles.hit}
                  data-is-chosen={chosen === index}
                  width={x.step()}
                  height={height - AXIS_PX}
                  x={-(x.step() - x.bandwidth()) / 2}
                  onPointerEnter={() => setChosen(index)}
                  onClick={() => onOpen?.(index)}
                  style={onOpen && { cursor: 'pointer' }}
                />
                {stack(bar.values).map(([from, to], at) => (
                  <rect
                    key={at}
                    fill={series[at]!.color}
                    width={Math.max(1, x.bandwidth())}
                    y={y(to)}
                    height={Math.max(to > from ? 1 : 0, y(from) - y(to))}
                    pointerEvents="none"
                  />
                ))}
                {bar.isOpen && totals[index]! > 0 && (
                  <rect
                    fill="url(#hatch)"
                    width={x.bandwidth()}
                    y={y(totals[index]!)}
                    height={height - AXIS_PX - y(totals[index]!)}
                    pointerEvents="none"
                  />
                )}
              </g>
            ))}
            <AxisLabels points={bars} width={width} height={height} x={index => x(index)! + x.bandwidth() / 2} />
          </svg>
        )}
      </div>
    </div>
  )
}

function Reading({
  bar,
  series,
  text,
}: {
  bar: Bar | undefined
  series: readonly Series[]
  text: (v: number) => string
}) {
  return (
    <p className={styles.reading} aria-live="polite">
      {bar && (
        <>
          <b>{bar.label}</b>
          {series.map(({ name }, at) =>
            series.length === 1 || bar.values[at]! > 0 ? (
              <span key={at}>
                {series.length > 1 && `${name} `}
                <b>{text(bar.values[at]!)}</b>
              </span>
            ) : null,
          )}
          {bar.isOpen && <span>{t`not over yet`}</span>}
        </>
      )}
    </p>
  )
}

function Hatch() {
  return (
    <defs>
      <pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
        <rect width="2.5" height="6" fill="var(--surface)" />
      </pattern>
    </defs>
  )
}

/** Returns from and to of each value. */
function stack(values: readonly number[]): [number, number][] {
  let sum = 0
  return values.map(value => {
    const from = sum
    sum += value
    return [from, sum]
  })
}
