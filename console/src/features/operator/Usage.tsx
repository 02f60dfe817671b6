import { plural, t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button, SegmentedControl, TextInput } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import type { OperatorUsage } from '#api/operator/usage.ts'
import { type OperatorUsageFilter, operatorUsageQuery } from '../../api/operator-queries.ts'
import { queryText } from '../../api/request.ts'
import { ShareBar } from '../../charts/ShareBar.tsx'
import { StackedBars } from '../../charts/StackedBars.tsx'
import { compactCount, countText } from '../../format/number-text.ts'
import { utcDayText } from '../../format/time-text.ts'
import { roundUsd } from '../../format/usd-text.ts'
import { CsvExport } from '../../parts/CsvExport.tsx'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Amount } from '../../parts/Money.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { Provider, type ProviderName } from '../../parts/Provider.tsx'
import { When } from '../../parts/When.tsx'
import { knownShareText, Margin } from './Margin.tsx'
import styles from './operator.module.css'
import { readOperatorUsageSearch } from './operator-search.ts'
import { type UsageBucket, usageBuckets } from './usage-buckets.ts'
import { usageDimensions } from './usage-dimensions.ts'

const names = {
  model: t`Model`,
  customer: t`Customer`,
  member: t`Member`,
  key: t`Key`,
  label: t`Label`,
  provider: t`Kind`,
  server: t`Server`,
} as const

const groupTitles = {
  model: { panel: t`By model`, table: t`Usage by model` },
  customer: { panel: t`By customer`, table: t`Usage by customer` },
  member: { panel: t`By member`, table: t`Usage by member` },
  key: { panel: t`By key`, table: t`Usage by key` },
  label: { panel: t`By label`, table: t`Usage by label` },
  provider: { panel: t`By kind`, table: t`Usage by kind` },
  server: { panel: t`By server`, table: t`Usage by server` },
} as const

/** Spend of all customers in any span, by model, customer, key or kind of server. */
export function Usage() {
  const filter = readOperatorUsageSearch(useSearch({ strict: false }))
  const { by = 'model' } = filter
  const usage = useQuery(operatorUsageQuery(filter))
  const navigate = useNavigate()
  // Servers have no sums by customer.
  const dimensions = usageDimensions.filter(each => each !== 'server' || filter.customer === undefined)
  const set = (change: { readonly [Name in keyof OperatorUsageFilter]: OperatorUsageFilter[Name] | undefined }) => {
    const search = readOperatorUsageSearch({ ...filter, ...change })
    void navigate({ to: '/operator/usage', search, replace: true })
  }
  return (
    <Page
      title={t`Usage`}
      actions={
        <CsvExport
          key={queryText({ ...filter })}
          path={`operator/usage/export${queryText({ ...filter })}`}
          what={t`the usage of each day`}
        />
      }
    >
      <section className={styles.filters} aria-label={t`Filters`}>
        <TextInput
          label={t`From (UTC)`}
          type="date"
          value={filter.from ?? usage.data?.from ?? ''}
          onChange={event => set({ from: event.currentTarget.value })}
        />
        <TextInput
          label={t`Until (UTC)`}
          type="date"
          value={filter.until ?? usage.data?.until ?? ''}
          onChange={event => set({ until: event.currentTarget.value })}
        />
      </section>
      <div className={styles.buttons}>
        <SegmentedControl
          aria-label={t`Split by`}
          data={dimensions.map(value => ({ value, label: names[value] }))}
          value={by}
          onChange={value => set({ by: value as typeof by })}
        />
        {(['customer', 'model', 'provider'] as const).map(
          name =>
            filter[name] !== undefined && (
              <Button key={name} variant="default" onClick={() => set({ [name]: undefined })}>
                {names[name]}: {name === 'customer' ? customerName(usage.data, filter[name]) : filter[name]} ✕
              </Button>
            ),
        )}
      </div>
      <Loaded query={usage} height={560}>
        {data => (
          <>
            <Chart usage={data} onOpen={({ from, until }) => set({ from, until })} />
            <Groups usage={data} filter={filter} />
          </>
        )}
      </Loaded>
    </Page>
  )
}

function customerName(usage: OperatorUsage | undefined, id: string): string {
  const found = usage?.groups.find(group => group.id === id)
  return found?.name ?? `${id.slice(0, 8)}…`
}

function Chart({ usage, onOpen }: { usage: OperatorUsage; onOpen: (bucket: UsageBucket) => void }) {
  const [isTable, setTable] = useState(false)
  const { total } = usage
  const buckets = usageBuckets(usage)
  const known = knownShareText(total)
  const title = [
    t`${roundUsd(total.charged_usd)} USD charged`,
    ...(total.revenue_usd === null ? [] : [t`${roundUsd(total.revenue_usd)} USD revenue`]),
    ...(total.margin_usd === null ? [] : [t`${roundUsd(total.margin_usd)} USD margin`]),
    plural(total.requests, { one: '# request', other: '# requests' }),
  ]
  const bucketText = ({ from, until }: UsageBucket) =>
    from === until ? utcDayText(from) : `${utcDayText(from)} – ${utcDayText(until)}`
  return (
    <Panel
      title={title.join(' · ')}
      aside={
        <Button variant="subtle" size="compact-sm" onClick={() => setTable(!isTable)}>
          {isTable ? t`Show the chart` : t`Show as a table`}
        </Button>
      }
    >
      {isTable ? (
        <div className={styles.scroll}>
          <DataTable
            label={t`Usage by day`}
            rows={[...buckets].reverse()}
            keyOf={({ from }) => from}
            columns={[
              { title: t`Days (UTC)`, place: 'name', cell: bucketText, sortBy: ({ from }) => from },
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
                cell: ({ chargedUsd }) => <Amount usd={chargedUsd} />,
                sortBy: ({ chargedUsd }) => chargedUsd,
              },
            ]}
          />
        </div>
      ) : (
        <StackedBars
          label={t`USD charged`}
          series={[{ name: t`charged`, color: 'var(--link)' }]}
          bars={buckets.map(bucket => ({
            label: bucketText(bucket),
            values: [bucket.chargedUsd],
            ...(bucket.isOpen && { isOpen: true }),
          }))}
          text={roundUsd}
          onOpen={index => onOpen(buckets[index]!)}
        />
      )}
      <p className={styles.hint}>
        <Trans>
          Days begin at 00:00 UTC.
          {known !== null && ` ${known}`}
          {usage.summed_at !== null && (
            <Trans>
              {' '}
              Summed <When at={usage.summed_at} form="distance" />.
            </Trans>
          )}
        </Trans>
      </p>
    </Panel>
  )
}

