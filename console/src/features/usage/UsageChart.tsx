import { plural, t } from '@lingui/core/macro'
import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import type { Interval, TokenUsageReport } from '#api/reports.ts'
import { sharesQuery, tokensQuery } from '../../api/queries.ts'
import { StackedBars } from '../../charts/StackedBars.tsx'
import { compactCount, countText } from '../../format/number-text.ts'
import { utcDayText, utcMonthText } from '../../format/time-text.ts'
import { roundUsd } from '../../format/usd-text.ts'
import { DataTable } from '../../parts/DataTable.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Charge } from '../../parts/Money.tsx'
import { Panel } from '../../parts/Panel.tsx'
import styles from './usage.module.css'
import type { Split } from './usage-search.ts'
import { type UsageSeries, usageSeries } from './usage-series.ts'

type Figure = 'cost' | 'tokens' | 'requests'
type Point = UsageSeries['points'][number]

const figureOf = {
  cost: { of: ({ cost_usd }: Point) => cost_usd, text: roundUsd, title: 'USD' },
  tokens: {
    of: (each: Point) => (each.input_tokens ?? 0) + (each.output_tokens ?? 0),
    text: compactCount,
    title: t`tokens`,
  },
  requests: { of: ({ requests }: Point) => requests, text: compactCount, title: t`requests` },
} as const

/** The name of the chart. */
const perInterval: Readonly<Record<Interval, (title: string) => string>> = {
  hour: title => t`${title} per hour`,
  day: title => t`${title} per day`,
  week: title => t`${title} per week`,
  month: title => t`${title} per month`,
}

/**
 * Spend, tokens or requests over time. A bar opens the requests of its span. There are no sums by server, model or key
 * for hours, and no tokens by key, member and label: then the chart has one series.
 */
export function UsageChart({
  customerId,
  days,
  interval,
  split,
  show,
}: {
  customerId: string
  days: number
  interval: Interval
  split: Split
  show: Figure
}) {
  const tokens = useQuery(tokensQuery(customerId, days, interval))
  const hasShares = interval !== 'hour' && !(show === 'tokens' && split !== 'provider' && split !== 'model')
  const shares = useQuery({
    ...sharesQuery(customerId, `${split}s`, { days, interval: interval === 'hour' ? 'day' : interval }),
    enabled: hasShares,
  })
  return (
    <Loaded query={tokens} height={370}>
      {report => {
        const isLoaded = hasShares && shares.data?.interval === interval && shares.data.by === split
        const series = isLoaded ? usageSeries(shares.data!) : [oneSeries(report, figureOf[show].title)]
        return <Chart customerId={customerId} report={report} series={series} show={show} />
      }}
    </Loaded>
  )
}

function oneSeries({ timeseries }: TokenUsageReport, name: string): UsageSeries {
  return { name, color: 'var(--link)', points: timeseries }
}

function Chart({
  customerId,
  report,
  series,
  show,
}: {
  customerId: string
  report: TokenUsageReport
  series: readonly UsageSeries[]
  show: Figure
}) {
  const [isTable, setTable] = useState(false)
  const navigate = useNavigate()
  const { of, text, title } = figureOf[show]
  const { totals, timeseries, interval } = report
  const refunded = totals.refunded_usd > 0 ? t`, ${roundUsd(totals.refunded_usd)} USD refunded` : ''
  const shown = series.filter(({ points }) => points.length === timeseries.length)
  return (
    <Panel
      title={t`${roundUsd(totals.cost_usd)} USD${refunded} · ${plural(totals.requests, { one: '# request', other: '# requests' })} · ${compactCount(totals.total_tokens)} tokens`}
      aside={
        <Button variant="subtle" size="compact-sm" onClick={() => setTable(!isTable)}>
          {isTable ? t`Show the chart` : t`Show as a table`}
        </Button>
      }
    >
      {totals.requests === 0 && <p className={styles.hint}>{t`Your first request appears here within seconds.`}</p>}
      {isTable ? (
        <div className={styles.scroll}>
          <DataTable
            label={perInterval[interval](title)}
            rows={[...timeseries].reverse()}
            keyOf={({ period }) => period}
            columns={[
              {
                title: t`From (UTC)`,
                place: 'name',
                cell: ({ period }) => periodText(period, interval),
                sortBy: ({ period }) => period,
              },
              {
                title: t`Requests`,
                align: 'right',
                cell: ({ requests }) => countText(requests),
                sortBy: ({ requests }) => requests,
              },
              {
                title: t`Tokens`,
                align: 'right',
                cell: each => countText(each.total_tokens),
                sortBy: ({ total_tokens }) => total_tokens,
              },
              {
                title: 'USD',
                align: 'right',
                place: 'figure',
                cell: ({ cost_usd }) => <Charge usd={cost_usd} />,
                sortBy: ({ cost_usd }) => cost_usd,
              },
            ]}
          />
        </div>
      ) : (
        <StackedBars
          label={perInterval[interval](title)}
          series={shown}
          bars={timeseries.map(({ period }, index) => ({
            label: periodText(period, interval),
            values: shown.map(({ points }) => of(points[index]!)),
            ...(index === timeseries.length - 1 && { isOpen: true }),
          }))}
          text={text}
          onOpen={index => {
            const next = timeseries[index + 1]?.period
            const search = {
              from: instant(timeseries[index]!.period),
              ...(next !== undefined && { to: instant(next) }),
            }
            void navigate({ to: '/c/$customerId/activity', params: { customerId }, search })
          }}
        />
      )}
      <p className={styles.hint}>{t`Days begin at 00:00 UTC. A bar opens its requests.`}</p>
    </Panel>
  )
}

function instant(period: string): string {
  return new Date(period).toISOString()
}

function periodText(period: string, interval: Interval): string {
  if (interval === 'hour') return `${utcDayText(period)} ${period.slice(11, 16)}`
  if (interval === 'month') {
    return utcMonthText(period)
  }
  return utcDayText(period)
}
