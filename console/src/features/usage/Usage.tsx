import { t } from '@lingui/core/macro'
import { SegmentedControl, Select } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import type { Interval } from '#api/reports.ts'
import { breakdownQuery, sharesQuery } from '../../api/queries.ts'
import { ShareBar } from '../../charts/ShareBar.tsx'
import { compactCount, countText } from '../../format/number-text.ts'
import { CsvExport } from '../../parts/CsvExport.tsx'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Charge } from '../../parts/Money.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { Provider } from '../../parts/Provider.tsx'
import { useCustomerId, useRights } from '../../shell/use-session.ts'
import { shareNames } from './share-names.ts'
import { UsageChart } from './UsageChart.tsx'
import styles from './usage.module.css'
import { readUsageSearch, type Split, type UsageSearch } from './usage-search.ts'

const spans = [
  { value: '1', label: t`Today` },
  { value: '7', label: t`7 days` },
  { value: '30', label: t`30 days` },
  { value: '90', label: t`90 days` },
  { value: '365', label: t`Year` },
]

const intervalNames: Readonly<Record<Interval, string>> = {
  hour: t`Per hour`,
  day: t`Per day`,
  week: t`Per week`,
  month: t`Per month`,
}

/** Spend, tokens and requests over time and by model and key. */
export function Usage() {
  const customerId = useCustomerId()
  const { seesKeys } = useRights()
  const search = readUsageSearch(useSearch({ strict: false }))
  const { days = 30, show = 'cost' } = search
  const fitting = intervalsOf(days)
  const interval = fitting.find(each => each === search.interval) ?? fitting[0]!
  const asked = search.split ?? 'provider'
  const split = asked !== 'model' && !seesKeys ? 'provider' : asked
  const navigate = useNavigate()
  const set = (change: UsageSearch) => open({ ...search, ...change })
  const open = (next: UsageSearch) =>
    void navigate({
      to: '/c/$customerId/usage',
      params: { customerId },
      search: next,
      replace: true,
    })
  const breakdown = useQuery(breakdownQuery(customerId, days))
  return (
    <Page
      title={t`Usage`}
      actions={
        <CsvExport
          // Another period is another file.
          key={days}
          path={`customers/${customerId}/usage/export?days=${days}`}
          rows={breakdown.data?.by_model.reduce((sum, { requests }) => sum + requests, 0)}
          what={t`all requests of this period`}
        />
      }
    >
      <div className={styles.choices}>
        <SegmentedControl
          aria-label={t`Period`}
          data={spans}
          value={String(days)}
          onChange={value => {
            const { interval: _, ...others } = search
            open({ ...others, days: Number(value) })
          }}
        />
        <SegmentedControl
          aria-label={t`Figure`}
          data={[
            { value: 'cost', label: t`Cost` },
            { value: 'tokens', label: t`Tokens` },
            { value: 'requests', label: t`Requests` },
          ]}
          value={show}
          onChange={value => set({ show: value as 'cost' })}
        />
        <Select
          aria-label={t`Split by`}
          className={styles.choice}
          data={[
            { value: 'provider', label: t`By server` },
            { value: 'model', label: t`By model` },
            ...(seesKeys
              ? [
                  { value: 'key', label: t`By key` },
                  { value: 'member', label: t`By member` },
                  { value: 'label', label: t`By label` },
                ]
              : []),
          ]}
          value={split}
          onChange={value => set({ split: value as Split })}
        />
        <Select
          aria-label={t`Interval`}
          className={styles.choice}
          data={fitting.map(value => ({ value, label: intervalNames[value] }))}
          value={interval}
          onChange={value => set({ interval: value as 'day' })}
        />
      </div>
      <UsageChart customerId={customerId} days={days} interval={interval} split={split} show={show} />
      <Loaded query={breakdown} height={200}>
        {({ by_model }) => {
          const most = Math.max(...by_model.map(({ total_cost_usd }) => total_cost_usd), 0)
          return (
            <Panel title={t`By model`}>
              {by_model.length === 0 ? (
                <EmptyState text={t`No requests in this period.`} />
              ) : (
                <DataTable
                  label={t`Usage by model`}
                  rows={by_model}
                  keyOf={({ model_id, provider }) => `${model_id} ${provider}`}
                  columns={[
                    {
                      title: t`Model`,
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
                      sortBy: ({ model_id }) => model_id,
                    },
                    {
                      title: t`Server`,
                      cell: ({ provider }) => <Provider kind={provider} />,
                      sortBy: ({ provider }) => provider,
                    },
                    {
                      title: t`Share`,
                      place: 'hidden',
                      cell: ({ total_cost_usd }) => <ShareBar share={most === 0 ? 0 : total_cost_usd / most} />,
                    },
                    {
                      title: t`Requests`,
                      align: 'right',
                      cell: ({ requests }) => countText(requests),
                      sortBy: ({ requests }) => requests,
                    },
                    {
                      title: t`Input`,
                      align: 'right',
                      cell: ({ input_tokens }) => compactCount(input_tokens),
                      sortBy: ({ input_tokens }) => input_tokens,
                    },
                    {
                      title: t`Cached`,
                      align: 'right',
                      cell: ({ cached_tokens }) => compactCount(cached_tokens),
                      sortBy: ({ cached_tokens }) => cached_tokens,
                    },
                    {
                      title: t`Output`,
                      align: 'right',
                      cell: ({ output_tokens }) => compactCount(output_tokens),
                      sortBy: ({ output_tokens }) => output_tokens,
                    },
                    {
                      title: 'USD',
                      align: 'right',
                      place: 'figure',
                      cell: ({ total_cost_usd }) => <Charge usd={total_cost_usd} />,
                      sortBy: ({ total_cost_usd }) => total_cost_usd,
                    },
                  ]}
                />
              )}
            </Panel>
          )
        }}
      </Loaded>
      {seesKeys &&
        (['key', 'member', 'label'] as const).map(by => (
          <Shares key={by} customerId={customerId} days={days} by={by} />
        ))}
    </Page>
  )
}

