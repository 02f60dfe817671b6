import { Button, SegmentedControl } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import type { TokenUsageReport } from '#api/reports.ts'
import { breakdownQuery, sharesQuery, tokensQuery } from '../../api/queries.ts'
import { ShareBar } from '../../charts/ShareBar.tsx'
import { type Bar, StackedBars } from '../../charts/StackedBars.tsx'
import { compactCount, countText, plural } from '../../format/number-text.ts'
import { utcDayText } from '../../format/time-text.ts'
import { roundUsd } from '../../format/usd-text.ts'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Charge } from '../../parts/Money.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { Provider } from '../../parts/Provider.tsx'
import { useCustomerId, useRights } from '../../shell/use-session.ts'
import styles from './usage.module.css'
import { readUsageSearch, type UsageSearch } from './usage-search.ts'

const spans = [
  { value: '1', label: 'Today' },
  { value: '7', label: '7 days' },
  { value: '30', label: '30 days' },
  { value: '90', label: '90 days' },
  { value: '365', label: 'Year' },
]

/** Spend, tokens and requests over time and by model and key. */
export function Usage() {
  const customerId = useCustomerId()
  const { seesKeys } = useRights()
  const search = readUsageSearch(useSearch({ strict: false }))
  const { days = 30, show = 'cost' } = search
  const interval = search.interval ?? (days <= 1 ? 'hour' : days <= 90 ? 'day' : 'week')
  const navigate = useNavigate()
  const set = (change: UsageSearch) =>
    void navigate({
      to: '/c/$customerId/usage',
      params: { customerId },
      search: { ...search, ...change },
      replace: true,
    })
  const tokens = useQuery(tokensQuery(customerId, days, interval))
  const breakdown = useQuery(breakdownQuery(customerId, days))
  return (
    <Page
      title="Usage"
      actions={
        <a href={`/console/api/customers/${customerId}/usage/export?days=${days}`} download>
          CSV
        </a>
      }
    >
      <div className={styles.choices}>
        <SegmentedControl
          aria-label="Period"
          data={spans}
          value={String(days)}
          onChange={value => set({ days: Number(value), interval: undefined as never })}
        />
        <SegmentedControl
          aria-label="Figure"
          data={[
            { value: 'cost', label: 'Cost' },
            { value: 'tokens', label: 'Tokens' },
            { value: 'requests', label: 'Requests' },
          ]}
          value={show}
          onChange={value => set({ show: value as 'cost' })}
        />
      </div>
      <Loaded query={tokens} height={340}>
        {report => <Chart report={report} show={show} />}
      </Loaded>
      <Loaded query={breakdown} height={200}>
        {({ by_model }) => {
          const most = Math.max(...by_model.map(({ total_cost_usd }) => total_cost_usd), 0)
          return (
            <Panel title="By model">
              {by_model.length === 0 ? (
                <EmptyState text="No requests in this period." />
              ) : (
                <DataTable
                  label="Usage by model"
                  rows={by_model}
                  keyOf={({ model_id, provider }) => `${model_id} ${provider}`}
                  columns={[
                    {
                      title: 'Model',
                      place: 'name',
                      cell: ({ model_id, provider }) => (
                        <Link
                          to="/c/$customerId/activity"
                          params={{ customerId }}
                          search={{ model: model_id, provider }}
                        >
                          {model_id}
                        </Link>
                      ),
                    },
                    { title: 'Server', cell: ({ provider }) => <Provider kind={provider} /> },
                    {
                      title: 'Share',
                      place: 'hidden',
                      cell: ({ total_cost_usd }) => <ShareBar share={most === 0 ? 0 : total_cost_usd / most} />,
                    },
                    {
                      title: 'Requests',
                      align: 'right',
                      isLabelled: true,
                      cell: ({ requests }) => countText(requests),
                    },
                    {
                      title: 'Input',
                      align: 'right',
                      isLabelled: true,
                      cell: ({ input_tokens }) => compactCount(input_tokens),
                    },
                    {
                      title: 'Cached',
                      align: 'right',
                      isLabelled: true,
                      cell: ({ cached_tokens }) => compactCount(cached_tokens),
                    },
                    {
                      title: 'Output',
                      align: 'right',
                      isLabelled: true,
                      cell: ({ output_tokens }) => compactCount(output_tokens),
                    },
                    {
                      title: 'USD',
                      align: 'right',
                      place: 'money',
                      cell: ({ total_cost_usd }) => <Charge usd={total_cost_usd} />,
                    },
                  ]}
                />
              )}
            </Panel>
          )
        }}
      </Loaded>
      {seesKeys && <ByKey customerId={customerId} days={days} />}
    </Page>
  )
}

