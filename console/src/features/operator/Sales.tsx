import { plural, t } from '@lingui/core/macro'
import { Button } from '@mantine/core'
import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import type { OperatorUsage } from '#api/operator/usage.ts'
import { customersQuery, operatorLatencyQuery, operatorUsageQuery } from '../../api/operator-queries.ts'
import { Line, type LinePoint } from '../../charts/Line.tsx'
import { countText, durationText, shareText } from '../../format/number-text.ts'
import { utcDayText } from '../../format/time-text.ts'
import { roundUsd } from '../../format/usd-text.ts'
import { DataTable } from '../../parts/DataTable.tsx'
import { Facts } from '../../parts/Facts.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Amount, Charge } from '../../parts/Money.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { When } from '../../parts/When.tsx'
import { knownShareText, Margin } from './Margin.tsx'
import styles from './operator.module.css'
import { type UsageBucket, usageBuckets } from './usage-buckets.ts'

const LISTED = 5

/** Revenue, margin, errors and times of answers over the last 30 days, and the customers behind them. */
export function Sales() {
  const usage = useQuery(operatorUsageQuery({ by: 'customer' }))
  const customers = useInfiniteQuery(customersQuery({}))
  const [isTable, setTable] = useState(false)
  return (
    <>
      <Panel
        title={t`Last 30 days`}
        aside={
          <span className={styles.buttons}>
            <Button variant="subtle" size="compact-sm" onClick={() => setTable(!isTable)}>
              {isTable ? t`Show the charts` : t`Show as a table`}
            </Button>
            <Link to="/operator/usage">{t`Usage`}</Link>
          </span>
        }
      >
        <Loaded query={usage} height={420}>
          {data => {
            const buckets = usageBuckets(data)
            return (
              <>
                {isTable ? <SalesTable buckets={buckets} /> : <SalesCharts total={data.total} buckets={buckets} />}
                <NewestRequests />
              </>
            )
          }}
        </Loaded>
      </Panel>
      <Panel title={t`Top customers`} aside={<Link to="/operator/usage" search={{ by: 'customer' }}>{t`All`}</Link>}>
        <Loaded query={usage} height={160}>
          {({ groups }) => (
            <DataTable
              label={t`Top customers`}
              rows={groups.slice(0, LISTED)}
              keyOf={({ id }) => id}
              columns={[
                {
                  title: t`Customer`,
                  place: 'name',
                  cell: ({ id, name }) => (
                    <Link to="/operator/customers/$customerId" params={{ customerId: id }}>
                      {name}
                    </Link>
                  ),
                },
                {
                  title: t`Requests`,
                  align: 'right',
                  cell: ({ requests }) => countText(requests),
                },
                {
                  title: t`Margin`,
                  align: 'right',
                  cell: each => <Margin of={each} />,
                },
                {
                  title: 'USD',
                  align: 'right',
                  place: 'figure',
                  cell: each => <Charge usd={each.charged_usd} />,
                },
              ]}
            />
          )}
        </Loaded>
      </Panel>
      <Panel title={t`New customers`} aside={<Link to="/operator/customers">{t`All`}</Link>}>
        <Loaded query={customers} height={160}>
          {({ pages }) => (
            <DataTable
              label={t`New customers`}
              rows={pages.flatMap(({ data }) => data).slice(0, LISTED)}
              keyOf={({ id }) => id}
              columns={[
                {
                  title: t`Customer`,
                  place: 'name',
                  cell: ({ id, email }) => (
                    <Link to="/operator/customers/$customerId" params={{ customerId: id }}>
                      {email ?? id.slice(0, 8)}
                    </Link>
                  ),
                },
                { title: t`Since`, cell: ({ created_at }) => <When at={created_at} form="distance" /> },
                {
                  title: t`USD in 30 days`,
                  align: 'right',
                  place: 'figure',
                  cell: each => <Charge usd={each.spent_30d_usd} />,
                },
              ]}
            />
          )}
        </Loaded>
      </Panel>
    </>
  )
}

type Usd = number | null
const usdOrDash = (usd: Usd) => (usd === null ? '–' : <Amount usd={usd} />)

