import { t } from '@lingui/core/macro'
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { lazy, Suspense } from 'react'
import type { TokenUsageReport } from '#api/reports.ts'
import { fromGateway } from '../../api/gateway-link.ts'
import { tokensQuery } from '../../api/queries.ts'
import { compactCount } from '../../format/number-text.ts'
import { minuteText } from '../../format/time-text.ts'
import { Panel } from '../../parts/Panel.tsx'
import { providerNames } from '../../parts/Provider.tsx'
import { type ActivitySearch, readActivitySearch } from './activity-search.ts'

// A receipt opens over this page, and both have little room: see sizes.test.ts.
const StackedBars = lazy(
  fromGateway(async () => ({ default: (await import('../../charts/StackedBars.tsx')).StackedBars })),
)
/** The chart with the line that reads it, so that the list below does not move. */
const CHART_PX = 160

const DAYS = 2
const HOURS = 24
const HOUR_MS = 3_600_000

/**
 * The requests of the last 24 hours, by hour. A click on a bar filters the list by its hour. Nothing for a filter other than
 * the kind of provider, which the sums by hour do not have, or for a span that is not within these hours.
 */
export function HourBars({ customerId, filter }: { customerId: string; filter: ActivitySearch }) {
  const report = useQuery(tokensQuery(customerId, DAYS, 'hour'))
  const navigate = useNavigate()
  const { from, to, provider, ...others } = filter
  const hours = hoursUntil(report.data?.timeseries ?? [], Date.now())
  const first = hours[0]?.period ?? ''
  // Both are ISO 8601 in UTC; `from` may be only a date.
  const beginsEarlier = from === undefined ? to !== undefined : from < first.slice(0, from.length)
  if (Object.keys(others).length > 0 || beginsEarlier || hours.every(({ requests }) => requests === 0)) return null
  const kinds = (['local', 'hoster', 'cloud', 'none'] as const).filter(
    kind => (provider === undefined || kind === provider) && hours.some(hour => countOf(hour, kind) > 0),
  )
  return (
    <Panel title={t`Requests of the last 24 hours`}>
      <Suspense fallback={<div style={{ height: CHART_PX }} />}>
        <StackedBars
          label={t`Requests by hour`}
          series={kinds.map(kind => ({
            name: providerNames[kind],
            color: kind === 'none' ? 'var(--control)' : `var(--${kind})`,
          }))}
          bars={hours.map((hour, index) => ({
            label: minuteText(new Date(hour.period)),
            values: kinds.map(kind => countOf(hour, kind)),
            ...(index === hours.length - 1 && { isOpen: true }),
          }))}
          text={compactCount}
          height={96}
          onOpen={index => {
            const begin = Date.parse(hours[index]!.period)
            const search = readActivitySearch({
              ...filter,
              from: new Date(begin).toISOString(),
              to: new Date(begin + HOUR_MS).toISOString(),
            })
            void navigate({ to: '/c/$customerId/activity', params: { customerId }, search })
          }}
        />
      </Suspense>
    </Panel>
  )
}

type Bucket = TokenUsageReport['timeseries'][number]

/** Returns the buckets of the last 24 hours: the report also has the hours of today that have not begun. */
function hoursUntil(buckets: readonly Bucket[], nowMs: number): readonly Bucket[] {
  return buckets.filter(({ period }) => Date.parse(period) <= nowMs).slice(-HOURS)
}

function countOf(bucket: Bucket, kind: 'local' | 'hoster' | 'cloud' | 'none'): number {
  const { requests, local_requests: local, hoster_requests: hoster, cloud_requests: cloud } = bucket
  return { local, hoster, cloud, none: requests - local - hoster - cloud }[kind]
}
