import { t } from '@lingui/core/macro'
import { sumUsd } from '../../format/usd-text.ts'
import { shareNames } from './share-names.ts'

/** At most this many series have a colour of their own. The rest is summed as "Other". */
export const SERIES_MAX = 7

interface Sums {
  readonly requests: number
  readonly cost_usd: number
  readonly input_tokens: number | null
  readonly output_tokens: number | null
}

interface Point extends Sums {
  /** Start of the bucket. */
  readonly period: string
}

/** The part of `UsageShares` that the chart needs. */
export interface Shares {
  readonly by: string
  readonly data: readonly { readonly id: string; readonly name: string | null; readonly timeseries: readonly Point[] }[]
  readonly other: { readonly count: number; readonly timeseries: readonly Point[] } | null
}

export interface UsageSeries {
  readonly name: string
  readonly color: string
  readonly points: readonly Point[]
}

const servers: Readonly<Record<string, { name: string; color: string }>> = {
  local: { name: t`local`, color: 'var(--local)' },
  hoster: { name: t`hoster`, color: 'var(--hoster)' },
  cloud: { name: t`cloud`, color: 'var(--cloud)' },
  none: { name: t`no server`, color: 'var(--control)' },
}

/** Returns the series of a chart: the most expensive ones, and the sum of the others as "Other". */
export function usageSeries({ by, data, other }: Shares): UsageSeries[] {
  const series = data.slice(0, SERIES_MAX).map(({ id, name, timeseries }, index) => ({
    ...((by === 'provider' ? servers[id] : undefined) ?? {
      name: shareNames[id] ?? name ?? id,
      color: `var(--series-${index + 1})`,
    }),
    points: timeseries,
  }))
  const rest = [
    ...data.slice(SERIES_MAX).map(({ timeseries }) => timeseries),
    ...(other === null ? [] : [other.timeseries]),
  ]
  if (rest.length === 0) return series
  return [...series, { name: t`Other`, color: 'var(--hairline)', points: addUp(rest) }]
}

/** Returns the sums by bucket. All series have the same buckets. */
export function addUp(series: readonly (readonly Point[])[]): Point[] {
  return (series[0] ?? []).map(({ period }, index) => {
    const points = series.map(each => each[index]!)
    const total = (of: (point: Point) => number | null) => points.reduce((sum, point) => sum + (of(point) ?? 0), 0)
    return {
      period,
      requests: total(({ requests }) => requests),
      cost_usd: sumUsd(points.map(({ cost_usd }) => cost_usd)),
      input_tokens: total(point => point.input_tokens),
      output_tokens: total(point => point.output_tokens),
    }
  })
}