/** The widths of a bar that make a readable number of bars. The first is the usual one. */
function intervalsOf(days: number): readonly Interval[] {
  if (days <= 1) return ['hour']
  if (days <= 7) return ['day', 'hour']
  if (days <= 30) return ['day', 'week']
  if (days <= 90) return ['day', 'week', 'month']
  return ['week', 'day', 'month']
}

const groups = {
  key: { title: t`Key`, panel: t`By key`, table: t`Usage by key`, hint: t`No requests in this period.` },
  member: { title: t`Member`, panel: t`By member`, table: t`Usage by member`, hint: t`No requests in this period.` },
  label: {
    title: t`Label`,
    panel: t`By label`,
    table: t`Usage by label`,
    hint: t`Send the header x-switchyard-label with your requests, or give a key a label: then the spend of each is here.`,
  },
} as const

/** The spend by key, member or label. */
function Shares({ customerId, days, by }: { customerId: string; days: number; by: keyof typeof groups }) {
  const { title, panel, table, hint } = groups[by]
  const shares = useQuery(sharesQuery(customerId, `${by}s`, { days, interval: 'day' }))
  return (
    <Panel title={panel}>
      <Loaded query={shares} height={120}>
        {({ data, other, totals }) =>
          data.every(({ id }) => id === '(none)') ? (
            <EmptyState text={hint} />
          ) : (
            <DataTable
              label={table}
              hasMore={other !== null}
              rows={[
                ...data,
                ...(other === null
                  ? []
                  : [{ ...other, id: 'other', name: t`${other.count} others`, is_revoked: false }]),
              ]}
              keyOf={({ id }) => id}
              columns={[
                {
                  title,
                  place: 'name',
                  cell: ({ id, name, is_revoked }) =>
                    id !== 'other' && by === 'label' && shareNames[id] === undefined ? (
                      <Link to="/c/$customerId/activity" params={{ customerId }} search={{ label: id }}>
                        {id}
                      </Link>
                    ) : id === 'other' || by !== 'key' || shareNames[id] !== undefined ? (
                      (shareNames[id] ?? name ?? id)
                    ) : (
                      <>
                        <Link to="/c/$customerId/activity" params={{ customerId }} search={{ key: id }}>
                          {name ?? id}
                        </Link>
                        {is_revoked && <span className={styles.hint}>{t` deleted`}</span>}
                      </>
                    ),
                  sortBy: ({ id, name }) => shareNames[id] ?? name ?? id,
                },
                {
                  title: t`Share`,
                  place: 'hidden',
                  cell: ({ cost_usd }) => <ShareBar share={totals.cost_usd === 0 ? 0 : cost_usd / totals.cost_usd} />,
                },
                {
                  title: t`Requests`,
                  align: 'right',
                  cell: ({ requests }) => countText(requests),
                  sortBy: ({ requests }) => requests,
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
          )
        }
      </Loaded>
    </Panel>
  )
}