const figureOf = {
  cost: { of: (bucket: Bucket) => bucket.cost_usd, text: roundUsd, title: 'USD' },
  tokens: { of: (bucket: Bucket) => bucket.total_tokens, text: compactCount, title: 'tokens' },
  requests: { of: (bucket: Bucket) => bucket.requests, text: compactCount, title: 'requests' },
} as const
type Bucket = TokenUsageReport['timeseries'][number]

function Chart({ report, show }: { report: TokenUsageReport; show: keyof typeof figureOf }) {
  const [isTable, setTable] = useState(false)
  const { of, text, title } = figureOf[show]
  const { totals, timeseries, interval } = report
  const isByServer = show === 'requests'
  const series = isByServer
    ? [
        { name: 'local', color: 'var(--local)' },
        { name: 'hoster', color: 'var(--hoster)' },
        { name: 'cloud', color: 'var(--cloud)' },
        { name: 'not served', color: 'var(--control)' },
      ]
    : [{ name: title, color: 'var(--link)' }]
  const bars: Bar[] = timeseries.map((bucket, index) => ({
    label: periodText(bucket.period, interval),
    values: isByServer ? byServer(bucket) : [of(bucket)],
    ...(index === timeseries.length - 1 && { isOpen: true }),
  }))
  const refunded = totals.refunded_usd > 0 ? `, ${roundUsd(totals.refunded_usd)} USD refunded` : ''
  return (
    <Panel
      title={`${roundUsd(totals.cost_usd)} USD${refunded} · ${plural(totals.requests, 'request')} · ${compactCount(totals.total_tokens)} tokens`}
      aside={
        <Button variant="subtle" size="compact-sm" onClick={() => setTable(!isTable)}>
          {isTable ? 'Show the chart' : 'Show as a table'}
        </Button>
      }
    >
      {totals.requests === 0 && <p className={styles.hint}>Your first request appears here within seconds.</p>}
      {isTable ? (
        <div className={styles.scroll}>
          <DataTable
            label={`${title} per ${interval}`}
            rows={[...timeseries].reverse()}
            keyOf={({ period }) => period}
            columns={[
              { title: 'From (UTC)', place: 'name', cell: ({ period }) => periodText(period, interval) },
              { title: 'Requests', align: 'right', isLabelled: true, cell: ({ requests }) => countText(requests) },
              { title: 'Tokens', align: 'right', isLabelled: true, cell: each => countText(each.total_tokens) },
              { title: 'USD', align: 'right', place: 'money', cell: ({ cost_usd }) => <Charge usd={cost_usd} /> },
            ]}
          />
        </div>
      ) : (
        <StackedBars label={`${title} per ${interval}`} series={series} bars={bars} text={text} />
      )}
      <p className={styles.hint}>Days begin at 00:00 UTC.</p>
    </Panel>
  )
}

function byServer({
  requests,
  local_requests: local,
  hoster_requests: hoster,
  cloud_requests: cloud,
}: Bucket): number[] {
  return [local, hoster, cloud, requests - local - hoster - cloud]
}

function periodText(period: string, interval: TokenUsageReport['interval']): string {
  if (interval === 'hour') return `${utcDayText(period)} ${period.slice(11, 16)}`
  if (interval === 'month') {
    return new Date(period).toLocaleDateString('en-GB', { month: 'short', year: 'numeric', timeZone: 'UTC' })
  }
  return utcDayText(period)
}

function ByKey({ customerId, days }: { customerId: string; days: number }) {
  const shares = useQuery(sharesQuery(customerId, 'keys', { days, interval: 'day' }))
  return (
    <Panel title="By key">
      <Loaded query={shares} height={120}>
        {({ data, other, totals }) =>
          data.length === 0 ? (
            <EmptyState text="No requests in this period." />
          ) : (
            <DataTable
              label="Usage by key"
              rows={[
                ...data,
                ...(other === null
                  ? []
                  : [{ ...other, id: 'other', name: `${other.count} others`, is_revoked: false }]),
              ]}
              keyOf={({ id }) => id}
              columns={[
                {
                  title: 'Key',
                  place: 'name',
                  cell: ({ id, name, is_revoked }) =>
                    id === 'other' ? (
                      name
                    ) : (
                      <>
                        <Link to="/c/$customerId/activity" params={{ customerId }} search={{ key: id }}>
                          {name ?? id}
                        </Link>
                        {is_revoked && <span className={styles.hint}> deleted</span>}
                      </>
                    ),
                },
                {
                  title: 'Share',
                  place: 'hidden',
                  cell: ({ cost_usd }) => <ShareBar share={totals.cost_usd === 0 ? 0 : cost_usd / totals.cost_usd} />,
                },
                { title: 'Requests', align: 'right', isLabelled: true, cell: ({ requests }) => countText(requests) },
                { title: 'USD', align: 'right', place: 'money', cell: ({ cost_usd }) => <Charge usd={cost_usd} /> },
              ]}
            />
          )
        }
      </Loaded>
    </Panel>
  )
}