function Groups({ usage, filter }: { usage: OperatorUsage; filter: OperatorUsageFilter }) {
  const { groups, other, total, by } = usage
  if (groups.length === 0) {
    return (
      <Panel>
        <EmptyState text={t`No requests in this span. New requests appear within a minute.`}>
          <Link to="/operator/usage" search={{ by }}>{t`Show the last 30 days of all`}</Link>
        </EmptyState>
      </Panel>
    )
  }
  const rest = {
    id: '',
    customer_id: null,
    failed: null,
    input_tokens: null,
    output_tokens: null,
    revenue_usd: null,
    upstream_cost_usd: null,
    margin_usd: null,
    unknown_cost_usd: null,
    mean_latency_ms: null,
    name: t`${countText(other.groups)} others`,
    requests: other.requests,
    charged_usd: other.charged_usd,
  }
  const maybe = (count: number | null) => (count === null ? '–' : compactCount(count))
  const maybeUsd = (usd: number | null) => (usd === null ? '–' : <Amount usd={usd} />)
  return (
    <Panel title={groupTitles[by].panel}>
      <DataTable
        label={groupTitles[by].table}
        hasMore={other.groups > 0}
        rows={other.groups > 0 ? [...groups, rest] : groups}
        keyOf={({ id }) => id}
        columns={[
          {
            title: names[by],
            place: 'name',
            cell: group => <GroupName group={group} by={by} filter={filter} />,
            sortBy: ({ name }) => name,
          },
          {
            title: t`Share`,
            place: 'hidden',
            cell: group => <ShareBar share={total.charged_usd === 0 ? 0 : group.charged_usd / total.charged_usd} />,
          },
          {
            title: t`Requests`,
            align: 'right',
            cell: ({ requests }) => countText(requests),
            sortBy: ({ requests }) => requests,
          },
          {
            title: t`Failed`,
            align: 'right',
            cell: ({ failed }) => maybe(failed),
            sortBy: ({ failed }) => failed,
          },
          {
            title: t`Input tokens`,
            align: 'right',
            cell: each => maybe(each.input_tokens),
            sortBy: each => each.input_tokens,
          },
          {
            title: t`Output tokens`,
            align: 'right',
            cell: each => maybe(each.output_tokens),
            sortBy: each => each.output_tokens,
          },
          {
            title: t`Revenue`,
            align: 'right',
            cell: each => maybeUsd(each.revenue_usd),
            sortBy: each => each.revenue_usd,
          },
          {
            title: t`Cost`,
            align: 'right',
            cell: each => maybeUsd(each.upstream_cost_usd),
            sortBy: each => each.upstream_cost_usd,
          },
          {
            title: t`Margin`,
            align: 'right',
            cell: each => <Margin of={each} />,
            sortBy: each => each.margin_usd,
          },
          {
            title: 'USD',
            align: 'right',
            place: 'figure',
            cell: each => <Amount usd={each.charged_usd} />,
            sortBy: each => each.charged_usd,
          },
        ]}
      />
    </Panel>
  )
}

/** A group leads to its own parts: a customer to its models, a model to its customers. */
function GroupName({
  group: { id, name, customer_id: customerId },
  by,
  filter,
}: {
  group: { readonly id: string; readonly name: string; readonly customer_id: string | null }
  by: OperatorUsage['by']
  filter: OperatorUsageFilter
}) {
  if (id === '') return name
  if (by === 'key' && customerId !== null) {
    return (
      <Link to="/operator/customers/$customerId" params={{ customerId }}>
        {name}
      </Link>
    )
  }
  // Reports have no filter of members, labels and servers.
  if (by === 'member' || by === 'label' || by === 'server') return labelName(name)
  const search: OperatorUsageFilter =
    by === 'customer'
      ? { ...filter, customer: id, by: 'model' }
      : by === 'model'
        ? { ...filter, model: id, by: 'customer' }
        : { ...filter, provider: id as ProviderName, by: 'model' }
  return (
    <Link to="/operator/usage" search={search}>
      {by === 'provider' ? <Provider kind={id as ProviderName} /> : name}
    </Link>
  )
}

/** The names of what has no member or no label. */
function labelName(name: string): string {
  const known: Record<string, string> = {
    none: t`keys that no person made`,
    '(none)': t`without a label`,
    '(others)': t`further labels`,
  }
  return known[name] ?? name
}