function SalesCharts({ total, buckets }: { total: OperatorUsage['total']; buckets: readonly UsageBucket[] }) {
  const pointsOf = (value: (bucket: UsageBucket) => number | null): LinePoint[] =>
    buckets.map(bucket => ({
      label: utcDayText(bucket.from),
      value: value(bucket),
      ...(bucket.isOpen && { isOpen: true }),
    }))
  const failed = total.failed ?? 0
  return (
    <div className={styles.charts}>
      <Chart
        title={t`Revenue, USD`}
        figure={roundUsd(total.revenue_usd ?? 0)}
        hint={t`fees of ${roundUsd(total.charged_usd)} charged, less refunds, with what free credit paid`}
        points={pointsOf(each => each.revenueUsd)}
        text={roundUsd}
      />
      <Chart
        title={t`Margin, USD`}
        figure={total.margin_usd === null ? '–' : roundUsd(total.margin_usd)}
        hint={knownShareText(total) ?? t`revenue less what servers, clouds and audits cost you`}
        points={pointsOf(each => each.marginUsd)}
        text={roundUsd}
      />
      <Chart
        title={t`Failed requests`}
        figure={total.requests === 0 ? '–' : shareText(failed / total.requests)}
        hint={t`${countText(failed)} of ${plural(total.requests, { one: '# request', other: '# requests' })}, with those that the client left`}
        points={pointsOf(each => each.failedShare)}
        text={shareText}
      />
      <Chart
        title={t`Mean time to the last token`}
        figure={total.mean_latency_ms === null ? '–' : durationText(total.mean_latency_ms)}
        hint={t`of the requests that did not fail`}
        points={pointsOf(each => each.meanLatencyMs)}
        text={durationText}
      />
    </div>
  )
}

function Chart({
  title,
  figure,
  hint,
  points,
  text,
}: {
  title: string
  figure: string
  hint: string
  points: readonly LinePoint[]
  text: (value: number) => string
}) {
  return (
    <figure className={styles.chart}>
      <figcaption>
        <span className={styles.hint}>{title}</span>
        <span className={styles.chartFigure}>{figure}</span>
        <span className={styles.hint}>{hint}</span>
      </figcaption>
      <Line label={title} points={points} text={text} />
    </figure>
  )
}

function SalesTable({ buckets }: { buckets: readonly UsageBucket[] }) {
  return (
    <div className={styles.scroll}>
      <DataTable
        label={t`Sales by day`}
        rows={[...buckets].reverse()}
        keyOf={({ from }) => from}
        columns={[
          { title: t`Day (UTC)`, place: 'name', cell: ({ from }) => utcDayText(from), sortBy: ({ from }) => from },
          {
            title: t`Requests`,
            align: 'right',
            cell: ({ requests }) => countText(requests),
            sortBy: ({ requests }) => requests,
          },
          {
            title: t`Failed`,
            align: 'right',
            cell: ({ failedShare }) => (failedShare === null ? '–' : shareText(failedShare)),
            sortBy: ({ failedShare }) => failedShare,
          },
          {
            title: t`Mean time`,
            align: 'right',
            cell: ({ meanLatencyMs: ms }) => (ms === null ? '–' : durationText(ms)),
            sortBy: ({ meanLatencyMs }) => meanLatencyMs,
          },
          {
            title: t`Revenue`,
            align: 'right',
            cell: ({ revenueUsd }) => usdOrDash(revenueUsd),
            sortBy: ({ revenueUsd }) => revenueUsd,
          },
          {
            title: t`Margin`,
            align: 'right',
            cell: ({ marginUsd }) => usdOrDash(marginUsd),
            sortBy: ({ marginUsd }) => marginUsd,
          },
        ]}
      />
    </div>
  )
}

/** The sums by day have no percentiles, so these are of the newest requests. */
function NewestRequests() {
  const { data: latency } = useQuery(operatorLatencyQuery)
  if (latency === undefined || latency.first_token_ms === null || latency.total_ms === null) return null
  const { first_token_ms: first, total_ms: all } = latency
  return (
    <Facts
      facts={{
        [plural(latency.requests, {
          one: 'The newest # request',
          other: 'The newest # requests',
        })]: t`${shareText(latency.failure_share)} failed`,
        [t`First token`]: t`${durationText(first.p50)} for half of them, ${durationText(first.p95)} for 95 %`,
        [t`Last token`]: t`${durationText(all.p50)} for half of them, ${durationText(all.p95)} for 95 %`,
      }}
    />
  )
}
